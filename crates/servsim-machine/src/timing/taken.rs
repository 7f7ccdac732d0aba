//! What transactions took.

use servsim_mem::protocol::BusOp;
use servsim_mem::{Supplier, Transaction};

/// Cycles of transactions from their grant on, as far as they were known at the grant: all of processors and store
/// buffers, and those of blocks that memory supplied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Taken {
    pub cycles: u64,
    pub memory_reads: u64,
    pub memory_cycles: u64,
}

impl Taken {
    /// A transaction took so many cycles.
    pub fn add(&mut self, transaction: &Transaction, cycles: u64) {
        self.cycles += cycles;
        if transaction.supplier == Supplier::Memory && transaction.op.is_some_and(BusOp::is_fetch) {
            self.memory_reads += 1;
            self.memory_cycles += cycles;
        }
    }

    /// What was added since an earlier moment.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            cycles: self.cycles - before.cycles,
            memory_reads: self.memory_reads - before.memory_reads,
            memory_cycles: self.memory_cycles - before.memory_cycles,
        }
    }
}
