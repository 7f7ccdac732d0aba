//! A device that serves requests side by side, such as a solid-state or a virtual disk, as a mechanism whose
//! parameters are found in a trace (see [`super::calibrate`]): the answer at another load follows from
//! what is busy then, not from queues that the trace happened to hold.
//!
//! A request passes the throttle of a host, if there is one. It is cut into pieces, each for one channel: drawn
//! at random where a mapping hides the place, or told by the place. A read waits for what its channels are at,
//! and occupies them. A write is done when the buffer has taken it, and is programmed by its channels
//! later, whenever they have no reads; without a buffer it is served like a read. After so many
//! pieces a channel stops to collect garbage. The time of a request that meets none of this is drawn from
//! those that found the trace quiet; phases of the host keep draws of neighbours alike.

use super::earliest::Earliest;
use super::throttles::Bucket;
use crate::features::Command;
use crate::request::Op;
use rand::{Rng, RngCore};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Classes of lengths, by doubling from 8 sectors.
pub const LENGTHS: usize = 9;

/// The class of a length.
pub fn length_class(sectors: u32) -> usize {
    (sectors.max(8).ilog2() as usize - 3).min(LENGTHS - 1)
}

/// Which channel serves a piece.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Whichever is free first.
    First,
    /// One at random: the device keeps pages where it wrote them last.
    Hidden,
    /// The one that the piece's number says.
    Striped,
}

/// What a throttle counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Requests.
    Requests,
    /// Sectors.
    Sectors,
}

/// A token bucket: the limit of a host, or the credit of a cloud.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Throttle {
    /// What it counts.
    pub unit: Unit,
    /// Units a second.
    pub per_second: f64,
    /// Units that may pass at once after a pause.
    pub burst: f64,
}

/// Pauses of a channel for collection of garbage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Collection {
    /// Pieces programmed between two.
    pub pieces: u32,
    /// How long each takes, us.
    pub pause_us: f64,
}

/// How alike the draws of neighbours are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Phases {
    /// Share of the requests that follow the phase.
    pub share: f64,
    /// How long a phase lasts on average, us.
    pub last_us: f64,
}

/// The parameters of a parallel device. Times in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parallel {
    /// Channels, or dies: what serves one piece at a time.
    pub channels: u32,
    /// Which of them serves a piece.
    pub placement: Placement,
    /// Sectors a piece.
    pub piece_sectors: u32,
    /// How long a piece that is read occupies its channel.
    pub read_us: f64,
    /// How long a piece that is written does.
    pub program_us: f64,
    /// Pieces that the write buffer holds, if there is one.
    pub buffer: Option<u32>,
    /// Collection of garbage.
    pub collection: Option<Collection>,
    /// The limit of a host.
    pub throttle: Option<Throttle>,
    /// Phases of the host.
    pub phases: Option<Phases>,
    /// What the quiet times of reads and of writes are multiplied with.
    pub scale: [f64; 2],
    /// Share of the quiet times, from the shortest, that met nothing: what is beyond has met a collection, say.
    pub undisturbed: [f64; 2],
    /// Times of requests that met little, ascending, by operation and class of length; never empty.
    pub quiet_us: [Vec<Vec<f32>>; 2],
    /// Most requests that arrived within a tenth of a second of the training part.
    pub seen_in_tenth: u64,
    /// Other explanations of the trace, as good: where they say another thing, the trace does not tell.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rivals: Vec<Parallel>,
}

impl Parallel {
    /// Whether a device could have these parameters; its channels fit in memory.
    pub(crate) fn is_sound(&self) -> bool {
        let time = |us: &f64| (0.0..=1e9).contains(us);
        let quiet = self.quiet_us.iter().all(|op| {
            op.len() == LENGTHS
                && op.iter().all(|class| {
                    !class.is_empty()
                        && class.iter().all(|us| (0.0..=super::file::LONGEST_US as f32).contains(us))
                })
        });
        quiet
            && self.rivals.iter().all(|rival| rival.rivals.is_empty() && rival.is_sound())
            && (1..=4096).contains(&self.channels)
            && self.piece_sectors > 0
            && self.buffer != Some(0)
            && [self.read_us, self.program_us].iter().all(time)
            && self.scale.iter().all(|scale| (0.0..=1e3).contains(scale))
            && self.undisturbed.iter().all(|share| (0.01..=1.0).contains(share))
            && self.collection.is_none_or(|c| c.pieces > 0 && time(&c.pause_us))
            && self
                .throttle
                .is_none_or(|t| (1e-3..=1e12).contains(&t.per_second) && (1.0..=1e12).contains(&t.burst))
            && self
                .phases
                .is_none_or(|p| (0.0..=1.0).contains(&p.share) && (1e-3..=1e12).contains(&p.last_us))
    }

    /// In what it differs from `other`, for people.
    pub fn difference(&self, other: &Parallel) -> String {
        let same = Parallel { buffer: other.buffer, rivals: other.rivals.clone(), ..self.clone() };
        match self.buffer {
            Some(pieces) if same == *other => {
                format!(
                    "a write buffer of {} KiB, which the trace never filled beyond",
                    pieces * self.piece_sectors / 2
                )
            }
            _ => format!(
                "{} channels that a read of {} sectors occupies for {:.0} us",
                self.channels, self.piece_sectors, self.read_us
            ),
        }
    }

    /// Facts for `disk info`.
    pub fn describe(&self) -> serde_json::Value {
        let mut facts = serde_json::json!(self);
        let members = facts.as_object_mut().expect("an object");
        members.remove("quiet_us");
        members.insert("rivals".to_owned(), self.rivals.iter().map(Parallel::describe).collect());
        facts
    }
}

/// A channel at work.
#[derive(Debug, Clone, Copy, Default)]
struct Channel {
    busy_until_us: f64,
    /// Pieces to programme when there is nothing to read.
    pending: u32,
    since_collection: u32,
}

impl Channel {
    /// When it begins to programme a piece that waits for that.
    fn programmes_us(&self) -> f64 {
        if self.pending > 0 {
            self.busy_until_us
        } else {
            f64::INFINITY
        }
    }
}

/// The state of a parallel device at work.
#[derive(Debug, Clone)]
pub struct Channels<'a> {
    model: &'a Parallel,
    each: Vec<Channel>,
    /// When the channels are free, where that decides who serves.
    free: Option<Earliest>,
    /// Room to find out who programmes next.
    next: Earliest,
    /// Pieces in the buffer, at most: channels are asked only when that matters.
    buffered: u32,
    turn: usize,
    bucket: Option<Bucket>,
    phase: f64,
    phase_ends_us: f64,
}

impl<'a> Channels<'a> {
    /// A device that has served nothing yet.
    pub fn new(model: &'a Parallel) -> Self {
        // Channels that began together would all collect together.
        let begun = |at: u32| Channel {
            since_collection: model
                .collection
                .map_or(0, |c| (u64::from(c.pieces) * u64::from(at) / u64::from(model.channels)) as u32),
            ..Channel::default()
        };
        let mut free = (model.placement == Placement::First).then(Earliest::default);
        if let Some(free) = &mut free {
            free.fill((0..model.channels).map(|_| 0.0));
        }
        Channels {
            model,
            each: (0..model.channels).map(begun).collect(),
            free,
            next: Earliest::default(),
            buffered: 0,
            turn: 0,
            bucket: model.throttle.as_ref().map(Bucket::new),
            phase: 0.5,
            phase_ends_us: -1.0,
        }
    }

    /// The time of `command` from `start_ns`, in ns, at least 1.
    pub fn service_ns(&mut self, command: &Command, start_ns: u64, rng: &mut Pcg64Mcg) -> u64 {
        let start_us = start_ns as f64 * 1e-3;
        let now = self.bucket.as_mut().map_or(start_us, |bucket| bucket.admit(command, start_us));
        let quiet_us = self.quiet_us(command, start_us, rng);
        let pieces = command.sectors.max(1).div_ceil(self.model.piece_sectors);
        // More pieces than channels go round.
        let (rounds, pieces) = (pieces.div_ceil(self.model.channels), pieces.min(self.model.channels));
        let mut wait_us = 0.0_f64;
        if command.op == Op::Write && self.model.buffer.is_some() {
            wait_us = self.take_in(pieces * rounds, now);
        } else {
            let work_us = f64::from(rounds)
                * if command.op == Op::Read { self.model.read_us } else { self.model.program_us };
            let first = command.lba / u64::from(self.model.piece_sectors);
            if self.free.is_some() && self.buffered > 0 {
                (0..self.each.len()).for_each(|at| self.catch_up(at, now));
            }
            for piece in 0..u64::from(pieces) {
                let at = self.channel_of(first + piece, rng);
                self.catch_up(at, now);
                let channel = &mut self.each[at];
                wait_us = wait_us.max(channel.busy_until_us - now);
                channel.busy_until_us = channel.busy_until_us.max(now) + work_us;
                if command.op == Op::Write {
                    self.written(at, rounds);
                }
                self.note(at);
            }
        }
        ((now - start_us + wait_us + quiet_us) * 1e3).max(1.0) as u64
    }

    /// The time it takes where nothing is in its way.
    #[inline]
    fn quiet_us(&mut self, command: &Command, start_us: f64, rng: &mut Pcg64Mcg) -> f64 {
        let op = command.op as usize;
        let values = &self.model.quiet_us[op][length_class(command.sectors)];
        let mut level = rng.random::<f64>();
        if let Some(phases) = &self.model.phases {
            if start_us >= self.phase_ends_us {
                self.phase = rng.random();
                self.phase_ends_us = start_us - phases.last_us * (1.0 - rng.random::<f64>()).ln();
            }
            if rng.random::<f64>() < phases.share {
                level = self.phase;
            }
        }
        let value = values[(level * self.model.undisturbed[op] * values.len() as f64) as usize];
        f64::from(value) * self.model.scale[op]
    }

    #[inline]
    fn channel_of(&self, piece: u64, rng: &mut Pcg64Mcg) -> usize {
        let count = self.each.len();
        if let Some(free) = &self.free {
            return free.first();
        }
        match self.model.placement {
            Placement::Striped => (piece % count as u64) as usize,
            _ => (((rng.next_u64() >> 32) * count as u64) >> 32) as usize,
        }
    }

    /// Notes that channel `at` is free at another time.
    #[inline]
    fn note(&mut self, at: usize) {
        if let Some(free) = &mut self.free {
            free.set(at, self.each[at].busy_until_us);
        }
    }

    /// Programmes what channel `at` had time for before `now`; it goes on with one piece more.
    #[inline]
    fn catch_up(&mut self, at: usize, now: f64) {
        while self.each[at].pending > 0 && self.each[at].busy_until_us <= now {
            self.programme(at);
        }
    }

    /// Channel `at` programmes one piece.
    fn programme(&mut self, at: usize) {
        let channel = &mut self.each[at];
        channel.pending -= 1;
        channel.busy_until_us += self.model.program_us;
        self.buffered -= 1;
        self.written(at, 1);
        self.note(at);
    }

    /// Counts pieces towards the next collection.
    fn written(&mut self, at: usize, pieces: u32) {
        if let Some(collection) = &self.model.collection {
            let channel = &mut self.each[at];
            channel.since_collection += pieces;
            if channel.since_collection >= collection.pieces {
                channel.since_collection = 0;
                channel.busy_until_us += collection.pause_us;
            }
        }
    }

    /// Takes pieces into the buffer; how long that waits for room.
    fn take_in(&mut self, pieces: u32, now: f64) -> f64 {
        let room = self.model.buffer.expect("a buffer").max(pieces) - pieces;
        let mut free_us = now;
        if self.buffered > room {
            (0..self.each.len()).for_each(|at| self.catch_up(at, now));
        }
        if self.buffered > room {
            let mut next = std::mem::take(&mut self.next);
            next.fill(self.each.iter().map(Channel::programmes_us));
            while self.buffered > room && next.moment() < f64::INFINITY {
                let at = next.first();
                free_us = free_us.max(self.each[at].busy_until_us);
                self.programme(at);
                next.set(at, self.each[at].programmes_us());
            }
            self.next = next;
        }
        for _ in 0..pieces {
            let at = self.turn;
            self.turn = (self.turn + 1) % self.each.len();
            self.catch_up(at, free_us);
            let channel = &mut self.each[at];
            if channel.pending == 0 && channel.busy_until_us < free_us {
                channel.busy_until_us = free_us;
            }
            channel.pending += 1;
            self.buffered += 1;
            self.note(at);
        }
        free_us - now
    }

    /// Pieces in the buffer at `now_ns`.
    pub fn buffered(&mut self, now_ns: u64) -> u32 {
        (0..self.each.len()).for_each(|at| self.catch_up(at, now_ns as f64 * 1e-3));
        self.buffered
    }
}
