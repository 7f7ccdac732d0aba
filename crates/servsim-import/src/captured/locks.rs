//! Which word in physical memory each recorded lock event is about.
//!
//! A lock event names a virtual address at the entry of the function that takes or gives up the
//! lock. The function's own references then touch the lock's word, and those carry the physical
//! address: the first reference within [`LOCK_BYTES`] of the lock, in one of the next
//! [`BLOCKS_TO_LOOK_AT`] blocks of the same stream, names the word. A user address means one
//! word per task, a kernel address one for all. Where the outcome of an attempt decided whether there was
//! an acquisition, its event comes at the function's return, behind the references: then those of the
//! function that gives the lock up name the word.
//!
//! Locks in the captured processor's per-CPU area (run queues, caches of free objects) are left
//! out: each simulated processor has its own, and a processor does not wait for itself. So is a
//! lock whose word no reference touched, and one that was only ever given up.

use super::packed::{put, put_table, Packed};
use servsim_core::{Event, LockClass};
use servsim_trace::{EventKind, LockClass as Recorded, Ref, TaskId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The largest hooked lock: a lightweight lock of `PostgreSQL` with its wait list is 16 bytes.
const LOCK_BYTES: u64 = 16;
/// Entry, tracing and the locking instruction itself lie within so many blocks.
const BLOCKS_TO_LOOK_AT: u8 = 12;

/// A lock event whose word is being looked for.
#[derive(Debug, Clone, Copy)]
struct Search {
    address: u64,
    blocks: u8,
}

/// Words of the locks of a trace.
#[derive(Debug, Default)]
pub struct LockWords {
    words: HashMap<(TaskId, u64), u64>,
    searches: HashMap<TaskId, Search>,
    /// Locks that were taken before their word was seen.
    unseen: HashSet<(TaskId, u64)>,
    per_cpu: std::ops::Range<u64>,
}

fn key(task: TaskId, address: u64) -> (TaskId, u64) {
    (if address >> 63 == 1 { TaskId::MAX } else { task }, address)
}

impl LockWords {
    /// None known; `per_cpu_area` is that of the trace, first address and length.
    pub fn new((start, length): (u64, u64)) -> Self {
        Self { per_cpu: start..start.saturating_add(length), ..Self::default() }
    }

    /// Appends all that the pass leaves; what it was still looking for tells nothing.
    pub(super) fn pack(&self, out: &mut Vec<u8>) {
        let Self { words, searches: _, unseen: _, per_cpu: _ } = self;
        let mut tasks: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
        for (&(task, address), &word) in words {
            tasks.entry(u64::from(task)).or_default().push((address, word));
        }
        put_table(out, tasks.into_iter(), |out, words| put_table(out, words.into_iter(), put));
    }

    /// What [`LockWords::pack`] kept; `None` for bytes that are none.
    pub(super) fn unpack(from: &mut Packed<'_>, per_cpu_area: (u64, u64)) -> Option<Self> {
        let mut locks = Self::new(per_cpu_area);
        for (task, words) in from.table(|from| from.table(Packed::number))? {
            let task = TaskId::try_from(task).ok()?;
            locks.words.extend(words.into_iter().map(|(address, word)| ((task, address), word)));
        }
        Some(locks)
    }

    /// Notes a lock event of `task`.
    pub fn record_event(&mut self, task: TaskId, kind: EventKind) {
        let (EventKind::LockAcquire { address, .. } | EventKind::LockRelease { address, .. }) = kind else {
            return;
        };
        let lock = key(task, address);
        let takes = matches!(kind, EventKind::LockAcquire { .. });
        if self.words.contains_key(&lock) || self.per_cpu.contains(&address) {
            return;
        }
        if takes {
            self.unseen.insert(lock);
        }
        if takes || self.unseen.contains(&lock) {
            self.searches.insert(task, Search { address, blocks: BLOCKS_TO_LOOK_AT });
        }
    }

    /// Whether the blocks of `task` are to be looked at.
    #[inline]
    pub fn searches(&self, task: TaskId) -> bool {
        !self.searches.is_empty() && self.searches.contains_key(&task)
    }

    /// Looks at a block of `task`.
    pub fn record_references(&mut self, task: TaskId, refs: &[Ref]) {
        let Some(search) = self.searches.get_mut(&task) else { return };
        let address = search.address;
        let found = refs.iter().find(|r| r.vaddr.wrapping_sub(address) < LOCK_BYTES);
        search.blocks -= 1;
        if let Some(found) = found {
            self.words.insert(key(task, address), found.paddr);
            self.unseen.remove(&key(task, address));
        } else if search.blocks > 0 {
            return;
        }
        self.searches.remove(&task);
    }

    /// Whether lock events of `task` about `address` reach the engines.
    pub fn knows(&self, task: TaskId, address: u64) -> bool {
        self.words.contains_key(&key(task, address))
    }

    /// The event as the engines take it; `None` for what is left out.
    pub fn event(&self, task: TaskId, kind: EventKind) -> Option<Event> {
        let word = |address| self.words.get(&key(task, address)).copied();
        match kind {
            EventKind::LockAcquire { class, address } => {
                Some(Event::LockAcquire { class: class_of(class), word: word(address)? })
            }
            EventKind::LockRelease { address, .. } => Some(Event::LockRelease { word: word(address)? }),
            _ => None,
        }
    }
}

/// The family of a recorded lock.
pub(super) fn class_of(class: Recorded) -> LockClass {
    match class {
        Recorded::KernelSpin => LockClass::KernelSpin,
        Recorded::KernelMutex => LockClass::KernelSleep,
        Recorded::LightweightExclusive => LockClass::LightweightExclusive,
        Recorded::LightweightShared => LockClass::LightweightShared,
        Recorded::UserSpin => LockClass::UserSpin,
        Recorded::LightweightOrWait => LockClass::LightweightOrWait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: Recorded = Recorded::LightweightShared;
    const USER: u64 = 0x7fff_0000_1000;
    const KERNEL: u64 = 0xffff_8880_0000_1000;

    fn touch(vaddr: u64, paddr: u64) -> [Ref; 1] {
        [Ref { vaddr, paddr, next_page: 0 }]
    }

    fn acquire(address: u64) -> EventKind {
        EventKind::LockAcquire { class: SHARED, address }
    }

    #[test]
    fn the_first_reference_within_the_lock_names_its_word() {
        let mut locks = LockWords::new((0, 0));
        locks.record_event(3, acquire(USER));
        locks.record_references(3, &touch(USER - 8, 0x500));
        locks.record_references(4, &touch(USER, 0x600));
        assert_eq!(locks.event(3, acquire(USER)), None, "another task's memory is not this one's");
        locks.record_references(3, &touch(USER + 4, 0x704));
        let class = LockClass::LightweightShared;
        assert_eq!(locks.event(3, acquire(USER)), Some(Event::LockAcquire { class, word: 0x704 }));
        let release = EventKind::LockRelease { class: Recorded::LightweightExclusive, address: USER };
        assert_eq!(locks.event(3, release), Some(Event::LockRelease { word: 0x704 }));
        assert_eq!(locks.event(4, release), None, "task 4 may have other memory there");
    }

    #[test]
    fn kernel_locks_are_the_same_for_all_and_those_of_a_processor_are_left_out() {
        let mut locks = LockWords::new((KERNEL + 0x1000, 0x1000));
        for (address, word) in [(KERNEL, 0x100), (KERNEL + 0x1000, 0x200)] {
            locks.record_event(1, acquire(address));
            locks.record_references(1, &touch(address, word));
        }
        assert!(locks.event(2, acquire(KERNEL)).is_some());
        assert_eq!(locks.event(1, acquire(KERNEL + 0x1000)), None);
    }

    #[test]
    fn a_lock_taken_before_its_event_is_named_where_it_is_given_up() {
        let mut locks = LockWords::new((0, 0));
        let release = EventKind::LockRelease { class: Recorded::LightweightExclusive, address: USER };
        locks.record_event(1, release);
        locks.record_references(1, &touch(USER, 0x100));
        assert_eq!(locks.event(1, release), None, "it was only ever given up");
        let taken = EventKind::LockAcquire { class: Recorded::LightweightOrWait, address: USER };
        locks.record_event(1, taken);
        (0..BLOCKS_TO_LOOK_AT).for_each(|_| locks.record_references(1, &[]));
        assert_eq!(locks.event(1, taken), None);
        locks.record_event(1, release);
        locks.record_references(1, &touch(USER + 4, 0x204));
        let class = LockClass::LightweightOrWait;
        assert_eq!(locks.event(1, taken), Some(Event::LockAcquire { class, word: 0x204 }));
        assert_eq!(locks.event(1, release), Some(Event::LockRelease { word: 0x204 }));
    }

    #[test]
    fn the_search_ends_after_a_few_blocks() {
        let mut locks = LockWords::new((0, 0));
        locks.record_event(1, acquire(KERNEL));
        (0..BLOCKS_TO_LOOK_AT).for_each(|_| locks.record_references(1, &[]));
        locks.record_references(1, &touch(KERNEL, 0x100));
        assert_eq!(locks.event(1, acquire(KERNEL)), None);
    }
}
