//! The users of a run, each a thread, and the phases they pass without a pause: warm-up, lead-in, measurement.
//!
//! A native run has its orders beforehand; in a guest the machine is saved where the warm-up ends, and the
//! orders come when it goes on. Either way nobody is idle: each user finishes what it was at, goes on with
//! the requests of the ordered seed, and the measurement begins a few transactions later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use servsim_driver::control::Orders;
use servsim_driver::cpu::{give_way, Server, Times};
use servsim_driver::latency;
use servsim_driver::mark::{MarkKind, Marker};
use servsim_driver::rng::Purpose;
use servsim_driver::window::{SavePoint, Window};

use crate::{Error, Result};

/// What follows the warm-up.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a> {
    /// So many transactions are measured.
    Transactions(u64),
    /// Transactions are measured for so long.
    After(Duration),
    /// The machine is saved here, and measures what is ordered when it goes on.
    Saved(SavePoint<'a>),
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Number of users.
    pub users: u64,
    /// Seed of the requests, in a guest only of those before it is saved.
    pub seed: u64,
    /// Transactions before the measurement, over all users; at least one.
    pub warm_up: u64,
    /// What follows.
    pub then: Then<'a>,
    /// Whose processor time is compared with the client's.
    pub server: Server,
}

/// What the replies of one kind add up to.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Replies measured.
    pub count: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Response times in microseconds.
    pub latency: Histogram<u64>,
}

impl Tally {
    fn new() -> Self {
        Tally { count: 0, bytes: 0, latency: latency::histogram() }
    }
}

/// What users share, under one lock: as many transactions are marked between start and stop as were ordered.
#[derive(Debug)]
struct Shared {
    marker: Marker,
    window: Window,
    /// Transactions since the first, warm-up included.
    ended: u64,
    tallies: Vec<Tally>,
    deadline: Option<Instant>,
}

/// A run while its users work.
#[derive(Debug)]
pub struct Work<'a> {
    plan: Plan<'a>,
    shared: Mutex<Shared>,
    ordered: AtomicBool,
    over: AtomicBool,
}

/// A user: asks for pages, and tells [`Work::ended`] of each reply.
pub trait User: Send {
    /// Goes on with the requests of a seed and a purpose.
    fn begin(&mut self, seed: u64, purpose: Purpose);

    /// Asks for one page and all that belongs to it.
    ///
    /// # Errors
    /// When a reply is not what it should be: the run is then not valid.
    fn page(&mut self, work: &Work<'_>) -> Result<()>;
}

/// What came of a run.
#[derive(Debug)]
pub struct Done {
    /// What was measured; none if a user failed before.
    pub orders: Option<Orders>,
    /// Duration and processor time of the measurement.
    pub measured: Option<(Duration, Times)>,
    /// Measured replies by kind.
    pub tallies: Vec<Tally>,
    /// All replies, warm-up included.
    pub replies: u64,
    /// Marks executed.
    pub marks: serde_json::Value,
    /// Why the run is not valid; empty if it is.
    pub problems: Vec<String>,
}

impl<'a> Work<'a> {
    fn new(plan: Plan<'a>, kinds: usize) -> Self {
        let mut marker = Marker::default();
        marker.event(MarkKind::Client);
        let tallies = (0..kinds).map(|_| Tally::new()).collect();
        let shared = Shared { marker, window: Window::default(), ended: 0, tallies, deadline: None };
        Work {
            plan,
            shared: Mutex::new(shared),
            ordered: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    /// Whether users go on.
    pub fn goes_on(&self) -> bool {
        !self.over.load(Ordering::Relaxed)
    }

    /// A reply of `kind` (from 1) has been read in full and is right.
    ///
    /// # Errors
    /// When the machine cannot be saved.
    pub fn ended(&self, kind: u8, bytes: u64, took: Duration) -> Result<()> {
        let shared = &mut *self.lock();
        let Shared { marker, window, ended, tallies, deadline } = shared;
        marker.transaction(kind, false, 0);
        *ended += 1;
        if window.orders().is_none() {
            if *ended >= self.plan.warm_up && self.goes_on() {
                window.order(self.orders()?);
                self.ordered.store(true, Ordering::Relaxed);
            }
            return Ok(());
        }
        if window.ended(self.plan.users, self.plan.server, marker) {
            let tally = &mut tallies[usize::from(kind) - 1];
            tally.count += 1;
            tally.bytes += bytes;
            tally.latency.saturating_record((took.as_micros() as u64).max(1));
        }
        if let (Then::After(duration), true) = (self.plan.then, window.is_open()) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + duration);
            if Instant::now() >= deadline {
                window.close(self.plan.server, marker);
            }
        }
        if window.measured().is_some() {
            self.over.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Stops the machine if that is planned; what is measured next.
    fn orders(&self) -> Result<Orders> {
        let natively =
            |transactions| Orders { transactions, seed: self.plan.seed, check: true, lead_in: None };
        match self.plan.then {
            Then::Transactions(count) => Ok(natively(count)),
            Then::After(_) => Ok(natively(u64::MAX / 2)),
            Then::Saved(save_point) => save_point.pass("null"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        // A user that panicked ends the run anyway, so its poison says nothing new.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, user: &mut impl User) -> Result<()> {
        let mut purpose = Purpose::WarmUp;
        user.begin(self.plan.seed, purpose);
        while self.goes_on() {
            if purpose == Purpose::WarmUp && self.ordered.load(Ordering::Relaxed) {
                purpose = Purpose::Measured;
                let seed = self.lock().window.orders().map_or(self.plan.seed, |orders| orders.seed);
                user.begin(seed, purpose);
            }
            if let Err(error) = user.page(self) {
                self.over.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Lets the users work as planned.
///
/// The threads keep the program's name, by which a capture knows the client.
///
/// # Panics
/// When a user panics.
pub fn run<U: User>(plan: Plan<'_>, kinds: usize, users: &mut [U]) -> Done {
    give_way();
    let work = Work::new(plan, kinds);
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = users.iter_mut().map(|user| scope.spawn(|| work.work(user))).collect();
        let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let problem = |(user, result): (usize, Result<()>)| Some(format!("user {user}: {}", result.err()?));
    let mut problems: Vec<String> = results.into_iter().enumerate().filter_map(problem).collect();
    let shared = work.shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    let marked = shared.marker.transactions();
    if marked != shared.ended {
        problems.push(format!("{marked} marks for {} replies", shared.ended));
    }
    if problems.is_empty() && shared.window.measured().is_none() {
        problems.push(Error::Check("the users ended before the measurement did".to_owned()).to_string());
    }
    Done {
        orders: shared.window.orders(),
        measured: shared.window.measured(),
        tallies: shared.tallies,
        replies: shared.ended,
        marks: shared.marker.counts(),
        problems,
    }
}
