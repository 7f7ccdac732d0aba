//! Rules of a placement file that a program as it is can follow: by allocation site, and by the name of a mapping.
//!
//! A site is the place behind a call of the malloc family, as `MODULE+0xOFFSET` in the program or in a library loaded at
//! its start. A name is what the program itself tells the kernel of a mapping (`PR_SET_VMA_ANON_NAME`). A rule may be for
//! a range of bytes: of the mapping, or of each large allocation of the site. What goes by a rule is counted for it, at
//! the end or before it is given back. Nothing in here allocates but [`Rules`]' making.

use crate::heap::{Chunk, HEAP};
use crate::lock::Lock;
use crate::placing::{Placing, MOST_NODES};
use crate::sizes::PAGE;
use servsim_rset::raw;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Ranges that can be known at once.
const MOST_RANGES: usize = 4096;
/// Pages that the kernel is asked about at once.
const BATCH: usize = 256;

/// A number that threads add to.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    fn add(&self, many: u64) {
        self.0.fetch_add(many, Ordering::Relaxed);
    }

    /// So far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A rule, and the pages that went by it.
pub struct Rule {
    /// As the report names it.
    pub name: String,
    /// Where its memory is to lie, in words.
    pub wish: String,
    /// Where its memory is to lie.
    pub placing: &'static Placing,
    /// Pages found in each node.
    pub per_node: Vec<Count>,
    /// Pages found in other nodes than wished.
    pub elsewhere: Count,
    /// Pages of which the kernel does not tell where they lie.
    pub unknown: Count,
    /// Ranges that the kernel did not let be placed.
    pub refused: Count,
}

impl Rule {
    /// One that nothing has followed yet.
    pub fn new(name: String, wish: String, placing: &'static Placing) -> Self {
        let per_node = (0..MOST_NODES).map(|_| Count::default()).collect();
        Self {
            name,
            wish,
            placing,
            per_node,
            elsewhere: Count::default(),
            unknown: Count::default(),
            refused: Count::default(),
        }
    }

    /// Counts the pages of a range of an arena.
    fn count(&self, start: usize, end: usize, arena: usize) {
        let (mut pages, mut status) = ([0usize; BATCH], [-1; BATCH]);
        for first in (start..end).step_by(BATCH * PAGE) {
            let many = ((end - first) / PAGE).min(BATCH);
            (0..many).for_each(|at| pages[at] = first + at * PAGE);
            if raw::move_pages(&pages[..many], None, &mut status[..many]).is_err() {
                self.unknown.add(many as u64);
                continue;
            }
            for (&page, &node) in pages[..many].iter().zip(&status[..many]) {
                if let Some(count) = usize::try_from(node).ok().and_then(|node| self.per_node.get(node)) {
                    count.add(1);
                    self.elsewhere.add(u64::from(!self.placing.allows(arena, page, node)));
                }
            }
        }
    }
}

/// Bytes from the beginning of what is named, and the rule that they go by.
#[derive(Clone, Copy)]
struct Part {
    start: usize,
    end: usize,
    rule: usize,
}

/// The rules of one site or name.
#[derive(Default)]
pub struct Named {
    /// The rule of all of it.
    pub whole: Option<usize>,
    /// The zone of the heap that follows that one, for a site.
    pub zone: Option<usize>,
    /// The others, by their beginning, none over another.
    parts: Vec<Part>,
}

impl Named {
    /// Adds a rule for bytes from `start` to `end`, or for everything; `false` when there is one for some of them.
    pub fn add(&mut self, range: Option<(usize, usize)>, rule: usize) -> bool {
        let Some((start, end)) = range else {
            return self.whole.replace(rule).is_none();
        };
        let at = self.parts.partition_point(|part| part.start < start);
        let free = start < end
            && self.parts[..at].last().is_none_or(|before| before.end <= start)
            && self.parts.get(at).is_none_or(|next| end <= next.start);
        if free {
            self.parts.insert(at, Part { start, end, rule });
        }
        free
    }

    /// Whether there are rules for ranges.
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Places a mapping of this name, or a large allocation of this site; what no part covers follows the rule of all
    /// of it, or that of the rest.
    pub fn place(&self, rules: &Rules, memory: usize, bytes: usize) {
        let whole = self.whole.or(rules.rest);
        let mut next = 0;
        let end = Part { start: usize::MAX, end: usize::MAX, rule: 0 };
        for part in self.parts.iter().chain([&end]) {
            if let Some(rule) = whole.filter(|_| next < part.start) {
                rules.place(Part { start: next, end: part.start, rule }, memory, bytes);
            }
            rules.place(*part, memory, bytes);
            next = part.end;
        }
    }
}

/// All rules.
#[derive(Default)]
pub struct Rules {
    /// The rules themselves.
    pub list: Vec<Rule>,
    /// By address of the site, rising.
    pub sites: Vec<(usize, Named)>,
    /// By name of the mapping.
    pub names: BTreeMap<Vec<u8>, Named>,
    /// What other named mappings follow.
    pub rest: Option<usize>,
    /// The rule of each zone of the heap but the first.
    pub of_zone: Vec<usize>,
}

static RULES: AtomicPtr<Rules> = AtomicPtr::new(std::ptr::null_mut());

/// From now on follows these.
pub fn set(rules: Rules) {
    RULES.store(Box::leak(Box::new(rules)), Ordering::Release);
}

/// What was set, if anything was.
pub fn rules() -> Option<&'static Rules> {
    // SAFETY: it points at what `set` leaked.
    unsafe { RULES.load(Ordering::Acquire).as_ref() }
}

/// The rules of a site.
pub fn of_site(site: usize) -> Option<&'static Named> {
    let sites = &rules()?.sites;
    sites.binary_search_by_key(&site, |(address, _)| *address).ok().map(|at| &sites[at].1)
}

/// A range of memory that goes by a rule.
#[derive(Clone, Copy)]
struct Placed {
    start: usize,
    end: usize,
    rule: usize,
    arena: usize,
}

struct List {
    held: usize,
    ranges: [Placed; MOST_RANGES],
}

static PLACED: Lock<List> =
    Lock::new(List { held: 0, ranges: [Placed { start: 0, end: 0, rule: 0, arena: 0 }; MOST_RANGES] });

impl List {
    fn add(&mut self, placed: Placed) -> bool {
        let room = self.held < MOST_RANGES;
        if room {
            self.ranges[self.held] = placed;
            self.held += 1;
        }
        room
    }

    /// Forgets what lies from `start` to `end`, and calls `each` with it.
    fn remove(&mut self, start: usize, end: usize, mut each: impl FnMut(Placed)) {
        let mut at = 0;
        while at < self.held {
            let known = self.ranges[at];
            let gone = Placed { start: known.start.max(start), end: known.end.min(end), ..known };
            if gone.start >= gone.end {
                at += 1;
                continue;
            }
            each(gone);
            self.held -= 1;
            self.ranges[at] = self.ranges[self.held];
            for left in [Placed { end: gone.start, ..known }, Placed { start: gone.end, ..known }] {
                if left.start < left.end {
                    self.add(left);
                }
            }
        }
    }
}

/// The nearest beginning of a page.
fn page(address: usize) -> usize {
    address.saturating_add(PAGE / 2) / PAGE * PAGE
}

impl Rules {
    /// Places the part of `bytes` from `memory` that a rule is for.
    fn place(&self, part: Part, memory: usize, bytes: usize) {
        let Some(rule) = self.list.get(part.rule) else { return };
        let (start, end) = (memory + page(part.start.min(bytes)), memory + page(part.end.min(bytes)));
        if start >= end {
            return;
        }
        let arena = rule.placing.arena();
        let known = || PLACED.with(|list| list.add(Placed { start, end, rule: part.rule, arena }));
        if rule.placing.take_over(start, end - start, arena).is_err() || !known() {
            rule.refused.add(1);
        }
    }
}

/// Takes the lock of all ranges, so that a child of a fork finds them whole.
pub fn hold() {
    PLACED.take();
}

/// Gives it back.
pub fn release() {
    PLACED.give();
}

/// The program has told the name of a mapping.
pub fn named(memory: usize, bytes: usize, name: &CStr) {
    let Some(rules) = rules() else { return };
    // A second name for the same pages is the one that counts.
    PLACED.with(|list| list.remove(memory, memory.saturating_add(bytes), |_| ()));
    let bytes = bytes.next_multiple_of(PAGE);
    match rules.names.get(name.to_bytes()) {
        Some(named) => named.place(rules, memory, bytes),
        None => Named::default().place(rules, memory, bytes),
    }
}

/// Memory goes that may have gone by rules: its pages are counted while they are there.
pub fn goes(start: usize, length: usize) {
    if let Some(rules) = rules() {
        PLACED.with(|list| {
            let end = start.saturating_add(length).checked_next_multiple_of(PAGE).unwrap_or(usize::MAX);
            list.remove(start, end, |gone| {
                rules.list[gone.rule].count(gone.start, gone.end, gone.arena);
            });
        });
    }
}

/// As [`goes`], for a chunk of the heap; one with ranges of its own counts by them alone.
pub fn chunk_goes(chunk: Chunk) {
    goes(chunk.start, chunk.length);
    let rule = |zone: usize| {
        let rules = rules()?;
        rules.list.get(*rules.of_zone.get(zone.checked_sub(1)?)?)
    };
    if let Some(rule) = chunk.zone.and_then(rule).filter(|_| !chunk.in_parts) {
        rule.count(chunk.start, chunk.start + chunk.length, chunk.arena);
    }
}

/// Counts what is still there: once, at the end.
pub fn settle() {
    goes(0, usize::MAX);
    HEAP.for_each_chunk(chunk_goes);
}
