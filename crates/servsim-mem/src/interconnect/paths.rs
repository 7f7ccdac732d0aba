//! What a block occupies on its way: nothing beside the bus, ports of a crossbar, or links of a network, and
//! the bank of memory that reads or writes it.
//!
//! * **bus**: one resource for addresses and data, which the order point is.
//! * **crossbar**: the order point is taken for the address only; data take the sender's output port
//!   and the receiver's input port.
//! * **network**: as the crossbar, but data take the link from sender to receiver alone, and travel a
//!   hop longer.
//!
//! A bank is busy for its own time, and what finds it busy waits. A shared level sits before the banks and
//! uses their ports. Left out: the addresses' own way to the order point, and routes of more than one hop.

use super::{Home, InterconnectKind, Supplier};
use crate::protocol::BusOp;
use servsim_core::{CpuId, Cycles};

/// Shape and times of the ways of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathSpec {
    /// What it is.
    pub kind: InterconnectKind,
    /// Time that a transaction takes the order point of a crossbar or network.
    pub order: Cycles,
    /// Time of the hop of a network.
    pub hop: Cycles,
    /// Time to move one line over a port or link.
    pub transfer: Cycles,
    /// Memory banks.
    pub banks: usize,
    /// Time that one access keeps a bank busy; 0 for banks that are never in the way.
    pub bank_time: Cycles,
}

/// A granted transaction on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    /// When it was granted.
    pub now: u64,
    /// The processor that asked.
    pub cpu: CpuId,
    /// The home of the line.
    pub home: Home,
    /// The transaction.
    pub op: BusOp,
    /// Until it is complete, if nothing is in its way.
    pub latency: Cycles,
    /// That it would occupy a bus.
    pub occupancy: Cycles,
}

/// The state of ports, links and banks.
#[derive(Debug)]
pub(super) struct Paths {
    spec: PathSpec,
    processors: usize,
    /// Per port or link: free from then on.
    free: Vec<u64>,
    banks: Vec<u64>,
    /// Cycles that each port or link was taken; empty for a bus.
    pub busy: Vec<u64>,
    /// Cycles that fetches waited for a bank.
    pub bank_wait: u64,
}

impl Paths {
    /// Idle ways for `processors`.
    pub fn new(processors: usize, spec: PathSpec) -> Self {
        let nodes = processors + spec.banks;
        let resources = match spec.kind {
            InterconnectKind::Bus => 0,
            InterconnectKind::Crossbar => 2 * nodes,
            InterconnectKind::Network => nodes * nodes,
        };
        Self {
            spec,
            processors,
            free: vec![0; resources],
            banks: vec![0; spec.banks],
            busy: vec![0; resources],
            bank_wait: 0,
        }
    }

    /// Carries a transaction out; returns its latency and the occupancy of bus or order point.
    pub fn carry(&mut self, carried: &Carried, supplier: Supplier) -> (Cycles, Cycles) {
        let Carried { now, cpu, home: Home(bank), op, mut latency, occupancy } = *carried;
        let home = self.processors + bank;
        let ends = match (op, supplier) {
            (BusOp::WriteBack, _) => Some((cpu.0, home)),
            (BusOp::Invalidate | BusOp::Write, _) => None,
            // All of a group's level leaves through the port of its first processor.
            (_, Supplier::Processor(other) | Supplier::Group(other)) => Some((other.0, cpu.0)),
            (_, Supplier::Shared(_) | Supplier::Memory) => Some((home, cpu.0)),
        };
        let from_memory = op.is_fetch() && supplier == Supplier::Memory;
        if from_memory || op == BusOp::WriteBack {
            let wait = self.take_bank(bank, now);
            if from_memory {
                self.bank_wait += wait;
                latency = latency + wait;
            }
        }
        if self.spec.kind == InterconnectKind::Bus {
            return (latency, occupancy);
        }
        if let Some((from, to)) = ends {
            latency = Cycles(self.move_line(from, to, now + latency) - now);
        }
        (latency, occupancy.min(self.spec.order))
    }

    /// Takes a bank at `now` or when it is free; returns the wait.
    fn take_bank(&mut self, bank: usize, now: u64) -> Cycles {
        let start = now.max(self.banks[bank]);
        self.banks[bank] = start + self.spec.bank_time;
        Cycles(start - now)
    }

    /// Moves a line whose last byte would arrive at `arrival` if nothing were in its way; returns when
    /// it does.
    fn move_line(&mut self, from: usize, to: usize, arrival: u64) -> u64 {
        let nodes = self.processors + self.banks.len();
        let (ways, hop) = match self.spec.kind {
            InterconnectKind::Network => ([from * nodes + to; 2], self.spec.hop),
            _ => ([from, nodes + to], Cycles(0)),
        };
        let ready = arrival.saturating_sub(self.spec.transfer.0);
        let start = ways.iter().fold(ready, |start, &way| start.max(self.free[way]));
        for &way in &ways {
            self.free[way] = start + self.spec.transfer;
        }
        self.busy[ways[0]] += self.spec.transfer;
        if ways[1] != ways[0] {
            self.busy[ways[1]] += self.spec.transfer;
        }
        start + self.spec.transfer + hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(kind: InterconnectKind, banks: usize, bank_time: u64) -> Paths {
        Paths::new(
            3,
            PathSpec {
                kind,
                order: Cycles(5),
                hop: Cycles(7),
                transfer: Cycles(16),
                banks,
                bank_time: Cycles(bank_time),
            },
        )
    }

    /// A fetch of 128 bytes with the times of Foglia et al. 2004, Table 4.
    fn fetch(now: u64, cpu: usize, bank: usize, supplier: Supplier) -> Carried {
        let (latency, occupancy) = if supplier == Supplier::Memory { (80, 24) } else { (24, 24) };
        Carried {
            now,
            cpu: CpuId(cpu),
            home: Home(bank),
            op: BusOp::Read,
            latency: Cycles(latency),
            occupancy: Cycles(occupancy),
        }
    }

    #[test]
    fn a_bus_with_banks_that_are_never_busy_adds_nothing() {
        let mut bus = paths(InterconnectKind::Bus, 1, 0);
        for now in [0, 1, 2] {
            assert_eq!(
                bus.carry(&fetch(now, 0, 0, Supplier::Memory), Supplier::Memory),
                (Cycles(80), Cycles(24))
            );
        }
    }

    #[test]
    fn a_busy_bank_makes_fetches_wait_and_another_bank_does_not() {
        let mut bus = paths(InterconnectKind::Bus, 2, 60);
        let mut at =
            |now, line: usize| bus.carry(&fetch(now, 0, line % 2, Supplier::Memory), Supplier::Memory).0;
        assert_eq!(at(0, 4), Cycles(80));
        assert_eq!(at(24, 6), Cycles(80 + 36), "the bank of even lines is busy until 60");
        assert_eq!(at(48, 5), Cycles(80), "that of odd lines is free");
        assert_eq!(at(72, 4), Cycles(80 + 48), "busy until 120");
        assert_eq!(bus.bank_wait, 84);
    }

    #[test]
    fn a_crossbar_is_ordered_briefly_and_waits_for_its_ports() {
        let mut crossbar = paths(InterconnectKind::Crossbar, 2, 0);
        let mut at = |now, cpu, line: usize| {
            let supplier = Supplier::Processor(CpuId(2));
            crossbar.carry(&fetch(now, cpu, line % 2, supplier), supplier)
        };
        assert_eq!(at(0, 0, 1), (Cycles(24), Cycles(5)), "data leave processor 2 from 8 to 24");
        assert_eq!(at(5, 1, 2), (Cycles(35), Cycles(5)), "its port is free at 24 only: 24 + 16 - 5");
        assert_eq!(crossbar.busy.iter().sum::<u64>(), 4 * 16, "two lines, an output and an input each");
        // Memory sends to processor 0 over other ports: nothing is in the way.
        assert_eq!(
            crossbar.carry(&fetch(40, 0, 1, Supplier::Memory), Supplier::Memory),
            (Cycles(80), Cycles(5))
        );
    }

    #[test]
    fn a_network_waits_for_one_link_only_and_pays_the_hop() {
        let mut network = paths(InterconnectKind::Network, 2, 0);
        let mut at = |now, cpu| {
            let supplier = Supplier::Processor(CpuId(2));
            network.carry(&fetch(now, cpu, 1, supplier), supplier).0
        };
        assert_eq!(at(0, 0), Cycles(24 + 7));
        assert_eq!(at(5, 1), Cycles(24 + 7), "another link of the same sender");
        assert_eq!(at(10, 0), Cycles(24 + 16 + 7 - 10), "the link is taken until 24");
        assert_eq!(at(11, 0), Cycles(40 + 16 + 7 - 11), "and then until 40");
    }

    #[test]
    fn what_moves_no_line_takes_the_order_point_only() {
        let mut crossbar = paths(InterconnectKind::Crossbar, 1, 50);
        let invalidate = Carried {
            now: 3,
            cpu: CpuId(0),
            home: Home(0),
            op: BusOp::Invalidate,
            latency: Cycles(5),
            occupancy: Cycles(5),
        };
        assert_eq!(crossbar.carry(&invalidate, Supplier::Memory), (Cycles(5), Cycles(5)));
        assert_eq!(crossbar.busy.iter().sum::<u64>(), 0);
        let back = Carried { op: BusOp::WriteBack, latency: Cycles(20), occupancy: Cycles(20), ..invalidate };
        assert_eq!(crossbar.carry(&back, Supplier::Memory), (Cycles(20), Cycles(5)));
        assert_eq!(crossbar.carry(&fetch(23, 1, 0, Supplier::Memory), Supplier::Memory).0, Cycles(80 + 30));
    }
}
