//! Tasks and the events that order them.
//!
//! A wake-up has an identity: the blocked task names the wake-up that ended its sleep, and the
//! stream that caused it (a task, an interrupt handler, a timer) names the same number when it
//! reaches that point. A wake-up delivered before its sleeper blocks is remembered, as a semaphore
//! remembers, so no simulated interleaving loses one.

/// Index of a task in its source's task table.
pub type TaskId = u32;

/// Number of one recorded wake-up, unique in a trace.
pub type WakeId = u64;

/// What a stream of references belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskKind {
    /// A user process or thread.
    User,
    /// A kernel thread.
    Kernel,
    /// The handlers of one interrupt source.
    Interrupt,
    /// The idle loop of a processor: never simulated.
    Idle,
}

/// One task of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskInfo {
    /// Name for people.
    pub name: String,
    /// Process id in the captured system, or the number the trace gives.
    pub pid: u32,
    /// Kind of task.
    pub kind: TaskKind,
    /// Whether the task is the workload's client, whose figures can be excluded.
    pub client: bool,
}

/// Families of locks: they differ in who may hold one together and in how one waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LockClass {
    /// Kernel spinlock: waits on the processor, which takes no interrupt and no other task then.
    KernelSpin = 0,
    /// Kernel mutex or semaphore: waits asleep.
    KernelSleep = 1,
    /// Lightweight lock of a database server, exclusive: waits asleep.
    LightweightExclusive = 2,
    /// The same, shared with other readers.
    LightweightShared = 3,
    /// Spinlock in user mode: waits on the processor.
    UserSpin = 4,
    /// Lightweight lock of a database server for work that one does for all who wait (its log): exclusive
    /// when it is free; those who wait for it together, asleep, go on together.
    LightweightOrWait = 5,
}

impl LockClass {
    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::KernelSpin,
        Self::KernelSleep,
        Self::LightweightExclusive,
        Self::LightweightShared,
        Self::UserSpin,
        Self::LightweightOrWait,
    ];

    /// Name in results.
    pub fn name(self) -> &'static str {
        [
            "kernel_spin",
            "kernel_sleep",
            "lightweight_exclusive",
            "lightweight_shared",
            "user_spin",
            "lightweight_or_wait",
        ][self as usize]
    }

    /// Whether one that waits keeps its processor.
    pub fn spins(self) -> bool {
        matches!(self, Self::KernelSpin | Self::UserSpin)
    }

    /// Whether all that wait when the lock becomes free get it together.
    pub fn goes_on_together(self) -> bool {
        self == Self::LightweightOrWait
    }

    /// Whether several may hold the lock together.
    pub fn is_shared(self) -> bool {
        self == Self::LightweightShared
    }

    /// Whether it is taken in kernel mode.
    pub fn is_kernel(self) -> bool {
        matches!(self, Self::KernelSpin | Self::KernelSleep)
    }
}

/// What happened between two references of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The task gave up its processor until wake-up `wake`; without one it never resumes.
    Block {
        /// The wake-up that ended the sleep.
        wake: Option<WakeId>,
    },
    /// The task gave up its processor for a lock that another task held, until that one caused
    /// wake-up `wake`. Where locks of `class` are taken again, this wait is not repeated.
    LockWait {
        /// The wake-up that ended the sleep.
        wake: WakeId,
        /// Family of the lock.
        class: LockClass,
    },
    /// The task caused wake-up `wake`.
    Wake {
        /// The wake-up.
        wake: WakeId,
    },
    /// A sleep of the task ended by the clock: it lasts `nanos` of simulated time.
    Sleep {
        /// Recorded duration in nanoseconds of the captured system's clock.
        nanos: u64,
    },
    /// The task handed request `request` to a disk.
    IoSubmit {
        /// The request.
        request: u64,
        /// The disk.
        device: u32,
        /// First sector.
        sector: u64,
        /// Length in bytes.
        bytes: u32,
        /// Whether it writes.
        write: bool,
    },
    /// The task takes a lock.
    LockAcquire {
        /// Its family.
        class: LockClass,
        /// Physical address of its word: which lock it is.
        word: u64,
    },
    /// The task gives up a lock.
    LockRelease {
        /// Physical address of its word.
        word: u64,
    },
    /// The client ends a transaction of kind `kind`.
    TransactionEnd {
        /// Index of the kind in the source's list.
        kind: u32,
        /// Who of the client's users it was for: the number of their server process; 0 when the
        /// task itself is the user.
        user: u32,
    },
}
