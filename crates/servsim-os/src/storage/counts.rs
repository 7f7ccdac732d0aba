//! What disks and buses did up to some time.

/// What a disk did; times in cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskCounts {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes of both.
    pub bytes: u64,
    /// Slots taken by a mechanism at work, or by data that wait for the bus, over time.
    pub busy: u128,
    /// Requests present over time, from arrival to completion.
    pub present: u128,
    /// Sum over completed requests: from arrival until the disk took them.
    pub wait: u64,
    /// Sum over completed requests: waits for the bus.
    pub bus_wait: u64,
    /// Sum over completed requests: positioning and passage of the medium.
    pub mechanism: u64,
    /// Sum over completed requests: from arrival to completion.
    pub response: u64,
}

impl DiskCounts {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: self.reads - earlier.reads,
            writes: self.writes - earlier.writes,
            bytes: self.bytes - earlier.bytes,
            busy: self.busy - earlier.busy,
            present: self.present - earlier.present,
            wait: self.wait - earlier.wait,
            bus_wait: self.bus_wait - earlier.bus_wait,
            mechanism: self.mechanism - earlier.mechanism,
            response: self.response - earlier.response,
        }
    }
}

/// What a bus did; times in cycles.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BusCounts {
    /// Times it was taken.
    pub tenures: u64,
    /// Cycles it was taken.
    pub busy: u128,
    /// Requests that waited for it, over time.
    pub waiting: u128,
}

impl BusCounts {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            tenures: self.tenures - earlier.tenures,
            busy: self.busy - earlier.busy,
            waiting: self.waiting - earlier.waiting,
        }
    }
}

/// Everything that was counted up to some time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StorageCounts {
    /// By disk.
    pub disks: Vec<DiskCounts>,
    /// By bus.
    pub buses: Vec<BusCounts>,
    /// Flushes completed.
    pub flushes: u64,
}

impl StorageCounts {
    /// The difference to an earlier reading of the same I/O system.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let disks = self.disks.iter().zip(&earlier.disks).map(|(now, then)| now.since(then));
        let buses = self.buses.iter().zip(&earlier.buses).map(|(now, then)| now.since(then));
        Self { disks: disks.collect(), buses: buses.collect(), flushes: self.flushes - earlier.flushes }
    }
}
