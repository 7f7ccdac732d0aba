//! A solid-state drive from its parameters: channels with dies, a log-structured page mapping,
//! programming, erasure and garbage collection, in the manner of DiskSim's SSD extension (Agrawal
//! et al., USENIX ATC 2008), reduced to what decides a response.
//!
//! A read goes to the die that holds the page: where it was last written, else a fixed stripe. A
//! write goes to the dies in turn. A die collects garbage each time it has filled a block: it moves
//! the pages still valid, as many as a greedy cleaner finds on a drive under uniform random writes,
//! and erases. Left out: write buffer, wear levelling, multi-plane commands, suspended programming.

use crate::features::Command;
use crate::request::{Op, SECTOR_BYTES};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A solid-state drive; times in us.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ssd {
    /// Name.
    pub name: String,
    /// Where the parameters come from.
    pub source: String,
    /// Channels.
    pub channels: u32,
    /// Dies a channel.
    pub dies_per_channel: u32,
    /// Bytes a page.
    pub page_bytes: u64,
    /// Pages a block.
    pub pages_per_block: u32,
    /// Time to read a page into the die's register.
    pub read_us: f64,
    /// Time to programme a page.
    pub program_us: f64,
    /// Time to erase a block.
    pub erase_us: f64,
    /// Channel rate, bytes/us.
    pub channel_bytes_per_us: f64,
    /// Controller and interface overhead of a request.
    pub overhead_us: f64,
    /// Capacity kept back from the user, as a share of the user's.
    pub spare_share: f64,
}

impl Ssd {
    /// A drive of 8 channels with the flash times of Agrawal et al. 2008, table 2 (25 us read,
    /// 200 us programme, 1.5 ms erase, 4 KiB pages, 64 a block, 40 MB/s pins).
    pub fn agrawal2008() -> Ssd {
        Ssd {
            name: "agrawal2008".to_owned(),
            source: "Agrawal et al., USENIX ATC 2008, table 2; overhead assumed".to_owned(),
            channels: 8,
            dies_per_channel: 4,
            page_bytes: 4096,
            pages_per_block: 64,
            read_us: 25.0,
            program_us: 200.0,
            erase_us: 1500.0,
            channel_bytes_per_us: 40.0,
            overhead_us: 20.0,
            spare_share: 0.15,
        }
    }

    /// Share of valid pages in the block a greedy cleaner picks under uniform random writes: about
    /// `(1 - s) / (1 + s)` for a spare share `s` (after Desnoyers, SYSTOR 2012, first order).
    pub fn valid_share(&self) -> f64 {
        ((1.0 - self.spare_share) / (1.0 + self.spare_share)).clamp(0.0, 0.95)
    }
}

/// The state of a drive at work.
#[derive(Debug)]
pub struct Dies<'a> {
    ssd: &'a Ssd,
    die_free_us: Vec<f64>,
    channel_free_us: Vec<f64>,
    written_since_erase: Vec<u32>,
    holder: HashMap<u64, u32>,
    next_die: u32,
}

impl Ssd {
    /// Whether a drive could have these parameters; a table of its dies fits in memory.
    pub(crate) fn is_sound(&self) -> bool {
        let times = [self.read_us, self.program_us, self.erase_us, self.overhead_us];
        (1..=1024).contains(&self.channels)
            && (1..=1024).contains(&self.dies_per_channel)
            && (512..=1 << 30).contains(&self.page_bytes)
            && (1..=1 << 20).contains(&self.pages_per_block)
            && (1e-6..=1e9).contains(&self.channel_bytes_per_us)
            && (0.0..=10.0).contains(&self.spare_share)
            && times.iter().all(|us| (0.0..=1e9).contains(us))
    }
}

impl<'a> Dies<'a> {
    /// A fresh drive.
    pub fn new(ssd: &'a Ssd) -> Self {
        let dies = (ssd.channels * ssd.dies_per_channel) as usize;
        Dies {
            ssd,
            die_free_us: vec![0.0; dies],
            channel_free_us: vec![0.0; ssd.channels as usize],
            written_since_erase: vec![0; dies],
            holder: HashMap::new(),
            next_die: 0,
        }
    }

    /// Service time of `command` when it starts at `start_ns`, ns: until its last page is done.
    pub fn service_ns(&mut self, command: &Command, start_ns: u64) -> u64 {
        let start_us = start_ns as f64 * 1e-3;
        let first = command.lba * SECTOR_BYTES / self.ssd.page_bytes;
        let last =
            ((command.lba + u64::from(command.sectors.max(1))) * SECTOR_BYTES - 1) / self.ssd.page_bytes;
        let ready_us = start_us + self.ssd.overhead_us;
        let mut end_us = ready_us;
        for page in first..=last {
            let done_us = match command.op {
                Op::Read => self.read(page, ready_us),
                Op::Write => self.write(page, ready_us),
            };
            end_us = end_us.max(done_us);
        }
        ((end_us - start_us) * 1e3).max(1.0) as u64
    }

    fn transfer(&mut self, die: usize, from_us: f64) -> f64 {
        let channel = die % self.channel_free_us.len();
        let begin_us = from_us.max(self.channel_free_us[channel]);
        self.channel_free_us[channel] = begin_us + self.ssd.page_bytes as f64 / self.ssd.channel_bytes_per_us;
        self.channel_free_us[channel]
    }

    fn read(&mut self, page: u64, ready_us: f64) -> f64 {
        let stripe = (page % self.die_free_us.len() as u64) as u32;
        let die = self.holder.get(&page).copied().unwrap_or(stripe) as usize;
        let sensed_us = ready_us.max(self.die_free_us[die]) + self.ssd.read_us;
        let done_us = self.transfer(die, sensed_us);
        // The register is occupied until it has been sent.
        self.die_free_us[die] = done_us;
        done_us
    }

    fn write(&mut self, page: u64, ready_us: f64) -> f64 {
        let die = self.next_die as usize;
        self.next_die = (self.next_die + 1) % self.die_free_us.len() as u32;
        self.holder.insert(page, die as u32);
        let free_us = self.die_free_us[die];
        let received_us = self.transfer(die, ready_us.max(free_us));
        let done_us = received_us + self.ssd.program_us;
        self.die_free_us[die] = done_us + self.collect(die);
        done_us
    }

    /// Time the die spends on garbage after this write, us.
    fn collect(&mut self, die: usize) -> f64 {
        let ssd = self.ssd;
        let valid = ssd.valid_share() * f64::from(ssd.pages_per_block);
        // A cleaned block yields the room of its invalid pages.
        let room = (f64::from(ssd.pages_per_block) - valid).max(1.0) as u32;
        self.written_since_erase[die] += 1;
        if self.written_since_erase[die] < room {
            return 0.0;
        }
        self.written_since_erase[die] = 0;
        valid * (ssd.read_us + ssd.program_us) + ssd.erase_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lone_page_read_takes_overhead_sensing_and_transfer() {
        let ssd = Ssd::agrawal2008();
        let service = Dies::new(&ssd).service_ns(&Command { lba: 0, sectors: 8, op: Op::Read }, 1000);
        assert_eq!(service, ((20.0 + 25.0 + 4096.0 / 40.0) * 1e3) as u64);
    }

    #[test]
    fn garbage_collection_makes_some_reads_wait() {
        let ssd = Ssd::agrawal2008();
        let mut dies = Dies::new(&ssd);
        let mut now = 0;
        let mut slowest = 0;
        for k in 0..2000_u64 {
            now += 10_000;
            dies.service_ns(&Command { lba: k * 8, sectors: 8, op: Op::Write }, now);
            slowest =
                slowest.max(dies.service_ns(&Command { lba: k * 8, sectors: 8, op: Op::Read }, now + 1));
        }
        assert!(slowest > 1_500_000, "{slowest}");
    }
}
