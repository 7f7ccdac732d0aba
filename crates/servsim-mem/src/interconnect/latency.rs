//! Latency and occupancy of transactions on an idle interconnect (Foglia et al. 2004, Table 4).

use super::Supplier;
use crate::protocol::BusOp;
use servsim_core::Cycles;

/// Bus times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusTimes {
    /// Invalidate.
    pub invalidate: Cycles,
    /// One-word write.
    pub write: Cycles,
    /// Fetch from memory, without its bytes.
    pub memory_read: Cycles,
    /// Fetch from a cache, without its bytes.
    pub cache_read: Cycles,
    /// Write-back, without its bytes.
    pub write_back: Cycles,
    /// To move one line.
    pub transfer: Cycles,
    /// Further occupancy of a memory fetch.
    pub memory_hold: Cycles,
}

impl BusTimes {
    /// Latency and occupancy of a transaction.
    pub fn of(&self, op: BusOp, from_cache: bool) -> (Cycles, Cycles) {
        match op {
            BusOp::Invalidate => (self.invalidate, self.invalidate),
            BusOp::Write => (self.write, self.write),
            BusOp::WriteBack => {
                let time = self.write_back + self.transfer;
                (time, time)
            }
            BusOp::Read | BusOp::ReadExclusive => {
                let split = self.cache_read + self.transfer;
                if from_cache {
                    (split, split)
                } else {
                    let latency = self.memory_read + self.transfer;
                    (latency, (split + self.memory_hold).min(latency))
                }
            }
        }
    }
}

/// The times of every transaction, by who supplies the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyTable {
    /// Times of the bus.
    pub bus: BusTimes,
    /// Look-up of each shared level, from the inside out.
    pub shared: Vec<Cycles>,
    /// What the caches of a processor, or another core group's, take longer to supply a block than a shared level does.
    pub intervention: Cycles,
    /// What concerns caches of other core groups takes longer by this.
    pub crossing: Cycles,
}

impl LatencyTable {
    /// Latency and occupancy of a transaction whose block `supplier` sends. A shared level answers as a
    /// cache does, after its own time.
    pub fn of(&self, op: BusOp, supplier: Supplier) -> (Cycles, Cycles) {
        match supplier {
            Supplier::Processor(_) | Supplier::Group(_) => {
                let (latency, occupancy) = self.bus.of(op, true);
                let intervention = if op.is_fetch() { self.intervention } else { Cycles(0) };
                (latency + intervention, occupancy)
            }
            Supplier::Memory => self.bus.of(op, false),
            Supplier::Shared(level) => {
                let (latency, occupancy) = self.bus.of(op, true);
                (latency + self.shared[level], occupancy)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::CpuId;

    fn table_4(line: u64) -> BusTimes {
        BusTimes {
            invalidate: Cycles(5),
            write: Cycles(5),
            memory_read: Cycles(64),
            cache_read: Cycles(8),
            write_back: Cycles(4),
            transfer: Cycles(line / 8),
            memory_hold: Cycles(0),
        }
    }

    #[test]
    fn latencies_are_those_of_table_4() {
        let expected = [[32, 68, 12, 8], [64, 72, 16, 12], [128, 80, 24, 20], [256, 96, 40, 36]];
        for [line, memory, cache, back] in expected {
            let times = table_4(line);
            let [memory, cache, back] = [memory, cache, back].map(Cycles);
            for op in [BusOp::Read, BusOp::ReadExclusive] {
                assert_eq!(times.of(op, false).0, memory);
                assert_eq!(times.of(op, true), (cache, cache));
            }
            assert_eq!(times.of(BusOp::WriteBack, false), (back, back));
            assert_eq!(times.of(BusOp::Invalidate, false), (Cycles(5), Cycles(5)));
            assert_eq!(times.of(BusOp::Write, false), (Cycles(5), Cycles(5)));
        }
    }

    #[test]
    fn occupancy_grows_with_the_hold_up_to_the_latency() {
        let held = BusTimes { memory_hold: Cycles(56), ..table_4(128) };
        assert_eq!(table_4(128).of(BusOp::Read, false), (Cycles(80), Cycles(24)));
        assert_eq!(held.of(BusOp::Read, false), (Cycles(80), Cycles(80)));
    }

    #[test]
    fn a_shared_level_answers_as_a_cache_after_its_own_time() {
        let table = LatencyTable {
            bus: table_4(128),
            shared: vec![Cycles(9), Cycles(30)],
            intervention: Cycles(0),
            crossing: Cycles(0),
        };
        assert_eq!(table.of(BusOp::Read, Supplier::Processor(CpuId(3))), (Cycles(24), Cycles(24)));
        let slow = LatencyTable { intervention: Cycles(7), ..table.clone() };
        assert_eq!(slow.of(BusOp::Read, Supplier::Processor(CpuId(3))), (Cycles(31), Cycles(24)));
        assert_eq!(slow.of(BusOp::Invalidate, Supplier::Processor(CpuId(3))).0, Cycles(5));
        assert_eq!(slow.of(BusOp::Read, Supplier::Shared(1)), table.of(BusOp::Read, Supplier::Shared(1)));
        assert_eq!(table.of(BusOp::Read, Supplier::Shared(1)), (Cycles(54), Cycles(24)));
        assert_eq!(table.of(BusOp::Read, Supplier::Memory), (Cycles(80), Cycles(24)));
    }
}
