//! What a model may know when a device starts a request: the state the device itself was left in.
//!
//! Everything is in *service order*, since an arm moves in the order of service, not of arrival.
//! [`History`] is the same in fitting and in simulation, so that a model never sees a feature in
//! one that means something else in the other. Features are made from a [`Start`], which holds no
//! completion: what shows only when a request is done cannot be among them. Left out: the responses of
//! earlier requests, whose feedback makes free-running models drift.

use crate::cache::{Cache, Law};
use crate::mechanics::Radius;
use crate::platters::Platters;
use crate::request::{distance, Op};
pub use crate::request::{Command, Start};
use std::sync::Arc;

/// Number of features; a power of two, so that a row fills a cache line.
pub const FEATURES: usize = 16;

/// Names of the features, with units, in order.
pub const FEATURE_NAMES: [&str; FEATURES] = [
    "op",
    "seek_sectors",
    "seek_abs_sectors",
    "sectors",
    "idle_us",
    "previous_op",
    "previous_seek_abs_sectors",
    "previous_sectors",
    "lba",
    "recent_gap_sectors",
    "recent_age_requests",
    "others_in_service",
    "since_write_us",
    "recent_op",
    "start_to_start_sectors",
    "in_cache",
];

/// The feature that tells reads from writes: 0 or 1.
pub const OP: usize = 0;
/// The distance from the end of the request before, with its sign.
pub const SEEK: usize = 1;
/// The same without it.
pub const DISTANCE: usize = 2;
/// The time without work before the request.
pub const IDLE: usize = 4;
/// The operation of the request before.
pub const PREVIOUS_OP: usize = 5;
/// Its distance.
pub const PREVIOUS_DISTANCE: usize = 6;
/// Its length.
pub const PREVIOUS_SECTORS: usize = 7;
/// The length.
pub const SECTORS: usize = 3;
/// The distance from the end of a recent request to a nearby place.
pub const RECENT_GAP: usize = 9;
/// How many requests ago one went to a nearby place.
pub const RECENT_AGE: usize = 10;
/// The time since the last write completed.
pub const SINCE_WRITE: usize = 12;
/// The distance from where the request before began.
pub const FROM_START: usize = 14;
/// Whether the cache holds the request.
pub const CACHED: usize = 15;
/// Where the platters are known, in place of what the cache holds: when the request will have passed
/// under the head ([`Platters::pass_of_request`]).
pub const PASSES: usize = CACHED;
/// Where the platters are known, in place of the signed distance: how close the arm comes to missing it.
pub const MISSES_BY: usize = SEEK;

/// The features of one request.
pub type Features = [f32; FEATURES];

/// Stands for "no recent request nearby" in `recent_gap_sectors` and `recent_age_requests`.
pub const NONE_RECENT: f32 = 1e9;

/// Sectors (log2) of a granule of the table of recent places: 128 sectors, 64 KiB, about a segment of
/// a drive's cache, and the read-ahead of a file system.
const GRANULE_SHIFT: u32 = 7;
/// Places remembered; a drive's cache of a few MiB holds about as many granules.
const PLACES: usize = 2048;

/// So many requests long a drive keeps in its cache what follows a request,
const CACHED_FOR: f32 = 64.0;
/// up to so many sectors.
const READ_AHEAD: f32 = 256.0;

/// Whether the cache may answer a request, by its features.
pub(crate) fn may_be_cached(features: &Features) -> bool {
    let ahead = features[RECENT_GAP] > -features[SECTORS] && features[RECENT_GAP] < READ_AHEAD;
    features[OP] < 0.5 && features[RECENT_AGE] <= CACHED_FOR && ahead
}

/// `features` with those that tell when the sectors of a request pass; their values are 0 and below 0 where
/// that decides nothing: where the cache may answer, or nothing is known of the place.
pub(crate) fn with_pass(mut features: Features, start: &Start, platters: &Platters) -> Features {
    let pass =
        if may_be_cached(&features) { None } else { platters.pass_of_request(start, features[DISTANCE]) };
    (features[PASSES], features[MISSES_BY]) = pass.unwrap_or((0.0, -1.0));
    features
}

/// Where a recent request ended.
#[derive(Debug, Clone, Copy)]
struct RecentAccess {
    granule: u32,
    number: u32,
    /// Where it ended in the lower half, its operation in the upper: one word, read as it was written.
    end_and_op: u64,
}

const NO_ACCESS: RecentAccess = RecentAccess { granule: u32::MAX, number: 0, end_and_op: 0 };

/// What a device has served so far.
#[derive(Debug, Clone)]
pub struct History {
    previous: Option<Command>,
    previous_seek: f32,
    last_write_ns: Option<u64>,
    /// `None` where nobody asks for them.
    places: Option<Box<[RecentAccess; PLACES]>>,
    /// `None` where nobody asks what is cached.
    cache: Option<Cache>,
    /// Distances are over the radius where it is known, else over sectors.
    radius: Option<Radius>,
    /// `None` where nobody knows how they stand.
    platters: Option<Arc<Platters>>,
    served: u32,
}

/// Sets the features that depend on when the service starts: idleness and the time since a write.
#[inline(always)]
pub fn set_times(features: &mut Features, idle_ns: u64, since_write_ns: Option<u64>) {
    // Through i64: one instruction, where u64 takes a branch and several.
    features[IDLE] = idle_ns as i64 as f32 * 1e-3;
    features[SINCE_WRITE] = since_write_ns.map_or(NONE_RECENT, |since| since as i64 as f32 * 1e-3);
}

/// Whether a feature depends on when the service starts, or on what else is in service then.
pub fn is_timed(feature: u32) -> bool {
    matches!(feature, 4 | 11 | 12)
}

impl Default for History {
    fn default() -> Self {
        History::new(true, None, None)
    }
}

impl History {
    /// An unused device; without `remembers_places` the two `recent` features are always absent,
    /// which is quicker and right for a model that never asks for them.
    ///
    /// With `cache`, the history knows what a cache of that law holds.
    pub fn new(remembers_places: bool, cache: Option<Law>, radius: Option<Radius>) -> Self {
        History {
            previous: None,
            previous_seek: 0.0,
            last_write_ns: None,
            places: remembers_places.then(|| {
                vec![NO_ACCESS; PLACES].into_boxed_slice().try_into().expect("as many as there are")
            }),
            cache: cache.map(Cache::new),
            radius,
            platters: None,
            served: 0,
        }
    }

    /// The same, on a drive whose platters are known.
    #[must_use]
    pub fn on_platters(self, platters: Option<Arc<Platters>>) -> Self {
        History { platters, ..self }
    }

    /// First sector after the last request served, where the arm was left.
    pub fn position(&self) -> Option<u64> {
        self.previous.map(|previous| previous.lba + u64::from(previous.sectors))
    }

    /// The features of the request that starts.
    #[inline(always)]
    pub fn features(&self, start: &Start) -> Features {
        let &Start { ref command, start_ns, idle_ns, others } = start;
        let (seek, from_start, previous_op, previous_sectors) = match &self.previous {
            Some(previous) => {
                let from_start = distance(command.lba, previous.lba) as f32;
                (self.seek(command), from_start, f32::from(previous.op as u8), previous.sectors as f32)
            }
            None => (0.0, 0.0, 0.0, 0.0),
        };
        let (gap, age, recent_op) = match &self.places {
            Some(places) => self.recent(places, command),
            None => (NONE_RECENT, NONE_RECENT, 0.0),
        };
        let mut features = [
            f32::from(command.op as u8),
            seek,
            seek.abs(),
            command.sectors as f32,
            0.0,
            previous_op,
            self.previous_seek,
            previous_sectors,
            command.lba as i64 as f32,
            gap,
            age,
            others as f32,
            0.0,
            recent_op,
            from_start,
            self.cache.as_ref().map_or(0.0, |cache| f32::from(u8::from(cache.holds(command)))),
        ];
        set_times(&mut features, idle_ns, self.last_write_ns.map(|at| start_ns.saturating_sub(at)));
        match &self.platters {
            None => features,
            Some(platters) => with_pass(features, start, platters),
        }
    }

    #[inline(always)]
    fn seek(&self, command: &Command) -> f32 {
        let over = |at| match &self.radius {
            None => distance(command.lba, at) as f32,
            // Sectors that follow one another do so wherever they lie.
            Some(_) if at == command.lba => 0.0,
            Some(radius) => (radius.depth(command.lba) - radius.depth(at)) as f32,
        };
        self.position().map_or(0.0, over)
    }

    /// Distance from the end of the latest request near `command`, its age in requests, its operation.
    #[inline(always)]
    fn recent(&self, places: &[RecentAccess; PLACES], command: &Command) -> (f32, f32, f32) {
        let granule = (command.lba >> GRANULE_SHIFT) as u32;
        // Which of them is known is as good as random, so nothing here branches on it: the upper half
        // of a rank says that the place is known, the lower half when. Places of one number are of one
        // request, and alike but for the granule.
        let ranked = |neighbour: u32| {
            let place = &places[neighbour as usize % PLACES];
            let rank = 1 << 32 | u64::from(place.number);
            (if place.granule == neighbour { rank } else { 0 }, place.end_and_op)
        };
        let later = |a: (u64, u64), b: (u64, u64)| if b.0 >= a.0 { b } else { a };
        // A drive keeps what it read beyond a request and what passed under the head before it.
        let either = later(ranked(granule.wrapping_sub(1)), ranked(granule));
        let (rank, place) = later(either, ranked(granule.wrapping_add(1)));
        let gap = i64::from((command.lba as u32).wrapping_sub(place as u32) as i32);
        let age = i64::from(self.served.wrapping_sub(rank as u32));
        // Chosen as whole numbers: a conversion would tempt the compiler to branch.
        let known = |value: i64, otherwise: i64| if rank == 0 { otherwise } else { value };
        let none = NONE_RECENT as i64;
        (known(gap, none) as f32, known(age, none) as f32, known((place >> 32) as i64, 0) as f32)
    }

    /// Notes that `command` was served and completed at `completion_ns`.
    #[inline(always)]
    pub fn advance(&mut self, command: &Command, completion_ns: u64) {
        self.previous_seek = self.seek(command).abs();
        self.previous = Some(*command);
        // Reads and writes come in no order that a branch could learn.
        let write_ns = Some(completion_ns);
        self.last_write_ns = if command.op == Op::Write { write_ns } else { self.last_write_ns };
        self.served = self.served.wrapping_add(1);
        if let Some(cache) = &mut self.cache {
            cache.advance(command);
        }
        if let Some(places) = &mut self.places {
            let end = (command.lba + u64::from(command.sectors)) as u32;
            let first = (command.lba >> GRANULE_SHIFT) as u32;
            let last = ((command.lba + u64::from(command.sectors.max(1)) - 1) >> GRANULE_SHIFT) as u32;
            // A request of many granules marks its first and its last: what follows it reads the
            // last, what repeats it reads the first.
            let end_and_op = u64::from(command.op as u8) << 32 | u64::from(end);
            let place = RecentAccess { granule: last, number: self.served, end_and_op };
            places[last as usize % PLACES] = place;
            // Mostly the very same place again, which costs less than to ask.
            places[first as usize % PLACES] = RecentAccess { granule: first, ..place };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_continues_an_earlier_one_has_gap_zero_and_its_age() {
        let mut history = History::default();
        let at = |lba| Command { lba, sectors: 8, op: Op::Read };
        history.advance(&at(1000), 10);
        history.advance(&at(900_000), 20);
        let features = history.features(&Start { command: at(1008), start_ns: 30, idle_ns: 10, others: 0 });
        assert_eq!(features[9..11], [0.0, 1.0]);
        assert_eq!(features[1], 1008.0 - 900_008.0);
    }

    #[test]
    fn the_latest_known_neighbour_is_found_as_by_looking_at_one_after_the_other() {
        let mut history = History::default();
        let mut words = servsim_oracle::drive::Words(5);
        // By slot: granule, number, end, operation.
        let mut slots = std::collections::HashMap::new();
        let mut found = [0; 2];
        for number in 0..20_000_u32 {
            // Few granules, so that neighbours are often known, and others that share their slots.
            let far = if words.below(4) == 0 { 128 * PLACES as u64 } else { 0 };
            let (lba, sectors) = (128_000 + far + words.below(128 * 12), words.below(200) as u32);
            let op = if words.below(3) == 0 { Op::Write } else { Op::Read };
            let command = Command { lba, sectors, op };
            let granule = (lba >> GRANULE_SHIFT) as u32;
            let known = (granule - 1..=granule + 1).filter_map(|at| {
                slots.get(&(at % PLACES as u32)).filter(|place: &&(u32, u32, u64, Op)| place.0 == at)
            });
            let expected =
                known.max_by_key(|place| place.1).map_or([NONE_RECENT, NONE_RECENT, 0.0], |place| {
                    [distance(lba, place.2) as f32, (number - place.1) as f32, f32::from(place.3 as u8)]
                });
            let features = history.features(&Start { command, start_ns: 0, idle_ns: 0, others: 0 });
            assert_eq!([features[9], features[10], features[13]], expected);
            found[usize::from(expected[0] < NONE_RECENT)] += 1;
            history.advance(&command, 0);
            let end = lba + u64::from(sectors);
            for sector in [lba + u64::from(sectors.max(1)) - 1, lba] {
                let granule = (sector >> GRANULE_SHIFT) as u32;
                slots.insert(granule % PLACES as u32, (granule, number + 1, end, op));
            }
        }
        assert!(found.iter().all(|&count| count > 100), "{found:?}");
    }
}
