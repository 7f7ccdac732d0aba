//! A disk drive from its parameters, after Ruemmler & Wilkes, "An introduction to disk drive
//! modeling" (IEEE Computer, 1994): two-piece seek curve, rotation, head switch, track and cylinder
//! skew, controller overhead, bus, and a read-ahead cache of one segment. The platters turn
//! continuously from time zero. Left out: zones, spare sectors, command queueing in the drive.

use crate::error::{suggestion, ModelError};
use crate::features::Command;
use crate::request::{Op, SECTOR_BYTES};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A drive; times in us, sizes in bytes, distances in cylinders or the drive's own sectors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Drive {
    /// Name.
    pub name: String,
    /// Where the parameters come from.
    pub source: String,
    /// Cylinders.
    pub cylinders: u64,
    /// Data heads.
    pub heads: u64,
    /// Sectors a track.
    pub sectors_per_track: u64,
    /// Bytes a sector.
    pub sector_bytes: u64,
    /// Revolutions a minute.
    pub rpm: f64,
    /// Sectors between the starts of neighbouring tracks of a cylinder.
    pub track_skew: u64,
    /// Sectors between the starts of neighbouring cylinders.
    pub cylinder_skew: u64,
    /// Time to change heads.
    pub head_switch_us: f64,
    /// Seeks up to this distance follow the square root.
    pub short_seek_cylinders: f64,
    /// `a + b sqrt(d)` for short seeks.
    pub short_seek_us: [f64; 2],
    /// `a + b d` for long seeks.
    pub long_seek_us: [f64; 2],
    /// Controller overhead of a request.
    pub overhead_us: f64,
    /// Bus rate, bytes/us (that is, MB/s).
    pub bus_bytes_per_us: f64,
    /// Cache, for read-ahead and for writes not yet on the medium; 0 for none.
    pub cache_bytes: u64,
    /// Whether the drive reads on after a read.
    #[serde(default = "yes")]
    pub read_ahead: bool,
    /// When a write is answered.
    #[serde(default)]
    pub write_cache: WriteCache,
}

fn yes() -> bool {
    true
}

/// When a drive answers a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// When it is on the medium.
    #[default]
    WriteThrough,
    /// When it is in the cache; the medium follows in order of arrival, and whatever next needs the
    /// arm waits for it. A write that finds no room waits for the oldest to reach the medium.
    WriteBack,
}

impl std::str::FromStr for WriteCache {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        match name {
            "write-through" => Ok(WriteCache::WriteThrough),
            "write-back" => Ok(WriteCache::WriteBack),
            _ => Err(ModelError::Invalid(format!(
                "no write cache is called `{name}`{}; accepted: write-back, write-through",
                suggestion(name, &["write-back", "write-through"])
            ))),
        }
    }
}

impl Drive {
    /// HP 97560 (1.3 GB, 5.25 inch): Ruemmler & Wilkes 1994 and Kotz, Toh & Radhakrishnan,
    /// Dartmouth PCS-TR94-220. Kotz gives the cache 128 KiB and SCSI-2 at 10 MB/s.
    pub fn hp97560() -> Drive {
        Drive {
            name: "hp97560".to_owned(),
            source: "Ruemmler & Wilkes 1994; Kotz et al. PCS-TR94-220".to_owned(),
            cylinders: 1962,
            heads: 19,
            sectors_per_track: 72,
            sector_bytes: 512,
            rpm: 4002.0,
            track_skew: 8,
            cylinder_skew: 18,
            head_switch_us: 1600.0,
            short_seek_cylinders: 383.0,
            short_seek_us: [3240.0, 400.0],
            long_seek_us: [8000.0, 8.0],
            overhead_us: 2200.0,
            bus_bytes_per_us: 10.0,
            cache_bytes: 128 << 10,
            read_ahead: true,
            write_cache: WriteCache::WriteThrough,
        }
    }

    /// HP 335H, the disk of the `hplajw` traces: parameters from the header of the SRT trace itself.
    /// The header gives one skew, used for tracks and cylinders; its adaptor's 250 us is added to the
    /// overhead.
    pub fn hp335h() -> Drive {
        Drive {
            name: "hp335h".to_owned(),
            source: "header of the HP Labs hplajw trace, 1992".to_owned(),
            cylinders: 1449,
            heads: 8,
            sectors_per_track: 113,
            sector_bytes: 256,
            rpm: 4002.0,
            track_skew: 12,
            cylinder_skew: 12,
            head_switch_us: 1000.0,
            short_seek_cylinders: 616.0,
            short_seek_us: [3450.0, 597.0],
            long_seek_us: [10_840.0, 12.0],
            overhead_us: 1350.0,
            bus_bytes_per_us: 1.2,
            cache_bytes: 0,
            read_ahead: false,
            write_cache: WriteCache::WriteThrough,
        }
    }

    /// The drives that ship, by name.
    pub fn by_name(name: &str) -> Option<Drive> {
        [Drive::hp97560(), Drive::hp335h()].into_iter().find(|drive| drive.name == name)
    }

    /// Time to move the arm by `cylinders`, us; 0 for no move.
    pub fn seek_us(&self, cylinders: u64) -> f64 {
        let distance = cylinders as f64;
        if cylinders == 0 {
            0.0
        } else if distance <= self.short_seek_cylinders {
            self.short_seek_us[0] + self.short_seek_us[1] * distance.sqrt()
        } else {
            self.long_seek_us[0] + self.long_seek_us[1] * distance
        }
    }

    /// One revolution, us.
    pub fn revolution_us(&self) -> f64 {
        60e6 / self.rpm
    }

    /// Whether a drive could have these parameters; arithmetic with them cannot overflow.
    pub(crate) fn is_sound(&self) -> bool {
        let times = [self.head_switch_us, self.overhead_us, self.short_seek_cylinders];
        let times = times.iter().chain(&self.short_seek_us).chain(&self.long_seek_us);
        (1..=100_000_000).contains(&self.cylinders)
            && (1..=1000).contains(&self.heads)
            && (1..=1_000_000).contains(&self.sectors_per_track)
            && (64..=1 << 20).contains(&self.sector_bytes)
            && self.track_skew <= self.sectors_per_track
            && self.cylinder_skew <= self.sectors_per_track
            && (1.0..=1e6).contains(&self.rpm)
            && (1e-6..=1e9).contains(&self.bus_bytes_per_us)
            && self.cache_bytes <= 1 << 50
            && times.into_iter().all(|us| (0.0..=1e9).contains(us))
    }

    fn locate(&self, sector: u64) -> Location {
        let track = (sector / self.sectors_per_track) % (self.cylinders * self.heads);
        let (cylinder, head) = (track / self.heads, track % self.heads);
        let skew =
            head * self.track_skew + cylinder * ((self.heads - 1) * self.track_skew + self.cylinder_skew);
        let angle = (sector % self.sectors_per_track + skew) % self.sectors_per_track;
        Location { cylinder, head, angle }
    }
}

/// Where a sector lies; the angle in sectors from the index mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Location {
    cylinder: u64,
    head: u64,
    angle: u64,
}

/// What the read-ahead holds: sectors from `from`, reading on since `since_us`.
#[derive(Debug, Clone, Copy)]
struct ReadAhead {
    next: u64,
    since_us: f64,
}

/// The state of a drive at work.
#[derive(Debug)]
pub struct Arm<'a> {
    drive: &'a Drive,
    cylinder: u64,
    head: u64,
    read_ahead: Option<ReadAhead>,
    /// When the arm has done what the cache still held, us.
    free_us: f64,
    /// Writes in the cache: when they are on the medium, us, and their bytes.
    unwritten: VecDeque<(f64, u64)>,
}

impl<'a> Arm<'a> {
    /// A drive with its arm at the outermost cylinder.
    pub fn new(drive: &'a Drive) -> Self {
        Arm { drive, cylinder: 0, head: 0, read_ahead: None, free_us: 0.0, unwritten: VecDeque::new() }
    }

    /// Service time of `command` when it starts at `start_ns`, ns.
    pub fn service_ns(&mut self, command: &Command, start_ns: u64, _rng: &mut Pcg64Mcg) -> u64 {
        let drive = self.drive;
        let first = command.lba * SECTOR_BYTES / drive.sector_bytes;
        let count = (u64::from(command.sectors) * SECTOR_BYTES).div_ceil(drive.sector_bytes).max(1);
        let start_us = start_ns as f64 * 1e-3;
        let bus_us = (count * drive.sector_bytes) as f64 / drive.bus_bytes_per_us;
        let ready_us = start_us + drive.overhead_us;
        if command.op == Op::Write && drive.write_cache == WriteCache::WriteBack {
            if let Some(end_us) = self.keep(first, count, ready_us, bus_us) {
                return ((end_us - start_us) * 1e3).max(1.0) as u64;
            }
        }
        let end_us = match self.hit(command.op, first, count, ready_us) {
            Some(available_us) => available_us.max(ready_us + bus_us),
            // The bus runs beside the medium and is never faster than the last sector.
            None => self.access(first, count, ready_us.max(self.free_us)).max(ready_us + bus_us),
        };
        self.read_ahead = (command.op == Op::Read && drive.read_ahead && drive.cache_bytes > 0)
            .then_some(ReadAhead { next: first + count, since_us: end_us });
        ((end_us - start_us) * 1e3).max(1.0) as u64
    }

    /// Takes a write into the cache and sends it to the medium after those before it; returns when it
    /// is answered, us. `None` if it is larger than the cache.
    fn keep(&mut self, first: u64, count: u64, ready_us: f64, bus_us: f64) -> Option<f64> {
        let bytes = count * self.drive.sector_bytes;
        if bytes > self.drive.cache_bytes {
            return None;
        }
        let mut room_us = ready_us;
        let held = |unwritten: &VecDeque<(f64, u64)>| unwritten.iter().map(|(_, bytes)| bytes).sum::<u64>();
        while let Some(&(done_us, _)) = self.unwritten.front() {
            if done_us > room_us && held(&self.unwritten) + bytes <= self.drive.cache_bytes {
                break;
            }
            room_us = room_us.max(done_us);
            self.unwritten.pop_front();
        }
        let end_us = room_us + bus_us;
        self.free_us = self.access(first, count, end_us.max(self.free_us));
        self.unwritten.push_back((self.free_us, bytes));
        self.read_ahead = None;
        Some(end_us)
    }

    /// When the read-ahead has the last of the sectors, us; `None` if it does not hold them.
    fn hit(&self, op: Op, first: u64, count: u64, now_us: f64) -> Option<f64> {
        let ahead = self.read_ahead.filter(|_| op == Op::Read)?;
        let sector_us = self.drive.revolution_us() / self.drive.sectors_per_track as f64;
        let reach = self.drive.cache_bytes / self.drive.sector_bytes;
        let read = (((now_us - ahead.since_us) / sector_us) as u64).min(reach);
        if first < ahead.next || first > ahead.next + read || first + count > ahead.next + reach {
            return None;
        }
        Some(ahead.since_us + (first + count - ahead.next) as f64 * sector_us)
    }

    /// Moves the arm and passes over the sectors; returns when the last has passed, us.
    fn access(&mut self, first: u64, count: u64, now_us: f64) -> f64 {
        let drive = self.drive;
        let place = drive.locate(first);
        let distance = place.cylinder.abs_diff(self.cylinder);
        let switch_us = if place.head == self.head { 0.0 } else { drive.head_switch_us };
        let settled_us = now_us + drive.seek_us(distance).max(switch_us);
        let sector_us = drive.revolution_us() / drive.sectors_per_track as f64;
        let under_head = settled_us / sector_us;
        let wait = (place.angle as f64 - under_head).rem_euclid(drive.sectors_per_track as f64);
        let last = drive.locate(first + count - 1);
        let tracks = (first + count - 1) / drive.sectors_per_track - first / drive.sectors_per_track;
        let cylinders = (first + count - 1) / (drive.sectors_per_track * drive.heads)
            - first / (drive.sectors_per_track * drive.heads);
        let skews = (tracks - cylinders) * drive.track_skew + cylinders * drive.cylinder_skew;
        self.cylinder = last.cylinder;
        self.head = last.head;
        settled_us + (wait + (count + skews) as f64) * sector_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};

    fn read(lba: u64) -> Command {
        Command { lba, sectors: 8, op: Op::Read }
    }

    #[test]
    fn the_published_points_of_the_seek_curve_are_met() {
        let drive = Drive::hp97560();
        assert_eq!(drive.seek_us(0), 0.0);
        assert_eq!(drive.seek_us(1), 3640.0);
        assert_eq!(drive.seek_us(1961), 23_688.0);
        assert!((drive.revolution_us() - 14_992.5).abs() < 0.1);
    }

    #[test]
    fn random_reads_take_overhead_seek_and_half_a_turn_on_average() {
        let drive = Drive { cache_bytes: 0, ..Drive::hp97560() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let (mut arm, mut now, mut sum, mut seeks) = (Arm::new(&drive), 0, 0.0, 0.0);
        let per_cylinder = 19 * 72;
        let mut cylinder = 0_u64;
        for _ in 0..4000 {
            let lba = rng.random_range(0_u64..1962 * per_cylinder - 8);
            seeks += drive.seek_us((lba / per_cylinder).abs_diff(cylinder));
            cylinder = (lba + 7) / per_cylinder;
            let service = arm.service_ns(&read(lba), now, &mut rng);
            sum += service as f64 * 1e-3;
            now += service + rng.random_range(0..30_000_000_u64);
        }
        let expected = 2200.0 + seeks / 4000.0 + drive.revolution_us() * (0.5 + 8.0 / 72.0);
        assert!((sum / 4000.0 / expected - 1.0).abs() < 0.03, "{} against {expected}", sum / 4000.0);
    }

    fn write(lba: u64, sectors: u32) -> Command {
        Command { lba, sectors, op: Op::Write }
    }

    #[test]
    fn a_write_back_cache_answers_at_once_and_the_next_access_waits_for_the_arm() {
        let through = Drive::hp97560();
        let back = Drive { write_cache: WriteCache::WriteBack, ..Drive::hp97560() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let (mut slow, mut quick) = (Arm::new(&through), Arm::new(&back));
        let on_medium = slow.service_ns(&write(900_000, 8), 0, &mut rng);
        let in_cache = quick.service_ns(&write(900_000, 8), 0, &mut rng);
        // The overhead of 2.2 ms and 4096 bytes at 10 bytes/us.
        assert!(in_cache.abs_diff(2_609_600) <= 2 && on_medium > 10_000_000, "{in_cache} {on_medium}");
        let free_us = quick.free_us;
        let read_ns = quick.service_ns(&read(900_008), in_cache, &mut rng);
        assert!((in_cache + read_ns) as f64 * 1e-3 > free_us, "{read_ns} before {free_us}");
    }

    #[test]
    fn a_full_write_cache_makes_a_write_wait_for_the_oldest() {
        // Room for two writes of 64 KiB.
        let drive = Drive { write_cache: WriteCache::WriteBack, ..Drive::hp97560() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut arm = Arm::new(&drive);
        let mut now = 0;
        let mut times = Vec::new();
        for lba in [100_000, 1_500_000, 200_000] {
            let service = arm.service_ns(&write(lba, 128), now, &mut rng);
            now += service;
            times.push(service);
        }
        // Overhead and bus only: 2.2 ms and 65,536 bytes at 10 bytes/us.
        assert!(times[..2].iter().all(|t| t.abs_diff(8_753_600) <= 2), "{times:?}");
        assert!(times[2] > 8_753_600 + 1_000_000, "{times:?}");
        // A write larger than the cache goes through.
        assert!(arm.service_ns(&write(0, 512), now, &mut rng) > 26_214_400);
    }

    #[test]
    fn without_read_ahead_a_sequential_read_waits_for_a_turn() {
        let drive = Drive { read_ahead: false, ..Drive::hp97560() };
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut arm = Arm::new(&drive);
        let first = arm.service_ns(&read(50_000), 0, &mut rng);
        assert!(arm.service_ns(&read(50_008), first + 10_000_000, &mut rng) > 2_700_000);
    }

    #[test]
    fn a_sequential_read_is_served_from_the_read_ahead() {
        let drive = Drive::hp97560();
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut arm = Arm::new(&drive);
        let first = arm.service_ns(&read(50_000), 0, &mut rng);
        let second = arm.service_ns(&read(50_008), first + 10_000_000, &mut rng);
        // The overhead and the bus, to the nanosecond that rounding may take.
        assert!(second.abs_diff(2_609_600) <= 2, "{second}");
    }
}
