//! Sharing on pages of which only the end of a run tells whether they are private.
//!
//! Who reads a trace once does not know of a page with one task so far whether another will come. Where a protocol
//! does nothing else on private pages, only classes depend on it: an invalidation miss, or a transaction with other
//! holders, is passive sharing on a private page, and true or false sharing elsewhere. So these are judged as on shared
//! pages, and what was judged on a page that might be private is kept here as well. It is little: a page of one
//! task has such sharing only while the task moves between processors.

use crate::counters::{CoherenceClass, Counters, MissClass};
use servsim_core::source::PageHash;
use servsim_core::{CacheId, LineAddr, PAGE_SHIFT};
use std::collections::HashMap;

/// What was judged on pages that might be private.
#[derive(Debug)]
pub struct UndecidedPages {
    /// log2 of the lines of a page.
    shift: u32,
    /// What each cache counted as true or false sharing on a page.
    pages: HashMap<u64, Vec<(CacheId, Counters)>, PageHash>,
}

impl UndecidedPages {
    /// None, where lines have so many bytes.
    pub(crate) fn new(line: u64) -> Self {
        Self { shift: PAGE_SHIFT - line.trailing_zeros(), pages: HashMap::default() }
    }

    /// What `cache` counted as true or false sharing on the page of `line`.
    #[cold]
    pub(crate) fn of(&mut self, cache: CacheId, line: LineAddr) -> &mut Counters {
        let caches = self.pages.entry(line.0 >> self.shift).or_default();
        let place = caches.iter().position(|(of, _)| *of == cache).unwrap_or_else(|| {
            caches.push((cache, Counters::default()));
            caches.len() - 1
        });
        &mut caches[place].1
    }

    /// Has what was judged on private pages count as passive sharing in `counters`, by cache.
    pub(crate) fn decide(&mut self, is_private: impl Fn(u64) -> bool, counters: &mut [Counters]) {
        let passive = (MissClass::PassiveSharing as usize, CoherenceClass::PassiveSharing as usize);
        for (_, caches) in self.pages.drain().filter(|(page, _)| is_private(*page)) {
            for (cache, judged) in caches {
                let counters = &mut counters[cache.0];
                move_to(passive.0, &mut counters.misses, &judged.misses);
                move_to(passive.0, &mut counters.misses_by_owner, &judged.misses_by_owner);
                move_to(passive.1, &mut counters.coherence, &judged.coherence);
                move_to(passive.1, &mut counters.coherence_by_owner, &judged.coherence_by_owner);
                for ([sum], [own]) in counters.true_by_self.iter_mut().zip(judged.true_by_self) {
                    *sum -= own;
                }
            }
        }
    }
}

/// Has `judged`, which `counts` holds by mode or owner and class, count as class `class`.
fn move_to<const CLASSES: usize>(
    class: usize,
    counts: &mut [[u64; CLASSES]; 2],
    judged: &[[u64; CLASSES]; 2],
) {
    for (counts, judged) in counts.iter_mut().zip(judged) {
        counts.iter_mut().zip(judged).for_each(|(count, judged)| *count -= judged);
        counts[class] += judged.iter().sum::<u64>();
    }
}
