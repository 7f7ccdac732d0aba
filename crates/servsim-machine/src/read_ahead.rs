//! A trace read on one host thread while another simulates what was read: decoding a captured trace costs about
//! as much as its references cost a functional run, and neither waits for the other's result.
//!
//! The batches and their order are those of one thread, so the result is the same by construction. The thread that
//! was called reads: a source, and whoever is told of the progress, need not know of threads.

use crate::functional::interrupted;
use servsim_core::{Batch, GlobalSource, SourceError};
use std::panic::resume_unwind;
use std::sync::mpsc::{channel, sync_channel};

/// Batches that are handed over together: waking the thread that waits for them takes the other some time.
const TOGETHER: usize = 4;
/// Such groups that wait for the simulation at most: enough that neither thread waits for the other's slow batches.
const WAITING: usize = 3;

/// Reads `source` to its end and lets `perform` have every batch in order, on a thread of its own if `ahead`.
/// `proceed` is told after each how many records have been read; `false` stops the run.
///
/// # Errors
/// When the trace is damaged, or with the message "interrupted" when `proceed` said so.
pub(crate) fn for_each_batch(
    source: &mut dyn GlobalSource,
    ahead: bool,
    proceed: &mut dyn FnMut(u64) -> bool,
    mut perform: impl FnMut(&Batch) + Send,
) -> Result<(), SourceError> {
    let mut done = 0;
    let mut goes_on = |batch: &Batch| {
        done += batch.len_apart();
        proceed(done).then_some(()).ok_or_else(interrupted)
    };
    if !ahead {
        let mut batch = Batch::default();
        while source.next_batch(&mut batch)? {
            perform(&batch);
            goes_on(&batch)?;
        }
        return Ok(());
    }
    std::thread::scope(|scope| {
        let (read, to_perform) = sync_channel::<Vec<Batch>>(WAITING);
        let (performed, to_fill) = channel();
        let simulation = scope.spawn(move || {
            for group in to_perform {
                group.iter().for_each(&mut perform);
                // Nobody reads any more: what is left is performed, and its memory of no use.
                let _ = performed.send(group);
            }
        });
        let mut read_all = || {
            // What is read is made in this thread's own memory and copied. What the other thread has read lies in the
            // caches of another core, which each small write to it would wait for; a copy writes whole lines.
            let mut own = Batch::default();
            let mut more = true;
            while more {
                let mut group: Vec<Batch> = to_fill.try_recv().unwrap_or_default();
                group.resize_with(TOGETHER, Batch::default);
                let mut outcome = Ok(());
                let mut filled = 0;
                while outcome.is_ok() && more && filled < TOGETHER {
                    outcome = source.next_batch(&mut own).and_then(|another| {
                        more = another;
                        if another {
                            group[filled].copy_from(&own);
                            filled += 1;
                            goes_on(&own)?;
                        }
                        Ok(())
                    });
                }
                group.truncate(filled);
                // An error is that the simulation has panicked; joining it tells why.
                if read.send(group).is_err() {
                    return Ok(());
                }
                outcome?;
            }
            Ok(())
        };
        let outcome = read_all();
        drop(read);
        simulation.join().unwrap_or_else(|panic| resume_unwind(panic));
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::{Op, Privacy, Record, TaskInfo};

    /// `length` batches of one record, and then a fault or the end.
    struct Numbers {
        next: u64,
        length: u64,
        fault: bool,
    }

    impl GlobalSource for Numbers {
        fn tasks(&self) -> &[TaskInfo] {
            &[]
        }
        fn transaction_kinds(&self) -> Vec<String> {
            Vec::new()
        }
        fn privacy(&self) -> &Privacy {
            unreachable!("nobody asks")
        }
        fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
            batch.clear();
            if self.next == self.length {
                return if self.fault { Err(SourceError("damaged".into())) } else { Ok(false) };
            }
            batch.records.push(Record::new(0, Op::Load, self.next, 1));
            self.next += 1;
            Ok(true)
        }
    }

    fn seen(length: u64, fault: bool, stop: u64) -> [(Vec<u64>, Result<(), SourceError>); 2] {
        [false, true].map(|ahead| {
            let mut seen = Vec::new();
            let mut source = Numbers { next: 0, length, fault };
            let result = for_each_batch(&mut source, ahead, &mut |done| done < stop, |batch| {
                seen.extend(batch.records.iter().map(|record| record.address));
            });
            (seen, result)
        })
    }

    #[test]
    fn batches_read_ahead_are_those_of_one_thread_in_their_order() {
        let all: Vec<u64> = (0..1000).collect();
        for (batches, result) in seen(1000, false, u64::MAX) {
            assert_eq!((batches, result), (all.clone(), Ok(())));
        }
    }

    #[test]
    fn a_fault_or_a_stop_ends_both_and_is_told() {
        for (batches, result) in seen(100, true, u64::MAX) {
            assert_eq!((batches.len(), result), (100, Err(SourceError("damaged".into()))));
        }
        for (_, result) in seen(100, false, 50) {
            assert_eq!(result, Err(interrupted()));
        }
    }

    #[test]
    fn a_panic_of_the_simulation_comes_through_with_what_it_carries() {
        let run = || {
            let mut source = Numbers { next: 0, length: 1000, fault: false };
            let perform = |batch: &Batch| {
                if batch.records[0].address == 20 {
                    resume_unwind(Box::new(20_u64));
                }
            };
            for_each_batch(&mut source, true, &mut |_| true, perform)
        };
        let panic = std::panic::catch_unwind(run).expect_err("it panicked");
        assert_eq!(panic.downcast_ref::<u64>(), Some(&20));
    }
}
