//! From a machine description to the components of a run: protocol, caches, other levels, and how the
//! trace must be read for them.

use crate::error::SimulateError;
use crate::mapped::{self, Frames};
use crate::run_spec::RunSpec;
use crate::setup::Setup;
use servsim_config::{Arbitration, CoreModel, Machine, OuterLevel};
use servsim_core::GlobalSource;
use servsim_import::captured::CodeDetail;
use servsim_import::{open_in_order, Reading, MOST_NAMED};
use servsim_mem::protocol::{by_name, Options, Rules};
use servsim_mem::{Geometry, GroupSpec, HierarchySpec, Inclusion, LevelSpec, PrefetchSpec, TlbSpec};

/// The machine, its components and the opened trace of a functional run.
pub(crate) fn open_machine(
    request: &RunSpec,
) -> Result<(Machine, Setup, Box<dyn GlobalSource>), SimulateError> {
    let machine = Machine::from_toml(&request.machine, &request.machine_file, &request.overrides)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))?;
    neither_walks_nor_prefetches(&machine)?;
    clients_here(&machine)?;
    let setup = setup_of(&machine)?;
    let kernel = machine.protocol.private_kernel;
    let open = || open_in_order(&request.trace_file(), setup.processors, kernel);
    let frames = Frames::of(&machine, open)?;
    let source = mapped::in_order(open()?, frames.as_ref());
    Ok((machine, setup, source))
}

pub(crate) fn setup_of(machine: &Machine) -> Result<Setup, SimulateError> {
    let p = &machine.protocol;
    let options = Options {
        any_copy_supplies: p.any_copy_supplies,
        sticky_migratory: p.sticky_migratory,
        start_migratory: p.start_migratory,
        private_handover_updates_memory: p.private_handover_updates_memory,
        two_hand_overs: p.two_hand_overs,
        write_updates_memory: p.write_updates_memory,
        any_copy_supplies_private: p.any_copy_supplies_private,
        rules: Rules { flush_private: p.flush_private, judge_at_miss: machine.judge_at_miss },
    };
    let protocol = by_name(&p.name, &options).ok_or_else(|| {
        SimulateError::Internal(format!("protocol `{}` is described but not built", p.name))
    })?;
    Ok(Setup {
        processors: machine.processors,
        geometry: Geometry {
            size: machine.cache.size.0,
            ways: machine.cache.associativity,
            line: machine.cache.line.0,
        },
        protocol,
        shadow: machine.exact_replacement,
    })
}

/// The levels around the first.
pub(crate) fn hierarchy_of(machine: &Machine, seed: u64) -> Result<HierarchySpec, SimulateError> {
    let level = |level: &OuterLevel| {
        let inclusion = Inclusion::by_name(&level.inclusion).ok_or_else(|| {
            SimulateError::Internal(format!("inclusion `{}` is described but not built", level.inclusion))
        })?;
        let (size, ways) = (level.size.0, level.associativity);
        Ok::<_, SimulateError>(LevelSpec {
            geometry: Geometry { size, ways, line: machine.cache.line.0 },
            replacement: level.replacement.clone(),
            inclusion,
            write_around: level.write_around,
        })
    };
    let of = |shared: bool| {
        let levels = machine.levels.iter().filter(move |l| l.is_shared() == shared);
        levels.map(level).collect::<Result<Vec<_>, _>>()
    };
    Ok(HierarchySpec {
        split: machine.split,
        replacement: machine.replacement.clone(),
        write_around: machine.write_around,
        private: of(false)?,
        shared: of(true)?,
        groups: machine.groups.map_or_else(GroupSpec::default, |groups| GroupSpec {
            count: groups.count,
            clean_supplies: machine.protocol.any_copy_supplies,
        }),
        seed,
        prefetch: machine.prefetch.as_ref().map(|prefetch| PrefetchSpec {
            policy: prefetch.policy.clone(),
            degree: prefetch.degree,
            level: prefetch.level,
            entries: prefetch.entries,
        }),
        tlb: machine.tlb.map(|tlb| TlbSpec {
            entries: tlb.entries,
            ways: tlb.associativity,
            split: tlb.split,
            second: tlb.second,
            tagged: tlb.tagged,
            walk_entries: tlb.walk_entries,
        }),
    })
}

/// Refuses clients on a machine of their own, where time does not pass.
pub(crate) fn clients_here(machine: &Machine) -> Result<(), SimulateError> {
    if machine.clients.is_none() {
        return Ok(());
    }
    Err(SimulateError::Usage(
        "clients elsewhere take time, which functional runs, functional warm-up and --precision do not know: leave out \
         clients.place, or use --engine timing with --warm-up"
            .into(),
    ))
}

/// Refuses machines whose caches see more than the references of the trace.
fn neither_walks_nor_prefetches(machine: &Machine) -> Result<(), SimulateError> {
    if machine.tlb.is_none() && machine.prefetch.is_none() {
        return Ok(());
    }
    Err(SimulateError::Usage(
        "`classify` follows neither page walks nor prefetches: leave out [tlb] and [prefetch], or use `simulate`"
            .into(),
    ))
}

/// How the timing engine reads a trace.
pub(crate) fn reading_of(machine: &Machine, setup: &Setup) -> Reading {
    Reading {
        processors: MOST_NAMED,
        line: setup.geometry.line,
        private_kernel: machine.protocol.private_kernel,
        locks: machine.locks.arbitrated != Arbitration::Off,
        code: code_detail(machine),
    }
}

/// What the machine's cores want to know of the code.
fn code_detail(machine: &Machine) -> CodeDetail {
    match machine.core.model {
        CoreModel::Fixed => CodeDetail::None,
        CoreModel::InOrder | CoreModel::OutOfOrder => CodeDetail::Instructions,
    }
}
