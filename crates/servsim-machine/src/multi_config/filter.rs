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

use super::ages::Ages;
use crate::functional::Left;
use crate::setup::Setup;
use servsim_core::{CacheId, LineAddr};
use servsim_mem::array::{Array, Frame, EMPTY};
use servsim_mem::late_uses::{LateUses, LATER};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, WordMask};

/// Most ways of a set: a set is searched way by way.
const MOST_WAYS: u32 = 16;
/// Most lines of a cache where ages are asked for: each time all are looked at.
const MOST_LINES_OF_AGES: u64 = 1024;
/// Most bytes of a reference.
const MOST_BYTES: u64 = u8::MAX as u64;
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

/// What is known.
pub(super) struct Filter<W> {
    caches: Vec<Array<W>>,
    /// Of each cache, for machines that tell conflict from capacity misses.
    ages: Option<Vec<Ages>>,
    /// Whether a fetch by another cache leaves a copy, on every machine.
    reads_keep_copies: bool,
    /// Whether a line that was written may be written again without telling anyone, on every machine.
    writes_repeat: bool,
}

impl<W: WordMask> Filter<W> {
    /// The filter for `machines` and so many tasks, if they allow one.
    pub fn of(machines: &[(Setup, HierarchySpec)], tasks: usize) -> Option<Self> {
        let simple = |(setup, spec): &(Setup, HierarchySpec)| {
            spec.private.is_empty()
                && spec.shared.iter().all(|level| level.inclusion != Inclusion::Inclusive)
                && spec.replacement == "lru"
                && !setup.protocol.rules.flush_private
                && setup.protocol.reads_quietly()
        };
        if tasks > MOST_TASKS || !machines.iter().all(simple) {
            return None;
        }
        let (setup, spec) = machines.first()?;
        let (line, caches) = (setup.geometry.line, setup.processors * spec.coherent_caches());
        let mut sets = machines.iter().map(|(setup, _)| setup.geometry.sets()).reduce(common_divisor)? as u64;
        let ways = machines.iter().map(|(setup, _)| setup.geometry.ways).min()?.min(MOST_WAYS);
        let frames =
            machines.iter().filter(|(setup, _)| setup.shadow).map(|(setup, _)| setup.geometry.frames()).max();
        while frames.is_some() && sets.is_multiple_of(2) && sets * u64::from(ways) > MOST_LINES_OF_AGES {
            sets /= 2;
        }
        // No reference pushes out a line that it uses itself.
        if MOST_BYTES.div_ceil(line) + 1 > sets * u64::from(ways) {
            return None;
        }
        let geometry = Geometry { size: sets * u64::from(ways) * line, ways, line };
        Some(Self {
            caches: (0..caches).map(|_| Array::new(geometry)).collect(),
            ages: frames.map(|frames| (0..caches).map(|_| Ages::new(frames)).collect()),
            reads_keep_copies: machines.iter().all(|(setup, _)| setup.protocol.reads_keep_copies()),
            writes_repeat: machines.iter().all(|(setup, _)| setup.protocol.writes_repeat_quietly()),
        })
    }

    /// Whether machines need not be asked now for the use of `words` of `line`; then it is noted.
    #[inline]
    pub fn passes(&mut self, cache: CacheId, task: u32, line: LineAddr, words: W, write: bool) -> bool {
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

    /// `task` uses `line`, and the machines are asked for it. What they have to be told before that is added to `left`.
    pub fn learn(&mut self, (cache, task): (CacheId, u32), line: LineAddr, write: bool, left: &mut Left<W>) {
        self.tell_age(cache, line, left);
        let told = &mut left.uses;
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
            let (leaving, frame) = (array.tags[index], &mut array.frames[index]);
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
    fn tell_age(&self, cache: CacheId, line: LineAddr, left: &mut Left<W>) {
        let Some(ages) = &self.ages else { return };
        let array = &self.caches[cache];
        let known = array.find(line).map(|index| &array.frames[index]);
        if known.is_some_and(|frame| frame.flags & MAY_READ != 0) {
            return;
        }
        if let Some(stamp) = known.map(|frame| frame.stamp).or_else(|| ages[cache].stamp(line)) {
            let here = array.frames.iter().filter(|frame| frame.stamp > stamp).count();
            left.ages.push((line, here + ages[cache].since(stamp)));
        }
    }

    /// Cache `cache` uses `line`, and writes it if `write`: what others know of it.
    fn disturb(&mut self, cache: CacheId, line: LineAddr, write: bool, told: &mut Vec<LateUses<W>>) {
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

    /// What is still to be told at the end.
    pub fn finish(&mut self, told: &mut Vec<LateUses<W>>) {
        for (cache, array) in self.caches.iter_mut().enumerate() {
            for (&line, frame) in array.tags.iter().zip(&mut array.frames) {
                tell_all(CacheId(cache), line, frame, told);
            }
        }
    }
}

/// Tells machines all that they do not know of a line.
fn tell_all<W: WordMask>(cache: CacheId, line: LineAddr, frame: &mut Frame<W>, told: &mut Vec<LateUses<W>>) {
    if frame.flags & UNTOLD != 0 {
        told.push(late_uses(cache, line, frame, frame.stamp));
    }
}

/// Tells them the words alone.
fn tell_words<W: WordMask>(
    cache: CacheId,
    line: LineAddr,
    frame: &mut Frame<W>,
    told: &mut Vec<LateUses<W>>,
) {
    if !frame.touched.is_empty() {
        told.push(late_uses(cache, line, frame, LATER));
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
