//! Which task runs where: ready queue, scheduling policies, wake-ups, locks; and the I/O system:
//! disks on buses, or a pool of disks with a fixed service time. It knows no references and no caches; the
//! engine tells it what happens and asks what to run.

pub mod disk;
pub mod gauge;
pub mod locks;
pub mod mapping;
pub mod scheduler;
pub mod storage;
pub mod wakeups;

pub use disk::FixedDisk;
pub use locks::{LockCounts, Locks, Verdict};
pub use scheduler::{Bindings, Policy, Scheduler, SchedulerState};
pub use storage::{BusCounts, Completion, DiskCounts, Storage, StorageCounts, Tenures};
pub use wakeups::Wakeups;
