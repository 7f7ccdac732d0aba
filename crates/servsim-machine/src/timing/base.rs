//! What the counters of a run were when the measured window began.

use super::io::IoBase;
use super::memory_counts::MemoryCounts;
use super::subsystem::LoadLevels;
use super::user_states::Times;
use crate::result::{ProcessorTimes, SystemCounters};
use servsim_mem::TlbCounters;
use servsim_os::LockCounts;

/// Counters at the start of the measured window.
pub struct Base {
    pub memory: MemoryCounts,
    pub tlb: TlbCounters,
    pub late_prefetches: u64,
    pub times: Vec<ProcessorTimes>,
    pub references: Vec<[[u64; 3]; 2]>,
    pub tasks: Vec<[[u64; 3]; 2]>,
    pub system: SystemCounters,
    pub locks: LockCounts,
    pub active_integral: u128,
    pub io: Option<IoBase>,
    pub levels_of_tasks: LoadLevels,
    pub user_states: Vec<Times>,
}
