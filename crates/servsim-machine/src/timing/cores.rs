//! The engine's side of processor cores: loads under way beside execution.
//!
//! A load that misses asks for the bus and lets the core run on; so does one whose address comes from
//! such a load, or whose line is under way, when that load completes. The core stops when its window
//! is full or as many loads ask as can. Fetches that miss, spinning, and loads of words next to those
//! in the own store buffer block as in the model `fixed`.

use super::engine::Engine;
use super::processor::{Context, Pending, Wait};
use servsim_core::Op;
use servsim_mem::{Origin, Request, WordMask};

impl<W: WordMask> Engine<'_, W> {
    /// A load misses or depends on load `after`; `true` when the core runs on.
    pub(super) fn load(
        &mut self,
        cpu: usize,
        context: Context,
        pending: Pending<W>,
        after: Option<u64>,
        distance: u64,
    ) -> bool {
        let processor = &mut self.processors[cpu];
        let Some(core) = &mut processor.core else { unreachable!("only cores have loads under way") };
        if core.is_crowded() || after.is_none() && core.is_busy() {
            self.wait_for_load(cpu);
            return false;
        }
        let flight = core.miss(pending, after, distance);
        let ready = processor.time;
        if after.is_none() {
            self.ask_for_load(cpu, flight, &pending, ready);
        }
        self.advance(cpu, context);
        true
    }

    fn ask_for_load(&mut self, cpu: usize, flight: u64, pending: &Pending<W>, ready: u64) {
        let (line, class) = (pending.access.line, self.class_of(pending));
        self.bus.post(Request { cpu, ready, line, class, origin: Origin::Load(flight) });
    }

    /// The core cannot go on before a load completes.
    pub(super) fn wait_for_load(&mut self, cpu: usize) {
        let processor = &mut self.processors[cpu];
        processor.wait = Wait::Load;
        processor.since = processor.time;
    }

    pub(super) fn load_returned(&mut self, cpu: usize, flight: u64, now: u64) {
        self.moved |= 1 << cpu;
        let mut complete = vec![flight];
        while let Some(flight) = complete.pop() {
            let Some(core) = &mut self.processors[cpu].core else { return };
            for (next, pending) in core.complete(flight) {
                if self.caches.try_hit(&pending.access).is_some() {
                    complete.push(next);
                } else {
                    self.ask_for_load(cpu, next, &pending, now);
                }
            }
        }
        let processor = &mut self.processors[cpu];
        if processor.wait == Wait::Load {
            let until = now.max(processor.since);
            processor.times.memory_stall += until - processor.since;
            processor.times.stalls[Op::Load as usize] += until - processor.since;
            processor.time = until;
            processor.wait = Wait::Nothing;
        }
    }
}
