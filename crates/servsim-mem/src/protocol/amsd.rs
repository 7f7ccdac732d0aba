//! AMSD, adaptive detection of migratory sharing (Cox & Fowler, ISCA 1993; Stenstrom, Brorsson &
//! Sandberg, ISCA 1993), bus form: MESI plus three states. S2: written here, fetched by exactly
//! one reader since. MC: migratory, exclusive, not written here yet. MD: migratory, written here.
//! Foglia et al. 2004 print no table; this reconstruction matches their count of states. When two
//! hand-overs are asked for, two more states carry the first one along: M1 (modified, handed over
//! once) and T2 (as S2, after M1).

use super::table::{bus, otherwise, when, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table};
use super::{mesi, Options};

const I: u8 = 0;
const S: u8 = 1;
const E: u8 = 2;
const M: u8 = 3;
const S2: u8 = 4;
const MC: u8 = 5;
const MD: u8 = 6;
const M1: u8 = 7;
const T2: u8 = 8;

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let clean = options.any_copy_supplies;
    let mut table = mesi::table(options);
    table.name = "amsd";
    table.title = "AMSD (Cox & Fowler 1993; Stenstrom, Brorsson & Sandberg 1993; bus form)";
    let alone = if options.start_migratory { MC } else { E };
    let rows = &mut table.rows;
    rows[usize::from(I)].read =
        bus(BusOp::Read, &[when(Lines::MIGRATORY, MC), when(Lines::SHARED, S), otherwise(alone)]);
    if options.sticky_migratory {
        rows[usize::from(I)].write = bus(BusOp::ReadExclusive, &[when(Lines::MIGRATORY, MD), otherwise(M)]);
    }
    rows[usize::from(S)].write = bus(BusOp::Invalidate, &[when(Lines::MIGRATORY, MD), otherwise(M)]);
    rows[usize::from(M)].snoop[0] =
        OnSnoop::to(S2).raising(Lines::DIRTY.and(Lines::SHARED)).supplying(true).into_memory(true);
    let share = OnSnoop::to(S).raising(Lines::SHARED).supplying(clean);
    rows.push(Row {
        info: StateInfo { name: "S2", exclusive: false, single: true, dirty: false },
        read: OnAccess::Local(S2),
        write: bus(BusOp::Invalidate, &[otherwise(M)]),
        evict: OnEvict::Silent,
        snoop: [
            share,
            OnSnoop::Impossible,
            OnSnoop::to(I).supplying(clean),
            OnSnoop::to(I).raising(Lines::MIGRATORY),
            OnSnoop::Impossible,
        ],
    });
    rows.push(Row {
        info: StateInfo { name: "MC", exclusive: true, single: false, dirty: false },
        read: OnAccess::Local(MC),
        write: OnAccess::Local(MD),
        evict: OnEvict::Silent,
        snoop: [
            share,
            OnSnoop::Impossible,
            OnSnoop::to(I).supplying(clean),
            OnSnoop::Impossible,
            OnSnoop::Impossible,
        ],
    });
    let mut taken = OnSnoop::to(I).raising(Lines::DIRTY).supplying(true);
    if options.sticky_migratory {
        taken = taken.raising(Lines::MIGRATORY);
    }
    rows.push(Row {
        info: StateInfo { name: "MD", exclusive: true, single: false, dirty: true },
        read: OnAccess::Local(MD),
        write: OnAccess::Local(MD),
        evict: OnEvict::WriteBack,
        snoop: [
            OnSnoop::to(I).raising(Lines::DIRTY.and(Lines::MIGRATORY)).supplying(true).into_memory(true),
            OnSnoop::Impossible,
            taken,
            OnSnoop::Impossible,
            OnSnoop::Impossible,
        ],
    });
    if options.two_hand_overs {
        ask_for_two(rows, share, clean);
    }
    if options.start_migratory {
        // Nothing reaches E when every lone fetch starts as migratory.
        rows[usize::from(E)].snoop =
            [OnSnoop::to(I), OnSnoop::Impossible, OnSnoop::to(I), OnSnoop::Impossible, OnSnoop::Impossible];
    }
    table
}

/// A first hand-over is remembered in M1 and T2; the second makes the block migrate.
fn ask_for_two(rows: &mut Vec<Row>, share: OnSnoop, clean: bool) {
    let none = OnSnoop::Impossible;
    let upgrade = [when(Lines::MIGRATORY, MD), when(Lines::EVIDENCE, M1), otherwise(M)];
    rows[usize::from(S)].write = bus(BusOp::Invalidate, &upgrade);
    rows[usize::from(S2)].snoop[3] = OnSnoop::to(I).raising(Lines::EVIDENCE);
    let given = Lines::DIRTY.and(Lines::SHARED);
    rows.push(Row {
        info: StateInfo { name: "M1", exclusive: true, single: false, dirty: true },
        read: OnAccess::Local(M1),
        write: OnAccess::Local(M1),
        evict: OnEvict::WriteBack,
        snoop: [
            OnSnoop::to(T2).raising(given).supplying(true).into_memory(true),
            none,
            OnSnoop::to(I).raising(Lines::DIRTY).supplying(true),
            none,
            none,
        ],
    });
    rows.push(Row {
        info: StateInfo { name: "T2", exclusive: false, single: true, dirty: false },
        read: OnAccess::Local(T2),
        write: bus(BusOp::Invalidate, &[otherwise(M)]),
        evict: OnEvict::Silent,
        snoop: [share, none, OnSnoop::to(I).supplying(clean), OnSnoop::to(I).raising(Lines::MIGRATORY), none],
    });
}
