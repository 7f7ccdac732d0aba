//! Disks with a fixed service time: so many requests are served at once, the others wait in order
//! of arrival. Stands in for the fitted disk models; one pool serves all devices.
//!
//! Flushes of a cache are writes without data. *Apart*, each is a request like any other. *Shared*, one is
//! under way at a time, beside the servers; those that arrive meanwhile wait for its end and are served
//! together by the next, as in Linux (`block/blk-flush.c`, "C1": pending flushes are merged) and in the log
//! of a database server. A flush makes durable what was written when it began, so one that is under way
//! serves nobody who comes later.

use servsim_core::Cycles;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The pool of disks.
#[derive(Debug)]
pub struct FixedDisk {
    read: Cycles,
    write: Cycles,
    /// When each server is free again.
    servers: BinaryHeap<Reverse<u64>>,
    /// Where flushes are shared: when the last of them began and ends.
    flush: Option<(u64, u64)>,
    /// Reads and writes accepted.
    pub accepted: [u64; 2],
}

impl FixedDisk {
    /// `parallel` servers with the given service times.
    pub fn new(parallel: usize, read: Cycles, write: Cycles) -> Self {
        let servers = (0..parallel).map(|_| Reverse(0)).collect();
        Self { read, write, servers, flush: None, accepted: [0; 2] }
    }

    /// The same; if `shared`, a flush serves all that wait for one.
    #[must_use]
    pub fn with_shared_flushes(mut self, shared: bool) -> Self {
        self.flush = shared.then_some((0, 0));
        self
    }

    /// Accepts a flush of the cache at time `now`; returns when it completes.
    pub fn flush(&mut self, now: u64) -> u64 {
        let Some((begins, ends)) = self.flush else { return self.submit(now, true) };
        self.accepted[1] += 1;
        // Times never go back: a last flush that has yet to begin is the one that everybody waits for.
        if now < begins || now == begins && ends > begins {
            return ends;
        }
        let begins = now.max(ends);
        self.flush = Some((begins, begins + self.write));
        begins + self.write
    }

    /// Accepts a request at time `now`; returns when it completes.
    pub fn submit(&mut self, now: u64, write: bool) -> u64 {
        self.accepted[usize::from(write)] += 1;
        let service = if write { self.write } else { self.read };
        let free = self.servers.pop().map_or(now, |Reverse(free)| free);
        let done = now.max(free) + service;
        self.servers.push(Reverse(done));
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_beyond_the_servers_wait_in_order() {
        let mut disk = FixedDisk::new(2, Cycles(100), Cycles(10));
        assert_eq!(disk.submit(0, false), 100);
        assert_eq!(disk.submit(5, false), 105);
        assert_eq!(disk.submit(6, true), 110, "waits for the first server");
        assert_eq!(disk.submit(300, true), 310);
        assert_eq!(disk.accepted, [2, 2]);
    }

    #[test]
    fn flushes_that_wait_share_the_next_one() {
        let mut disk = FixedDisk::new(1, Cycles(1000), Cycles(10)).with_shared_flushes(true);
        assert_eq!(disk.submit(90, false), 1090, "the only server is busy, and no flush waits for it");
        assert_eq!(disk.flush(100), 110);
        assert_eq!(disk.flush(100), 110, "together");
        assert_eq!(disk.flush(101), 120, "what is under way began too early for it");
        assert_eq!(disk.flush(109), 120);
        assert_eq!(disk.flush(110), 120, "the next begins now");
        assert_eq!(disk.flush(111), 130);
        assert_eq!(disk.flush(500), 510);
        assert_eq!(disk.accepted, [1, 7]);
        let mut apart = FixedDisk::new(1, Cycles(1000), Cycles(10));
        assert_eq!([apart.flush(100), apart.flush(101), apart.flush(109)], [110, 120, 130]);
    }
}
