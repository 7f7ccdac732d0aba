//! The engine's side of processor cores: loads under way beside execution.
//!
//! A load that misses asks for the bus when its address is known and lets the core run on; so does one
//! whose address comes from such a load, when that completes. A load that hits in a private level outside
//! the first is under way for the latency of that level. The core stops when its window is full or as
//! many loads are under way as can. Fetches that miss, spinning, and loads of words next to those in the
//! own store buffer block as in the model `fixed`.

use super::engine::{Engine, TimedEvent};
use super::pending::Pending;
use super::processor::{Context, Wait};
use super::stop::Way;
use servsim_core::{CpuId, Cycles, Op};
use servsim_cpu::Issue;
use servsim_mem::{Origin, WordMask};

/// The number of no load: wakes a processor that waits for any.
const NO_LOAD: u64 = u64::MAX;

impl<W: WordMask> Engine<'_, W> {
    /// A load goes on beside execution; `true` when the core runs on.
    pub(super) fn load(&mut self, cpu: CpuId, context: Context, pending: Pending<W>, way: Way) -> bool {
        let processor = &mut self.processors[cpu];
        let now = processor.time;
        let Some(core) = &mut processor.core else { unreachable!("only cores have loads under way") };
        if core.is_crowded() || matches!(way, Way::Asks(_)) && core.is_busy(now) {
            self.hold_load(cpu);
            return false;
        }
        match way {
            Way::Asks(ready) => {
                let load = core.miss(pending);
                self.ask_for_load(cpu, load, &pending, ready);
            }
            Way::Address => {
                core.wait_for_address(pending);
            }
            Way::Merged(other) => {
                core.merge(pending, other);
            }
        }
        self.advance(cpu, context);
        true
    }

    fn ask_for_load(&mut self, cpu: CpuId, load: u64, pending: &Pending<W>, ready: u64) {
        self.port.post(cpu, Origin::Load(load), &pending.access, ready);
    }

    /// The core cannot go on before a load that misses returns.
    pub(super) fn wait_for_load(&mut self, cpu: CpuId) {
        let processor = &mut self.processors[cpu];
        processor.wait = Wait::Load;
        processor.since = processor.time;
    }

    /// The load at hand needs a place among those under way.
    pub(super) fn hold_load(&mut self, cpu: CpuId) {
        self.wait_for_load(cpu);
        let processor = &mut self.processors[cpu];
        processor.held = true;
        let now = processor.time;
        if let Some(at) = processor.core.as_ref().and_then(|core| core.next_return(now)) {
            self.schedule(at, TimedEvent::Load { cpu, load: NO_LOAD });
        }
    }

    /// A task ends when its last instruction completes; `false` when that is not known or later than now.
    pub(super) fn drain(&mut self, cpu: CpuId) -> bool {
        let processor = &mut self.processors[cpu];
        let Some(core) = &mut processor.core else { return true };
        let Some(until) = core.drained() else {
            self.wait_for_load(cpu);
            return false;
        };
        let waited = until.saturating_sub(processor.time);
        processor.time += waited;
        processor.times.user += waited;
        processor.times.dependence += waited;
        processor.note(processor.time);
        waited == 0
    }

    pub(super) fn load_returned(&mut self, cpu: CpuId, load: u64, now: u64) {
        self.stale.insert(cpu);
        let mut complete = vec![(load, now)];
        while let Some((load, at)) = complete.pop() {
            let Some(core) = &mut self.processors[cpu].core else { return };
            for issue in core.arrived(load, at) {
                if let Some(at) = self.issue(cpu, &issue, now) {
                    complete.push((issue.load, at));
                }
            }
        }
        let processor = &mut self.processors[cpu];
        if processor.wait == Wait::Load {
            let until = now.max(processor.since);
            processor.stall(processor.since, until, false, Some(Op::Load as usize));
            processor.time = until;
            processor.wait = Wait::Nothing;
        }
    }

    /// A load that waited for its address or its line goes on; returns when it has its data, if that
    /// is known.
    fn issue(&mut self, cpu: CpuId, issue: &Issue<Pending<W>>, now: u64) -> Option<u64> {
        let line = issue.access.access.line;
        let core = self.processors[cpu].core.as_mut()?;
        if let Some(other) = core.asking(|other| other.access.line == line) {
            core.merge_into(issue.load, other);
            return None;
        }
        let words = issue.access.access.words;
        let mut own = self.processors[cpu].stores.iter().map(|store| &store.access);
        let forwarded = own.any(|store| store.line == line && store.words.covers(words));
        let depth = if forwarded { Some(0) } else { self.port.try_hit(&issue.access.access, now) };
        let core = self.processors[cpu].core.as_mut()?;
        if let Some(depth) = depth {
            return Some(core.hit_of(issue, line, now, self.port.beyond_first(depth)));
        }
        core.ask(issue.load);
        let ready = now.max(issue.start + self.model.core.map_or(Cycles(0), |core| core.agen));
        self.ask_for_load(cpu, issue.load, &issue.access, ready);
        None
    }
}
