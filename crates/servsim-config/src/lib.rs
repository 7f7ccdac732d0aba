//! Machine descriptions: one list of settings ([`SETTINGS`]) that reads, checks, explains and
//! prints them. TOML for people; every error of a file at once.

mod components;
mod groups;
mod levels;
mod machine;
mod migration;
mod monitor;
mod nodes;
mod parts;
mod placement;
mod read;
mod setting;
mod settings;
mod storage;
mod tables;
mod translation_and_prefetch;
mod values;

pub use components::{
    Arbitration, Bus, Cache, Clients, Core, CoreModel, Interconnect, Locks, Mapping, OuterLevel, Prefetch,
    Protocol, Sharing, Tlb,
};
pub use groups::Groups;
pub use machine::Machine;
pub use migration::Migration;
pub use monitor::{
    Filter, MonitorProgram, Secondary, DIRECTIONS, MOST_COUNTERS, MOST_FILTERS, MOST_SECONDARY, SERVED, TYPES,
};
pub use nodes::{Coherence, Memory, Nodes, PagePlacement};
pub use placement::{BoundTask, BoundTo, NameKind, PageRule, PlacementFile, Rank, Selector};
pub use read::Faults;
pub use servsim_units::nearest::nearest;
pub use setting::{Kind, Setting, Value};
pub use settings::{setting_named, SETTINGS};
pub use storage::{Named, Placement, Range, Storage};

/// What `servsim explain KEY` prints: meaning, accepted values, default and source.
///
/// # Errors
/// When there is no such key, with the nearest one.
pub fn explain(key: &str) -> Result<String, String> {
    let Some(setting) = setting_named(key) else {
        return Err(read::unknown(key));
    };
    Ok(format!(
        "{}\n  meaning: {}\n  accepted: {}\n  default: {}\n  source: {}",
        setting.key, setting.meaning, setting.kind, setting.default, setting.source
    ))
}
