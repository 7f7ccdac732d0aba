//! Threads that each read the whole trace and leave out what is of other shards, so that they share nothing.

use super::{Ended, Job};
use crate::functional::{interrupted, Run};
use servsim_core::{Batch, GlobalSource, SourceError};
use servsim_mem::WordMask;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

/// How often a thread that waits for the others asks whether the run is to go on.
const PATIENCE: Duration = Duration::from_millis(50);

/// What the threads of a run share.
struct Team<'a> {
    job: &'a Job<'a>,
    /// The run is not to go on.
    stopped: AtomicBool,
    /// Threads that have ended, of which this one is told.
    ended: AtomicUsize,
    first: Thread,
}

/// Runs the trace on the threads of `job`, of which this is the first and reads `source`.
pub(super) fn run<W: WordMask>(
    job: &Job<'_>,
    source: &mut dyn GlobalSource,
    others: Vec<Box<dyn GlobalSource + Send>>,
    proceed: &mut dyn FnMut(u64) -> bool,
) -> Vec<Ended<W>> {
    let team = &Team {
        job,
        stopped: AtomicBool::new(false),
        ended: AtomicUsize::new(0),
        first: std::thread::current(),
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(others)
            .map(|(index, mut source)| {
                scope.spawn(move || team.work::<W>(index, source.as_mut(), &mut |_| true))
            })
            .collect();
        let mut done = 0;
        let mut results = vec![team.work::<W>(0, source, &mut |now| {
            done = now;
            proceed(now)
        })];
        while team.ended.load(Ordering::Acquire) <= threads.len() && !team.stopped.load(Ordering::Relaxed) {
            std::thread::park_timeout(PATIENCE);
            if !proceed(done) {
                team.stopped.store(true, Ordering::Relaxed);
                results[0] = Ok(Err(interrupted()));
            }
        }
        results.extend(threads.into_iter().map(|thread| thread.join().unwrap_or_else(Err)));
        results
    })
}

impl Team<'_> {
    /// The work of thread `index`. A fault of any thread stops all.
    fn work<W: WordMask>(
        &self,
        index: usize,
        source: &mut dyn GlobalSource,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Ended<W> {
        let worked = catch_unwind(AssertUnwindSafe(|| self.work_to_the_end(index, source, proceed)));
        if !matches!(worked, Ok(Ok(_))) {
            self.stopped.store(true, Ordering::Relaxed);
        }
        self.ended.fetch_add(1, Ordering::Release);
        self.first.unpark();
        worked
    }

    fn work_to_the_end<W: WordMask>(
        &self,
        index: usize,
        source: &mut dyn GlobalSource,
        proceed: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Run<W>, SourceError> {
        let mut run = self.job.shard::<W>(index);
        let (mut done, mut batch) = (0, Batch::default());
        if !proceed(done) {
            return Err(interrupted());
        }
        while source.next_batch(&mut batch)? {
            run.perform(&batch.records, &batch.events, self.job.privacy);
            done += batch.len_apart();
            if self.stopped.load(Ordering::Relaxed) || !proceed(done) {
                return Err(interrupted());
            }
        }
        Ok(run)
    }
}
