//! How far long work is and whether it is to go on: shared by the thread that works and the one that waits for it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

/// A stage of the work, and how much of it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stage {
    /// What is done; empty for what the work is about.
    pub what: &'static str,
    /// How much is done, in units of the stage.
    pub done: u64,
    /// Out of how much; zero where that is not known.
    pub of: u64,
}

/// Watches work.
#[derive(Debug, Default)]
pub struct Watch {
    stage: Mutex<Stage>,
    /// How often it was asked to stop.
    asked: AtomicU8,
}

impl Watch {
    /// Tells that a stage begins.
    pub fn begin(&self, what: &'static str, of: u64) {
        self.set(|stage| *stage = Stage { what, done: 0, of });
    }

    /// Tells how much of the stage is done; whether to go on.
    pub fn tell(&self, done: u64) -> bool {
        self.set(|stage| stage.done = done);
        self.goes_on()
    }

    /// Whether nobody asked to stop.
    pub fn goes_on(&self) -> bool {
        self.asked.load(Ordering::Relaxed) == 0
    }

    /// Whether somebody asked again, and does not want what could still be kept.
    pub fn insists(&self) -> bool {
        self.asked.load(Ordering::Relaxed) > 1
    }

    /// Asks to stop.
    pub fn stop(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// The stage that was told last.
    pub fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Stage)) {
        change(&mut self.stage.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_tells_how_much_is_done_and_the_next_begins_anew() {
        let watch = Watch::default();
        watch.begin("first pass", 8);
        assert!(watch.tell(3));
        assert_eq!(watch.stage(), Stage { what: "first pass", done: 3, of: 8 });
        watch.begin("", 0);
        assert_eq!(watch.stage(), Stage::default());
    }

    #[test]
    fn who_asks_once_stops_the_work_and_who_asks_twice_insists() {
        let watch = Watch::default();
        assert!(watch.goes_on());
        watch.stop();
        assert!(!watch.tell(1) && !watch.insists());
        watch.stop();
        assert!(watch.insists());
    }
}
