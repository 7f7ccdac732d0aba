//! The functional engine with what works beside the caches: address translation and prefetchers. Every
//! reference takes the general way here; machines without either never come by.

use super::{count_transaction, for_each_line, is_handler, processor_of, Tally};
use crate::place::{address_on, page_of};
use crate::setup::Setup;
use crate::translation::{look_up, process_of, table_access, TABLE_PAGE};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Batch, CpuId, LineAddr, Op, Privacy, Record, PAGE_SHIFT};
use servsim_mem::{Access, Hierarchy, HierarchySpec, Mmu, Prefetcher, TlbCounters, Translated, WordMask};

/// Translation and prefetchers of every processor; either may be absent.
pub(super) struct TranslationAndPrefetch {
    mmus: Vec<Mmu>,
    spaces: Vec<Option<u32>>,
    prefetchers: Vec<Prefetcher>,
}

impl TranslationAndPrefetch {
    /// What the machine has, if anything.
    pub(super) fn new(setup: &Setup, spec: &HierarchySpec, spaces: Vec<Option<u32>>) -> Option<Self> {
        let each = || 0..setup.processors;
        let shift = setup.geometry.line.trailing_zeros();
        let mmus = spec.tlb.map_or_else(Vec::new, |tlb| each().map(|_| Mmu::new(tlb)).collect());
        let prefetchers = spec
            .prefetch
            .as_ref()
            .map_or_else(Vec::new, |spec| each().map(|_| Prefetcher::new(spec, shift)).collect());
        (!mmus.is_empty() || !prefetchers.is_empty()).then_some(Self { mmus, spaces, prefetchers })
    }

    /// What translation counted, if there is any.
    pub(super) fn translation(&self) -> Option<TlbCounters> {
        let mut total = TlbCounters::default();
        self.mmus.iter().for_each(|mmu| total.add(&mmu.counters));
        (!self.mmus.is_empty()).then_some(total)
    }
}

/// One batch. Each page that a reference touches is translated right before its first line is accessed;
/// what an access leads to is prefetched right behind it.
pub(super) fn run_translated<W: WordMask>(
    caches: &mut Hierarchy<W>,
    tally: &mut Tally,
    transactions: &mut Vec<u64>,
    batch: &Batch,
    (privacy, handlers): (&Privacy, &[bool]),
    shift: u32,
    units: &mut TranslationAndPrefetch,
) {
    for (index, record) in batch.records.iter().enumerate() {
        if record.op == Op::Event {
            count_transaction(transactions, batch.events[record.address as usize]);
            continue;
        }
        let cpu = processor_of(record, tally.current.len(), false);
        if !is_handler(handlers, record.task) {
            caches.system.run_task(cpu, record.task);
        }
        if record.flags & CONTINUATION == 0 {
            let mode = usize::from(record.flags & KERNEL);
            tally.pair(cpu, record.task).others[mode][record.op as usize] += 1;
        }
        if let (Some(mmu), Some(process)) =
            (units.mmus.get_mut(cpu.0), process_of(&units.spaces, record.task))
        {
            mmu.enter(process);
        }
        let start = address_on(record, cpu);
        for_each_line(record, cpu, shift, |access, piece| {
            let offset = piece.address - start;
            let new_page = offset == 0 || piece.address & ((1 << PAGE_SHIFT) - 1) == 0;
            if let (Some(mmu), true) = (units.mmus.get_mut(cpu.0), new_page) {
                let page = batch.pages[index];
                translate(caches, mmu, record, (cpu, shift), (page, offset));
            }
            caches.system.trigger = None;
            caches.access(access, |_| page_of(privacy, piece));
            if let Some(prefetcher) = units.prefetchers.get_mut(cpu.0) {
                prefetch(caches, prefetcher, access, piece, (privacy, offset));
            }
        });
    }
}

fn translate<W: WordMask>(
    caches: &mut Hierarchy<W>,
    mmu: &mut Mmu,
    record: &Record,
    (cpu, shift): (CpuId, u32),
    (page, offset): (u64, u64),
) {
    let asked = look_up(record, cpu, page, offset, 1);
    let Translated::Walk(mut walk) = mmu.translate(&asked) else { return };
    while let Some(address) = walk.next_address() {
        walk.advance();
        let read = table_access::<W>(cpu, address, record.task, shift);
        caches.access(&read, |_| {
            mmu.counters.walk_misses[usize::from(asked.kernel)] += 1;
            TABLE_PAGE
        });
    }
}

/// Prefetches what the access to a part of a record, `offset` bytes into it, leads to.
fn prefetch<W: WordMask>(
    caches: &mut Hierarchy<W>,
    prefetcher: &mut Prefetcher,
    access: &Access<W>,
    piece: &Record,
    (privacy, offset): (&Privacy, u64),
) {
    let trigger = caches.system.trigger.take();
    let mut fetch = |lines: &[LineAddr]| {
        for &line in lines {
            let ahead = Access { line, words: W::default(), write: false, ..*access };
            caches.prefetch(&ahead, page_of(privacy, piece));
        }
    };
    if let Some((_, line)) = trigger {
        fetch(prefetcher.triggered(line));
    }
    let first = offset == 0 && piece.flags & CONTINUATION == 0;
    if first && piece.op == Op::Fetch {
        prefetcher.fetched(piece.address, u64::from(piece.size));
    } else if first {
        fetch(prefetcher.referenced(piece.address));
    }
}
