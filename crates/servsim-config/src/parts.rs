//! The components of a machine, each read from its settings. The values are checked one by one already.

use crate::components::{Arbitration, Bus, Clients, Core, CoreModel, Locks, Protocol};
use crate::storage::{Placement, Storage};
use crate::values::Values;
use servsim_units::{Bytes, Cycles, Picos};

/// Latencies of functional units, in the order of [`Core::latencies`].
const LATENCIES: [&str; 6] = [
    "processor.integer",
    "processor.multiply",
    "processor.divide",
    "processor.float_add",
    "processor.float_multiply",
    "processor.float_divide",
];

/// Processor cores.
pub(crate) fn core(values: &Values<'_>) -> Core {
    Core {
        model: match values.text("processor.model").as_str() {
            "inorder" => CoreModel::InOrder,
            "ooo" => CoreModel::OutOfOrder,
            _ => CoreModel::Fixed,
        },
        width: values.number("processor.width"),
        window: values.number("processor.window"),
        branch_penalty: Cycles(values.number("processor.branch_penalty")),
        latencies: LATENCIES.map(|key| Cycles(values.number(key))),
        agen: Cycles(values.number("processor.agen")),
        load_to_use: Cycles(values.number("processor.load_to_use")),
    }
}

/// Coherence.
pub(crate) fn protocol(values: &Values<'_>) -> Protocol {
    Protocol {
        name: values.text("protocol.name"),
        any_copy_supplies: values.is("protocol.supplier", "any-copy"),
        all_asynchronous: values.is("protocol.asynchronous", "all"),
        sticky_migratory: values.is("protocol.migratory_write_miss", "keep"),
        start_migratory: values.is("protocol.migratory_start", "migratory"),
        private_handover_updates_memory: values.is("protocol.private_handover", "update-memory"),
        two_hand_overs: values.is("protocol.migratory_evidence", "two"),
        write_updates_memory: values.is("protocol.word_write", "update-memory"),
        any_copy_supplies_private: match values.text("protocol.private_supplier").as_str() {
            "as-shared" => None,
            word => Some(word == "any-copy"),
        },
        private_kernel: values.is("protocol.private_kernel", "per-process"),
        flush_private: values.is("protocol.private_on_switch", "flush"),
    }
}

/// The bus.
pub(crate) fn bus(values: &Values<'_>) -> Bus {
    Bus {
        invalidate: Cycles(values.number("bus.invalidate")),
        write: Cycles(values.number("bus.write")),
        memory_read: Cycles(values.number("bus.memory_read")),
        cache_read: Cycles(values.number("bus.cache_read")),
        intervention: Cycles(values.number("bus.intervention")),
        write_back: Cycles(values.number("bus.write_back")),
        bytes_per_cycle: values.number("bus.bytes_per_cycle"),
        memory_hold: Cycles(values.number("bus.memory_hold")),
        fifo: values.is("bus.arbitration", "fifo"),
    }
}

/// Locks.
pub(crate) fn locks(values: &Values<'_>) -> Locks {
    Locks {
        arbitrated: match values.text("locks.arbitrated").as_str() {
            "off" => Arbitration::Off,
            "spinlocks" => Arbitration::Spinlocks,
            _ => Arbitration::All,
        },
        spin_interval: Cycles(values.number("locks.spin_interval")),
    }
}

/// The load generator's tasks, if they run elsewhere.
pub(crate) fn clients(values: &Values<'_>) -> Option<Clients> {
    values.is("clients.place", "elsewhere").then(|| Clients {
        cycles_per_reference: Cycles(values.number("clients.cycles_per_reference")),
        latency: Picos(values.number("clients.latency")),
    })
}

/// Disks and I/O buses; where data lie is read apart.
pub(crate) fn storage(values: &Values<'_>) -> Storage {
    Storage {
        disks: values.number("disk.count") as usize,
        model: values.text("disk.model"),
        scheduler: values.text("disk.scheduler"),
        medium: values.number("disk.medium_rate") * 1000,
        buses: values.number("io.buses") as usize,
        bus_of: Vec::new(),
        bus_rate: values.number("io.rate") * 1000,
        bus_overhead: Picos(values.number("io.overhead")),
        hold_on_read: values.is("io.hold_on_read", "yes"),
        hold_on_write: values.is("io.hold_on_write", "yes"),
        placement: Placement { stripe: Bytes(values.number("placement.stripe")), ..Placement::default() },
    }
}
