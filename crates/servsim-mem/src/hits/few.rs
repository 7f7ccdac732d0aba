//! Short runs of hits, to begin and end which would cost more than the hits.

// One loop, as that of long runs.
#![allow(clippy::inline_always)]

use super::first_level::Coherent;
use super::share::{Share, Times};
use super::{FirstLevel, Run, RunCounts, View};
use crate::observer::Observer;
use crate::system::CoherentSystem;
use crate::words::WordMask;
use servsim_core::reference::{CONTINUATION, PER_CPU};
use servsim_core::{CacheId, CpuId, LineAddr, Op, Record};

/// What a short run did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Few {
    /// How many records it performed.
    pub performed: usize,
    /// How many references these stand for.
    pub made: u64,
    /// It ended where a record lies in two lines, which [`Run::take`] may perform; otherwise that would end there, too.
    pub crosses: bool,
}

impl Run {
    /// As [`Run::take`] for a few records that are joined, without what pays only along many; it ends also where a record lies in
    /// two lines. Without `PERFORM` they stay as they are, and it only tells how far it would come.
    #[inline(always)]
    pub fn take_few<W: WordMask, F: FirstLevel<W>, const PERFORM: bool>(
        self,
        shift: u32,
        first_level: &mut F,
        (records, most): (&[Record], u64),
        counts: &mut RunCounts,
    ) -> Few {
        let (mask, task) = ((1_u64 << shift) - 1, records.first().map_or(u32::MAX, |record| record.task));
        let clock = first_level.clock();
        let times = Times::after(clock, records);
        let (mut performed, mut made, mut crosses) = (0, 0, false);
        let mut view = first_level.view();
        // No frame holds the number of a later task.
        while made < most && task < u32::from(u16::MAX) {
            let Some(record) = records.get(performed) else { break };
            if record.task != task || record.flags & CONTINUATION != 0 {
                break;
            }
            let address = record.address | if record.flags & PER_CPU != 0 { self.own_area } else { 0 };
            let (start, line, op) = (address & mask, LineAddr::of(address, shift), record.op as usize);
            let end = start + u64::from(record.size);
            if end > mask + 1 {
                crosses = true;
                break;
            }
            let half = if op == Op::Fetch as usize { 0 } else { F::DATA };
            let Some(place) = view.guess(half, line) else {
                drop(view);
                let found = first_level.find(half, line);
                view = first_level.view();
                if found.is_none() {
                    break;
                }
                continue;
            };
            let share = Share { line, words: W::of_bytes(start, end - 1), task, op };
            let frame = view.frame(place);
            if !share.is_plain(self.stays, frame) {
                break;
            }
            if PERFORM {
                share.perform(frame);
                view.use_copy(place, times.of(record), share.write());
                counts[usize::from(record.is_kernel())][op] += u64::from(record.cpu);
            }
            made += u64::from(record.cpu);
            performed += 1;
        }
        drop(view);
        if PERFORM {
            first_level.set_clock(clock + performed as u64 * Times::STEP);
        }
        Few { performed, made, crosses }
    }
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// As [`CoherentSystem::run_hits`] for a few records that are joined ([`Run::take_few`]).
    #[inline]
    pub(crate) fn run_few_hits<const PERFORM: bool>(
        &mut self,
        (cpu, cache, data, look_ups): (CpuId, CacheId, usize, &mut [u64]),
        shift: u32,
        records: (&[Record], u64),
        counts: &mut RunCounts,
    ) -> Few {
        let caches = cache.0..=cache.0 + data;
        let run = Run::new(cpu, self.stays);
        let (arrays, copies) = (&mut self.arrays[caches.clone()], &self.copies);
        let look_ups = &mut look_ups[caches];
        if let Some(caches) = arrays.first_chunk_mut::<2>() {
            return run.take_few::<_, _, PERFORM>(
                shift,
                &mut Coherent::<W, 2, false> { caches, copies, missing: None, look_ups },
                records,
                counts,
            );
        }
        let Some(caches) = arrays.first_chunk_mut::<1>() else { return Few::default() };
        run.take_few::<_, _, PERFORM>(
            shift,
            &mut Coherent::<W, 1, false> { caches, copies, missing: None, look_ups },
            records,
            counts,
        )
    }
}
