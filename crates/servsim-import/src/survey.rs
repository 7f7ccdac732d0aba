//! What the first pass over a foreign trace, or whoever reads it without one, learns: pages that more than one task touches.
//!
//! Consecutive references mostly repeat a task's page, so a small direct-mapped filter in front of
//! the page map takes nearly all of them; the pass then costs a few nanoseconds per reference.

use servsim_core::hash::spread;
use servsim_core::{Privacy, PAGE_SHIFT};
use std::collections::HashMap;

const FILTER: usize = 1 << 12;

/// First toucher of a page, or shared by several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    Task(u32),
    Shared,
}

/// What the first pass collects.
#[derive(Debug)]
pub struct Survey {
    filter: Vec<(u64, u32)>,
    pages: HashMap<u64, Owner, servsim_core::source::PageHash>,
}

impl Default for Survey {
    fn default() -> Self {
        Self { filter: vec![(u64::MAX, u32::MAX); FILTER], pages: HashMap::default() }
    }
}

impl Survey {
    /// Notes that `task` touches the bytes `first..=last`.
    #[inline]
    pub fn touch(&mut self, task: u32, first: u64, last: u64) {
        let mut page = first >> PAGE_SHIFT;
        loop {
            // Pages that are used together often differ in their highest bits only.
            let slot = spread(page ^ u64::from(task) << 32, FILTER.ilog2()) as usize;
            if self.filter[slot] != (page, task) {
                self.filter[slot] = (page, task);
                self.note(page, task);
            }
            if page == last >> PAGE_SHIFT {
                return;
            }
            page += 1;
        }
    }

    fn note(&mut self, page: u64, task: u32) {
        let owner = self.pages.entry(page).or_insert(Owner::Task(task));
        if *owner != Owner::Task(task) {
            *owner = Owner::Shared;
        }
    }

    /// Adds what another survey, of a later part of the same trace, has found; `task_of` numbers its tasks.
    pub fn add(&mut self, later: Self, task_of: impl Fn(u32) -> u32) {
        for (page, owner) in later.pages {
            match owner {
                Owner::Task(task) => self.note(page, task_of(task)),
                Owner::Shared => {
                    self.pages.insert(page, Owner::Shared);
                }
            }
        }
    }

    /// Whether more than one task has touched the page with this number.
    #[inline]
    pub fn is_shared(&self, page: u64) -> bool {
        self.pages.get(&page) == Some(&Owner::Shared)
    }

    /// The pages' privacy.
    pub fn privacy(&self) -> Privacy {
        let shared = self.pages.iter().filter(|(_, owner)| **owner == Owner::Shared);
        Privacy::from_shared_pages(shared.map(|(page, _)| *page))
    }
}
