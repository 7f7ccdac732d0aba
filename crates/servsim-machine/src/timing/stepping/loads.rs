//! Loads on a processor that has a core.

use crate::timing::port::MemoryPort;
use crate::timing::processor::Processor;
use crate::timing::stop::Way;
use servsim_core::Cycles;
use servsim_mem::{Access, WordMask};

/// What a load does on a core.
pub(super) enum OnCore {
    /// It hits, or takes its words from the store buffer.
    Hit,
    /// It is under way from now on.
    Goes(Way),
    /// Too many are under way.
    Busy,
    /// It needs words of a line that a store of the own buffer fetches.
    Blocks,
}

#[inline]
pub(super) fn load_on_core<W: WordMask>(
    processor: &mut Processor<W>,
    port: &mut MemoryPort<W>,
    access: &Access<W>,
) -> OnCore {
    let now = processor.time;
    let Some(core) = &mut processor.core else { return OnCore::Blocks };
    if processor.held {
        processor.held = false;
        core.hold(now);
    }
    let found = processor.found.take();
    if found.is_none() {
        let Some(address) = core.address() else { return OnCore::Goes(Way::Address) };
        if processor.stores.iter().any(|store| store.access.line == access.line) {
            return OnCore::Blocks;
        }
        if let Some(other) = core.asking(|other| other.access.line == access.line) {
            return OnCore::Goes(Way::Merged(other));
        }
        match port.try_hit(access, now) {
            None => return OnCore::Goes(Way::Asks(address.max(now))),
            Some(0) => {
                core.hit(access.line, now, Cycles(0));
                return OnCore::Hit;
            }
            Some(depth) => processor.found = Some(depth),
        }
    } else {
        processor.found = found;
    }
    if core.is_busy(now) {
        return OnCore::Busy;
    }
    let depth = processor.found.take().unwrap_or(0);
    core.hit(access.line, now, port.beyond_first(depth));
    OnCore::Hit
}
