//! The events that order tasks, and their bytes.
//!
//! Idle loops and spin-waits are events, never references. A wake-up names the block it ends: the
//! `block`-th time its task gave up the processor, so that a simulator can honour the dependence
//! whatever the order in which it runs the tasks.

use crate::error::Fault;
use crate::model::TaskId;
use crate::varint::{get, get_signed, put, put_signed};

/// Something other than a reference, at a point of a task's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Guest time in nanoseconds since the trace began.
    pub time_ns: u64,
    /// What happened.
    pub kind: EventKind,
}

/// Why a task left the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwitchReason {
    /// Still runnable: the kernel's scheduler preferred another task.
    Preempted,
    /// It waits; ended by the [`EventKind::Wake`] that carries the same number.
    Blocked {
        /// How many times the task had blocked before.
        block: u64,
        /// Linux task state (1 interruptible, 2 uninterruptible, ...).
        state: u32,
    },
    /// It ended.
    Exited,
}

/// Families of locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockClass {
    /// Kernel spinlock.
    KernelSpin,
    /// Kernel mutex or semaphore that can sleep.
    KernelMutex,
    /// Lock of a server's own functions, exclusive.
    LightweightExclusive,
    /// Lock of a server's own functions, shared.
    LightweightShared,
    /// Spinlock of a server.
    UserSpin,
    /// Lock of a server's own functions, exclusive, asked for by one that rather waits until it is free
    /// than takes it; recorded only where it was taken.
    LightweightOrWait,
}

/// What a mark executed by the load generator means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A transaction ended: its complete reply was read.
    TransactionEnd,
    /// Measurement begins.
    Start,
    /// Measurement ends.
    Stop,
    /// The executing task belongs to the load generator.
    Client,
    /// A mark of another meaning.
    Other(u8),
}

impl MarkKind {
    /// From the number in the mark's register.
    pub fn from_code(code: u8) -> Self {
        match code {
            1 => MarkKind::TransactionEnd,
            2 => MarkKind::Start,
            3 => MarkKind::Stop,
            4 => MarkKind::Client,
            other => MarkKind::Other(other),
        }
    }

    /// The number in the mark's register.
    pub fn code(self) -> u8 {
        match self {
            MarkKind::TransactionEnd => 1,
            MarkKind::Start => 2,
            MarkKind::Stop => 3,
            MarkKind::Client => 4,
            MarkKind::Other(code) => code,
        }
    }
}

/// The kinds of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A system call begins.
    SyscallEnter {
        /// Linux x86-64 system call number.
        number: u32,
    },
    /// The task returns to user mode from a system call.
    SyscallExit,
    /// The task leaves the processor.
    SwitchOut(SwitchReason),
    /// The task gets the processor.
    SwitchIn,
    /// This stream makes a blocked task runnable.
    Wake {
        /// The task made runnable.
        task: TaskId,
        /// Which of its blocks this ends.
        block: u64,
    },
    /// This stream creates a task and makes it runnable.
    Create {
        /// The new task.
        task: TaskId,
    },
    /// An interrupt episode begins (interrupt streams only).
    InterruptBegin {
        /// Number of the handler: 0 device, 1 local timer, 2 reschedule, 3 call function, 4 other.
        source: u32,
        /// The task that was running.
        interrupted: TaskId,
    },
    /// An interrupt episode ends.
    InterruptEnd,
    /// A request is given to a block device.
    IoSubmit {
        /// Number of the request, unique in the trace.
        request: u64,
        /// Index of the device in the trace's device list.
        device: u32,
        /// First 512-byte sector.
        sector: u64,
        /// Length in bytes; zero for a cache flush.
        bytes: u32,
        /// A write; otherwise a read.
        write: bool,
    },
    /// The block device has served a request.
    IoComplete {
        /// Number of the request.
        request: u64,
    },
    /// A mark executed by the load generator.
    Mark {
        /// Meaning.
        kind: MarkKind,
        /// Transaction kind, an index into the trace's list; bit 7 set: rolled back as asked.
        transaction: u8,
        /// Sequence number given by the load generator.
        sequence: u64,
        /// Linux `pid` of the server process that did the work; 0 when there is none.
        server: u32,
    },
    /// A lock was taken.
    LockAcquire {
        /// Family.
        class: LockClass,
        /// Virtual address of the lock.
        address: u64,
    },
    /// A lock was given up.
    LockRelease {
        /// Family.
        class: LockClass,
        /// Virtual address of the lock.
        address: u64,
    },
    /// The task asks to wait on a futex.
    FutexWait {
        /// User virtual address.
        address: u64,
    },
    /// The task wakes waiters of a futex.
    FutexWake {
        /// User virtual address.
        address: u64,
    },
}

const CLASSES: [LockClass; 6] = [
    LockClass::KernelSpin,
    LockClass::KernelMutex,
    LockClass::LightweightExclusive,
    LockClass::LightweightShared,
    LockClass::UserSpin,
    LockClass::LightweightOrWait,
];
/// Codes of taking and of giving up a lock of each class.
const ACQUIRE: [u8; 6] = [13, 14, 15, 16, 17, 25];
const RELEASE: [u8; 6] = [18, 19, 20, 21, 22, 26];

/// The last values of one stream's event column, to which the next are relative.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventContext {
    time_ns: u64,
    lock: u64,
}

impl EventContext {
    /// Appends `event`: code, time since the previous event, arguments.
    pub fn encode(&mut self, out: &mut Vec<u8>, event: &Event) {
        let mut args = [0_u64; 5];
        let (code, count) = match event.kind {
            EventKind::SyscallEnter { number } => (0, fill(&mut args, &[number.into()])),
            EventKind::SyscallExit => (1, 0),
            EventKind::SwitchOut(SwitchReason::Preempted) => (2, 0),
            EventKind::SwitchOut(SwitchReason::Blocked { block, state }) => {
                (3, fill(&mut args, &[block, state.into()]))
            }
            EventKind::SwitchOut(SwitchReason::Exited) => (4, 0),
            EventKind::SwitchIn => (5, 0),
            EventKind::Wake { task, block } => (6, fill(&mut args, &[task.into(), block])),
            EventKind::Create { task } => (7, fill(&mut args, &[task.into()])),
            EventKind::InterruptBegin { source, interrupted } => {
                (8, fill(&mut args, &[source.into(), interrupted.into()]))
            }
            EventKind::InterruptEnd => (9, 0),
            EventKind::IoSubmit { request, device, sector, bytes, write } => {
                (10, fill(&mut args, &[request, device.into(), sector, bytes.into(), write.into()]))
            }
            EventKind::IoComplete { request } => (11, fill(&mut args, &[request])),
            EventKind::Mark { kind, transaction, sequence, server } => {
                (12, fill(&mut args, &[kind.code().into(), transaction.into(), sequence, server.into()]))
            }
            EventKind::LockAcquire { class, address } => {
                (ACQUIRE[class as usize], self.lock(&mut args, address))
            }
            EventKind::LockRelease { class, address } => {
                (RELEASE[class as usize], self.lock(&mut args, address))
            }
            EventKind::FutexWait { address } => (23, fill(&mut args, &[address])),
            EventKind::FutexWake { address } => (24, fill(&mut args, &[address])),
        };
        out.push(code);
        put_signed(out, event.time_ns.wrapping_sub(self.time_ns) as i64);
        self.time_ns = event.time_ns;
        for &arg in &args[..count] {
            put(out, arg);
        }
    }

    /// Lock addresses are stored as the difference from the previous lock of the stream.
    fn lock(&mut self, args: &mut [u64; 5], address: u64) -> usize {
        args[0] = address ^ self.lock;
        self.lock = address;
        1
    }

    /// Reads the event at `*at`, moving it on.
    pub fn decode(&mut self, bytes: &[u8], at: &mut usize) -> Result<Event, Fault> {
        let code = get(bytes, at)?;
        self.time_ns = self.time_ns.wrapping_add(get_signed(bytes, at)? as u64);
        let mut arg = || get(bytes, at);
        let kind = match code {
            0 => EventKind::SyscallEnter { number: narrow(arg()?)? },
            1 => EventKind::SyscallExit,
            2 => EventKind::SwitchOut(SwitchReason::Preempted),
            3 => EventKind::SwitchOut(SwitchReason::Blocked { block: arg()?, state: narrow(arg()?)? }),
            4 => EventKind::SwitchOut(SwitchReason::Exited),
            5 => EventKind::SwitchIn,
            6 => EventKind::Wake { task: narrow(arg()?)?, block: arg()? },
            7 => EventKind::Create { task: narrow(arg()?)? },
            8 => EventKind::InterruptBegin { source: narrow(arg()?)?, interrupted: narrow(arg()?)? },
            9 => EventKind::InterruptEnd,
            10 => EventKind::IoSubmit {
                request: arg()?,
                device: narrow(arg()?)?,
                sector: arg()?,
                bytes: narrow(arg()?)?,
                write: arg()? != 0,
            },
            11 => EventKind::IoComplete { request: arg()? },
            12 => EventKind::Mark {
                kind: MarkKind::from_code(narrow(arg()?)?),
                transaction: narrow(arg()?)?,
                sequence: arg()?,
                server: narrow(arg()?)?,
            },
            13..=22 | 25 | 26 => {
                self.lock ^= arg()?;
                let (address, place) =
                    (self.lock, |codes: &[u8; 6]| codes.iter().position(|&of| u64::from(of) == code));
                if let Some(class) = place(&ACQUIRE) {
                    EventKind::LockAcquire { class: CLASSES[class], address }
                } else {
                    let class = CLASSES[place(&RELEASE).unwrap_or_default()];
                    EventKind::LockRelease { class, address }
                }
            }
            23 => EventKind::FutexWait { address: arg()? },
            24 => EventKind::FutexWake { address: arg()? },
            _ => return Err(Fault(format!("event code {code} is unknown"))),
        };
        Ok(Event { time_ns: self.time_ns, kind })
    }
}

fn fill(args: &mut [u64; 5], values: &[u64]) -> usize {
    args[..values.len()].copy_from_slice(values);
    values.len()
}

fn narrow<T: TryFrom<u64>>(value: u64) -> Result<T, Fault> {
    T::try_from(value).map_err(|_| Fault(format!("the event argument {value} is out of range")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<EventKind> {
        let mut kinds = vec![
            EventKind::SyscallEnter { number: 202 },
            EventKind::SyscallExit,
            EventKind::SwitchOut(SwitchReason::Preempted),
            EventKind::SwitchOut(SwitchReason::Blocked { block: 7, state: 2 }),
            EventKind::SwitchOut(SwitchReason::Exited),
            EventKind::SwitchIn,
            EventKind::Wake { task: 3, block: 7 },
            EventKind::Create { task: 4 },
            EventKind::InterruptBegin { source: 1, interrupted: 2 },
            EventKind::InterruptEnd,
            EventKind::IoSubmit { request: 9, device: 0, sector: 1 << 40, bytes: 8192, write: true },
            EventKind::IoComplete { request: 9 },
            EventKind::Mark { kind: MarkKind::Other(200), transaction: 130, sequence: u64::MAX, server: 7 },
            EventKind::FutexWait { address: 0x7fff_0000_1000 },
            EventKind::FutexWake { address: 0x7fff_0000_1000 },
        ];
        for class in CLASSES {
            kinds.push(EventKind::LockAcquire { class, address: 0xffff_8880_0000_1234 });
            kinds.push(EventKind::LockRelease { class, address: 0x5555_0000_0010 });
        }
        kinds
    }

    #[test]
    fn every_kind_of_event_survives_the_round_trip() {
        let events: Vec<Event> =
            (0..).zip(every_kind()).map(|(i, kind)| Event { time_ns: i * 1000, kind }).collect();
        let mut bytes = Vec::new();
        let mut context = EventContext::default();
        events.iter().for_each(|event| context.encode(&mut bytes, event));
        let (mut context, mut at) = (EventContext::default(), 0);
        for event in &events {
            assert_eq!(context.decode(&bytes, &mut at).as_ref(), Ok(event));
        }
        assert_eq!(at, bytes.len());
    }

    #[test]
    fn unknown_codes_and_overlong_arguments_are_faults() {
        assert!(EventContext::default().decode(&[99, 0], &mut 0).is_err());
        assert!(EventContext::default().decode(&[0, 0, 0xff, 0xff, 0xff, 0xff, 0x7f], &mut 0).is_err());
    }
}
