//! Locks, arbitrated in simulated time: who holds each, who waits, who is next.
//!
//! Over 400 lines: the rules that end a hold or a wait act on one state and must be read together.
//!
//! *Kernel spinlocks* pass to the waiter that came first at their release (as a ticket or MCS lock does); no waiter
//! can lose its processor meanwhile. *User-mode* ones are free then, for whoever tries first (test and set). *Sleeping*
//! classes free it and wake the first waiter (of shared waiters all that
//! lead the queue); until that one runs, anybody may take the lock, which avoids the convoys that a
//! strict hand-over makes. A waiter that was woken in vain keeps its place and is handed the lock
//! at the next release, as Linux mutexes do, so nobody waits forever. A lock for *work that one does for
//! all* (group commit) is exclusive when it is free; those that wait for it when it becomes free hold it
//! together, up to the first waiter of another class, and what comes later waits for all of them.
//!
//! **Never stuck on a recorded trace.** A trace may hold releases without acquisition (try-locks,
//! locks taken before it began) and acquisitions without release. So: a release by somebody who
//! does not hold the lock does nothing; an acquisition by the holder goes on with the lock held; a
//! kernel spinlock ends by force when its holder leaves the processor or has held it for
//! [`LONGEST_SPIN_HOLD`]; every lock ends when its holder does; a cycle of waiters is broken by
//! handing the lock over; one that spins in user mode sleeps after [`USER_SPINS`]; a kernel spinlock
//! held as a lock of another class is handed over, and so is any lock to one that has waited for
//! [`LONGEST_SPIN_HOLD`] and still spins. Each force is counted.
//!
//! Left out: priorities, the recursion of reader-writer semaphores, lock-wait time-outs.

use servsim_core::source::PageHash;
use servsim_core::{LockClass, RandomStream, TaskId};
use std::collections::{HashMap, VecDeque};

/// Who takes locks: a task by its number, or the interrupt handlers of a processor, numbered after
/// the tasks.
pub type Owner = u32;

/// Cycles after which a kernel spinlock counts as released because its release is not in the trace:
/// twenty times the longest true hold seen, of a task that misses a thousand times on a saturated bus.
pub const LONGEST_SPIN_HOLD: u64 = 20_000_000;

/// Waits of one for another that are followed without noting who was seen.
const CHAIN: usize = 16;

/// Spins of a user-mode spinlock before the task sleeps (`PostgreSQL`, `s_lock.c`: at most 1,000).
pub const USER_SPINS: u32 = 1_000;

/// What an attempt to take a lock leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The lock is held now.
    Granted,
    /// Try again after a while, on the processor.
    Spin,
    /// Leave the processor until woken, then try again.
    Sleep,
}

/// What happened to the locks of one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassCounts {
    /// Locks taken.
    pub acquisitions: u64,
    /// Those that had to wait.
    pub contended: u64,
    /// Cycles from the first attempt to the moment the owner goes on.
    pub wait_cycles: u64,
    /// Loads of the lock's word while spinning.
    pub spin_references: u64,
}

/// What happened to all locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockCounts {
    /// By class, in the order of [`LockClass::ALL`].
    pub classes: [ClassCounts; LockClass::ALL.len()],
    /// Releases by somebody who did not hold the lock.
    pub unmatched_releases: u64,
    /// Acquisitions by somebody who held the lock already.
    pub repeated: u64,
    /// Kernel spinlocks whose holder left its processor, or that were held for too long.
    pub forced_releases: u64,
    /// Locks still held where a stream ends or blocks for good: the trace's last moment cuts them.
    pub cut_holds: u64,
    /// Locks handed over to break a cycle of waiters.
    pub forced_handovers: u64,
}

impl LockCounts {
    /// The difference to an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut classes = self.classes;
        for (now, before) in classes.iter_mut().zip(&earlier.classes) {
            now.acquisitions -= before.acquisitions;
            now.contended -= before.contended;
            now.wait_cycles -= before.wait_cycles;
            now.spin_references -= before.spin_references;
        }
        Self {
            classes,
            unmatched_releases: self.unmatched_releases - earlier.unmatched_releases,
            repeated: self.repeated - earlier.repeated,
            forced_releases: self.forced_releases - earlier.forced_releases,
            cut_holds: self.cut_holds - earlier.cut_holds,
            forced_handovers: self.forced_handovers - earlier.forced_handovers,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    owner: Owner,
    class: LockClass,
    since: u64,
}

#[derive(Debug, Clone, Copy)]
struct Waiter {
    owner: Owner,
    class: LockClass,
    /// Off its processor.
    sleeps: bool,
    /// Awake, but has not tried again yet.
    woken: bool,
    /// Was woken in vain: gets the lock at the next release.
    insists: bool,
}

#[derive(Debug, Default)]
struct Lock {
    holders: Vec<Holder>,
    queue: VecDeque<Waiter>,
    order: u64,
}

impl Lock {
    fn admits(&self, class: LockClass) -> bool {
        let shared = |holder: &Holder| holder.class.is_shared();
        self.holders.is_empty() || class.is_shared() && self.holders.iter().all(shared)
    }

    fn held_by(&self, owner: Owner) -> bool {
        self.holders.iter().any(|holder| holder.owner == owner)
    }
}

/// The wait of an owner.
#[derive(Debug, Clone, Copy)]
struct Wait {
    lock: usize,
    since: u64,
    granted: bool,
}

/// Every lock of a run.
#[derive(Debug)]
pub struct Locks {
    by_word: HashMap<u64, usize, PageHash>,
    words: Vec<u64>,
    entries: Vec<Lock>,
    waits: Vec<Option<Wait>>,
    held: Vec<Vec<usize>>,
    /// Kernel spinlocks held, per owner.
    spins: Vec<u32>,
    /// Since when the first of them has been, at the earliest; of one that holds none, anything.
    spins_since: Vec<u64>,
    /// Who has to wake an owner that sleeps for another reason than a lock.
    wakers: Vec<Option<Owner>>,
    /// Counts since the beginning.
    pub counts: LockCounts,
}

impl Locks {
    /// For `owners` owners; all locks are free.
    pub fn new(owners: usize) -> Self {
        Self {
            by_word: HashMap::default(),
            words: Vec::new(),
            entries: Vec::new(),
            waits: vec![None; owners],
            held: vec![Vec::new(); owners],
            spins: vec![0; owners],
            spins_since: vec![0; owners],
            wakers: vec![None; owners],
            counts: LockCounts::default(),
        }
    }

    fn lock(&mut self, word: u64) -> usize {
        *self.by_word.entry(word).or_insert_with(|| {
            self.words.push(word);
            self.entries.push(Lock::default());
            self.entries.len() - 1
        })
    }

    /// The same without a search where `owner` waits for that lock.
    fn lock_for(&mut self, owner: Owner, word: u64) -> usize {
        match self.waits[owner as usize] {
            Some(wait) if self.words[wait.lock] == word => wait.lock,
            _ => self.lock(word),
        }
    }

    /// `owner` wants the lock at `word`, at time `now`; also called again by one that waits.
    pub fn acquire(&mut self, owner: Owner, word: u64, class: LockClass, now: u64) -> Verdict {
        let lock = self.lock_for(owner, word);
        let wait = self.waits[owner as usize].filter(|wait| wait.lock == lock);
        if let Some(wait) = wait.filter(|wait| wait.granted) {
            return self.go_on(owner, class, wait, now);
        }
        if wait.is_none() && self.entries[lock].held_by(owner) {
            self.counts.repeated += 1;
            return Verdict::Granted;
        }
        if self.entries[lock].admits(class) {
            self.entries[lock].queue.retain(|waiter| waiter.owner != owner);
            self.grant(owner, lock, class, now);
            let since = wait.map_or(now, |wait| wait.since);
            return self.go_on(owner, class, Wait { lock, since, granted: true }, now);
        }
        self.enqueue(owner, lock, class, now, wait.is_some());
        let too_long = wait.is_some_and(|wait| now.saturating_sub(wait.since) > LONGEST_SPIN_HOLD);
        if self.blocker_in_a_cycle(owner).is_some()
            || self.waits_in_vain(class, lock)
            || class.spins() && too_long
        {
            self.hand_over(owner, lock, class, now);
            if let Some(wait) = self.waits[owner as usize] {
                return self.go_on(owner, class, wait, now);
            }
        }
        if class.spins() {
            Verdict::Spin
        } else {
            Verdict::Sleep
        }
    }

    fn go_on(&mut self, owner: Owner, class: LockClass, wait: Wait, now: u64) -> Verdict {
        let counts = &mut self.counts.classes[class as usize];
        counts.acquisitions += 1;
        counts.wait_cycles += now - wait.since;
        self.waits[owner as usize] = None;
        Verdict::Granted
    }

    fn enqueue(&mut self, owner: Owner, lock: usize, class: LockClass, now: u64, again: bool) {
        if again {
            let queue = &mut self.entries[lock].queue;
            if let Some(waiter) = queue.iter_mut().find(|w| w.owner == owner && w.woken) {
                // A user-mode spinner spins again; others sleep on and are handed the lock next.
                let spins = class.spins();
                (waiter.woken, waiter.insists, waiter.sleeps) = (false, !spins, !spins);
            }
            return;
        }
        self.counts.classes[class as usize].contended += 1;
        self.waits[owner as usize] = Some(Wait { lock, since: now, granted: false });
        let waiter = Waiter { owner, class, sleeps: !class.spins(), woken: false, insists: false };
        self.entries[lock].queue.push_back(waiter);
    }

    fn grant(&mut self, owner: Owner, lock: usize, class: LockClass, now: u64) {
        let entry = &mut self.entries[lock];
        entry.holders.push(Holder { owner, class, since: now });
        entry.order = chain(entry.order, u64::from(owner));
        self.held[owner as usize].push(lock);
        if class == LockClass::KernelSpin {
            let since = &mut self.spins_since[owner as usize];
            *since = if self.spins[owner as usize] == 0 { now } else { now.min(*since) };
            self.spins[owner as usize] += 1;
        }
        if let Some(wait) = self.waits[owner as usize].as_mut().filter(|wait| wait.lock == lock) {
            wait.granted = true;
        }
    }

    /// Whether the lock at `word` has ever been taken.
    pub fn knows(&self, word: u64) -> bool {
        self.by_word.contains_key(&word)
    }

    /// `owner` gives up the lock at `word`; the tasks to wake are appended to `woken`.
    pub fn release(&mut self, owner: Owner, word: u64, now: u64, woken: &mut Vec<TaskId>) {
        let lock = self.lock(word);
        if !self.entries[lock].held_by(owner) {
            self.counts.unmatched_releases += 1;
            return;
        }
        self.drop_hold(owner, lock);
        self.pass_on(lock, now, woken);
    }

    fn drop_hold(&mut self, owner: Owner, lock: usize) {
        let holders = &mut self.entries[lock].holders;
        let Some(index) = holders.iter().position(|holder| holder.owner == owner) else { return };
        let holder = holders.remove(index);
        self.spins[owner as usize] -= u32::from(holder.class == LockClass::KernelSpin);
        self.held[owner as usize].retain(|&held| held != lock);
    }

    fn pass_on(&mut self, lock: usize, now: u64, woken: &mut Vec<TaskId>) {
        let (mut next, mut together) = (0, false);
        while let Some(&waiter) = self.entries[lock].queue.get(next) {
            let joins = together && waiter.class.goes_on_together();
            if !joins && !self.entries[lock].admits(waiter.class) {
                return;
            }
            if waiter.class == LockClass::UserSpin {
                // Whoever tries first has it: one that was handed it while off its processor would keep
                // everybody else spinning for a time slice or more.
                if waiter.sleeps && !waiter.woken {
                    woken.push(waiter.owner);
                    self.entries[lock].queue[next].woken = true;
                    return;
                }
                next += 1;
                continue;
            }
            if waiter.sleeps && !waiter.woken {
                woken.push(waiter.owner);
            }
            together = waiter.class.goes_on_together();
            if waiter.class.spins() || waiter.insists || together {
                self.entries[lock].queue.remove(next);
                self.grant(waiter.owner, lock, waiter.class, now);
            } else {
                self.entries[lock].queue[next].woken = true;
                next += 1;
            }
            if !waiter.class.is_shared() && !together {
                return;
            }
        }
    }

    /// `owner` sleeps until `waker` wakes it. When that one waits, through whatever chain, for a lock
    /// of `owner`'s, a lock of the chain is handed over; returns the task to wake then.
    pub fn sleeps_until_woken(&mut self, owner: Owner, waker: Owner, now: u64) -> Option<TaskId> {
        self.wakers[owner as usize] = Some(waker);
        let stuck = self.blocker_in_a_cycle(owner)?;
        let (lock, sleeps) = self.waiting(stuck)?;
        let class = self.entries[lock].queue.iter().find(|waiter| waiter.owner == stuck)?.class;
        self.hand_over(stuck, lock, class, now);
        sleeps.then_some(stuck)
    }

    /// `owner` was woken.
    pub fn wakes(&mut self, owner: Owner) {
        self.wakers[owner as usize] = None;
    }

    /// Whether `owner` waits for a lock off its processor.
    pub fn sleeps(&self, owner: Owner) -> bool {
        self.waiting(owner).is_some_and(|(_, sleeps)| sleeps)
    }

    /// Whether `owner`, who waits for a lock, was handed it and has not tried since.
    pub fn was_handed(&self, owner: Owner) -> bool {
        self.waits[owner as usize].is_some_and(|wait| wait.granted)
    }

    /// Whom `owner` waits for: who holds the lock it waits for, or has to wake it; of several, the first.
    pub fn blocker(&self, owner: Owner) -> Option<Owner> {
        match self.waiting(owner) {
            Some((lock, _)) => self.entries[lock].holders.first().map(|holder| holder.owner),
            None => self.wakers[owner as usize],
        }
    }

    /// The lock that `owner` waits for, and whether it does so off its processor.
    fn waiting(&self, owner: Owner) -> Option<(usize, bool)> {
        let wait = self.waits[owner as usize].filter(|wait| !wait.granted)?;
        let waiter = self.entries[wait.lock].queue.iter().find(|waiter| waiter.owner == owner)?;
        Some((wait.lock, waiter.sleeps && !waiter.woken))
    }

    /// Whether `owner` waits for itself, through the holders of the lock it waits for, the wakers of
    /// those that sleep, and their waits. Returns who of them waits for a lock, `owner` if it does.
    fn blocker_in_a_cycle(&self, owner: Owner) -> Option<Owner> {
        // As long as each waits for one other there is nothing to remember; one that spins asks at every turn.
        let (mut one, mut stuck) = (owner, None);
        for _ in 0..CHAIN {
            let next = match self.waiting(one) {
                Some((lock, _)) => {
                    stuck = stuck.or(Some(one));
                    match self.entries[lock].holders.as_slice() {
                        [holder] => holder.owner,
                        _ => return self.blocker_in_a_graph(owner),
                    }
                }
                None => self.wakers[one as usize]?,
            };
            if next == owner && stuck.is_some() {
                return stuck;
            }
            // Those behind it have been asked, or wait for themselves without `owner`.
            if next == one || next == owner {
                return None;
            }
            one = next;
        }
        self.blocker_in_a_graph(owner)
    }

    /// The same for any number of holders and any length of waits.
    fn blocker_in_a_graph(&self, owner: Owner) -> Option<Owner> {
        let (mut open, mut seen) = (vec![(owner, None)], vec![owner]);
        while let Some((one, before)) = open.pop() {
            let lock = self.waiting(one).map(|(lock, _)| lock);
            let stuck = before.or_else(|| lock.map(|_| one));
            let holders = lock.map(|lock| self.entries[lock].holders.iter().map(|holder| holder.owner));
            let waker = self.wakers[one as usize].filter(|_| lock.is_none());
            for next in holders.into_iter().flatten().chain(waker) {
                if next == owner && stuck.is_some() {
                    return stuck;
                }
                if !seen.contains(&next) {
                    seen.push(next);
                    open.push((next, stuck));
                }
            }
        }
        None
    }

    /// Whether a kernel spinlock is held as another kind of lock: its holder may be off its processor,
    /// and one that spins in the kernel would keep it off.
    fn waits_in_vain(&self, class: LockClass, lock: usize) -> bool {
        let other = |holder: &Holder| holder.class != LockClass::KernelSpin;
        class == LockClass::KernelSpin && self.entries[lock].holders.iter().any(other)
    }

    /// `owner`, who spins, sleeps from now on until it is handed the lock.
    pub fn sleep_instead(&mut self, owner: Owner) {
        let Some(wait) = self.waits[owner as usize] else { return };
        let queue = &mut self.entries[wait.lock].queue;
        if let Some(waiter) = queue.iter_mut().find(|waiter| waiter.owner == owner) {
            waiter.sleeps = true;
        }
    }

    /// Takes the lock from its holders and gives it to a waiter.
    fn hand_over(&mut self, owner: Owner, lock: usize, class: LockClass, now: u64) {
        self.counts.forced_handovers += 1;
        let holders: Vec<Owner> = self.entries[lock].holders.iter().map(|holder| holder.owner).collect();
        holders.into_iter().for_each(|holder| self.drop_hold(holder, lock));
        self.entries[lock].queue.retain(|waiter| waiter.owner != owner);
        self.grant(owner, lock, class, now);
    }

    /// No task can run: hands a lock to the task that has slept for one longest and returns it.
    pub fn force_one(&mut self, now: u64) -> Option<TaskId> {
        let asleep = |waiter: &&Waiter| waiter.sleeps && !waiter.woken;
        let waiters =
            self.entries.iter().enumerate().flat_map(|(lock, entry)| {
                entry.queue.iter().filter(asleep).map(move |waiter| (lock, *waiter))
            });
        let since = |owner: Owner| self.waits[owner as usize].map_or(u64::MAX, |wait| wait.since);
        let (lock, waiter) = waiters.min_by_key(|(_, waiter)| (since(waiter.owner), waiter.owner))?;
        self.hand_over(waiter.owner, lock, waiter.class, now);
        Some(waiter.owner)
    }

    /// The owner leaves its processor (`ends`: for good): kernel spinlocks (all locks) it holds end.
    pub fn leave(&mut self, owner: Owner, ends: bool, now: u64, woken: &mut Vec<TaskId>) {
        let is_over = |holder: &Holder| ends || holder.class == LockClass::KernelSpin;
        let ended = self.end_holds(owner, now, woken, is_over);
        if ends {
            self.counts.cut_holds += ended;
        } else {
            self.counts.forced_releases += ended;
        }
    }

    /// Ends the kernel spinlocks that `owner` has held for too long.
    pub fn expire(&mut self, owner: Owner, now: u64, woken: &mut Vec<TaskId>) {
        if !self.may_be_overdue(owner, now) {
            return;
        }
        let overdue = |holder: &Holder| {
            holder.class == LockClass::KernelSpin && now.saturating_sub(holder.since) > LONGEST_SPIN_HOLD
        };
        self.counts.forced_releases += self.end_holds(owner, now, woken, overdue);
    }

    fn end_holds(
        &mut self,
        owner: Owner,
        now: u64,
        woken: &mut Vec<TaskId>,
        ends: impl Fn(&Holder) -> bool,
    ) -> u64 {
        let ending = |lock: &&usize| {
            self.entries[**lock].holders.iter().any(|holder| holder.owner == owner && ends(holder))
        };
        let locks: Vec<usize> = self.held[owner as usize].iter().filter(ending).copied().collect();
        for &lock in &locks {
            self.drop_hold(owner, lock);
            self.pass_on(lock, now, woken);
        }
        locks.len() as u64
    }

    /// Ends the kernel spinlocks that those who hold the lock at `word`, for which `owner` waits, have held for too long.
    pub fn expire_holders(&mut self, owner: Owner, word: u64, now: u64, woken: &mut Vec<TaskId>) {
        let lock = self.lock_for(owner, word);
        let holders = &self.entries[lock].holders;
        if holders.iter().all(|holder| !self.may_be_overdue(holder.owner, now)) {
            return;
        }
        let owners: Vec<Owner> = holders.iter().map(|holder| holder.owner).collect();
        owners.into_iter().for_each(|holder| self.expire(holder, now, woken));
    }

    /// Whether `owner` may have held a kernel spinlock for too long.
    fn may_be_overdue(&self, owner: Owner, now: u64) -> bool {
        let since = self.spins_since[owner as usize];
        self.spins[owner as usize] > 0 && now.saturating_sub(since) > LONGEST_SPIN_HOLD
    }

    /// Kernel spinlocks that `owner` holds.
    #[inline]
    pub fn spins_held(&self, owner: Owner) -> u32 {
        self.spins[owner as usize]
    }

    /// Counts a load of a lock's word by one that spins.
    pub fn count_spin(&mut self, class: LockClass) {
        self.counts.classes[class as usize].spin_references += 1;
    }

    /// One number that depends on who took each lock in which order, and on nothing else.
    pub fn order_digest(&self) -> u64 {
        let each = self.words.iter().zip(&self.entries);
        each.filter(|(_, lock)| lock.order != 0)
            .fold(0, |sum: u64, (&word, lock)| sum.wrapping_add(chain(lock.order, word)))
    }
}

/// Appends `next` to the history that `digest` stands for.
pub fn chain(digest: u64, next: u64) -> u64 {
    let mut mixed = digest.rotate_left(25) ^ next.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    RandomStream::new(mixed, "digest").next_u64()
}

#[cfg(test)]
#[path = "locks_tests.rs"]
mod tests;
