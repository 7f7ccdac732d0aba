//! Disks with a fixed service time: so many requests are served at once, the others wait in order
//! of arrival. Stands in for the fitted disk models; one pool serves all devices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The pool of disks.
#[derive(Debug)]
pub struct FixedDisk {
    read_cycles: u64,
    write_cycles: u64,
    /// When each server is free again.
    servers: BinaryHeap<Reverse<u64>>,
    /// Reads and writes accepted.
    pub accepted: [u64; 2],
}

impl FixedDisk {
    /// `parallel` servers with the given service times in cycles.
    pub fn new(parallel: usize, read_cycles: u64, write_cycles: u64) -> Self {
        let servers = (0..parallel).map(|_| Reverse(0)).collect();
        Self { read_cycles, write_cycles, servers, accepted: [0; 2] }
    }

    /// Accepts a request at time `now`; returns when it completes.
    pub fn submit(&mut self, now: u64, write: bool) -> u64 {
        self.accepted[usize::from(write)] += 1;
        let service = if write { self.write_cycles } else { self.read_cycles };
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
        let mut disk = FixedDisk::new(2, 100, 10);
        assert_eq!(disk.submit(0, false), 100);
        assert_eq!(disk.submit(5, false), 105);
        assert_eq!(disk.submit(6, true), 110, "waits for the first server");
        assert_eq!(disk.submit(300, true), 310);
        assert_eq!(disk.accepted, [2, 2]);
    }
}
