//! One emulated user: connection, random streams, deck, and the log of what was asked.

use std::hash::Hash;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::deck::{Deck, Mix};
use super::engine::{Outcome, Session};
use super::request::{Generator, TransactionKind, UserWarehouse, KINDS};
use super::settling::{Settling, WarmUp, REHEARSALS};
use super::waiting;
use super::windows::Windows;
use crate::control::Orders;
use crate::cpu::Times;
use crate::latency;
use crate::log::Log;
use crate::mark::Marker;
use crate::rng::{Purpose, Stream};
use crate::window::{SavePoint, Window};
use crate::{Error, Result};

/// How many replies of one kind there were, and what they told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Replies read, including those of rolled-back transactions.
    pub replies: u64,
    /// Transactions rolled back on purpose.
    pub rolled_back: u64,
    /// Orders delivered.
    pub delivered: u64,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        self.replies += 1;
        self.rolled_back += u64::from(outcome.rolled_back);
        self.delivered += u64::from(outcome.delivered);
    }
}

/// What the measured replies of one kind add up to.
#[derive(Clone, Debug)]
pub struct Tally {
    /// How many there were.
    pub counts: Counts,
    /// Response times in microseconds.
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally { counts: Counts::default(), latency: latency::histogram() }
    }
}

impl Tally {
    fn add(&mut self, outcome: Outcome, microseconds: u64) {
        self.counts.add(outcome);
        self.latency.saturating_record(microseconds.max(1));
    }
}

/// Replies of a phase by kind.
#[derive(Debug, Default)]
pub struct Tallies {
    /// All of them.
    pub all: [Counts; KINDS],
    /// Those that were measured: fewer only where a window is measured.
    pub measured: [Tally; KINDS],
}

/// When a phase ends.
#[derive(Clone, Copy, Debug)]
pub enum Stop<'a> {
    /// After this many transactions, over all users; whoever is free takes the next.
    Transactions(u64),
    /// After this many transactions, dealt to the users in advance: the set of requests does not
    /// depend on timing, but users finish at different times.
    Dealt(u64),
    /// When this time is over.
    After(Duration),
    /// When the server has settled; see [`Settling`]. The function takes a line after each round.
    Settled(fn(&str)),
    /// Warms up, stops the machine while the users are at work, and measures a window when it goes on: the
    /// start mark comes some transactions later, the stop mark so many after it as were ordered, while the
    /// users are still at work.
    Captured(WarmUp, SavePoint<'a>),
}

/// What all users of a phase share.
#[derive(Debug)]
pub struct Phase<'a> {
    /// Draws requests.
    pub generator: &'a Generator,
    /// Counts and executes marks.
    pub marker: &'a Mutex<Marker>,
    /// Replies so far by kind.
    pub tallies: Mutex<Tallies>,
    /// Watches how the server warms up, where the phase ends when it has.
    pub settling: Option<Mutex<Settling>>,
    /// Keying and think times are multiplied by this; zero means none.
    pub think_scale: f64,
    /// Transactions by the time at which they ended, if asked for.
    pub windows: Option<Windows>,
    stop: Stop<'a>,
    users: u64,
    taken: AtomicU64,
    /// Whether a guest has its orders: the warm-up is over.
    ordered: AtomicBool,
    window: Mutex<Window>,
    /// Set when some user failed, the server has settled natively, or the window has ended: nobody begins another.
    over: AtomicBool,
    begin: Instant,
}

impl<'a> Phase<'a> {
    /// A phase of `users` users that starts now.
    pub fn new(
        generator: &'a Generator,
        marker: &'a Mutex<Marker>,
        stop: Stop<'a>,
        users: usize,
        think_scale: f64,
    ) -> Self {
        Phase {
            generator,
            marker,
            tallies: Mutex::default(),
            settling: None,
            think_scale,
            windows: None,
            stop,
            users: users as u64,
            taken: AtomicU64::new(0),
            ordered: AtomicBool::new(false),
            window: Mutex::default(),
            over: AtomicBool::new(false),
            begin: Instant::now(),
        }
    }

    /// Whether user `index`, after `done` transactions, begins another.
    fn take(&self, index: u64, done: u64) -> bool {
        if self.over.load(Ordering::Relaxed) {
            return false;
        }
        match self.stop {
            Stop::Transactions(total) => {
                let next = |taken| (taken < total).then_some(taken + 1);
                self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
            }
            Stop::Dealt(total) => done < total / self.users + u64::from(index < total % self.users),
            Stop::After(duration) => self.begin.elapsed() < duration,
            Stop::Settled(_) | Stop::Captured(..) => true,
        }
    }

    /// What a guest was ordered to measure, and how long that took in time and processor time.
    pub fn window(&self) -> (Option<Orders>, Option<(Duration, Times)>) {
        let window = lock(&self.window);
        (window.orders(), window.measured())
    }

    /// Whether the warm-up goes on after a transaction for which a server process took so long.
    fn warms_up(&self, kind: TransactionKind, nanoseconds: u64) -> bool {
        match (&self.settling, self.stop) {
            (Some(settling), _) => lock(settling).ended(kind, nanoseconds),
            (None, Stop::Captured(WarmUp::Transactions(count), _)) => {
                self.taken.fetch_add(1, Ordering::Relaxed) + 1 < count
            }
            _ => true,
        }
    }

    /// The warm-up is over: the phase ends, or the machine stops here and has orders when it goes on.
    fn warm(&self) -> Result<()> {
        let Stop::Captured(_, save_point) = self.stop else {
            self.over.store(true, Ordering::Relaxed);
            return Ok(());
        };
        // No other transaction ends while this one waits.
        let mut window = lock(&self.window);
        if window.orders().is_none() {
            let report = self.settling.as_ref().map_or(Value::Null, |settling| lock(settling).report());
            window.order(save_point.pass(&report.to_string())?);
            self.ordered.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Seed of the requests, once the warm-up of a guest is over.
    fn ordered_seed(&self) -> Option<u64> {
        self.ordered.load(Ordering::Relaxed).then(|| lock(&self.window).orders().map(|orders| orders.seed))?
    }

    /// Marks the end of a transaction, and the window's beginning and end where they fall on it.
    /// Returns whether the transaction is measured. All under the marker's lock, so that as many
    /// transactions are marked between start and stop as were asked for.
    fn mark(&self, kind: TransactionKind, outcome: Outcome, session: &impl Session) -> bool {
        let mut marker = lock(self.marker);
        marker.transaction(kind as u8, outcome.rolled_back, session.process());
        let Stop::Captured(..) = self.stop else { return true };
        let mut window = lock(&self.window);
        let within = window.ended(self.users, session.server(), &mut marker);
        if window.measured().is_some() {
            self.over.store(true, Ordering::Relaxed);
        }
        within
    }
}

/// Locks what users share. A user that panicked ends the run anyway, so its poison says nothing new.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One user.
#[derive(Debug)]
pub struct User<S> {
    /// From 0; keys the random streams.
    pub index: u64,
    /// The user's connection.
    pub session: S,
    /// Transactions completed in the current phase.
    pub done: u64,
    /// Hash of the requests of the current phase.
    pub log: Log,
    works_at: UserWarehouse,
    mix: Mix,
    purpose: Purpose,
    deck: Deck,
    requests: Stream,
    waiting: Stream,
    /// What of the engine's processor time for this user has been accounted for.
    accounted: u64,
}

impl<S: Session> User<S> {
    /// A user without streams yet; [`User::begin`] gives them.
    pub fn new(index: u64, session: S, works_at: UserWarehouse, mix: Mix) -> Self {
        User {
            index,
            accounted: 0,
            session,
            done: 0,
            log: Log::default(),
            works_at,
            mix,
            purpose: Purpose::WarmUp,
            deck: Deck::new(mix),
            requests: Stream::new(0, Purpose::WarmUp, index),
            waiting: Stream::new(0, Purpose::Waiting, index),
        }
    }

    /// Starts a phase with fresh streams of (seed, purpose, user) and an exhausted deck.
    pub fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.purpose = purpose;
        self.requests = Stream::new(seed, purpose, self.index);
        self.waiting = Stream::new(seed, Purpose::Waiting, self.index);
        self.deck = Deck::new(self.mix);
        self.log = Log::default();
        self.done = 0;
    }

    /// The next transactions are so many of each kind, before the mix goes on.
    pub fn rehearse(&mut self) {
        self.deck.rehearse(REHEARSALS, &mut self.requests);
    }

    /// Works until the phase ends.
    ///
    /// # Errors
    /// The first error of this user; the other users then stop after their current transaction.
    pub async fn work(&mut self, phase: &Phase<'_>) -> Result<()> {
        // Here, and not where the phase is prepared: an engine may count by thread.
        self.accounted = self.session.nanoseconds();
        while phase.take(self.index, self.done) {
            if let Err(error) = self.transaction(phase).await {
                phase.over.store(true, Ordering::Relaxed);
                let user = self.index;
                return Err(match error {
                    Error::Database { context, source } => {
                        Error::Database { context: format!("user {user}, {context}"), source }
                    }
                    other => other,
                });
            }
        }
        Ok(())
    }

    async fn transaction(&mut self, phase: &Phase<'_>) -> Result<()> {
        if let (Purpose::WarmUp, Some(seed)) = (self.purpose, phase.ordered_seed()) {
            self.begin(seed, Purpose::Measured);
        }
        let kind = self.deck.draw(&mut self.requests);
        let request = phase.generator.request(kind, self.works_at, &mut self.requests);
        request.hash(&mut self.log);
        self.pause(phase, waiting::seconds(kind).0).await;
        let begin = Instant::now();
        let outcome = self.session.execute(&request, phase.generator.scale.districts).await?;
        let measured = phase.mark(kind, outcome, &self.session);
        let microseconds = begin.elapsed().as_micros() as u64;
        {
            let tallies = &mut *lock(&phase.tallies);
            tallies.all[kind as usize - 1].add(outcome);
            if measured {
                tallies.measured[kind as usize - 1].add(outcome, microseconds);
            }
        }
        if self.purpose == Purpose::WarmUp {
            let now = self.session.nanoseconds();
            let spent = now - std::mem::replace(&mut self.accounted, now);
            if !phase.warms_up(kind, spent) {
                phase.warm()?;
            }
        }
        if let Some(windows) = &phase.windows {
            windows.count(phase.begin.elapsed());
        }
        self.done += 1;
        self.think(phase, kind).await;
        Ok(())
    }

    async fn think(&mut self, phase: &Phase<'_>, kind: TransactionKind) {
        // Only thoughts that take time are drawn: their stream is nobody else's.
        if phase.think_scale > 0.0 {
            let seconds = waiting::think(kind, &mut self.waiting);
            self.pause(phase, seconds).await;
        }
    }

    async fn pause(&self, phase: &Phase<'_>, seconds: f64) {
        if phase.think_scale > 0.0 {
            tokio::time::sleep(Duration::from_secs_f64(seconds * phase.think_scale)).await;
        }
    }
}
