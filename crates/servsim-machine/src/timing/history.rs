//! Where the cycles of a processor had gone by an earlier time. A processor runs ahead of the others, and what it
//! waits for is charged up to its end at once; where the measured window begins and where it ends, what lies
//! behind that moment has to be told apart. Kept only while one of the two may come.

use crate::result::ProcessorTimes;

/// Charges that are kept at least, needed or not.
const SOME: usize = 32;

/// The last charges of one processor.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// Its time after each charge, and all charges up to then; between two of them lies one charge.
    states: Vec<(u64, ProcessorTimes)>,
}

impl History {
    /// It begins with what was charged up to `time`.
    pub fn new(time: u64, times: ProcessorTimes) -> Self {
        Self { states: vec![(time, times)] }
    }

    /// A charge was made: now it is `time`, and these are the charges so far.
    pub fn note(&mut self, time: u64, times: ProcessorTimes) {
        self.states.push((time, times));
    }

    /// Nobody asks for times before `now` any more.
    #[inline]
    pub fn forget_before(&mut self, now: u64) {
        // Asked for at every turn of a processor, and done at one in some.
        if self.states.len() >= SOME {
            self.forget_now(now);
        }
    }

    fn forget_now(&mut self, now: u64) {
        let behind = self.states.iter().take_while(|(time, _)| *time <= now).count();
        self.states.drain(..behind.saturating_sub(1));
    }

    /// What had been charged by `at`: of the charge under way then, its part before.
    pub fn at(&self, at: u64) -> Option<ProcessorTimes> {
        let after = self.states.iter().position(|(time, _)| *time > at)?;
        let &(from, before) = self.states.get(after.checked_sub(1)?)?;
        let mut times = before;
        times.add(&self.states[after].1.since(&before).at_most(at - from));
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(user: u64, memory_stall: u64) -> ProcessorTimes {
        ProcessorTimes { user, memory_stall, stalls: [0, memory_stall, 0], ..ProcessorTimes::default() }
    }

    #[test]
    fn a_charge_that_an_earlier_time_cuts_counts_up_to_it() {
        let mut history = History::new(100, times(5, 0));
        history.note(110, times(15, 0));
        history.note(150, times(15, 40));
        assert_eq!(history.at(104), Some(times(9, 0)));
        assert_eq!(history.at(110), Some(times(15, 0)));
        assert_eq!(history.at(125), Some(times(15, 15)));
        assert_eq!((history.at(150), history.at(99)), (None, None), "nothing lies behind, or before");
        history.forget_before(120);
        assert_eq!(history.at(104), Some(times(9, 0)), "so few are kept");
        history.forget_now(120);
        assert_eq!((history.at(125), history.at(104)), (Some(times(15, 15)), None));
    }
}
