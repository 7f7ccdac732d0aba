//! A run: connect, warm up, measure, reconcile.
//!
//! Every user has a thread of its own. The measured requests come from streams keyed (seed, user), fresh
//! at the start of the measurement, so neither the warm-up nor other users change them.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::deck::Mix;
use super::engine::{Engine, RoundTrip, Session};
use super::load::{self, Made};
use super::reconcile::{self, Moment, Snapshot};
use super::report::{self, Measured};
use super::request::{Generator, UserWarehouse, KINDS};
use super::settling::{Settling, WarmUp};
use super::terminal::{self, Terminal};
use super::user::{lock, Counts, Phase, Stop, Tallies, User};
use super::windows::Windows;
use crate::control::Orders;
use crate::cpu::{give_way, Times};
use crate::mark::{MarkKind, Marker};
use crate::rng::Purpose;
use crate::window::SavePoint;
use crate::{Error, Result};

/// Where users work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Warehouses {
    /// A warehouse drawn anew for each transaction, as in Alameldeen et al. 2003.
    Random,
    /// A fixed home warehouse and district per user, as in the specification.
    Home,
}

/// How users behave.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of users, each with its own connection.
    pub users: usize,
    /// Seed of the requests.
    pub seed: u64,
    /// How kinds are mixed.
    pub mix: Mix,
    /// Where users work.
    pub warehouses: Warehouses,
    /// Factor on keying and think times; zero for none.
    pub think_scale: f64,
    /// How long the users work before the measurement.
    pub warm_up: WarmUp,
    /// How much of a transaction a user sends at a time.
    pub round_trip: RoundTrip,
    /// Width of the windows in which transactions of the measurement are counted, if at all.
    pub window: Option<Duration>,
}

/// A run in progress: connected users and what was counted so far.
pub struct Run<E: Engine> {
    options: Options,
    made: Made,
    generator: Generator,
    terminals: Vec<Terminal<E::Session>>,
    control: E::Control,
    marker: Mutex<Marker>,
    before: Snapshot,
    /// Replies of all phases since the first snapshot.
    acknowledged: [Counts; KINDS],
    /// What a warm-up until the server settled showed.
    settling: Value,
}

/// What came of a phase.
struct Done {
    tallies: Tallies,
    orders: Option<Orders>,
    cpu: Option<Times>,
    windows: Option<Windows>,
    elapsed: Duration,
    errors: Vec<Error>,
}

impl<E: Engine> Run<E> {
    /// Connects all users and takes the first snapshot.
    ///
    /// # Errors
    /// When the server is not reachable, has too few connections, or holds no workload.
    pub async fn connect(engine: &E, options: Options) -> Result<Self> {
        if options.users == 0 {
            return Err(Error::Usage("at least one user is needed".to_owned()));
        }
        let marker = Mutex::new(Marker::default());
        lock(&marker).event(MarkKind::Client);
        let control = engine.control().await?;
        let made = load::made(&control).await?;
        let mut terminals = Vec::with_capacity(options.users);
        for index in 0..options.users as u64 {
            let works_at = match options.warehouses {
                Warehouses::Random => UserWarehouse::Random,
                Warehouses::Home => home(index as i32, &made),
            };
            let user = |session| User::new(index, session, works_at, options.mix);
            terminals.push(Terminal::open(engine, options.round_trip, user)?);
        }
        if terminals[0].user.session.process() != std::process::id() {
            give_way();
        }
        let generator = generator(&made, options.seed);
        let before = reconcile::snapshot(&control, &mut terminals, Moment::Before).await?;
        let acknowledged = [Counts::default(); KINDS];
        let settling = Value::Null;
        Ok(Run { options, made, generator, terminals, control, marker, before, acknowledged, settling })
    }

    /// Runs the warm-up; when it returns, every user is idle. `say` takes a line now and then.
    ///
    /// # Errors
    /// The first error of any user.
    pub fn warm_up(&mut self, say: fn(&str)) -> Result<()> {
        let stop = match self.options.warm_up {
            WarmUp::Transactions(count) => Stop::Transactions(count),
            WarmUp::Settled => Stop::Settled(say),
        };
        let done = self.phase(stop, self.options.seed, Purpose::WarmUp);
        done.errors.into_iter().next().map_or(Ok(()), Err)
    }

    /// How the warm-up went; null unless it was one until the server settled.
    pub fn settling(&self) -> &Value {
        &self.settling
    }

    /// Runs the measurement, reconciles, and reports.
    ///
    /// # Errors
    /// When the server cannot be asked afterwards although all users went well. An error of a user
    /// makes the report invalid instead.
    pub async fn measure(&mut self, stop: Stop<'_>, seed: u64) -> Result<Value> {
        self.options.seed = seed;
        self.generator = generator(&self.made, seed);
        let server = self.terminals[0].user.session.server();
        let cpu_before = server.times();
        lock(&self.marker).event(MarkKind::Start);
        let done = self.phase(stop, seed, Purpose::Measured);
        lock(&self.marker).event(MarkKind::Stop);
        let cpu = server.times().since(cpu_before);
        let replies = done.tallies.all.iter().map(|counts| counts.replies).sum();
        self.report(done, cpu, replies).await
    }

    /// Warms up, passes the save point while the users are at work, measures what was ordered there, reconciles,
    /// and reports. Returns the orders too: none when a user failed before there were any.
    ///
    /// # Errors
    /// As for [`Run::measure`].
    pub async fn capture(&mut self, save_point: SavePoint<'_>) -> Result<(Value, Option<Orders>)> {
        let stop = Stop::Captured(self.options.warm_up, save_point);
        let done = self.phase(stop, self.options.seed, Purpose::WarmUp);
        let orders = done.orders;
        if let Some(orders) = orders {
            self.options.seed = orders.seed;
        }
        let cpu = done.cpu.unwrap_or(Times { client_seconds: 0.0, server_seconds: None });
        let replies = orders.map_or(0, |orders| orders.transactions);
        Ok((self.report(done, cpu, replies).await?, orders))
    }

    /// Reconciles, and reports a phase that took so much processor time for so many replies.
    async fn report(&mut self, done: Done, cpu: Times, replies: u64) -> Result<Value> {
        let Done { tallies, windows, elapsed, errors, .. } = done;
        let (reconciliation, mut problems) = if errors.is_empty() {
            let after = reconcile::snapshot(&self.control, &mut self.terminals, Moment::After).await?;
            reconcile::compare(&self.control, self.before, after, &self.acknowledged, &self.options).await?
        } else {
            (Value::Null, Vec::new())
        };
        let users: Vec<&User<E::Session>> = self.terminals.iter().map(|terminal| &terminal.user).collect();
        let live = users.iter().filter(|user| user.session.is_live()).count();
        problems.extend(errors.iter().map(ToString::to_string));
        if live != self.options.users {
            problems.push(format!("{live} of {} users are alive at the end", self.options.users));
        }
        let marker = lock(&self.marker);
        let acknowledged: u64 = self.acknowledged.iter().map(|counts| counts.replies).sum();
        if marker.transactions() != acknowledged {
            problems.push(format!("{} marks for {acknowledged} replies", marker.transactions()));
        }
        Ok(report::run(&Measured {
            engine: E::NAME,
            options: &self.options,
            made: &self.made,
            generator: &self.generator,
            users: &users,
            live,
            seconds: elapsed.as_secs_f64(),
            tallies: &tallies.measured,
            replies,
            windows: windows.map_or(Value::Null, |windows| windows.report(elapsed)),
            acknowledged: &self.acknowledged,
            cpu,
            marks: marker.counts(),
            reconciliation,
            problems,
        }))
    }

    fn phase(&mut self, stop: Stop<'_>, seed: u64, purpose: Purpose) -> Done {
        let settles = match stop {
            Stop::Settled(say) => Some(say),
            Stop::Captured(WarmUp::Settled, _) => Some(tell_host as fn(&str)),
            _ => None,
        };
        for terminal in &mut self.terminals {
            terminal.user.begin(seed, purpose);
            if settles.is_some() {
                terminal.user.rehearse();
            }
        }
        let mut phase =
            Phase::new(&self.generator, &self.marker, stop, self.options.users, self.options.think_scale);
        if let Some(say) = settles {
            phase.settling =
                Some(Mutex::new(Settling::new(self.options.users, self.options.mix.shares(), say)));
        }
        let begin = Instant::now();
        if purpose == Purpose::Measured {
            phase.windows = self.options.window.map(Windows::new);
        }
        let results = terminal::each(&mut self.terminals, async |user| user.work(&phase).await);
        let (orders, measured) = phase.window();
        let (elapsed, cpu) =
            measured.map_or_else(|| (begin.elapsed(), None), |(time, cpu)| (time, Some(cpu)));
        let errors = results.into_iter().filter_map(Result::err).collect();
        let tallies = phase.tallies.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (total, counts) in self.acknowledged.iter_mut().zip(&tallies.all) {
            total.replies += counts.replies;
            total.rolled_back += counts.rolled_back;
            total.delivered += counts.delivered;
        }
        let settling = phase.settling.map(|watch| watch.into_inner().unwrap_or_else(PoisonError::into_inner));
        if let Some(settling) = &settling {
            self.settling = settling.report();
        }
        Done { tallies, orders, cpu, windows: phase.windows, elapsed, errors }
    }

    /// The control connection, idle between phases.
    pub fn control(&self) -> &E::Control {
        &self.control
    }

    /// Number of users.
    pub fn users(&self) -> usize {
        self.options.users
    }

    /// How the database was made.
    pub fn made(&self) -> &Made {
        &self.made
    }
}

fn generator(made: &Made, seed: u64) -> Generator {
    Generator { scale: made.scale, a: made.scale.a(), c: made.scale.c_run(made.c_load, seed) }
}

/// Users take the districts of all warehouses in turn, a warehouse's ten terminals apart.
fn home(index: i32, made: &Made) -> UserWarehouse {
    let scale = made.scale;
    UserWarehouse::Home(index % scale.warehouses + 1, index / scale.warehouses % scale.districts + 1)
}

/// The host passes on what the console says after these words.
fn tell_host(line: &str) {
    eprintln!("servsim-guest: {line}");
}
