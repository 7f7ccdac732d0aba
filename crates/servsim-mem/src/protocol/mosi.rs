//! MOSI: MESI without Exclusive and with Owned, as the multiprocessors of Martin et al. (HPCA 2002) have it. A block
//! that is read alone is Shared, so that every write is announced: whoever keeps a directory knows the owner exactly,
//! and its sharers but for those that dropped their copy.

use super::table::{bus, otherwise, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table};
use super::Options;

const I: u8 = 0;
const S: u8 = 1;
const M: u8 = 2;
const O: u8 = 3;

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let clean = options.any_copy_supplies;
    let upgrade = || bus(BusOp::Invalidate, &[otherwise(M)]);
    let supply = |next| OnSnoop::to(next).raising(Lines::DIRTY).supplying(true);
    let unused = OnSnoop::Impossible;
    Table {
        name: "mosi",
        title: "MOSI (as in Martin et al. 2002)",
        rows: vec![
            Row {
                info: StateInfo { name: "I", exclusive: false, single: false, dirty: false },
                read: bus(BusOp::Read, &[otherwise(S)]),
                write: bus(BusOp::ReadExclusive, &[otherwise(M)]),
                evict: OnEvict::Impossible,
                snoop: [OnSnoop::to(I); 5],
            },
            Row {
                info: StateInfo { name: "S", exclusive: false, single: false, dirty: false },
                read: OnAccess::Local(S),
                write: upgrade(),
                evict: OnEvict::Silent,
                snoop: [
                    OnSnoop::to(S).raising(Lines::SHARED).supplying(clean),
                    unused,
                    OnSnoop::to(I).supplying(clean),
                    OnSnoop::to(I),
                    unused,
                ],
            },
            Row {
                info: StateInfo { name: "M", exclusive: true, single: false, dirty: true },
                read: OnAccess::Local(M),
                write: OnAccess::Local(M),
                evict: OnEvict::WriteBack,
                snoop: [supply(O).raising(Lines::SHARED), unused, supply(I), unused, unused],
            },
            Row {
                info: StateInfo { name: "O", exclusive: false, single: true, dirty: true },
                read: OnAccess::Local(O),
                write: upgrade(),
                evict: OnEvict::WriteBack,
                snoop: [supply(O).raising(Lines::SHARED), unused, supply(I), OnSnoop::to(I), unused],
            },
        ],
        uses_private: false,
        removal_is_invalidation: true,
        words_to_memory: false,
        rules: options.rules,
    }
}
