//! Interrupt handlers: which disk requests each still waits for, and on which processor it runs then.

use servsim_core::{CpuId, Interrupt};
use std::collections::{HashMap, VecDeque};

/// The handlers of a run.
#[derive(Debug)]
pub struct Handlers {
    /// Requests that each still waits for; `None` once it was given to a processor.
    left: Vec<Option<usize>>,
    of_request: HashMap<u64, Vec<usize>>,
    /// Per processor: handlers to run.
    queues: Vec<VecDeque<usize>>,
    /// Per processor: when it was interrupted last.
    last_interrupt: Vec<u64>,
}

impl Handlers {
    /// None has run.
    pub fn new(interrupts: &[Interrupt], processors: usize) -> Self {
        let mut of_request: HashMap<u64, Vec<usize>> = HashMap::new();
        for (index, interrupt) in interrupts.iter().enumerate() {
            for &request in &interrupt.requests {
                of_request.entry(request).or_default().push(index);
            }
        }
        Self {
            left: interrupts.iter().map(|interrupt| Some(interrupt.requests.len())).collect(),
            of_request,
            queues: vec![VecDeque::new(); processors],
            last_interrupt: vec![0; processors],
        }
    }

    /// Those that wait for no request.
    pub fn at_once(&self) -> Vec<usize> {
        (0..self.left.len()).filter(|&index| self.left[index] == Some(0)).collect()
    }

    /// `request` is complete; returns the handlers that waited for it last.
    pub fn completed(&mut self, request: u64) -> Vec<usize> {
        let mut due = Vec::new();
        for &index in self.of_request.get(&request).into_iter().flatten() {
            if let Some(left) = &mut self.left[index] {
                *left -= 1;
                if *left == 0 {
                    self.left[index] = None;
                    due.push(index);
                }
            }
        }
        due
    }

    /// The first whose requests have not all come.
    pub fn overdue(&self) -> Option<usize> {
        self.left.iter().position(Option::is_some)
    }

    /// Gives handler `index` at `now` to a processor that is not busy, or to the one interrupted longest
    /// ago; returns which.
    pub fn give(&mut self, index: usize, now: u64, busy: impl Fn(CpuId) -> bool) -> CpuId {
        self.left[index] = None;
        let rank = |&cpu: &CpuId| (busy(cpu), self.last_interrupt[cpu]);
        let cpu = CpuId::all(self.queues.len()).min_by_key(rank).unwrap_or_default();
        self.last_interrupt[cpu] = now;
        self.queues[cpu].push_back(index);
        cpu
    }

    /// Whether `cpu` has handlers to run.
    pub fn wait_for(&self, cpu: CpuId) -> bool {
        !self.queues[cpu].is_empty()
    }

    /// The next that `cpu` runs.
    pub fn next(&mut self, cpu: CpuId) -> Option<usize> {
        self.queues[cpu].pop_front()
    }

    /// Per handler: requests it waits for, or `None` once it was given to a processor.
    pub fn left(&self) -> &[Option<usize>] {
        &self.left
    }

    /// Goes on from what [`Handlers::left`] was.
    pub fn resume(&mut self, left: &[Option<usize>]) {
        self.left = left.to_vec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::Batch;

    fn handlers(requests: &[&[u64]]) -> Handlers {
        let interrupt = |list: &&[u64]| Interrupt { requests: list.to_vec(), batch: Batch::default() };
        Handlers::new(&requests.iter().map(interrupt).collect::<Vec<_>>(), 3)
    }

    #[test]
    fn a_handler_is_due_once_when_its_last_request_completes() {
        let mut handlers = handlers(&[&[7, 8], &[8], &[]]);
        assert_eq!(handlers.at_once(), [2]);
        assert_eq!(handlers.completed(8), [1]);
        assert_eq!(handlers.overdue(), Some(0));
        assert_eq!(handlers.completed(7), [0]);
        assert_eq!((handlers.completed(7), handlers.completed(9)), (vec![], vec![]));
    }

    #[test]
    fn an_idle_processor_takes_a_handler_then_the_one_interrupted_longest_ago() {
        let mut handlers = handlers(&[&[1], &[2], &[3], &[4]]);
        assert_eq!(handlers.give(0, 10, |cpu| cpu != CpuId(2)), CpuId(2));
        assert_eq!(handlers.give(1, 20, |_| true), CpuId(0));
        assert_eq!(handlers.give(2, 30, |_| true), CpuId(1));
        assert_eq!(handlers.give(3, 40, |_| true), CpuId(2));
        assert_eq!([(); 3].map(|()| handlers.next(CpuId(2))), [Some(0), Some(3), None]);
        assert!(handlers.wait_for(CpuId(1)) && !handlers.wait_for(CpuId(2)));
    }
}
