//! MOESI (AMD): MESI plus Owned, a dirty copy that others share. A dirty block read by another
//! cache is supplied without updating memory; its owner writes it back when it evicts it.

use super::table::{bus, otherwise, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table};
use super::{mesi, Options};

const I: u8 = 0;
const M: u8 = 3;
const O: u8 = 4;

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let mut table = mesi::table(options);
    table.name = "moesi";
    table.title = "MOESI (AMD)";
    let supply = |next| OnSnoop::to(next).raising(Lines::DIRTY).supplying(true);
    table.rows[usize::from(M)].snoop[0] = supply(O).raising(Lines::SHARED);
    table.rows.push(Row {
        info: StateInfo { name: "O", exclusive: false, single: true, dirty: true },
        read: OnAccess::Local(O),
        write: bus(BusOp::Invalidate, &[otherwise(M)]),
        evict: OnEvict::WriteBack,
        snoop: [
            supply(O).raising(Lines::SHARED),
            OnSnoop::Impossible,
            supply(I),
            OnSnoop::to(I),
            OnSnoop::Impossible,
        ],
    });
    table
}
