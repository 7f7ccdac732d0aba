//! What the counters of a run were when the measured window began.

use super::io::IoBase;
use super::subsystem::LoadLevels;
use super::user_states::Times;
use crate::result::{ProcessorTimes, SystemCounters};
use servsim_mem::{Counters, LevelCounters, PrefetchCounters, TlbCounters, WriteBufferCounters};
use servsim_os::LockCounts;

/// Counters at the start of the measured window.
pub struct Base {
    pub counters: Counters,
    pub distinct_lines: usize,
    pub levels: Vec<(String, LevelCounters)>,
    pub tlb: TlbCounters,
    pub prefetches: (PrefetchCounters, u64),
    pub times: Vec<ProcessorTimes>,
    pub references: Vec<[[u64; 3]; 2]>,
    pub tasks: Vec<[[u64; 3]; 2]>,
    pub bus_busy: u64,
    pub buffers: WriteBufferCounters,
    /// Cycles that ports or links were taken.
    pub ways: Vec<u64>,
    pub system: SystemCounters,
    pub locks: LockCounts,
    pub active_integral: u128,
    pub io: Option<IoBase>,
    pub levels_of_tasks: LoadLevels,
    pub user_states: Vec<Times>,
}
