//! Coherence protocols: one file per table, one line each in [`PROTOCOLS`].

pub mod agreement;
pub mod amsd;
mod cells;
pub mod checker;
pub mod mesi;
pub mod mesif;
pub mod moesi;
pub mod mosi;
pub mod pscr;
pub mod table;

pub(crate) use cells::{Cells, Reaction};
pub use table::{BusOp, Lines, OnAccess, OnEvict, OnSnoop, Rules, Snoop, State, Table, INVALID};

/// The open points of the published protocols, as named options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools)] // independent switches, one per open point
pub struct Options {
    /// A clean copy supplies a block too (Illinois), not only a dirty owner.
    pub any_copy_supplies: bool,
    /// AMSD: a write miss on a migratory dirty block keeps the classification.
    pub sticky_migratory: bool,
    /// AMSD: a block migrates after two hand-overs, not after one.
    pub two_hand_overs: bool,
    /// AMSD: blocks start as migratory when first fetched alone.
    pub start_migratory: bool,
    /// PSCR: the hand-over of a dirty private block also updates memory.
    pub private_handover_updates_memory: bool,
    /// PSCR: a written word also goes to memory, so that sharers need no owner.
    pub write_updates_memory: bool,
    /// PSCR: who supplies a block fetched for a private page; `None`: as for any other page.
    pub any_copy_supplies_private: Option<bool>,
    /// What changes no cell of a table.
    pub rules: Rules,
}

/// A registered protocol: name and constructor.
pub type Entry = (&'static str, fn(&Options) -> Table);

/// Every protocol by the name that descriptions use.
pub const PROTOCOLS: &[Entry] = &[
    ("mesi", mesi::table),
    ("moesi", moesi::table),
    ("mesif", mesif::table),
    ("mosi", mosi::table),
    ("amsd", amsd::table),
    ("pscr", pscr::table),
];

/// The table of protocol `name` under `options`; `None` for an unknown name.
pub fn by_name(name: &str, options: &Options) -> Option<Table> {
    PROTOCOLS.iter().find(|(n, _)| *n == name).map(|(_, make)| make(options))
}
