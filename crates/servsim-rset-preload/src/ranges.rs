//! Ranges of memory that are watched, and the stretches that they are protected by.

use crate::faults::{self, STRETCH, WATCHING};
use crate::lock::Lock;
use crate::sampled::{Data, NAME};
use crate::sizes::PAGE;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Ranges that can be watched at once.
const MOST_RANGES: usize = 4096;
/// Stretches that can be split for good.
const MOST_SPLIT: usize = 1024;
/// Touches of a thread that count in any moment.
const FEWEST: usize = 8;

#[derive(Clone, Copy)]
struct Watched {
    start: usize,
    end: usize,
    data: Data,
}

/// Pages that are protected together.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    pub start: usize,
    pub bytes: usize,
}

/// What is watched.
pub struct Ranges {
    held: usize,
    list: [Watched; MOST_RANGES],
    stretches: usize,
    /// Which are split into their pages for good, and how many pages that are.
    split: [Stretch; MOST_SPLIT],
    splits: usize,
    pages_split: usize,
    /// The one that is protected now.
    closed: Option<Stretch>,
}

const NOTHING: Stretch = Stretch { start: 0, bytes: 0 };
/// Those of this process.
pub static RANGES: Lock<Ranges> = Lock::new(Ranges {
    held: 0,
    list: [Watched { start: 0, end: 0, data: Data { name: [0; NAME], site: 0 } }; MOST_RANGES],
    stretches: 0,
    split: [NOTHING; MOST_SPLIT],
    splits: 0,
    pages_split: 0,
    closed: None,
});

/// Whether an address is of a range that is watched.
pub fn watches(address: usize) -> bool {
    RANGES.with(|ranges| ranges.data(address).is_some())
}

impl Watched {
    fn holds(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    fn stretches(&self) -> usize {
        (self.end - self.start).div_ceil(STRETCH * PAGE)
    }
}

impl Ranges {
    /// Watches a range, while there is room for it.
    pub fn add(&mut self, start: usize, bytes: usize, data: Data) {
        if self.held < MOST_RANGES && bytes >= PAGE {
            let range = Watched { start, end: start + bytes / PAGE * PAGE, data };
            self.list[self.held] = range;
            self.held += 1;
            self.stretches += range.stretches();
        }
    }

    /// Watches no more what has a part between two addresses; what of it is protected is opened.
    pub fn remove(&mut self, start: usize, end: usize) {
        let mut at = 0;
        while at < self.held {
            let range = self.list[at];
            if range.start < end && start < range.end {
                if self.closed.is_some_and(|closed| range.holds(closed.start)) {
                    self.open();
                }
                self.held -= 1;
                self.list[at] = self.list[self.held];
                self.stretches -= range.stretches();
                self.forget(range);
            } else {
                at += 1;
            }
        }
    }

    /// What lies at an address, and how far from its beginning.
    pub fn data(&self, address: usize) -> Option<(Data, usize)> {
        let range = self.list[..self.held].iter().find(|range| range.holds(address))?;
        Some((range.data, address - range.start))
    }

    /// The stretch at a share of all of them.
    fn stretch(&self, at: f64) -> Option<Stretch> {
        let mut number = (self.stretches as f64 * at) as usize;
        for range in &self.list[..self.held] {
            if number < range.stretches() {
                let start = range.start + number * STRETCH * PAGE;
                return Some(Stretch { start, bytes: (range.end - start).min(STRETCH * PAGE) });
            }
            number -= range.stretches();
        }
        None
    }

    /// Protects the stretch at a share of all; at most `pages` stay split into mappings of their own.
    pub fn close(
        &mut self,
        at: f64,
        pages: usize,
        threads: usize,
        moment: Duration,
    ) -> Option<Result<Stretch, i32>> {
        if !WATCHING.load(Relaxed) {
            return None;
        }
        let stretch = self.stretch(at)?;
        let many = stretch.bytes / PAGE;
        if !self.split[..self.splits].contains(&stretch) {
            split(stretch);
            if self.splits < MOST_SPLIT && self.pages_split + many <= pages {
                self.split[self.splits] = stretch;
                self.splits += 1;
                self.pages_split += many;
            }
        }
        let most = (many / threads / 2).max(FEWEST);
        Some(faults::close(stretch.start, stretch.bytes, moment, most).map(|()| {
            self.closed = Some(stretch);
            stretch
        }))
    }

    /// Opens what is protected.
    pub fn open(&mut self) {
        let Some(stretch) = self.closed.take() else { return };
        faults::open(stretch.start, stretch.bytes);
        if !self.split[..self.splits].contains(&stretch) {
            join(stretch);
        }
    }

    /// Forgets which stretches of a range are split.
    fn forget(&mut self, range: Watched) {
        let mut at = 0;
        while at < self.splits {
            let stretch = self.split[at];
            if range.holds(stretch.start) {
                self.splits -= 1;
                self.split[at] = self.split[self.splits];
                self.pages_split -= stretch.bytes / PAGE;
            } else {
                at += 1;
            }
        }
    }
}

/// Makes every page of a stretch a mapping of its own.
fn split(stretch: Stretch) {
    (stretch.start..stretch.start + stretch.bytes)
        .step_by(2 * PAGE)
        .for_each(|page| advise(page, PAGE, libc::MADV_RANDOM));
}

/// Makes a stretch one mapping again.
fn join(stretch: Stretch) {
    advise(stretch.start, stretch.bytes, libc::MADV_NORMAL);
}

/// Without effect where there are too many mappings: then neighbours open together.
fn advise(start: usize, bytes: usize, advice: libc::c_int) {
    // SAFETY: advice changes no contents.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, advice) };
}
