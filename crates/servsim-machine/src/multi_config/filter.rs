//! What all machines of one pass know alike: the lines that each cache used last.
//!
//! Sets are chosen by low bits of the line, so lines that share a set of a larger cache share one of the
//! smallest (Hill & Smith, IEEE TC 38(12) 1989, on inclusion). So the lines that a cache of as many sets as
//! divide those of all machines, with the ways of the one that has fewest, would hold by least recent use
//! are in the cache of every machine, unless a copy was taken away by another cache.
//!
//! A use of such a line by the task that used it last, which may read or write it without asking, changes nothing on any
//! machine but which words were used and when the line was used last. The words matter when another cache asks for the line, or
//! when it makes room; the time when a line of its set makes room: until then all lines known here are younger than all
//! others, one of which makes room. So machines take what they are asked for as the youngest, and are told the
//! rest ([`servsim_mem::late_uses`]) when the line is dropped here, before the access that drops it, or when another cache
//! asks for it. A line whose copy may be gone keeps its place until others push it out, because on machines that kept
//! the copy it is as young as before.

// The loop over references that pass is one function.
#![allow(clippy::inline_always)]

use super::ages::Ages;
use crate::functional::{references_of, LeftUse, Step, IN_KERNEL, WRITE};
use crate::setup::Setup;
use servsim_core::reference::{address_on, CONTINUATION, KERNEL};
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};
use servsim_mem::array::{Array, Frame, EMPTY};
use servsim_mem::late_uses::{LateUses, LATER};
use servsim_mem::protocol::Table;
use servsim_mem::{Geometry, HierarchySpec, Inclusion, RunCounts, WordMask};

/// Most ways of a set: a set is searched way by way.
const MOST_WAYS: u32 = 16;
/// Most lines of a cache where ages are asked for: each time all are looked at.
const MOST_LINES_OF_AGES: usize = 1024;
/// Most tasks: caches note of others only that they are others.
const MOST_TASKS: usize = u16::MAX as usize - 1;

// What is known of a line lies in the frame as if the array were a cache: in `touched` and `written` the words of uses
// that machines were not told of, in `writer` the task that used it last, in `stamp` when; in `flags`:
/// The task may use the line without telling anyone.
const MAY_READ: u8 = 1;
/// It may write it, too.
const MAY_WRITE: u8 = 2;
/// Machines do not know when it was used last.
const UNTOLD: u8 = 4;

/// Machines that are asked behind one more filter, at least: its own cost is about that of one.
const FEWEST_BEHIND: usize = 3;
/// By how many times as many lines as the filter before.
const STEP: usize = 4;

/// What the machines of a pass have in common.
pub(super) struct Shape {
    pub processors: usize,
    /// log2 of the bytes of a line.
    pub shift: u32,
    /// Whether code and data have caches of their own.
    pub split: bool,
    /// As in [`crate::functional::Facts`].
    pub joined: bool,
}

impl Shape {
    /// The bits of an address within a line.
    fn offset(&self) -> u64 {
        (1 << self.shift) - 1
    }
}

/// What is known.
pub(super) struct Filter<W> {
    caches: Vec<Array<W>>,
    /// By processor: what the filter before has left, and this one not.
    pub hits: Vec<RunCounts>,
    /// Of each cache, for machines that tell conflict from capacity misses.
    ages: Option<Vec<Ages>>,
    /// Whether a fetch by another cache leaves a copy, on every machine.
    reads_keep_copies: bool,
    /// Whether a line that was written may be written again without telling anyone, on every machine.
    writes_repeat: bool,
}

/// A machine of those of one pass.
type Machine = (Setup, HierarchySpec);

/// Filters, each behind the one before, for `machines` and so many tasks; none if machines do not allow it. With each
/// the machines that are asked for what it leaves, by number.
///
/// The larger a cache, the more lines are known to be in it: so larger machines have another filter of their own, which
/// is told what the one before leaves, as a machine would be. The lines of that one are among those that this one knows,
/// because its sets divide these.
pub(super) fn filters<W: WordMask>(machines: &[Machine], tasks: usize) -> Vec<(Filter<W>, Vec<usize>)> {
    let simple = |(setup, spec): &Machine| {
        spec.private.is_empty()
            && spec.shared.iter().all(|level| level.inclusion != Inclusion::Inclusive)
            && spec.replacement == "lru"
            && !setup.protocol.rules.flush_private
            && setup.protocol.reads_quietly()
    };
    let mut geometry = common(machines.iter());
    let frames =
        machines.iter().filter(|(setup, _)| setup.shadow).map(|(setup, _)| setup.geometry.frames()).max();
    while frames.is_some() && geometry.sets().is_multiple_of(2) && geometry.frames() > MOST_LINES_OF_AGES {
        geometry.size /= 2;
    }
    if tasks > MOST_TASKS || !machines.iter().all(simple) {
        return Vec::new();
    }
    let mut behind: Vec<usize> = (0..machines.len()).collect();
    let first = Filter::new(geometry, machines.iter());
    let caches = first.caches.len();
    let ages = frames.map(|frames| (0..caches).map(|_| Ages::new(frames)).collect());
    let mut filters = vec![(Filter { ages, ..first }, Vec::new())];
    let of = |&place: &usize| &machines[place];
    let frames = |place: &usize| of(place).0.geometry.frames();
    behind.sort_by_key(frames);
    // The more machines, the better: those from the smallest on that has a next filter with larger ones.
    let mut first = 0;
    while behind.len() - first >= FEWEST_BEHIND {
        let next = common(behind[first..].iter().map(of));
        if next.frames() < STEP * geometry.frames() {
            first += 1;
            continue;
        }
        let large = behind.split_off(first);
        geometry = next;
        filters.last_mut().expect("the first").1 = std::mem::replace(&mut behind, large);
        let mut filter = Filter::new(geometry, behind.iter().map(of));
        filter.caches.iter_mut().for_each(|array| array.stop_clock(LATER));
        filters.push((filter, Vec::new()));
        first = 0;
    }
    filters.last_mut().expect("the first").1 = behind;
    filters
}

/// The largest cache whose lines are in that of all `machines`.
fn common<'a>(machines: impl Iterator<Item = &'a Machine>) -> Geometry {
    let all = machines.map(|(setup, _)| setup.geometry);
    let both = |a: Geometry, b: Geometry| {
        let (sets, ways) = (common_divisor(a.sets(), b.sets()) as u64, a.ways.min(b.ways));
        Geometry { size: sets * u64::from(ways) * a.line, ways, line: a.line }
    };
    let geometry = all.reduce(both).expect("a pass has a machine");
    let ways = geometry.ways.min(MOST_WAYS);
    Geometry { size: geometry.size / u64::from(geometry.ways) * u64::from(ways), ways, ..geometry }
}

impl<W: WordMask> Filter<W> {
    /// A filter of so many lines for `machines`, which have as many processors.
    fn new<'a>(geometry: Geometry, machines: impl Iterator<Item = &'a Machine> + Clone) -> Self {
        let all = machines.clone().map(|(setup, spec)| (setup.processors, spec.coherent_caches())).max();
        let (processors, caches) = all.expect("a pass has a machine");
        let mut protocols = machines.map(|(setup, _)| &setup.protocol);
        Self {
            caches: (0..processors * caches).map(|_| Array::new(geometry)).collect(),
            hits: vec![RunCounts::default(); processors],
            ages: None,
            reads_keep_copies: protocols.clone().all(Table::reads_keep_copies),
            writes_repeat: protocols.all(Table::writes_repeat_quietly),
        }
    }

    /// The cache of this record of processor `cpu`, and its address there.
    #[inline]
    pub fn place(cpu: CpuId, record: &Record, shape: &Shape) -> (CacheId, u64) {
        let data = shape.split && record.op != Op::Fetch;
        let cache = cpu.0 * (1 + usize::from(shape.split)) + usize::from(data);
        (CacheId(cache), address_on(record, cpu))
    }

    /// Notes the records from the first on that are of its task and processor, which is `cpu`, and that machines need not be
    /// asked for now. Adds the references that they stand for to `hits`; returns how many records they are.
    #[inline(never)]
    pub fn pass_run(&mut self, cpu: CpuId, records: &[Record], shape: &Shape, hits: &mut RunCounts) -> usize {
        let first = &records[0];
        let same = |record: &Record| {
            record.task == first.task && (shape.joined || record.cpu == first.cpu) && record.op != Op::Event
        };
        let passes = |record: &&Record| {
            let passes = same(record) && self.passes_on(cpu, record, shape);
            if passes {
                let mode = usize::from(record.flags & KERNEL);
                hits[mode][record.op as usize] += references_of(record, shape.joined);
            }
            passes
        };
        records.iter().take_while(passes).count()
    }

    /// Whether machines need not be asked now for `record` of processor `cpu`; then it is noted.
    #[inline(always)]
    fn passes_on(&mut self, cpu: CpuId, record: &Record, shape: &Shape) -> bool {
        let (cache, address) = Self::place(cpu, record, shape);
        let start = address & shape.offset();
        let last = start + (u64::from(record.size) - 1);
        if last > shape.offset() || record.flags & CONTINUATION != 0 {
            return false;
        }
        let line = LineAddr::of(address, shape.shift);
        self.passes(cache, line, (W::of_bytes(start, last), record.op == Op::Store), record.task)
    }

    /// The same of a use of words of a line, which are written if `write`.
    #[inline(always)]
    fn passes(&mut self, cache: CacheId, line: LineAddr, (words, write): (W, bool), task: u32) -> bool {
        let array = &mut self.caches[cache];
        let Some(index) = array.find_and_guess(line) else { return false };
        let frame = &mut array.frames[index];
        let asked = if write { MAY_WRITE } else { MAY_READ };
        if frame.flags & asked == 0 || frame.writer != task {
            return false;
        }
        frame.touched.add(words);
        if write {
            frame.written.add(words);
        }
        array.use_frame(index);
        true
    }

    /// Leaves a use to the machines, after what they have to be told before it.
    pub fn leave(&mut self, used: &LeftUse<W>, left: &mut Vec<Step<W>>) {
        let cache = CacheId(usize::from(used.cache));
        self.learn((cache, used.task), used.line, used.flags & WRITE != 0, left);
        left.push(Step::Use(*used));
    }

    /// Leaves to the machines what is still to be left of what the filter before has left.
    #[inline(never)]
    pub fn leave_rest(&mut self, before: &[Step<W>], shape: &Shape, left: &mut Vec<Step<W>>) {
        for step in before {
            match step {
                Step::Use(used) => {
                    let (cache, write) = (CacheId(usize::from(used.cache)), used.flags & WRITE != 0);
                    if self.passes(cache, used.line, (used.words, write), used.task) {
                        let mode = usize::from(used.flags & IN_KERNEL != 0);
                        self.hits[cache.0 >> u32::from(shape.split)][mode][usize::from(used.slot)] += 1;
                        // Nobody is asked what its ages are for.
                        while let Some(Step::Age(..)) = left.last() {
                            left.pop();
                        }
                    } else {
                        self.leave(used, left);
                    }
                }
                Step::LateUses(uses) => self.note(uses),
                Step::Age(..) | Step::Switch(..) | Step::End(_) => left.push(*step),
            }
        }
    }

    /// Takes note of uses that the filter before was not asked for. It knows no line that is not known here: of those
    /// that share a set here it holds the youngest.
    fn note(&mut self, uses: &LateUses<W>) {
        let array = &mut self.caches[uses.cache];
        let index = array.find(uses.line).expect("a line that the filter before holds");
        let frame = &mut array.frames[index];
        frame.stamp = uses.stamp;
        frame.touched.add(uses.touched);
        frame.written.add(uses.written);
    }

    /// `task` uses `line`, and the machines are asked for it. What they have to be told before that is added to `told`.
    fn learn(&mut self, (cache, task): (CacheId, u32), line: LineAddr, write: bool, told: &mut Vec<Step<W>>) {
        self.tell_age(cache, line, told);
        self.disturb(cache, line, write, told);
        let array = &mut self.caches[cache];
        let index = if let Some(index) = array.find_and_guess(line) {
            let frame = &mut array.frames[index];
            if frame.writer != task {
                tell_words(cache, line, frame, told);
                frame.flags &= !MAY_WRITE;
            }
            index
        } else {
            let index = array.victim(line);
            let frame = &mut array.frames[index];
            let leaving = frame.line;
            tell_all(cache, leaving, frame, told);
            frame.flags = 0;
            if let Some(ages) = &mut self.ages {
                ages[cache].remove(line);
                if leaving != EMPTY {
                    ages[cache].insert(leaving, frame.stamp);
                }
            }
            array.place(index, line);
            index
        };
        array.use_frame(index);
        let frame = &mut array.frames[index];
        frame.writer = task;
        frame.flags |= UNTOLD | MAY_READ;
        if write && self.writes_repeat {
            frame.flags |= MAY_WRITE;
        }
    }

    /// Tells machines how many lines `cache` has used since it used `line`, where one may miss.
    fn tell_age(&self, cache: CacheId, line: LineAddr, told: &mut Vec<Step<W>>) {
        let Some(ages) = &self.ages else { return };
        let array = &self.caches[cache];
        let known = array.find(line).map(|index| &array.frames[index]);
        if known.is_some_and(|frame| frame.flags & MAY_READ != 0) {
            return;
        }
        if let Some(stamp) = known.map(|frame| frame.stamp).or_else(|| ages[cache].stamp(line)) {
            let here = array.frames.iter().filter(|frame| frame.stamp > stamp).count();
            told.push(Step::Age(line, here + ages[cache].since(stamp)));
        }
    }

    /// Cache `cache` uses `line`, and writes it if `write`: what others know of it.
    fn disturb(&mut self, cache: CacheId, line: LineAddr, write: bool, told: &mut Vec<Step<W>>) {
        for (other, array) in self.caches.iter_mut().enumerate().filter(|&(other, _)| other != cache.0) {
            let Some(index) = array.find(line) else { continue };
            let frame = &mut array.frames[index];
            if write || !self.reads_keep_copies {
                tell_all(CacheId(other), line, frame, told);
                frame.flags = 0;
            } else {
                if !frame.written.is_empty() {
                    tell_words(CacheId(other), line, frame, told);
                }
                frame.flags &= !MAY_WRITE;
            }
        }
    }

    /// Leaves what is still to be told at the end.
    pub fn finish(&mut self, left: &mut Vec<Step<W>>) {
        for (cache, array) in self.caches.iter_mut().enumerate() {
            for frame in &mut array.frames {
                tell_all(CacheId(cache), frame.line, frame, left);
            }
        }
    }
}

/// Tells machines all that they do not know of a line.
fn tell_all<W: WordMask>(cache: CacheId, line: LineAddr, frame: &mut Frame<W>, told: &mut Vec<Step<W>>) {
    if frame.flags & UNTOLD != 0 {
        told.push(Step::LateUses(late_uses(cache, line, frame, frame.stamp)));
    }
}

/// Tells them the words alone.
fn tell_words<W: WordMask>(cache: CacheId, line: LineAddr, frame: &mut Frame<W>, told: &mut Vec<Step<W>>) {
    if !frame.touched.is_empty() {
        told.push(Step::LateUses(late_uses(cache, line, frame, LATER)));
    }
}

/// What machines do not know of a line; its words are told then.
fn late_uses<W: WordMask>(cache: CacheId, line: LineAddr, frame: &mut Frame<W>, stamp: u64) -> LateUses<W> {
    let (touched, written) = (std::mem::take(&mut frame.touched), std::mem::take(&mut frame.written));
    LateUses { cache, task: frame.writer, line, stamp, touched, written }
}

/// The greatest number that divides both.
fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 {
        a
    } else {
        common_divisor(b, a % b)
    }
}
