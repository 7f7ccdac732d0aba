//! One run of an interrupt handler, divided where it completes disk requests.
//!
//! A device that is quicker than its interrupts has several requests completed by one run of the handler.
//! On another machine they end at other times, and one may not even be submitted yet: whoever waits for
//! the first must not wait for the last. So each completion begins a part of its own, a handler that runs when
//! its request is complete. Requests of one task stay together, for it may be woken once for all of them.

use servsim_core::{Batch, Interrupt, TaskId};

/// The parts of a run that is being read.
#[derive(Debug, Default)]
pub struct Episode {
    done: Vec<Interrupt>,
    open: Interrupt,
    /// Who submitted each request so far.
    completed: Vec<(TaskId, u64)>,
}

impl Episode {
    /// Where the records go that are read next.
    pub fn batch(&mut self) -> &mut Batch {
        &mut self.open.batch
    }

    /// The handler completes `request`, which `submitter` handed in.
    pub fn complete(&mut self, request: u64, submitter: TaskId) {
        self.completed.push((submitter, request));
        if !self.open.requests.is_empty() {
            self.done.push(std::mem::take(&mut self.open));
        }
        let of_the_same = self.completed.iter().filter(|(task, _)| *task == submitter);
        self.open.requests = of_the_same.map(|&(_, request)| request).collect();
    }

    /// The parts in their order; there is always one.
    pub fn finish(mut self) -> Vec<Interrupt> {
        self.done.push(self.open);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_completion_begins_a_part_and_requests_of_one_task_stay_together() {
        let mut episode = Episode::default();
        for (request, submitter) in [(39, 14), (38, 16), (37, 16)] {
            episode.complete(request, submitter);
        }
        let requests: Vec<_> = episode.finish().into_iter().map(|part| part.requests).collect();
        assert_eq!(requests, [vec![39], vec![38], vec![38, 37]]);
    }

    #[test]
    fn a_run_without_completions_is_one_part() {
        assert_eq!(Episode::default().finish().len(), 1);
    }
}
