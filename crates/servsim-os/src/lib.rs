//! Which task runs where: ready queue, scheduling policies, wake-ups, locks, disks with a fixed
//! service time, timers. It knows no references and no caches; the engine tells it what happens and asks
//! what to run.

pub mod disk;
pub mod locks;
pub mod mapping;
pub mod scheduler;
pub mod wakeups;

pub use disk::FixedDisk;
pub use locks::{LockCounts, Locks, Verdict};
pub use scheduler::{Policy, Scheduler, Standing};
pub use wakeups::Wakeups;
