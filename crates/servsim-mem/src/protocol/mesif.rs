//! MESIF (Intel): MESI plus Forward, the one clean copy that answers. The latest reader holds F;
//! after its silent eviction memory supplies again. Option `any-copy` changes nothing here: who
//! supplies is the point of the protocol.

use super::table::{bus, otherwise, when, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table};
use super::{mesi, Options};

const I: u8 = 0;
const S: u8 = 1;
const E: u8 = 2;
const M: u8 = 3;
const F: u8 = 4;

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let mut table = mesi::table(&Options { any_copy_supplies: false, ..*options });
    table.name = "mesif";
    table.title = "MESIF (Intel)";
    table.rows[usize::from(I)].read = bus(BusOp::Read, &[when(Lines::SHARED, F), otherwise(E)]);
    let answer = OnSnoop::to(S).raising(Lines::SHARED).supplying(true);
    let give_up = OnSnoop::to(I).supplying(true);
    table.rows[usize::from(E)].snoop[0] = answer;
    table.rows[usize::from(E)].snoop[2] = give_up;
    table.rows.push(Row {
        info: StateInfo { name: "F", exclusive: false, single: true, dirty: false },
        read: OnAccess::Local(F),
        write: bus(BusOp::Invalidate, &[otherwise(M)]),
        evict: OnEvict::Silent,
        snoop: [answer, OnSnoop::Impossible, give_up, OnSnoop::to(I), OnSnoop::Impossible],
    });
    table
}
