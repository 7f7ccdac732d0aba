//! A disk drive in slow motion: it steps from event to event, keeps everything in plain lists and
//! searches them from end to end. It serves as truth for models fitted to its traces.
//!
//! The drive has zones, a three-part seek curve, rotation with skew, one read-ahead segment for each
//! of the last few read streams, and an optional write-behind buffer of one request, which the next
//! mechanical access must wait for. Written without looking at the models under test, with other
//! parameters than any drive they ship.

/// What a drive is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Arrival in ns.
    pub arrival_ns: u64,
    /// First sector.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
    /// Whether it writes.
    pub is_write: bool,
}

/// Which waiting job goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fcfs,
    /// Nearest cylinder first; ties by arrival.
    Sstf,
}

/// The drive. Times in us.
#[derive(Debug, Clone)]
pub struct Drive {
    /// Cylinders in each zone and their sectors a track, from the outside in.
    pub zones: Vec<(u64, u64)>,
    /// Surfaces.
    pub heads: u64,
    /// One revolution.
    pub revolution_us: f64,
    /// Settling after any move.
    pub settle_us: f64,
    /// Factor of the square root of the distance in cylinders.
    pub sqrt_us: f64,
    /// Factor of the distance itself.
    pub linear_us: f64,
    /// Changing heads.
    pub head_switch_us: f64,
    /// Share of a turn by which each track begins later than the one before.
    pub track_skew: f64,
    /// What a new cylinder adds to it.
    pub cylinder_skew: f64,
    /// Command overhead.
    pub overhead_us: f64,
    /// Bus time a sector.
    pub bus_us_per_sector: f64,
    /// Read streams remembered.
    pub segments: usize,
    /// Sectors read ahead of a stream.
    pub read_ahead: u64,
    /// Whether a read is answered from what a stream has read before, not only from what comes next.
    pub keeps_read: bool,
    /// Whether a write is answered before it is on the medium.
    pub write_behind: bool,
    /// Seed of angles drawn anew for every access: the same drive to one who knows nothing of angles.
    /// `None` for a drive that turns evenly.
    pub forgets_angle: Option<u64>,
}

impl Drive {
    /// A drive of no maker: 10,000 rpm, three zones, six heads.
    pub fn nameless() -> Drive {
        Drive {
            zones: vec![(2400, 280), (2600, 236), (2300, 188)],
            heads: 6,
            revolution_us: 6000.0,
            settle_us: 900.0,
            sqrt_us: 62.0,
            linear_us: 0.42,
            head_switch_us: 750.0,
            track_skew: 0.13,
            cylinder_skew: 0.0,
            overhead_us: 310.0,
            bus_us_per_sector: 12.8,
            segments: 4,
            read_ahead: 192,
            keeps_read: false,
            write_behind: true,
            forgets_angle: None,
        }
    }

    /// A drive drawn at random: 5400 to 15,000 rpm, 1 to 12 zones, 2 to 12 heads, full strokes of 5 to 20 ms
    /// that grow with the root of the distance or with the distance, caches of all kinds or none.
    pub fn at_random(seed: u64) -> Drive {
        let mut words = Words(seed.wrapping_mul(0x0051_7cc1_b727_220a) ^ 0x00ab_cdef);
        let rpm = [5400.0, 7200.0, 10_000.0, 10_800.0, 12_000.0, 15_000.0][words.below(6) as usize];
        let zones = 1 + words.below(12);
        let cylinders = 2500 + words.below(9000);
        let outer = 180.0 + 420.0 * words.unit();
        let inner = outer * (0.5 + 0.3 * words.unit());
        let zones: Vec<(u64, u64)> = (0..zones)
            .map(|z| {
                let share = z as f64 / zones as f64;
                (
                    cylinders / zones + words.below(1 + cylinders / zones / 3),
                    (outer + (inner - outer) * share) as u64,
                )
            })
            .collect();
        let total: u64 = zones.iter().map(|z| z.0).sum();
        let settle_us = 400.0 + 1500.0 * words.unit();
        // Full stroke between 6 and 20 ms, part of it square root, part linear.
        let full = 5000.0 + 13_000.0 * words.unit();
        let bend = 0.2 + 0.7 * words.unit();
        Drive {
            zones,
            heads: 2 + words.below(11),
            revolution_us: 60e6 / rpm,
            settle_us,
            sqrt_us: full * bend / (total as f64).sqrt(),
            linear_us: full * (1.0 - bend) / total as f64,
            head_switch_us: settle_us * (0.5 + 0.4 * words.unit()),
            track_skew: 0.08 + 0.25 * words.unit(),
            cylinder_skew: 0.15 * words.unit(),
            overhead_us: 100.0 + 900.0 * words.unit(),
            bus_us_per_sector: 3.0 + 20.0 * words.unit(),
            segments: 1 + words.below(12) as usize,
            read_ahead: [0, 32, 64, 128, 192, 384, 768][words.below(7) as usize],
            keeps_read: words.below(2) == 0,
            write_behind: words.below(2) == 0,
            forgets_angle: None,
        }
    }

    /// Sectors of the whole drive.
    pub fn sectors(&self) -> u64 {
        self.zones.iter().map(|(cylinders, per_track)| cylinders * per_track * self.heads).sum()
    }

    /// Cylinder, head, angle (share of a turn) and sectors a track of a sector.
    fn locate(&self, lba: u64) -> (u64, u64, f64, u64) {
        let mut rest = lba;
        let mut cylinder = 0;
        for &(cylinders, per_track) in &self.zones {
            let size = cylinders * per_track * self.heads;
            if rest < size {
                let track = rest / per_track;
                let skew = self.track_skew * track as f64 + self.cylinder_skew * (track / self.heads) as f64;
                let angle = ((rest % per_track) as f64 / per_track as f64 + skew).fract();
                return (cylinder + track / self.heads, track % self.heads, angle, per_track);
            }
            rest -= size;
            cylinder += cylinders;
        }
        panic!("sector {lba} is beyond the end of the drive");
    }

    /// Cylinder of a sector, counted from the outside.
    pub fn cylinder(&self, lba: u64) -> u64 {
        self.locate(lba).0
    }

    fn seek_us(&self, from: u64, to: u64) -> f64 {
        let distance = from.abs_diff(to) as f64;
        if distance == 0.0 {
            0.0
        } else {
            self.settle_us + self.sqrt_us * distance.sqrt() + self.linear_us * distance
        }
    }

    /// Completion times in ns of `jobs`, which are in order of arrival.
    pub fn run(&self, jobs: &[Job], order: Order) -> Vec<u64> {
        let mut state = State {
            cylinder: 0,
            head: 0,
            arm_free_us: 0.0,
            streams: Vec::new(),
            words: Words(self.forgets_angle.unwrap_or(0)),
        };
        let mut done = vec![0_u64; jobs.len()];
        let mut waiting: Vec<usize> = Vec::new();
        let mut next = 0;
        let mut now_ns = 0_u64;
        while next < jobs.len() || !waiting.is_empty() {
            if waiting.is_empty() {
                now_ns = now_ns.max(jobs[next].arrival_ns);
            }
            while next < jobs.len() && jobs[next].arrival_ns <= now_ns {
                waiting.push(next);
                next += 1;
            }
            let chosen = match order {
                Order::Fcfs => 0,
                Order::Sstf => {
                    let distance = |at: usize| self.locate(jobs[waiting[at]].lba).0.abs_diff(state.cylinder);
                    (0..waiting.len()).min_by_key(|&at| (distance(at), waiting[at])).expect("someone waits")
                }
            };
            let job = waiting.remove(chosen);
            let end_us = self.serve(&jobs[job], now_ns as f64 / 1000.0, &mut state);
            now_ns = (end_us * 1000.0).round() as u64;
            done[job] = now_ns;
        }
        done
    }

    /// When `job`, started at `now_us`, completes.
    fn serve(&self, job: &Job, now_us: f64, state: &mut State) -> f64 {
        let ready_us = now_us + self.overhead_us;
        let bus_us = f64::from(job.sectors) * self.bus_us_per_sector;
        let end = job.lba + u64::from(job.sectors);
        if !job.is_write {
            if self.keeps_read && state.streams.iter().any(|s| s.begin <= job.lba && end <= s.end) {
                return ready_us + bus_us;
            }
            if let Some(at) =
                state.streams.iter().position(|s| s.end <= job.lba && end <= s.end + self.read_ahead)
            {
                // The segment fills at the speed of the medium while nothing else moves the arm.
                let stream = state.streams.remove(at);
                let (_, _, _, per_track) = self.locate(job.lba);
                let sector_us = self.revolution_us / per_track as f64;
                let filled_us = stream.since_us + (end - stream.end) as f64 * sector_us;
                if filled_us <= ready_us
                    || (state.arm_free_us <= stream.since_us && at + 1 == state.streams.len() + 1)
                {
                    let end_us = filled_us.max(ready_us) + bus_us;
                    let since_us = filled_us.max(stream.since_us);
                    state.streams.push(Stream { begin: stream.begin, end, since_us });
                    return end_us;
                }
            }
        }
        let on_medium_us = self.access(job, ready_us.max(state.arm_free_us), state);
        state.arm_free_us = on_medium_us;
        if job.is_write {
            state.streams.retain(|stream| stream.end + self.read_ahead <= job.lba || stream.end >= end);
            if self.keeps_read {
                state.streams.retain(|stream| stream.end <= job.lba || stream.begin >= end);
            }
            if self.write_behind {
                // The buffer takes one write; a second must wait for the arm to begin with the first.
                let began_us = on_medium_us - self.revolution_us;
                return (ready_us + bus_us).max(began_us.min(on_medium_us));
            }
            return on_medium_us.max(ready_us + bus_us);
        }
        state.streams.push(Stream { begin: job.lba, end, since_us: on_medium_us });
        if state.streams.len() > self.segments {
            state.streams.remove(0);
        }
        on_medium_us.max(ready_us + bus_us)
    }

    /// Moves the arm and passes over the sectors of `job`, track by track; when that is done.
    fn access(&self, job: &Job, now_us: f64, state: &mut State) -> f64 {
        let mut clock_us = now_us;
        let shift_us = self.forgets_angle.map_or(0.0, |_| state.words.unit() * self.revolution_us);
        for lba in job.lba..job.lba + u64::from(job.sectors) {
            let (cylinder, head, angle, per_track) = self.locate(lba);
            if cylinder != state.cylinder || head != state.head {
                let switch_us = if head == state.head { 0.0 } else { self.head_switch_us };
                clock_us += self.seek_us(state.cylinder, cylinder).max(switch_us);
                state.cylinder = cylinder;
                state.head = head;
            }
            let under_head = ((clock_us + shift_us) / self.revolution_us).fract();
            let mut wait = angle - under_head;
            // A sector that has just begun to pass (rounding) is not missed.
            if wait < -1e-9 {
                wait += 1.0;
            }
            clock_us += wait.max(0.0) * self.revolution_us + self.revolution_us / per_track as f64;
        }
        clock_us
    }
}

struct State {
    cylinder: u64,
    head: u64,
    arm_free_us: f64,
    streams: Vec<Stream>,
    words: Words,
}

struct Stream {
    begin: u64,
    end: u64,
    since_us: f64,
}

/// A stream of pseudo-random 64-bit words (splitmix64), so that the oracle shares no generator with
/// what it judges.
#[derive(Debug, Clone)]
pub struct Words(pub u64);

impl Words {
    /// The next word.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.word() % n
    }
}

/// `count` jobs for `drive`, arriving in bursts at `mean_gap_us` on average: short sequential runs
/// among jumps to a few busy regions and, sometimes, anywhere; 60 % reads.
pub fn workload(drive: &Drive, count: usize, mean_gap_us: f64, seed: u64) -> Vec<Job> {
    let mut words = Words(seed);
    let total = drive.sectors();
    let regions: Vec<u64> = (0..12).map(|_| words.below(total - 200_000)).collect();
    let mut now_us = 0.0;
    let mut lba = regions[0];
    let mut is_write = false;
    let mut jobs = Vec::with_capacity(count);
    for _ in 0..count {
        // Hyperexponential gaps: half of the arrivals come five times as dense.
        let gap = if words.unit() < 0.5 { mean_gap_us / 3.0 } else { mean_gap_us * 5.0 / 3.0 };
        now_us -= gap * (1.0 - words.unit()).ln();
        let sectors = [8, 8, 8, 16, 16, 32, 64][words.below(7) as usize];
        if words.unit() < 0.65 {
            is_write = words.unit() < 0.4;
            lba = if words.unit() < 0.75 {
                regions[words.below(12) as usize] + words.below(12_000) * 8
            } else {
                words.below((total - 1024) / 8) * 8
            };
        }
        let lba_now = lba.min(total - 256);
        jobs.push(Job { arrival_ns: (now_us * 1000.0) as u64, lba: lba_now, sectors, is_write });
        lba = lba_now + u64::from(sectors);
    }
    jobs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_read_takes_at_least_its_overhead_and_at_most_a_full_stroke_and_a_turn() {
        let drive = Drive::nameless();
        for lba in [0, 1_000_000, drive.sectors() - 8] {
            let job = Job { arrival_ns: 5_000, lba, sectors: 8, is_write: false };
            let service_us = (drive.run(&[job], Order::Fcfs)[0] - 5_000) as f64 / 1000.0;
            let most = drive.overhead_us + drive.seek_us(0, 7299) + 1.1 * drive.revolution_us + 750.0;
            assert!(service_us > drive.overhead_us && service_us < most, "{service_us}");
        }
    }

    #[test]
    fn the_nearest_job_is_served_before_an_earlier_one_far_away() {
        let drive = Drive::nameless();
        let job = |arrival_ns, lba| Job { arrival_ns, lba, sectors: 8, is_write: false };
        let jobs = [job(0, 0), job(1, 9_000_000), job(2, 4000)];
        let (fcfs, sstf) = (drive.run(&jobs, Order::Fcfs), drive.run(&jobs, Order::Sstf));
        assert!(fcfs[1] < fcfs[2] && sstf[2] < sstf[1]);
    }
}
