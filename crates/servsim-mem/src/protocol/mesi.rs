//! MESI (Papamarcos & Patel, ISCA 1984; Sweazey & Smith, ISCA 1986) in the form that Foglia et
//! al. 2004 simulate: read, read-and-invalidate, invalidate and update-block transactions.
//! Without option `any-copy` only a dirty owner supplies a block (Pentium Pro: HITM#).

use super::table::{bus, otherwise, when, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table};
use super::Options;

const I: u8 = 0;
const S: u8 = 1;
const E: u8 = 2;
const M: u8 = 3;

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let clean = options.any_copy_supplies;
    Table {
        name: "mesi",
        title: "MESI (Papamarcos & Patel 1984; as in Foglia et al. 2004)",
        rows: vec![
            Row {
                info: StateInfo { name: "I", exclusive: false, single: false, dirty: false },
                read: bus(BusOp::Read, &[when(Lines::SHARED, S), otherwise(E)]),
                write: bus(BusOp::ReadExclusive, &[otherwise(M)]),
                evict: OnEvict::Impossible,
                snoop: [OnSnoop::to(I); 5],
            },
            Row {
                info: StateInfo { name: "S", exclusive: false, single: false, dirty: false },
                read: OnAccess::Local(S),
                write: bus(BusOp::Invalidate, &[otherwise(M)]),
                evict: OnEvict::Silent,
                snoop: [
                    OnSnoop::to(S).raising(Lines::SHARED).supplying(clean),
                    OnSnoop::Impossible,
                    OnSnoop::to(I).supplying(clean),
                    OnSnoop::to(I),
                    OnSnoop::Impossible,
                ],
            },
            Row {
                info: StateInfo { name: "E", exclusive: true, single: false, dirty: false },
                read: OnAccess::Local(E),
                write: OnAccess::Local(M),
                evict: OnEvict::Silent,
                snoop: [
                    OnSnoop::to(S).raising(Lines::SHARED).supplying(clean),
                    OnSnoop::Impossible,
                    OnSnoop::to(I).supplying(clean),
                    OnSnoop::Impossible,
                    OnSnoop::Impossible,
                ],
            },
            Row {
                info: StateInfo { name: "M", exclusive: true, single: false, dirty: true },
                read: OnAccess::Local(M),
                write: OnAccess::Local(M),
                evict: OnEvict::WriteBack,
                snoop: [
                    OnSnoop::to(S).raising(Lines::DIRTY.and(Lines::SHARED)).supplying(true).into_memory(true),
                    OnSnoop::Impossible,
                    OnSnoop::to(I).raising(Lines::DIRTY).supplying(true),
                    OnSnoop::Impossible,
                    OnSnoop::Impossible,
                ],
            },
        ],
        uses_private: false,
        removal_is_invalidation: true,
        words_to_memory: false,
        rules: options.rules,
    }
}
