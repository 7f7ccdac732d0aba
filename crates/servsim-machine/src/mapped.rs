//! A trace whose pages lie in other frames: a first pass finds the pages that it touches, a policy of
//! `servsim-os` gives them frames, and both kinds of source are read through that renaming. Nothing
//! else changes: who touches a page, whether it is private, and what lies on it go with it. References
//! to the processors' own areas are not renamed, for these are no pages of the trace.

use servsim_config::Machine;
use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::source::PageHash;
use servsim_core::{
    Batch, Event, GlobalSource, Interrupt, Op, PageOrigin, Privacy, Record, SourceError, TaskCursor, TaskId,
    TaskSource, PAGE_SHIFT,
};
use servsim_os::mapping::{by_name, Memory, Touched};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The policy that leaves every page where it is: nothing is renamed.
pub const CAPTURED: &str = "captured";

/// Frames of pages that only events name begin here, beyond any that a policy gives.
const ELSEWHERE: u64 = 1 << 40;

/// Which page lies in which frame.
#[derive(Debug)]
pub struct Frames {
    to: HashMap<u64, u64, PageHash>,
    from: HashMap<u64, u64, PageHash>,
}

impl Frames {
    /// Those that `machine` gives to the pages of `source`, which is read to its end; `None` when pages
    /// stay where they were captured.
    ///
    /// # Errors
    /// When the trace is damaged.
    ///
    /// # Panics
    /// For a policy that is not registered: descriptions are checked before.
    pub fn of(
        machine: &Machine,
        open: impl FnOnce() -> Result<Box<dyn GlobalSource>, SourceError>,
    ) -> Result<Option<Arc<Self>>, SourceError> {
        if machine.mapping.policy == CAPTURED {
            return Ok(None);
        }
        let assign = by_name(&machine.mapping.policy).expect("a registered policy");
        let pages = touched(open()?.as_mut())?;
        let memory = Memory { colours: colours(machine), seed: machine.mapping.seed };
        let frames = assign(&pages, &memory);
        let pairs = || pages.iter().map(|page| page.frame).zip(frames.iter().copied());
        Ok(Some(Arc::new(Self {
            to: pairs().collect(),
            from: pairs().map(|(page, frame)| (frame, page)).collect(),
        })))
    }

    /// The frame of a page.
    fn frame(&self, page: u64) -> u64 {
        self.to.get(&page).copied().unwrap_or_else(|| page.wrapping_add(ELSEWHERE))
    }

    fn rename(&self, address: u64) -> u64 {
        self.frame(address >> PAGE_SHIFT) << PAGE_SHIFT | address & ((1 << PAGE_SHIFT) - 1)
    }

    /// Renames the references and locks of a batch.
    fn rename_batch(&self, batch: &mut Batch) {
        let mut index = 0;
        while index < batch.records.len() {
            let splits = self.rename_record(&mut batch.records, index);
            if splits {
                // The second part is of the same instruction, and begins on the next page.
                if let Some(&code) = batch.code.get(index) {
                    batch.code.insert(index + 1, code);
                }
                if let Some(&page) = batch.pages.get(index) {
                    batch.pages.insert(index + 1, page.wrapping_add(1));
                }
            }
            index += 1 + usize::from(splits);
        }
        for event in &mut batch.events {
            if let Event::LockAcquire { word, .. } | Event::LockRelease { word } = event {
                *word = self.rename(*word);
            }
        }
    }

    /// Renames one record; `true` if it now is two, because its pages lie apart.
    fn rename_record(&self, records: &mut Vec<Record>, index: usize) -> bool {
        let record = records[index];
        if record.op == Op::Event || record.flags & PER_CPU != 0 {
            return false;
        }
        records[index].address = self.rename(record.address);
        let room = (1 << PAGE_SHIFT) - (record.address & ((1 << PAGE_SHIFT) - 1));
        if u64::from(record.size) <= room {
            return false;
        }
        let rest = self.rename(record.address.wrapping_add(room));
        if rest == records[index].address.wrapping_add(room) {
            return false;
        }
        records[index].size = room as u8;
        let size = record.size - room as u8;
        records
            .insert(index + 1, Record { address: rest, size, flags: record.flags | CONTINUATION, ..record });
        true
    }
}

/// Pages of one way of the largest cache.
fn colours(machine: &Machine) -> u64 {
    let outer = machine.levels.iter().map(|level| (level.size.0, level.associativity));
    let ways = outer.chain([(machine.cache.size.0, machine.cache.associativity)]);
    ways.map(|(size, ways)| (size / u64::from(ways)) >> PAGE_SHIFT).fold(1, u64::max)
}

/// The pages that a trace touches, in the order of their first touch.
fn touched(source: &mut dyn GlobalSource) -> Result<Vec<Touched>, SourceError> {
    let mut seen: HashSet<u64, PageHash> = HashSet::default();
    let (mut pages, mut batch) = (Vec::new(), Batch::default());
    while source.next_batch(&mut batch)? {
        for record in batch.records.iter().filter(|r| r.op != Op::Event && r.flags & PER_CPU == 0) {
            let last = record.address.wrapping_add(u64::from(record.size) - 1);
            for frame in [record.address >> PAGE_SHIFT, last >> PAGE_SHIFT] {
                if seen.insert(frame) {
                    let place = source.page_origin(frame).map(|place| place.address >> PAGE_SHIFT);
                    pages.push(Touched { frame, virtual_page: place.unwrap_or(frame) });
                }
            }
        }
    }
    Ok(pages)
}

/// A trace in its order, in other frames.
pub struct MappedOrder {
    inner: Box<dyn GlobalSource>,
    frames: Arc<Frames>,
    privacy: Privacy,
}

/// `source` with its pages in `frames`.
pub fn in_order(source: Box<dyn GlobalSource>, frames: Option<&Arc<Frames>>) -> Box<dyn GlobalSource> {
    let Some(frames) = frames else { return source };
    let privacy = source.privacy().renamed(|page| frames.frame(page));
    Box::new(MappedOrder { inner: source, frames: frames.clone(), privacy })
}

impl GlobalSource for MappedOrder {
    fn inner(&self) -> Option<&dyn GlobalSource> {
        Some(self.inner.as_ref())
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn page_origin(&self, page: u64) -> Option<PageOrigin> {
        self.inner.page_origin(*self.frames.from.get(&page)?)
    }

    /// A line lies on one page, so fetches of one go on together.
    fn join_fetches(&mut self, line: u64) -> bool {
        line <= 1 << PAGE_SHIFT && self.inner.join_fetches(line)
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.inner.next_batch(batch)?;
        self.frames.rename_batch(batch);
        Ok(more)
    }
}

/// A trace by task, in other frames.
pub struct MappedTasks {
    inner: Box<dyn TaskSource>,
    frames: Arc<Frames>,
    privacy: Privacy,
    interrupts: Vec<Interrupt>,
}

/// `source` with its pages in `frames`.
pub fn by_task(source: Box<dyn TaskSource>, frames: Option<&Arc<Frames>>) -> Box<dyn TaskSource> {
    let Some(frames) = frames else { return source };
    let privacy = source.privacy().renamed(|page| frames.frame(page));
    let renamed = |interrupt: &Interrupt| {
        let mut batch = interrupt.batch.clone();
        frames.rename_batch(&mut batch);
        Interrupt { requests: interrupt.requests.clone(), batch }
    };
    let interrupts = source.interrupts().iter().map(renamed).collect();
    Box::new(MappedTasks { inner: source, frames: frames.clone(), privacy, interrupts })
}

impl TaskSource for MappedTasks {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(self.inner.as_ref())
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        Ok(Box::new(MappedCursor { inner: self.inner.open(task)?, frames: &self.frames }))
    }

    fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }
}

struct MappedCursor<'a> {
    inner: Box<dyn TaskCursor + 'a>,
    frames: &'a Frames,
}

impl TaskCursor for MappedCursor<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.inner.next_batch(batch)?;
        self.frames.rename_batch(batch);
        Ok(more)
    }
}
