//! The threads of a kernel: one program on all of them, which meet at barriers.
//!
//! The barrier is our own because what threads do while they wait is part of the workload. The
//! standard library's always sleeps in the kernel; programs of this kind spin. Pure spinning stalls
//! where threads outnumber processors, and its references drown those of the algorithm. So a thread
//! polls a shared word a stated number of times, then sleeps, and both are counted.
//! It is a central barrier with a generation count (Mellor-Crummey and Scott 1991, section 3.1).

use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::{Error, Result};

/// Who writes the initial values, and so places the pages under a first-touch policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Init {
    /// The first thread alone, as in programs that were parallelised later.
    Serial,
    /// Every thread the part that it will work on.
    Parallel,
}

impl Init {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Init::Serial => "serial",
            Init::Parallel => "parallel",
        }
    }
}

/// A fixed number of threads that run one function together.
#[derive(Debug)]
pub struct Team {
    threads: usize,
    init: Init,
    barrier: Barrier,
}

/// One thread of a team, as the function on it sees itself.
#[derive(Debug, Clone, Copy)]
pub struct Member<'t> {
    /// From 0.
    pub id: usize,
    team: &'t Team,
}

/// How threads waited at barriers, summed over them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// Barriers passed, each counted once.
    pub barriers: u64,
    /// Polls of the barrier's word.
    pub polls: u64,
    /// Times a thread slept.
    pub sleeps: u64,
}

impl Team {
    /// A team; at a barrier each thread polls `polls` times before it sleeps.
    pub fn new(threads: usize, init: Init, polls: u32) -> Self {
        Team { threads, init, barrier: Barrier::new(threads as u32, polls) }
    }

    /// Runs `work` on every thread and returns when all have ended; the caller's thread is number 0.
    ///
    /// # Errors
    /// [`Error::Environment`] when the host gives fewer threads.
    ///
    /// # Panics
    /// When `work` panics on any thread; the others leave at their next barrier.
    pub fn run(&self, work: impl Fn(Member<'_>) + Sync) -> Result<()> {
        let part = |id: usize| {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(Member { id, team: self })));
            if outcome.is_err() {
                self.barrier.break_up();
            }
            outcome
        };
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for id in 1..self.threads {
                let part = &part;
                let name = format!("kernel-{id}");
                match std::thread::Builder::new().name(name).spawn_scoped(scope, move || part(id)) {
                    Ok(thread) => others.push(thread),
                    Err(error) => {
                        self.barrier.break_up();
                        return Err(Error::Environment(format!(
                            "the host gives no more than {id} threads ({error}): give fewer --threads"
                        )));
                    }
                }
            }
            let mut outcomes = vec![part(0)];
            outcomes.extend(others.into_iter().map(|thread| thread.join().unwrap_or_else(Err)));
            let mut panics: Vec<_> = outcomes.into_iter().filter_map(std::result::Result::err).collect();
            // What another thread's end caused tells nothing of the cause.
            panics.sort_by_key(|panic| panic.is::<BrokenBarrier>());
            match panics.into_iter().next() {
                Some(panic) => resume_unwind(panic),
                None => Ok(()),
            }
        })
    }

    /// Waits so far.
    pub fn waits(&self) -> Waits {
        self.barrier.waits()
    }
}

impl Member<'_> {
    /// Threads of the team.
    pub fn threads(&self) -> usize {
        self.team.threads
    }

    /// Waits until every thread has come here.
    pub fn barrier(&self) {
        self.team.barrier.wait();
    }

    /// This thread's part of `0..n`: contiguous, and no longer than another's by more than one.
    pub fn share(&self, n: usize) -> Range<usize> {
        share(self.id, self.team.threads, n)
    }

    /// The part of `0..n` that this thread initialises: its share, or all or nothing.
    pub fn init_share(&self, n: usize) -> Range<usize> {
        match self.team.init {
            Init::Parallel => self.share(n),
            Init::Serial => share(self.id.min(1), 1, n),
        }
    }
}

/// The part of `0..n` of one of `parts` workers; those after the last have none.
fn share(worker: usize, parts: usize, n: usize) -> Range<usize> {
    let bound = |worker: usize| (n as u128 * worker.min(parts) as u128 / parts as u128) as usize;
    bound(worker)..bound(worker + 1)
}

/// Says that the barrier will never open, because another thread has ended.
struct BrokenBarrier;

#[derive(Debug)]
struct Barrier {
    threads: u32,
    limit: u32,
    arrived: AtomicU32,
    generation: AtomicU32,
    broken: AtomicBool,
    sleepers: Mutex<u32>,
    opened: Condvar,
    polls: AtomicU64,
    sleeps: AtomicU64,
}

impl Barrier {
    fn new(threads: u32, limit: u32) -> Self {
        Barrier {
            threads,
            limit,
            arrived: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            broken: AtomicBool::new(false),
            sleepers: Mutex::new(0),
            opened: Condvar::new(),
            polls: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
        }
    }

    fn wait(&self) {
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.arrived.store(0, Ordering::Relaxed);
            self.open();
            return;
        }
        let closed =
            || self.generation.load(Ordering::Acquire) == generation && !self.broken.load(Ordering::Acquire);
        let mut polls = 0;
        while polls < self.limit && closed() {
            std::hint::spin_loop();
            polls += 1;
        }
        self.polls.fetch_add(u64::from(polls), Ordering::Relaxed);
        if closed() {
            self.sleep(closed);
        }
        if self.broken.load(Ordering::Acquire) {
            // Quietly: the thread that ended first has told why.
            resume_unwind(Box::new(BrokenBarrier));
        }
    }

    /// Opens under the lock, so that nobody falls asleep between looking and sleeping.
    fn open(&self) {
        let sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.generation.fetch_add(1, Ordering::Release);
        if *sleepers > 0 {
            self.opened.notify_all();
        }
    }

    fn sleep(&self, closed: impl Fn() -> bool) {
        let mut sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        *sleepers += 1;
        while closed() {
            self.sleeps.fetch_add(1, Ordering::Relaxed);
            sleepers = self.opened.wait(sleepers).unwrap_or_else(PoisonError::into_inner);
        }
        *sleepers -= 1;
    }

    fn break_up(&self) {
        let _sleepers = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        self.broken.store(true, Ordering::Release);
        self.opened.notify_all();
    }

    fn waits(&self) -> Waits {
        Waits {
            barriers: u64::from(self.generation.load(Ordering::Relaxed)),
            polls: self.polls.load(Ordering::Relaxed),
            sleeps: self.sleeps.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once_and_differ_by_at_most_one() {
        for (threads, n) in [(1, 0), (3, 10), (4, 3), (7, 1000), (16, 514)] {
            let shares: Vec<_> = (0..threads).map(|id| share(id, threads, n)).collect();
            let all: Vec<_> = shares.iter().cloned().flatten().collect();
            assert_eq!(all, (0..n).collect::<Vec<_>>());
            let (least, most) = (shares.iter().map(Range::len).min(), shares.iter().map(Range::len).max());
            assert!(most.unwrap() - least.unwrap() <= 1);
        }
    }

    #[test]
    fn the_first_thread_alone_initialises_serially() {
        for (init, expected) in [(Init::Serial, [10, 0, 0]), (Init::Parallel, [3, 3, 4])] {
            let team = Team::new(3, init, 0);
            let lengths = [0, 1, 2].map(|id| Member { id, team: &team }.init_share(10).len());
            assert_eq!(lengths, expected);
        }
    }

    #[test]
    fn nobody_passes_a_barrier_before_everybody_has_come() {
        for polls in [0, 50, 2000] {
            let team = Team::new(5, Init::Serial, polls);
            let (counter, early) = (AtomicU64::new(0), AtomicU64::new(0));
            team.run(|me| {
                for round in 1..=50 {
                    counter.fetch_add(1, Ordering::Relaxed);
                    me.barrier();
                    early.fetch_add(
                        u64::from(counter.load(Ordering::Relaxed) != 5 * round),
                        Ordering::Relaxed,
                    );
                    me.barrier();
                }
            })
            .unwrap();
            assert_eq!(early.into_inner(), 0);
            assert_eq!(team.waits().barriers, 100);
        }
    }

    #[test]
    fn a_thread_that_panics_ends_the_whole_team() {
        let team = Team::new(4, Init::Serial, 10);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            team.run(|me| {
                assert!(me.id != 2, "the third thread ends");
                me.barrier();
            })
        }));
        let message = outcome.unwrap_err().downcast::<&str>().unwrap();
        assert_eq!(*message, "the third thread ends");
    }
}
