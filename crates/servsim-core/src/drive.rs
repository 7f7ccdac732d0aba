//! A disk drive as the I/O system of a simulated server sees it: it keeps the requests that wait, says
//! which goes next, and how long its mechanism takes. Buses, queues of requests under way and counts
//! belong to the I/O system (`servsim-os`); times are cycles of the simulated processor clock.

use servsim_units::Cycles;

/// Bytes of a sector, the unit of a disk's addresses.
pub const SECTOR: u64 = 512;

/// What a disk is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskRequest {
    /// First sector on the disk, 512 bytes each.
    pub sector: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Whether it writes.
    pub write: bool,
}

/// A drive.
pub trait Drive {
    /// Request `id` arrives at `now`; calls come in order of time.
    fn push(&mut self, id: usize, request: DiskRequest, now: u64);

    /// Takes the request that the drive's discipline serves next.
    fn take(&mut self) -> Option<usize>;

    /// Cycles that positioning and the passage of the medium take when they begin at `now`.
    fn mechanism(&mut self, request: &DiskRequest, now: u64) -> Cycles;

    /// Requests that are served side by side; one unless the drive has independent units.
    fn slots(&self) -> usize {
        1
    }
}

/// Where the data of a file lie on the captured system's disks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileRange {
    /// The disk, as in [`crate::Event::IoSubmit`].
    pub device: u32,
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Name of the file, without the folder of its database.
    pub file: String,
    /// The database relation it holds, if it holds one; an index goes by its own name.
    pub relation: Option<String>,
}
