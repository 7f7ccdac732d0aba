//! A solid-state disk in slow motion: it goes from one moment at which anything happens to the next, asks
//! every die in turn, and keeps a table of where each page lies. Truth for models fitted to its traces.
//!
//! The host admits requests through a token bucket, if there is one. Writes are complete when the buffer has
//! taken them, and are programmed later, each page by the next die in turn; reads go to the die that holds
//! the page, before what it has to programme, and wait for what it has begun. A die whose erased blocks
//! run out moves what is still valid in the block with the least of it and erases that one. Written
//! without looking at the models under test.

use crate::drive::{Job, Words};
use std::collections::VecDeque;

/// Sectors a page: 8 KiB.
const PAGE: u64 = 16;

/// A limit that a host sets, as clouds and hypervisors do: so many requests a second, and a reserve.
#[derive(Debug, Clone, Copy)]
pub struct Bucket {
    /// Requests a second in the long run.
    pub per_second: f64,
    /// Requests that may come at once after a pause.
    pub burst: f64,
}

/// The disk. Times in us.
#[derive(Debug, Clone)]
pub struct Flash {
    /// Channels.
    pub channels: usize,
    /// Dies on each.
    pub dies_per_channel: usize,
    /// Blocks a die.
    pub blocks: usize,
    /// Pages a block.
    pub pages: usize,
    /// Share of the pages that the host does not see.
    pub spare: f64,
    /// Sensing a page.
    pub sense_us: f64,
    /// Programming a page.
    pub program_us: f64,
    /// Erasing a block.
    pub erase_us: f64,
    /// Moving a page over a channel.
    pub transfer_us: f64,
    /// Command and host interface, and its spread to both sides.
    pub overhead_us: f64,
    /// Spread of sensing and programming, as a share, to both sides.
    pub spread: f64,
    /// Pages of the write buffer.
    pub buffer: usize,
    /// The limit of the host.
    pub bucket: Option<Bucket>,
}

impl Flash {
    /// Channels, transfer rate (333 MB/s), write buffer (256 MiB), times of sensing and erasure as in the configuration that MQSim
    /// ships (Tavakkol et al., FAST 2018: 8 channels, 75 us, 3.8 ms), programming 750 us as in its paper;
    /// fewer dies and blocks than there, so that collection begins within a trace; overhead and
    /// spread are assumed.
    pub fn mqsim() -> Flash {
        Flash {
            channels: 8,
            dies_per_channel: 4,
            blocks: 48,
            pages: 64,
            spare: 0.2,
            sense_us: 75.0,
            program_us: 750.0,
            erase_us: 3800.0,
            transfer_us: 24.6,
            overhead_us: 12.0,
            spread: 0.1,
            buffer: 32_768,
            bucket: None,
        }
    }

    /// A disk for SATA: few channels and dies, slow cells, a small buffer, little spare.
    pub fn small() -> Flash {
        Flash {
            channels: 4,
            dies_per_channel: 2,
            blocks: 64,
            pages: 128,
            spare: 0.12,
            sense_us: 95.0,
            program_us: 1300.0,
            erase_us: 5000.0,
            transfer_us: 41.0,
            overhead_us: 45.0,
            spread: 0.15,
            buffer: 1024,
            bucket: None,
        }
    }

    /// A disk for servers: many dies with quick cells behind wide channels, much spare.
    pub fn large() -> Flash {
        Flash {
            channels: 16,
            dies_per_channel: 4,
            blocks: 40,
            pages: 64,
            spare: 0.35,
            sense_us: 50.0,
            program_us: 400.0,
            erase_us: 3000.0,
            transfer_us: 10.0,
            overhead_us: 8.0,
            spread: 0.05,
            buffer: 16_384,
            bucket: None,
        }
    }

    /// A disk of which every parameter is drawn from the range that such disks have; one of three is behind a limit.
    pub fn at_random(seed: u64) -> Flash {
        let mut words = Words(seed.wrapping_mul(0x0051_7cc1_b727_220a) ^ 0x00f1_a54d);
        let channels = [4, 8, 12, 16][words.below(4) as usize];
        let dies_per_channel = 1 + words.below(4) as usize;
        let mut between = |low: f64, high: f64| low + (high - low) * words.unit();
        let limit = between(0.0, 1.0) < 1.0 / 3.0;
        let bucket =
            limit.then(|| Bucket { per_second: between(1500.0, 8000.0), burst: between(20.0, 300.0) });
        Flash {
            channels,
            dies_per_channel,
            blocks: 48,
            pages: 64,
            spare: between(0.1, 0.4),
            sense_us: between(40.0, 110.0),
            program_us: between(250.0, 1500.0),
            erase_us: between(2000.0, 6000.0),
            transfer_us: between(8.0, 40.0),
            overhead_us: between(5.0, 60.0),
            spread: between(0.02, 0.2),
            buffer: between(64.0, 16_384.0) as usize,
            bucket,
        }
    }

    /// Mean time between arrivals at which `workload` would keep its dies, or its limit, busy, us.
    pub fn saturating_gap_us(&self, writes: f64) -> f64 {
        // A request of it has 1.9 pages on average, which may begin within one.
        let pages = 2.2;
        let read_us = self.sense_us + self.transfer_us;
        let write_us = self.program_us + self.transfer_us;
        let dies = (self.channels * self.dies_per_channel) as f64;
        let of_dies = pages * ((1.0 - writes) * read_us + writes * write_us) / dies;
        self.bucket.map_or(of_dies, |bucket| of_dies.max(1e6 / bucket.per_second))
    }

    /// Sectors that the host sees.
    pub fn sectors(&self) -> u64 {
        let pages = self.channels * self.dies_per_channel * self.blocks * self.pages;
        (pages as f64 * (1.0 - self.spare)) as u64 * PAGE
    }

    /// When the host lets each job through, us.
    fn admissions(&self, jobs: &[Job]) -> Vec<f64> {
        let Some(bucket) = self.bucket else {
            return jobs.iter().map(|job| job.arrival_ns as f64 / 1000.0).collect();
        };
        let (mut tokens, mut at, mut admitted) = (bucket.burst, 0.0_f64, Vec::new());
        let each_us = 1e6 / bucket.per_second;
        for job in jobs {
            let now = at.max(job.arrival_ns as f64 / 1000.0);
            tokens = (tokens + (now - at) / each_us).min(bucket.burst);
            at = now;
            if tokens < 1.0 {
                at += (1.0 - tokens) * each_us;
                tokens = 1.0;
            }
            tokens -= 1.0;
            admitted.push(at);
        }
        admitted
    }

    /// Completion times in ns of `jobs`, which are in order of arrival; the disk is full and well used.
    pub fn run(&self, jobs: &[Job]) -> Vec<u64> {
        let admitted = self.admissions(jobs);
        let mut state = State::used(self);
        let mut last_us = vec![0.0_f64; jobs.len()];
        let mut entering: VecDeque<(usize, u64)> = VecDeque::new();
        let (mut next, mut now) = (0, 0.0_f64);
        loop {
            while next < jobs.len() && admitted[next] <= now {
                let job = &jobs[next];
                last_us[next] = now;
                for page in job.lba / PAGE..(job.lba + u64::from(job.sectors)).div_ceil(PAGE) {
                    if job.is_write {
                        entering.push_back((next, page));
                    } else if !state.buffer.iter().any(|&(held, _)| held == page) {
                        let die = state.place[page as usize].0;
                        state.dies[die].reads.push_back(next);
                    }
                }
                next += 1;
            }
            while let Some(&(job, page)) = entering.front().filter(|_| state.buffer.len() < self.buffer) {
                entering.pop_front();
                last_us[job] = last_us[job].max(now);
                let die = state.turn;
                state.turn = (state.turn + 1) % state.dies.len();
                state.buffer.push_back((page, die));
            }
            for die in 0..state.dies.len() {
                if state.dies[die].free_us <= now {
                    state.work(self, die, now, &mut last_us);
                }
            }
            let busy = state.dies.iter().map(|die| die.free_us).filter(|&at| at > now);
            let arrival = admitted.get(next).copied();
            match busy.chain(arrival).min_by(f64::total_cmp) {
                Some(at) => now = at,
                None => break,
            }
        }
        let mut words = Words(7);
        let end = |(job, last): (&Job, f64)| {
            let host_us = self.overhead_us * (0.8 + 0.4 * words.unit()) + f64::from(job.sectors) * 0.16;
            ((last + host_us) * 1000.0).round() as u64
        };
        jobs.iter().zip(last_us).map(end).collect()
    }
}

#[derive(Clone)]
struct Die {
    free_us: f64,
    /// Jobs that want a page of it.
    reads: VecDeque<usize>,
    /// Block that is being written, and the pages written there so far.
    open: (usize, usize),
    erased: Vec<usize>,
    /// The valid pages of each block.
    valid: Vec<Vec<u64>>,
}

struct State {
    dies: Vec<Die>,
    channel_free_us: Vec<f64>,
    /// Die and block of every page.
    place: Vec<(usize, usize)>,
    /// Pages not yet programmed, with the die whose turn it was.
    buffer: VecDeque<(u64, usize)>,
    turn: usize,
    words: Words,
}

impl State {
    /// A disk of which every page was written once and as many again at random.
    fn used(flash: &Flash) -> State {
        let die = Die {
            free_us: 0.0,
            reads: VecDeque::new(),
            open: (0, 0),
            erased: (1..flash.blocks).collect(),
            valid: vec![Vec::new(); flash.blocks],
        };
        let pages = flash.sectors() / PAGE;
        let mut state = State {
            dies: vec![die; flash.channels * flash.dies_per_channel],
            channel_free_us: vec![0.0; flash.channels],
            place: vec![(usize::MAX, 0); pages as usize],
            buffer: VecDeque::new(),
            turn: 0,
            words: Words(11),
        };
        for number in 0..2 * pages {
            let page = if number < pages { number } else { state.words.below(pages) };
            let die = number as usize % state.dies.len();
            state.write(flash, die, page);
        }
        state
    }

    /// Puts `page` on `die`; what that costs beside programming it, us.
    fn write(&mut self, flash: &Flash, die: usize, page: u64) -> f64 {
        let (old, block) = self.place[page as usize];
        if old != usize::MAX {
            self.dies[old].valid[block].retain(|&other| other != page);
        }
        self.append(flash, die, page);
        let mut cost_us = 0.0;
        while self.dies[die].erased.len() < 2 {
            let open = self.dies[die].open.0;
            let full = (0..flash.blocks).filter(|b| *b != open && !self.dies[die].erased.contains(b));
            let victim = full.min_by_key(|&b| self.dies[die].valid[b].len()).expect("a full block");
            let moved = std::mem::take(&mut self.dies[die].valid[victim]);
            cost_us += moved.len() as f64 * (flash.sense_us + flash.program_us) + flash.erase_us;
            for page in moved {
                self.append(flash, die, page);
            }
            self.dies[die].erased.push(victim);
        }
        cost_us
    }

    fn append(&mut self, flash: &Flash, die: usize, page: u64) {
        let at = &mut self.dies[die];
        if at.open.1 == flash.pages {
            at.open = (at.erased.remove(0), 0);
        }
        at.open.1 += 1;
        at.valid[at.open.0].push(page);
        self.place[page as usize] = (die, at.open.0);
    }

    /// Gives an idle die its next piece of work: a read if there is one, else a page to programme.
    fn work(&mut self, flash: &Flash, die: usize, now: f64, last_us: &mut [f64]) {
        let spread = 1.0 - flash.spread + 2.0 * flash.spread * self.words.unit();
        let channel = &mut self.channel_free_us[die % flash.channels];
        if let Some(job) = self.dies[die].reads.pop_front() {
            let done = channel.max(now + flash.sense_us * spread) + flash.transfer_us;
            *channel = done;
            self.dies[die].free_us = done;
            last_us[job] = last_us[job].max(done);
        } else if let Some(at) = self.buffer.iter().position(|entry| entry.1 == die) {
            let received = channel.max(now) + flash.transfer_us;
            *channel = received;
            let (page, _) = self.buffer.remove(at).expect("found");
            let collection_us = self.write(flash, die, page);
            self.dies[die].free_us = received + flash.program_us * spread + collection_us;
        }
    }
}

/// `count` jobs on `sectors`, `mean_gap_us` apart on average but in phases, some five times as dense as others;
/// `writes` is their share.
pub fn workload(sectors: u64, count: usize, mean_gap_us: f64, writes: f64, seed: u64) -> Vec<Job> {
    let mut words = Words(seed);
    let (mut now_us, mut density) = (0.0, 1.0);
    let mut job = |_| {
        if words.unit() < 0.01 {
            density = [0.4, 0.7, 1.0, 2.0][words.below(4) as usize];
        }
        now_us -= mean_gap_us / density * 0.74 * (1.0 - words.unit()).ln();
        let length = [8, 8, 8, 16, 16, 32, 64][words.below(7) as usize];
        let lba = words.below((sectors - 64) / 8) * 8;
        Job { arrival_ns: (now_us * 1000.0) as u64, lba, sectors: length, is_write: words.unit() < writes }
    };
    (0..count).map(&mut job).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(at_us: u64, lba: u64, is_write: bool) -> Job {
        Job { arrival_ns: at_us * 1000, lba, sectors: 8, is_write }
    }

    #[test]
    fn a_lone_read_takes_sensing_transfer_and_overhead_and_a_write_only_the_buffer() {
        let flash = Flash { spread: 0.0, ..Flash::mqsim() };
        let done = flash.run(&[job(0, 800, false), job(50_000, 1600, true)]);
        let (read_us, write_us) = (done[0] as f64 / 1e3, done[1] as f64 / 1e3 - 50_000.0);
        assert!((99.6 + 9.6..99.6 + 16.0).contains(&read_us), "{read_us}");
        assert!((9.6..16.0).contains(&write_us), "{write_us}");
    }

    #[test]
    fn a_read_of_a_page_being_programmed_over_waits_a_full_buffer_stops_writes_and_a_bucket_all() {
        let flash = Flash { channels: 1, dies_per_channel: 1, buffer: 1, ..Flash::mqsim() };
        // One page is taken and begun, the next fills the buffer, the third waits for a programme.
        let writes: Vec<Job> = (0..3).map(|k| job(k, 1600 * (k + 1), true)).collect();
        let done = flash.run(&writes);
        assert!(done[1] < 100_000 && done[2] > 600_000, "{done:?}");
        let read = flash.run(&[job(0, 0, true), job(5, 3200, false)])[1];
        assert!(read > 700_000, "{read}");
        let slow = Flash { bucket: Some(Bucket { per_second: 100.0, burst: 2.0 }), ..flash };
        let done = slow.run(&[job(0, 0, false), job(0, 160, false), job(0, 320, false)]);
        assert!(done[1] < 1_000_000 && done[2] > 10_000_000, "{done:?}");
    }

    #[test]
    fn collection_makes_some_reads_wait_long() {
        let flash = Flash::mqsim();
        let jobs = workload(flash.sectors(), 6000, 300.0, 0.5, 1);
        let done = flash.run(&jobs);
        let slow =
            jobs.iter().zip(&done).filter(|(job, done)| !job.is_write && **done > job.arrival_ns + 4_000_000);
        let slow = slow.count();
        assert!(slow > 10 && slow < 1500, "{slow}");
    }
}
