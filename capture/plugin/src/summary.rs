//! What a capture reports about itself, beside the trace.

use serde::Serialize;
use servsim_trace::WriterTotals;

/// Written as JSON when the capture ends, well or not.
#[derive(Debug, Default, Serialize)]
pub struct Summary {
    /// Why there is no trace; absent when there is one.
    pub error: Option<String>,
    /// The kind of a transaction that ended and that the workload does not declare; absent if there was none.
    pub undeclared_kind: Option<u8>,
    /// What the trace holds.
    pub totals: WriterTotals,
    /// Seconds of the host between the start and the stop mark.
    pub recording_seconds: f64,
    /// Instructions of the idle loop, which is not recorded.
    pub idle_instructions: u64,
    /// Task switches.
    pub switches: u64,
    /// Switches whose previous task was not the one believed to run.
    pub inconsistent_switches: u64,
    /// Calls that make a task runnable, and those that found it blocked.
    pub wakes: u64,
    /// Wakes that ended a block.
    pub effective_wakes: u64,
    /// Lightweight locks that were tried and not taken.
    pub attempts_without_lock: u64,
    /// Interrupt episodes.
    pub interrupts: u64,
    /// Accesses reported outside the block that was running.
    pub stray_accesses: u64,
    /// Accesses that cross into a page whose translation was not known; taken as the next one.
    pub guessed_second_pages: u64,
    /// Remembered translations that were checked.
    pub checked_translations: u64,
    /// Of these, found stale.
    pub stale_translations: u64,
    /// Block shapes in the dictionary.
    pub shapes: u64,
    /// Translated blocks.
    pub blocks: u64,
    /// Requests completed that were submitted before the trace.
    pub foreign_completions: u64,
}
