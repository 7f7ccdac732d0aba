//! PSCR, passive shared copy removal (Giorgi & Prete, IEEE TPDS 10(7) 1999, after RST: Prete, IEEE
//! Micro 11(2) 1991): write-update among real sharers, and removal of a private copy as soon as
//! another processor fetches it. The original table was not available; this reconstruction has the
//! published five states, one extra bus line (P, the requester's page is private) and no
//! invalidate transaction. With words written through to memory nobody owns a block that was written
//! on the bus, with sharers left or without, and SM has no use: four states remain. The P bit may be wrong on any access: that costs time, not coherence.

use super::table::{
    bus, otherwise, when, Branch, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Row, StateInfo, Table,
};
use super::Options;

const I: u8 = 0;
const EC: u8 = 1;
const EM: u8 = 2;
const SC: u8 = 3;
const SM: u8 = 4;

/// What a fetch leaves: P and DIRTY ->EM, P ->EC, SHD ->SC, otherwise ->EC.
fn fill(again: bool, dirty_private: u8) -> OnAccess {
    let branches = vec![
        Branch { lines: Lines::DIRTY, private: Some(true), next: dirty_private },
        Branch { lines: Lines::NONE, private: Some(true), next: EC },
        when(Lines::SHARED, SC),
        otherwise(EC),
    ];
    OnAccess::Bus { op: BusOp::Read, branches, again }
}

/// The table under `options`.
pub fn table(options: &Options) -> Table {
    let clean = options.any_copy_supplies;
    let to_memory = options.private_handover_updates_memory;
    let dirty_private = if to_memory { EC } else { EM };
    let share_clean = OnSnoop::to(SC).raising(Lines::SHARED).supplying(clean);
    let remove_clean = OnSnoop::to(I).supplying(options.any_copy_supplies_private.unwrap_or(clean));
    let through = options.write_updates_memory;
    let written = if through { SC } else { SM };
    let share_dirty =
        OnSnoop::to(written).raising(Lines::DIRTY.and(Lines::SHARED)).supplying(true).into_memory(through);
    let remove_dirty = OnSnoop::to(I).raising(Lines::DIRTY).supplying(true).into_memory(to_memory);
    let alone = if through { EC } else { EM };
    let write_shared = bus(BusOp::Write, &[when(Lines::SHARED, written), otherwise(alone)]);
    let take_word = OnSnoop::to(SC).raising(Lines::SHARED).updating();
    let none = OnSnoop::Impossible;
    let mut table = Table {
        name: "pscr",
        title: "PSCR (Giorgi & Prete 1999; reconstruction)",
        rows: vec![
            Row {
                info: StateInfo { name: "I", exclusive: false, single: false, dirty: false },
                read: fill(false, dirty_private),
                write: fill(true, dirty_private),
                evict: OnEvict::Impossible,
                snoop: [OnSnoop::to(I); 5],
            },
            Row {
                info: StateInfo { name: "EC", exclusive: true, single: false, dirty: false },
                read: OnAccess::Local(EC),
                write: OnAccess::Local(EM),
                evict: OnEvict::Silent,
                snoop: [share_clean, remove_clean, none, none, none],
            },
            Row {
                info: StateInfo { name: "EM", exclusive: true, single: false, dirty: true },
                read: OnAccess::Local(EM),
                write: OnAccess::Local(EM),
                evict: OnEvict::WriteBack,
                snoop: [share_dirty, remove_dirty, none, none, none],
            },
            Row {
                info: StateInfo { name: "SC", exclusive: false, single: false, dirty: false },
                read: OnAccess::Local(SC),
                write: write_shared.clone(),
                evict: OnEvict::Silent,
                snoop: [share_clean, remove_clean, none, none, take_word],
            },
            Row {
                info: StateInfo { name: "SM", exclusive: false, single: true, dirty: true },
                read: OnAccess::Local(SM),
                write: write_shared,
                evict: OnEvict::WriteBack,
                snoop: [share_dirty, remove_dirty, none, none, take_word],
            },
        ],
        uses_private: true,
        removal_is_invalidation: false,
        words_to_memory: through,
        rules: options.rules,
    };
    if through {
        table.rows.pop();
    }
    table
}
