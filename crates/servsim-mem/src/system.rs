//! Caches kept coherent by a protocol table, with exact classification of misses and of coherence
//! transactions. Over 400 lines, because a transaction changes copies and records indivisibly. One cache per processor, instructions and data together (Foglia et al. 2004).
//!
//! An access first tries to hit ([`CoherentSystem::try_hit`]); otherwise it makes one bus
//! transaction, atomically ([`CoherentSystem::transact`]). The functional engine calls the two in
//! turn until the access is done; the timing engine calls the second at the grant of the bus, so a
//! queued request is judged by the state it finds there, not the one it left.
//!
//! **Line crossing.** An access that crosses a line boundary is one reference that touches each
//! line it overlaps, in ascending order. Callers split it; the oracle does the same.
//!
//! **Classification** (Dubois et al., ISCA 1993, with private pages split off first as Foglia et
//! al. 2004). A miss is an *invalidation miss* when the tag is still in its frame without a valid
//! copy; otherwise it is cold (this cache never held the block), a conflict (a fully associative
//! LRU cache of the same size holds it) or capacity. An invalidation miss on a private page is
//! passive sharing; another is true sharing if, before the copy is lost again, the processor
//! touches a word written elsewhere since its last essential or non-invalidation miss, and false
//! sharing if not. A coherence transaction is needless without another holder, passive on a
//! private page, true when a holder had touched the word, otherwise false.
//!
//! Words written in an exclusive state collect in the writer's frame and reach the others' records
//! when that copy is next snooped or evicted: nobody can look before that.

// A transaction is one function: most of its steps are short, and work on what the others have in registers.
#![allow(clippy::inline_always)]

mod following;
mod prefetching;

pub use prefetching::PrefetchCounters;

use crate::array::{
    join_writers, Array, Geometry, EMPTY, MISS_KERNEL, MIXED_WRITERS, NO_WRITER, OWNER_KERNEL, PENDING,
    PENDING_MISS, PREFETCHED, PRIVATE_COPY, REMOVED, UNDECIDED,
};
use crate::cache_set::CacheSet;
use crate::copy_index::{with_cache_set, CopyIndex, Indexed, LineRecord};
use crate::counters::{CoherenceClass, Counters, MissClass};
use crate::history::{History, MissingCell};
use crate::observer::{By, Observer, StateEvent, Transition};
use crate::prefetch::Trigger;
use crate::protocol::checker::Step;
use crate::protocol::{BusOp, Cells, Lines, OnAccess, OnEvict, Reaction, Snoop, State, Table, INVALID};
use crate::shadow::Shadow;
use crate::switches::{Loss, LossCause, Switches, Taker};
use crate::undecided::UndecidedPages;
use crate::words::WordMask;
use servsim_core::{CacheId, CpuId, LineAddr};

/// No silent transition.
pub(crate) const NEEDS_BUS: State = State::MAX;

/// One line's share of a reference, at a processor, or at that coherent cache of it which serves the access.
#[derive(Debug, Clone, Copy)]
pub struct Access<W, At = CpuId> {
    /// The processor or the cache.
    pub at: At,
    /// Line number: address divided by the line size.
    pub line: LineAddr,
    /// Words of the line that are touched.
    pub words: W,
    /// Whether it is a store.
    pub write: bool,
    /// Whether it was made in kernel mode.
    pub kernel: bool,
    /// The task.
    pub task: u32,
    /// Which hint to use: the operation's number.
    pub slot: usize,
}

/// Where the transaction of an access that does not hit finds what is known of its line ([`CoherentSystem::approach`]).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Approached {
    /// The frame that has the tag of the line, if one does.
    found: Option<usize>,
    /// That frame, or the one that the line will take.
    pub index: usize,
    /// The record of the line.
    listed: usize,
}

/// What is known of the page of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// It belongs to one process.
    pub private: bool,
    /// Whether it does is known only at the end of the run ([`CoherentSystem::decide_pages`]); until then it does not.
    pub undecided: bool,
    /// It is the kernel's; `None` where the trace does not tell: then the mode of the reference
    /// stands for it.
    pub kernel: Option<bool>,
}

impl From<bool> for Page {
    fn from(private: bool) -> Self {
        Self { private, undecided: false, kernel: None }
    }
}

impl<W: Copy, At> Access<W, At> {
    /// The same access at `cache`.
    #[inline]
    pub fn served_by(&self, cache: CacheId) -> Access<W, CacheId> {
        let Self { at: _, line, words, write, kernel, task, slot } = *self;
        Access { at: cache, line, words, write, kernel, task, slot }
    }
}

impl<W> Access<W, CacheId> {
    /// The access as observers see it.
    #[inline]
    fn by(&self) -> By {
        let Self { at: cache, line, task, kernel, write, slot, .. } = *self;
        By { cache, line, task, kernel, write, slot }
    }

    fn step(&self, private: bool) -> Step {
        if self.write {
            Step::Write(self.at.0, private)
        } else {
            Step::Read(self.at.0, private)
        }
    }

    fn event(&self, op: Option<BusOp>) -> StateEvent {
        if self.write {
            StateEvent::Write(op)
        } else {
            StateEvent::Read(op)
        }
    }
}

/// What a bus transaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // independent facts of one transaction
pub struct Outcome {
    /// The transaction, if the state found at the grant still needed one.
    pub op: Option<BusOp>,
    /// Whether a cache supplied the block.
    pub from_cache: bool,
    /// The cache that did; the first, if several could.
    pub supplied_by: Option<CacheId>,
    /// Line whose dirty copy had to be written back to make room.
    pub write_back: Option<LineAddr>,
    /// Line whose clean copy made room.
    pub dropped_clean: Option<LineAddr>,
    /// Whether memory took the block from the cache that supplied it, or the word that was sent.
    pub to_memory: bool,
    /// Whether the access is complete; if not, it is applied again.
    pub done: bool,
    /// Whether it concerned nothing outside the core group of its processor.
    pub within_group: bool,
}

/// What a frame keeps of its last user: 0 stands for nobody and for the tasks whose number does not fit, which are noted each
/// time.
#[inline]
fn user(task: u32) -> u16 {
    u16::try_from(task + 1).unwrap_or(0)
}

/// What a transaction of another cache did to a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Snooped {
    /// It was dirty and is clean now.
    Cleaned,
    /// It is gone.
    Lost,
}

/// What core groups with levels of their own mean for the next transaction; nothing on machines without.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    /// Coherent caches of a group.
    pub per_group: usize,
    /// The level of the asking group has the line, so that no other group is asked for it.
    pub near: bool,
    /// The level of another group has it, so that the copy is not the only one.
    pub elsewhere: bool,
}

impl Around {
    /// No groups.
    pub const NOTHING: Self = Self { per_group: usize::MAX, near: false, elsewhere: false };

    /// Whether two caches are of one group.
    fn together(&self, a: CacheId, b: CacheId) -> bool {
        self.per_group == usize::MAX || a.0 / self.per_group == b.0 / self.per_group
    }
}

/// The caches of a machine.
#[derive(Debug)]
pub struct CoherentSystem<W, O = ()> {
    pub(crate) table: Table,
    /// The same, as transactions look it up.
    pub(crate) cells: Cells,
    /// Next state of a hit, `[write][state]`, or [`NEEDS_BUS`].
    pub(crate) hit: [[State; 16]; 2],
    /// By operation: the states, one bit each, in which it hits and leaves the state as it is; none
    /// for the operation that is no reference.
    pub(crate) stays: [u16; 4],
    pub(crate) arrays: Vec<Array<W>>,
    pub(crate) shadows: Vec<Shadow>,
    /// Where somebody else knows what shadows would: how many lines the cache that is asked next has used since it used
    /// a line. Whoever tells them takes them back.
    pub ages: Vec<(LineAddr, usize)>,
    /// Lines of such a shadow; none where there is none.
    pub(crate) shadow_frames: usize,
    pub(crate) copies: CopyIndex,
    /// Caches whose copy the last transaction changed in a way that levels inside them see, in ascending order.
    pub(crate) snooped: Vec<(CacheId, Snooped)>,
    pub(crate) distinct_lines: usize,
    /// Valid copies that made room, per cache.
    pub evictions: Vec<u64>,
    /// Misses that might have been hits with a longer past, per cache.
    pub unfilled: Vec<u64>,
    /// Who runs where, who used what.
    pub switches: Switches,
    pub(crate) history: History,
    /// Caches of one processor: two when the first level is split and coherent.
    pub(crate) per_processor: usize,
    /// What is known of levels of core groups.
    pub(crate) around: Around,
    /// Whether `written_back` is kept: whoever sets it has to take what is there.
    pub times_write_backs: bool,
    /// Dirty lines that left other than as the victim of the transaction under way, with their processors: flushed
    /// at a switch, given up by the outer private levels, or taken back by an inclusive shared one. Their time on the
    /// interconnect is the caller's business.
    pub written_back: Vec<(CpuId, LineAddr)>,
    /// Lines of the bus that something other than a cache raises at the next transaction.
    pub raised: Lines,
    /// What was judged on pages that might be private.
    pub(crate) undecided: UndecidedPages,
    /// What became of prefetches.
    pub prefetches: PrefetchCounters,
    /// What the last run of hits ended at, because the cache has no tag of that line; not for inner levels.
    pub(crate) missing: Option<(CacheId, LineAddr)>,
    /// The last miss, or first use of a prefetched copy, with its line, for the caller to take.
    pub trigger: Option<(Trigger, LineAddr)>,
    /// Counters of each processor.
    pub counters: Vec<Counters>,
    /// Who watches.
    pub observer: O,
}

impl<W: WordMask> CoherentSystem<W> {
    /// Caches that nobody watches; see [`CoherentSystem::watched`].
    ///
    /// # Panics
    /// When the table writes silently in a state that is not exclusive: a fault of the table.
    pub fn new(processors: usize, geometry: Geometry, table: Table, shadow: bool) -> Self {
        Self::watched(processors, geometry, table, shadow, ())
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// Empty caches of `processors` processors; `shadow` keeps the fully associative shadow that
    /// separates conflict from capacity misses (without it both count as capacity).
    ///
    /// # Panics
    /// When the table writes silently in a state that is not exclusive: a fault of the table.
    pub fn watched(processors: usize, geometry: Geometry, table: Table, shadow: bool, observer: O) -> Self {
        let arrays = (0..processors).map(|_| Array::new(geometry)).collect();
        Self::of_arrays(arrays, geometry, table, shadow, observer)
    }

    /// The same with these arrays; `geometry` says their line, and the size of the shadow.
    pub(crate) fn of_arrays(
        arrays: Vec<Array<W>>,
        geometry: Geometry,
        table: Table,
        shadow: bool,
        observer: O,
    ) -> Self {
        let processors = arrays.len();
        let mut hit = [[NEEDS_BUS; 16]; 2];
        for (state, row) in table.rows.iter().enumerate().skip(1) {
            for (write, access) in [&row.read, &row.write].into_iter().enumerate() {
                if let OnAccess::Local(next) = access {
                    assert!(write == 0 || table.rows[usize::from(*next)].info.exclusive);
                    hit[write][state] = *next;
                }
            }
        }
        let shadows = if shadow { processors } else { 0 };
        let stay = |next: &[State; 16]| {
            (0..16_u8).filter(|&state| next[usize::from(state)] == state).fold(0, |mask, s| mask | 1_u16 << s)
        };
        let (reads, writes) = (stay(&hit[0]), stay(&hit[1]));
        Self {
            cells: Cells::of(&table),
            table,
            hit,
            stays: [reads, reads, writes, 0],
            arrays,
            shadows: (0..shadows).map(|_| Shadow::new(geometry.frames())).collect(),
            ages: Vec::new(),
            shadow_frames: 0,
            copies: CopyIndex::new(processors),
            snooped: Vec::new(),
            distinct_lines: 0,
            evictions: vec![0; processors],
            unfilled: vec![0; processors],
            switches: Switches::new(processors),
            history: History::default(),
            per_processor: 1,
            around: Around::NOTHING,
            times_write_backs: false,
            written_back: Vec::new(),
            raised: Lines::NONE,
            undecided: UndecidedPages::new(geometry.line),
            prefetches: PrefetchCounters::default(),
            missing: None,
            trigger: None,
            counters: vec![Counters::default(); processors],
            observer,
        }
    }

    /// A task runs at `cpu` from now on; interrupt handlers are not announced. Under
    /// `flush_private` the private copies that the previous task used last leave the cache.
    #[inline]
    pub fn run_task(&mut self, cpu: CpuId, task: u32) {
        if self.switches.runs(cpu, task) {
            return;
        }
        if self.table.rules.flush_private {
            self.flush_before(cpu, task);
        }
        self.switches.begin(cpu, task);
    }

    /// Private copies are flushed only where each processor has one cache.
    #[cold]
    fn flush_before(&mut self, cpu: CpuId, task: u32) {
        if let Some(previous) = self.switches.last(cpu).filter(|&previous| previous != task) {
            with_cache_set!(self.copies, self.flush_private(CacheId(cpu.0), previous));
        }
    }

    fn flush_private<S: Indexed>(&mut self, cache: CacheId, task: u32) {
        for index in 0..self.arrays[cache].frames.len() {
            let frame = self.arrays[cache].frames[index];
            let line = frame.line;
            let leaves = frame.flags & PRIVATE_COPY != 0 && u32::from(frame.user) == task + 1;
            if frame.state == INVALID || !leaves {
                continue;
            }
            let state = frame.state;
            self.note_last_use(cache, index);
            self.history.keep(line, Step::Evict(cache.0));
            let eviction = self.eviction(state, cache, line);
            let place = self.arrays[cache].cold[index].record as usize;
            let mut record = self.copies.record::<S>(place);
            record.valid.remove(cache);
            self.flush_written(record.stale, cache, line, index);
            self.lose(cache, index);
            self.switches.lost(cache, line, Taker::Flush, &mut record.loss);
            self.copies.set_record(place, &record);
            self.counters[cache].flushed[1][0] += 1;
            if eviction == OnEvict::WriteBack {
                self.counters[cache].bus[1][BusOp::WriteBack as usize] += 1;
                self.note_written_back(cache, line);
            }
            self.arrays[cache].erase(index);
            if O::ACTIVE {
                let by = By { cache, line, task, kernel: true, write: false, slot: 1 };
                let step = Transition { cache, line, from: state, event: StateEvent::Flush, to: INVALID };
                self.observer.transition(&by, &step);
            }
        }
    }

    /// Tells the observer that the copy of `line` at `cache` made a step because of `access`.
    #[inline]
    fn tell(
        &mut self,
        access: &Access<W, CacheId>,
        cache: CacheId,
        line: LineAddr,
        from: State,
        event: StateEvent,
        to: State,
    ) {
        if O::ACTIVE {
            self.observer.transition(&access.by(), &Transition { cache, line, from, event, to });
        }
    }

    /// Performs the access if it needs no bus transaction.
    #[inline]
    pub fn try_hit(&mut self, access: &Access<W, CacheId>) -> bool {
        self.hit_or_find(access).is_ok()
    }

    /// The same.
    ///
    /// # Errors
    /// When it needs one: with the frame that has the tag of its line, if one does.
    #[inline]
    pub(crate) fn hit_or_find(&mut self, access: &Access<W, CacheId>) -> Result<(), Option<usize>> {
        let Some(index) = self.arrays[access.at].find_and_guess(access.line) else {
            self.arrays[access.at].prefetch(access.line);
            return Err(None);
        };
        if self.hit_at(access, index) {
            Ok(())
        } else {
            Err(Some(index))
        }
    }

    /// Performs the access on the frame that has the tag of its line, if it needs no bus transaction.
    #[inline]
    pub(crate) fn hit_at(&mut self, access: &Access<W, CacheId>, index: usize) -> bool {
        let array = &mut self.arrays[access.at];
        let state = array.frames[index].state;
        let next = self.hit[usize::from(access.write)][usize::from(state)];
        if next == NEEDS_BUS {
            return false;
        }
        array.frames[index].state = next;
        array.use_frame(index);
        let frame = &mut array.frames[index];
        frame.touched.add(access.words);
        if access.write {
            frame.written.add(access.words);
            frame.writer = join_writers(frame.writer, access.task);
        }
        // The shadow has the line of a valid copy without flags, whose stamp it will ask for.
        if frame.flags != 0 {
            if frame.flags & (PENDING | PREFETCHED) != 0 {
                self.judge_pending(access, index);
                self.first_use(access, index);
            }
            self.follow_use(access, index);
        }
        if u32::from(self.arrays[access.at].frames[index].user) != access.task + 1 {
            self.note_user(access, index);
        }
        if next != state {
            self.history.keep(access.line, access.step(false));
            self.tell(access, access.at, access.line, state, access.event(None), next);
        }
        true
    }

    /// The task was not the last to use the copy.
    fn note_user(&mut self, access: &Access<W, CacheId>, index: usize) {
        self.arrays[access.at].frames[index].user = user(access.task);
        self.switches.used(access.task, access.line);
    }

    /// Counts the pending miss as true sharing if the access touches a word written elsewhere.
    pub(crate) fn judge_pending(&mut self, access: &Access<W, CacheId>, index: usize) {
        let array = &mut self.arrays[access.at];
        let (frame, cold) = (&mut array.frames[index], &mut array.cold[index]);
        if frame.flags & PENDING == 0 || !cold.new_words.meets(access.words) {
            return;
        }
        let mode = usize::from(frame.flags & MISS_KERNEL != 0);
        let owner = usize::from(frame.flags & OWNER_KERNEL != 0);
        let counters = &mut self.counters[access.at];
        let by_self = u64::from(cold.new_writer == access.task);
        counters.count_miss([mode, owner], MissClass::TrueSharing);
        counters.true_by_self[mode][0] += by_self;
        if frame.flags & UNDECIDED != 0 {
            let judged = self.undecided.of(access.at, access.line);
            judged.count_miss([mode, owner], MissClass::TrueSharing);
            judged.true_by_self[mode][0] += by_self;
        }
        frame.flags &= !PENDING_MISS;
        cold.forget_new_words();
        if O::ACTIVE {
            self.observer.judged(access.at, access.line, MissClass::TrueSharing);
        }
    }

    /// Performs one bus transaction for the access, or none if the state allows that by now.
    ///
    /// # Panics
    /// Unwinds with a [`MissingCell`] when the protocol table lacks the cell that is needed: an
    /// internal bug.
    pub fn transact(&mut self, access: &Access<W, CacheId>, page: impl Into<Page>) -> Outcome {
        match self.hit_or_find(access) {
            Ok(()) => Outcome { done: true, ..Outcome::default() },
            Err(found) => {
                let approached = self.approach(access, found);
                self.transact_missed(access, approached, page.into())
            }
        }
    }

    /// The same for an access that is known not to hit, with what [`CoherentSystem::approach`] has found.
    #[inline]
    pub(crate) fn transact_missed(
        &mut self,
        access: &Access<W, CacheId>,
        approached: Approached,
        page: Page,
    ) -> Outcome {
        with_cache_set!(self.copies, self.transact_on(access, approached, page))
    }

    /// The same with sets of caches as wide as the machine needs.
    #[inline(never)]
    fn transact_on<S: Indexed>(
        &mut self,
        access: &Access<W, CacheId>,
        Approached { found, index, listed }: Approached,
        page: Page,
    ) -> Outcome {
        let private = page.private && self.table.uses_private;
        self.history.keep(access.line, access.step(page.private));
        let state = found.map_or(INVALID, |index| self.arrays[access.at].frames[index].state);
        let (op, again) = self.request(state, access.write);
        let mut record = self.copies.record::<S>(listed);
        let mode = usize::from(access.kernel);
        self.counters[access.at].bus[mode][op as usize] += 1;
        let used_earlier = self.switches.used(access.task, access.line);
        if !op.is_fetch() {
            self.classify_coherence(access, record.valid, op, page);
        }
        let to_memory = op == BusOp::Write && self.table.words_to_memory;
        let mut outcome = Outcome { op: Some(op), done: !again, to_memory, ..Outcome::default() };
        let lines = self.snoop(access, &mut record, op, private, &mut outcome);
        let next = self.next_state(state, access.write, lines, private);
        if op.is_fetch() {
            self.counters[access.at].cache_to_cache[mode][0] += u64::from(outcome.from_cache);
            self.fill(access, (&mut record, listed), (found, index), (page, used_earlier), &mut outcome);
        } else {
            self.arrays[access.at].use_frame(found.expect("an upgrade has a copy"));
        }
        self.copies.set_record(listed, &record);
        self.tell(access, access.at, access.line, state, access.event(Some(op)), next);
        self.complete(access, record.stale, index, next, !again);
        outcome
    }

    /// The transaction of an access that needs one, and whether it is applied again then.
    #[inline]
    fn request(&self, state: State, write: bool) -> (BusOp, bool) {
        let request = self.cells.request(state, write).expect("a local access hits");
        (request.op, request.again)
    }

    /// The state after it.
    #[inline]
    fn next_state(&self, state: State, write: bool, lines: Lines, private: bool) -> State {
        self.cells.request(state, write).map_or(INVALID, |request| request.next(lines, private))
    }

    /// Where the transaction of an access that does not hit finds what is known of its line, which comes nearer, and with it what is
    /// known of the line that makes room. `found` is the frame that has its tag; if none has, the set is on its way ([`Array::prefetch`]).
    #[inline]
    pub(crate) fn approach(&mut self, access: &Access<W, CacheId>, found: Option<usize>) -> Approached {
        let array = &self.arrays[access.at];
        if let Some(index) = found {
            let listed = array.cold[index].record as usize;
            self.copies.prefetch(listed);
            return Approached { found, index, listed };
        }
        self.switches.prefetch(access.at, access.task, access.line);
        let listed = self.copies.place_of(access.line);
        self.copies.prefetch(listed);
        self.approach_listed(access, None, listed)
    }

    /// The same where somebody has told the place of the line's record, `listed`, and it has come.
    #[inline]
    pub(crate) fn approach_listed(
        &mut self,
        access: &Access<W, CacheId>,
        found: Option<usize>,
        listed: usize,
    ) -> Approached {
        Approached { found, index: found.unwrap_or_else(|| self.make_room(access)), listed }
    }

    /// The same for a transaction that comes later: nothing is made yet.
    pub(crate) fn foresee(&self, access: &Access<W, CacheId>) {
        let array = &self.arrays[access.at];
        let listed = if let Some(index) = array.find(access.line) {
            Some(array.cold[index].record as usize)
        } else {
            self.switches.prefetch(access.at, access.task, access.line);
            self.copies.find(access.line)
        };
        if let Some(listed) = listed {
            self.copies.prefetch(listed);
        }
    }

    /// The frame that the line will take. What is known of the line that leaves it comes nearer meanwhile.
    #[inline(always)]
    fn make_room(&mut self, access: &Access<W, CacheId>) -> usize {
        let array = &mut self.arrays[access.at];
        let index = array.victim(access.line);
        self.copies.prefetch(array.cold[index].record as usize);
        index
    }

    /// The transaction that the access would need now; `None` when it would hit.
    pub fn needed(&self, access: &Access<W, CacheId>) -> Option<BusOp> {
        let array = &self.arrays[access.at];
        let state = array.find(access.line).map_or(INVALID, |index| array.frames[index].state);
        self.cells.request(state, access.write).map(|request| request.op)
    }

    /// Sets the new state, touches the words and commits a completed write.
    #[inline]
    fn complete<S: CacheSet>(
        &mut self,
        access: &Access<W, CacheId>,
        stale: S,
        index: usize,
        next: State,
        done: bool,
    ) {
        let exclusive = self.cells.is_exclusive(next);
        let frame = &mut self.arrays[access.at].frames[index];
        frame.state = next;
        frame.touched.add(access.words);
        frame.user = user(access.task);
        if frame.flags & (PENDING | PREFETCHED) != 0 {
            self.judge_pending(access, index);
            self.first_use(access, index);
        }
        self.follow_use(access, index);
        if !(access.write && done) {
            return;
        }
        if exclusive {
            let frame = &mut self.arrays[access.at].frames[index];
            frame.written.add(access.words);
            frame.writer = join_writers(frame.writer, access.task);
        } else {
            // Valid copies took the word; copies lost earlier did not.
            self.announce(stale, access.at, access.line, access.words, access.task);
        }
    }

    /// Adds words written by `cache` to the frames of the caches `stale`, which lost the line but keep
    /// its tag.
    fn announce<S: CacheSet>(&mut self, stale: S, cache: CacheId, line: LineAddr, words: W, writer: u32) {
        for other in stale.without(cache).iter() {
            let array = &mut self.arrays[other];
            let index = array.search(line).expect("a stale record has its tag");
            let cold = &mut array.cold[index];
            cold.new_words.add(words);
            cold.new_writer = join_writers(cold.new_writer, writer);
        }
    }

    /// Announces the words that collected in an exclusive copy.
    #[inline]
    fn flush_written<S: CacheSet>(&mut self, stale: S, cache: CacheId, line: LineAddr, index: usize) {
        let frame = &mut self.arrays[cache].frames[index];
        if frame.written.is_empty() {
            return;
        }
        let (words, writer) = (frame.written, frame.writer);
        frame.written = W::default();
        frame.writer = NO_WRITER;
        self.announce(stale, cache, line, words, writer);
    }

    /// Ends the lifetime of a copy: a miss still pending was false sharing.
    #[inline(always)]
    fn lose(&mut self, cache: CacheId, index: usize) {
        let frame = &mut self.arrays[cache].frames[index];
        let flags = std::mem::take(&mut frame.flags);
        self.prefetches.useless += u64::from(flags & PREFETCHED != 0);
        if flags & PENDING != 0 {
            let mode = usize::from(flags & MISS_KERNEL != 0);
            let owner = usize::from(flags & OWNER_KERNEL != 0);
            self.counters[cache].count_miss([mode, owner], MissClass::FalseSharing);
            if flags & UNDECIDED != 0 {
                let judged = self.undecided.of(cache, self.arrays[cache].frames[index].line);
                judged.count_miss([mode, owner], MissClass::FalseSharing);
            }
            if O::ACTIVE {
                self.observer.judged(cache, self.arrays[cache].frames[index].line, MissClass::FalseSharing);
            }
        }
    }

    #[inline]
    fn classify_coherence<S: CacheSet>(
        &mut self,
        access: &Access<W, CacheId>,
        valid: S,
        op: BusOp,
        page: Page,
    ) {
        let holders = valid.without(access.at);
        let class = if holders.is_empty() {
            CoherenceClass::Needless
        } else if page.private {
            CoherenceClass::PassiveSharing
        } else if self.any_touched(holders, access) {
            CoherenceClass::TrueSharing
        } else {
            CoherenceClass::FalseSharing
        };
        let mode = usize::from(access.kernel);
        let owner = usize::from(page.kernel.unwrap_or(access.kernel));
        self.counters[access.at].count_coherence([mode, owner], class);
        if page.undecided && class != CoherenceClass::Needless {
            self.undecided.of(access.at, access.line).count_coherence([mode, owner], class);
        }
        if O::ACTIVE {
            self.observer.coherence(&access.by(), op, class);
        }
    }

    fn any_touched<S: CacheSet>(&self, holders: S, access: &Access<W, CacheId>) -> bool {
        holders.iter().any(|cache| {
            let array = &self.arrays[cache];
            let index = array.search(access.line).expect("a holder has the line");
            array.frames[index].touched.meets(access.words)
        })
    }

    /// Lets every other holder react; returns the response lines.
    #[inline]
    fn snoop<S: CacheSet>(
        &mut self,
        access: &Access<W, CacheId>,
        record: &mut LineRecord<S>,
        op: BusOp,
        private: bool,
        outcome: &mut Outcome,
    ) -> Lines {
        self.snooped.clear();
        let column = Snoop::of(op, private);
        let others = record.valid.without(access.at);
        let mut lines = self.raised;
        if !others.is_empty() {
            lines = lines.and(match self.cells.raised_by_several(column) {
                // Most code and many data lie in several caches, and each of them would say the same.
                Some(lines) if record.valid.has_several() && !O::ACTIVE => {
                    debug_assert!(others.iter().all(|other| self.has_nothing_to_tell(other, access.line)));
                    lines
                }
                _ => self.snoop_each(access, record, (op, column), outcome),
            });
        }
        if self.around.elsewhere {
            lines = lines.and(Lines::SHARED);
        }
        lines
    }

    /// Whether the copy of `line` at `cache` is not the only one, and has no words that others are to hear of.
    fn has_nothing_to_tell(&self, cache: CacheId, line: LineAddr) -> bool {
        let index = self.arrays[cache].find(line).expect("a holder has the line");
        let frame = &self.arrays[cache].frames[index];
        !self.cells.is_exclusive(frame.state) && frame.written.is_empty()
    }

    /// Lets other holders, of which there are some, react one by one; returns the lines that they raise.
    #[inline(never)]
    fn snoop_each<S: CacheSet>(
        &mut self,
        access: &Access<W, CacheId>,
        record: &mut LineRecord<S>,
        (op, column): (BusOp, Snoop),
        outcome: &mut Outcome,
    ) -> Lines {
        let mut lines = Lines::NONE;
        let others = record.valid.without(access.at);
        // Where others have private levels of their own, each look-up is two steps to places that the host's caches have lost.
        others.iter().for_each(|other| self.arrays[other].prefetch_place(access.line));
        others.iter().for_each(|other| self.arrays[other].prefetch_copy(access.line));
        for other in others.iter() {
            let index = self.arrays[other].search(access.line).expect("a holder has the line");
            self.flush_written(record.stale, other, access.line, index);
            let state = self.arrays[other].frames[index].state;
            let Some(Reaction { raise, supply, memory, next }) = self.cells.reaction(column, state) else {
                self.missing_cell(state, column.heading(), other, access.line)
            };
            lines = lines.and(raise);
            let supply = supply && (!self.around.near || self.around.together(access.at, other));
            let better = |before: CacheId| {
                !self.around.together(access.at, before) && self.around.together(access.at, other)
            };
            if supply && outcome.supplied_by.is_none_or(better) {
                outcome.supplied_by = Some(other);
            }
            outcome.from_cache |= supply;
            outcome.to_memory |= memory;
            let dirty = self.cells.is_dirty(state);
            if next == INVALID {
                self.snooped.push((other, Snooped::Lost));
            } else if dirty && !self.cells.is_dirty(next) {
                self.snooped.push((other, Snooped::Cleaned));
            }
            if supply && op.is_fetch() && dirty {
                self.counters[access.at].hit_modified[usize::from(access.kernel)][0] += 1;
            }
            self.arrays[other].frames[index].state = next;
            self.tell(access, other, access.line, state, StateEvent::Snoop(column), next);
            if next == INVALID {
                self.drop_copy(access, other, index, op, &mut record.loss);
                record.valid.remove(other);
                record.stale.insert(other);
            }
        }
        lines
    }

    /// Unwinds with what is known, past the panic hook: whoever catches it has more to say.
    #[cold]
    fn missing_cell(&self, state: State, event: &'static str, cache: CacheId, line: LineAddr) -> ! {
        std::panic::resume_unwind(Box::new(MissingCell {
            protocol: self.table.name,
            state: self.table.state_name(state),
            event,
            cache,
            line,
            steps: self.history.of_line(line),
        }))
    }

    #[inline]
    fn drop_copy(
        &mut self,
        access: &Access<W, CacheId>,
        cache: CacheId,
        index: usize,
        op: BusOp,
        last: &mut Loss,
    ) {
        self.lose(cache, index);
        self.switches.lost(cache, access.line, Taker::Snoop, last);
        if op == BusOp::Read {
            self.arrays[cache].frames[index].flags = REMOVED;
            self.counters[access.at].removed[usize::from(access.kernel)][0] += 1;
            if O::ACTIVE {
                self.observer.removal(&access.by(), cache);
            }
        }
    }

    /// Classifies the miss and gives the line its frame `index`, which had its tag if `found`.
    #[inline]
    fn fill<S: Indexed>(
        &mut self,
        access: &Access<W, CacheId>,
        (record, listed): (&mut LineRecord<S>, usize),
        (found, index): (Option<usize>, usize),
        (page, used_earlier): (Page, bool),
        outcome: &mut Outcome,
    ) {
        let class = self.classify_miss(access, record, found, (page, used_earlier));
        if O::ACTIVE {
            self.observer.miss(&access.by(), class);
        }
        self.trigger = Some((Trigger::Miss, access.line));
        self.take_frame(access, (record, listed), (found, index), page, outcome);
    }

    /// Gives the line its frame `index`, which had its tag if `found`, without a word touched.
    #[inline(always)]
    fn take_frame<S: Indexed>(
        &mut self,
        access: &Access<W, CacheId>,
        (record, listed): (&mut LineRecord<S>, usize),
        (found, index): (Option<usize>, usize),
        page: Page,
        outcome: &mut Outcome,
    ) {
        if found.is_none() {
            match self.evict::<S>(access, index) {
                Some((line, true)) => outcome.write_back = Some(line),
                Some((line, false)) => outcome.dropped_clean = Some(line),
                None => {}
            }
            let array = &mut self.arrays[access.at];
            array.place(index, access.line);
            let cold = &mut array.cold[index];
            cold.record = listed as u32;
            cold.forget_new_words();
        }
        self.distinct_lines += usize::from(record.seen.is_empty());
        record.valid.insert(access.at);
        record.stale.remove(access.at);
        record.seen.insert(access.at);
        let array = &mut self.arrays[access.at];
        array.fill_frame(index);
        let frame = &mut array.frames[index];
        frame.touched = W::default();
        frame.written = W::default();
        frame.writer = NO_WRITER;
        if found.is_none() {
            frame.flags = 0;
        }
        // Only where it is asked for: a frame without flags is hit with fewer questions.
        if page.private && self.table.rules.flush_private {
            frame.flags |= PRIVATE_COPY;
        }
    }

    /// Counts the miss; its class, unless that is still to be judged. With the page comes whether the task used the line in an
    /// earlier quantum.
    #[inline]
    fn classify_miss<S: CacheSet>(
        &mut self,
        access: &Access<W, CacheId>,
        record: &LineRecord<S>,
        found: Option<usize>,
        (page, used_earlier): (Page, bool),
    ) -> Option<MissClass> {
        let (cache, mode) = (access.at, usize::from(access.kernel));
        let owner = usize::from(page.kernel.unwrap_or(access.kernel));
        let seen = record.seen.has(cache);
        let invalidation = found.and_then(|index| self.invalidation(access, index));
        let loss = if seen && invalidation.is_none() {
            self.switches.loss(cache, access.line, record.loss)
        } else {
            Loss::NEVER
        };
        // A tag that is still there: nobody's fill took it.
        let cause = if found.is_some() { LossCause::Invalidated } else { loss.cause() };
        if found.is_none() {
            self.unfilled[cache] += u64::from(self.arrays[cache].may_have_had(access.line));
        }
        let counters = &mut self.counters[cache];
        counters.misses_at_once[mode][0] += 1;
        counters.misses_by_loss[mode][cause as usize] += 1;
        let class = match invalidation {
            Some(_) if page.private => MissClass::PassiveSharing,
            Some(index) if self.table.rules.judge_at_miss => {
                let cold = &self.arrays[cache].cold[index];
                let true_sharing = cold.new_words.meets(access.words);
                let by_self = u64::from(true_sharing && cold.new_writer == access.task);
                counters.true_by_self[mode][0] += by_self;
                let class = if true_sharing { MissClass::TrueSharing } else { MissClass::FalseSharing };
                if page.undecided {
                    let judged = self.undecided.of(cache, access.line);
                    judged.count_miss([mode, owner], class);
                    judged.true_by_self[mode][0] += by_self;
                }
                class
            }
            Some(index) => {
                self.arrays[cache].frames[index].flags = PENDING
                    | if access.kernel { MISS_KERNEL } else { 0 }
                    | if owner == 1 { OWNER_KERNEL } else { 0 }
                    | if page.undecided { UNDECIDED } else { 0 };
                return None;
            }
            None => {
                if used_earlier {
                    self.note_switch(access, loss);
                }
                self.classify_other(access, seen)
            }
        };
        if let Some(index) = found {
            self.arrays[cache].cold[index].forget_new_words();
        }
        self.counters[cache].count_miss([mode, owner], class);
        Some(class)
    }

    /// The frame that has the tag of the line, unless the miss counts as any other.
    #[inline]
    fn invalidation(&mut self, access: &Access<W, CacheId>, index: usize) -> Option<usize> {
        let frame = &mut self.arrays[access.at].frames[index];
        let removed = std::mem::take(&mut frame.flags) & REMOVED != 0;
        self.counters[access.at].removed[usize::from(access.kernel)][1] += u64::from(removed);
        (!removed || self.table.removal_is_invalidation).then_some(index)
    }

    /// Counts a miss that no invalidation caused, on a line that its task used in an earlier quantum, if it is a
    /// context-switch miss.
    fn note_switch(&mut self, access: &Access<W, CacheId>, loss: Loss) {
        let cpu = self.processor_of(access.at);
        if let Some(cause) = self.switches.cause(cpu, access.task, loss) {
            self.counters[access.at].context_switch[usize::from(access.kernel)][cause as usize] += 1;
        }
    }

    /// The class of a miss that no invalidation caused.
    #[inline]
    fn classify_other(&self, access: &Access<W, CacheId>, seen: bool) -> MissClass {
        let young = || self.ages.iter().any(|&(line, age)| line == access.line && age < self.shadow_frames);
        let in_shadow = || self.shadows.get(access.at.0).map_or_else(young, |s| s.contains(access.line));
        if !seen {
            MissClass::Cold
        } else if in_shadow() {
            MissClass::Conflict
        } else {
            MissClass::Capacity
        }
    }

    /// Makes room in a frame; returns its line and whether that is written back.
    #[inline(always)]
    fn evict<S: Indexed>(&mut self, access: &Access<W, CacheId>, index: usize) -> Option<(LineAddr, bool)> {
        let cache = access.at;
        let line = self.arrays[cache].frames[index].line;
        if line == EMPTY {
            return None;
        }
        let state = self.leave::<S>(cache, line, index, Taker::Fill(access.task))?;
        self.evictions[cache] += 1;
        self.tell(access, cache, line, state, StateEvent::Evict, INVALID);
        Some((line, self.write_back(cache, state, access.kernel)))
    }

    /// Ends what is known of the copy in a frame because of `taker`; its state, if it was valid.
    #[inline(always)]
    fn leave<S: Indexed>(
        &mut self,
        cache: CacheId,
        line: LineAddr,
        index: usize,
        taker: Taker,
    ) -> Option<State> {
        let state = self.arrays[cache].frames[index].state;
        self.note_last_use(cache, index);
        let listed = self.arrays[cache].cold[index].record as usize;
        let mut record = self.copies.record::<S>(listed);
        record.valid.remove(cache);
        record.stale.remove(cache);
        if state != INVALID {
            self.switches.lost(cache, line, taker, &mut record.loss);
        }
        self.copies.set_record(listed, &record);
        if state == INVALID {
            return None;
        }
        self.history.keep(line, Step::Evict(cache.0));
        self.eviction(state, cache, line);
        self.flush_written(record.stale, cache, line, index);
        self.lose(cache, index);
        Some(state)
    }

    /// What the eviction of a copy of `line` in `state` does.
    #[inline]
    fn eviction(&self, state: State, cache: CacheId, line: LineAddr) -> OnEvict {
        match self.cells.eviction(state) {
            OnEvict::Impossible => self.missing_cell(state, "Evict", cache, line),
            eviction => eviction,
        }
    }

    /// The processor whose cache it is.
    pub(crate) fn processor_of(&self, cache: CacheId) -> CpuId {
        // One or two: no division.
        CpuId(if self.per_processor == 1 { cache.0 } else { cache.0 / 2 })
    }

    /// Notes a line that is on its way to memory by itself.
    pub(crate) fn note_written_back(&mut self, cache: CacheId, line: LineAddr) {
        if self.times_write_backs {
            self.written_back.push((self.processor_of(cache), line));
        }
    }

    /// Counts the write-back of a copy that leaves in `state`, if it needs one.
    #[inline]
    fn write_back(&mut self, cache: CacheId, state: State, kernel: bool) -> bool {
        let dirty = self.cells.eviction(state) == OnEvict::WriteBack;
        self.counters[cache].bus[usize::from(kernel)][BusOp::WriteBack as usize] += u64::from(dirty);
        dirty
    }

    /// Takes `line` away from `cache`, tag and all, because `access` made other levels of the
    /// hierarchy give it up; whether a copy was valid, and if so whether it was written back.
    pub fn release(&mut self, access: &Access<W, CacheId>, cache: CacheId, line: LineAddr) -> Option<bool> {
        let index = self.arrays[cache].find(line)?;
        let taker = Taker::Fill(access.task);
        let state = with_cache_set!(self.copies, self.leave(cache, line, index, taker));
        self.arrays[cache].erase(index);
        let state = state?;
        self.tell(access, cache, line, state, StateEvent::Evict, INVALID);
        Some(self.write_back(cache, state, access.kernel))
    }

    /// Takes a valid copy of `line` away from `cache`, tag and all, because the kernel moves its page; whether it was
    /// written back.
    pub(crate) fn take_away(&mut self, cache: CacheId, line: LineAddr) -> bool {
        let Some(index) = self.arrays[cache].find(line) else { return false };
        let state = with_cache_set!(self.copies, self.leave(cache, line, index, Taker::Snoop));
        self.arrays[cache].erase(index);
        let Some(state) = state else { return false };
        if O::ACTIVE {
            let by = By { cache, line, task: 0, kernel: true, write: false, slot: 1 };
            let step = Transition { cache, line, from: state, event: StateEvent::Flush, to: INVALID };
            self.observer.transition(&by, &step);
        }
        self.write_back(cache, state, true)
    }

    /// The first cache with a valid copy of `line` among those that `wanted` says.
    pub fn first_holder(&self, line: LineAddr, wanted: impl Fn(CacheId) -> bool) -> Option<CacheId> {
        with_cache_set!(self.copies, self.first_holder_in(line, wanted))
    }

    fn first_holder_in<S: Indexed>(
        &self,
        line: LineAddr,
        wanted: impl Fn(CacheId) -> bool,
    ) -> Option<CacheId> {
        self.copies.record::<S>(self.copies.find(line)?).valid.iter().find(|&cache| wanted(cache))
    }

    /// Tells `each` every processor that has a copy of `line`; one of two caches that both have it, twice.
    pub fn for_each_holder(&self, line: LineAddr, each: impl FnMut(CpuId)) {
        with_cache_set!(self.copies, self.for_each_holder_in(line, each));
    }

    fn for_each_holder_in<S: Indexed>(&self, line: LineAddr, each: impl FnMut(CpuId)) {
        let Some(place) = self.copies.find(line) else { return };
        let caches = self.copies.record::<S>(place).valid.iter();
        caches.map(|cache| self.processor_of(cache)).for_each(each);
    }

    /// Whether one of the caches that `wanted` says would supply the line of `access` to transaction `op`.
    pub fn is_supplied(
        &self,
        access: &Access<W, CacheId>,
        op: BusOp,
        wanted: impl Fn(CacheId) -> bool,
    ) -> bool {
        let column = Snoop::of(op, false);
        let supplies = |cache: CacheId| {
            let array = &self.arrays[cache];
            let state = array.find(access.line).map_or(INVALID, |index| array.frames[index].state);
            self.cells.reaction(column, state).is_some_and(|reaction| reaction.supply)
        };
        let supplier = |cache| cache != access.at && wanted(cache) && supplies(cache);
        self.first_holder(access.line, supplier).is_some()
    }

    /// Whether a cache of these has a valid copy of `line`.
    pub fn is_held_by(&self, line: LineAddr, caches: std::ops::Range<usize>) -> bool {
        with_cache_set!(self.copies, self.is_held_in(line, caches))
    }

    fn is_held_in<S: Indexed>(&self, line: LineAddr, caches: std::ops::Range<usize>) -> bool {
        let Some(place) = self.copies.find(line) else { return false };
        let valid = self.copies.record::<S>(place).valid;
        caches.into_iter().any(|cache| valid.has(CacheId(cache)))
    }

    /// Whether the copy in frame `index` of `cache` is dirty.
    #[inline]
    pub(crate) fn is_dirty_at(&self, cache: CacheId, index: usize) -> bool {
        self.cells.is_dirty(self.arrays[cache].frames[index].state)
    }

    /// Misses from here on are classified. Of those before, whose class is not known yet, none counts any more, so that
    /// the classes of a window are those of its own misses.
    pub fn leave_pending_misses_out(&mut self) {
        for array in &mut self.arrays {
            array.frames.iter_mut().for_each(|frame| frame.flags &= !PENDING_MISS);
        }
    }

    /// Ends the run: misses still pending were false sharing.
    pub fn finish(&mut self) {
        for cache in CacheId::all(self.arrays.len()) {
            for index in 0..self.arrays[cache].frames.len() {
                // What lies here unused might still have been of use.
                self.arrays[cache].frames[index].flags &= !PREFETCHED;
                self.lose(cache, index);
            }
        }
    }

    /// Says at the end of a run which of the pages that were undecided are private, by number.
    pub fn decide_pages(&mut self, is_private: impl Fn(u64) -> bool) {
        self.undecided.decide(is_private, &mut self.counters);
    }

    /// Counters of all processors together.
    pub fn total(&self) -> Counters {
        let mut total = Counters::default();
        for counters in &self.counters {
            total.add(counters);
        }
        total
    }

    /// Distinct lines touched so far.
    pub fn distinct_lines(&self) -> usize {
        self.distinct_lines
    }

    /// Host memory in use, in bytes.
    pub fn host_bytes(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(Array::bytes).sum();
        let shadows: usize = self.shadows.iter().map(Shadow::bytes).sum();
        arrays + shadows + self.copies.bytes() + self.switches.bytes()
    }

    /// State of the copy of `line` at `cache`, by name: for tests and `--watch`.
    pub fn state_of(&self, cache: CacheId, line: LineAddr) -> &'static str {
        let array = &self.arrays[cache];
        let state = array.find(line).map_or(INVALID, |index| array.frames[index].state);
        self.table.state_name(state)
    }
}

const _: () = assert!(MIXED_WRITERS != NO_WRITER);
