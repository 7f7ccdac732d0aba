//! Instructions as processor cores see them: the registers that order them and the kind of functional
//! unit that executes them. Importers that know the machine code decode it once into a list; the
//! records of a stream point into it (`Batch::code`).
//!
//! Left out: immediate values, prefixes, and everything that does not order or delay execution.

/// What executes an instruction. As wide as the rest of an [`Instruction`]: an instruction with unused bytes is copied in
/// pieces that overlap, which a host waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Class {
    /// Nothing: a load or store and no more, or an instruction whose code is not known.
    None = 0,
    /// Integer and vector logic: additions, shifts, moves between registers, branches.
    Integer = 1,
    /// Integer multiplication.
    Multiply = 2,
    /// Integer division.
    Divide = 3,
    /// Floating-point addition, comparison, conversion.
    FloatAdd = 4,
    /// Floating-point multiplication, alone or with an addition.
    FloatMultiply = 5,
    /// Floating-point division and square root.
    FloatDivide = 6,
}

/// Number of classes.
pub const CLASSES: usize = 7;

/// Registers that an [`Instruction`] can name: 16 general, 32 vector, the flags, and one that stands
/// for "the data of the loads before".
pub const REGISTERS: usize = 50;
/// First vector register.
pub const VECTORS: usize = 16;
/// The flags.
pub const FLAGS: usize = 48;
/// The data of the loads before, for instructions whose registers are not known.
pub const LOADED: usize = 49;

/// One instruction. Registers are bits: `1 << number`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Registers that the addresses of its accesses come from.
    pub address: u64,
    /// Registers that it reads.
    pub reads: u64,
    /// Registers that it writes.
    pub writes: u64,
    /// What executes it.
    pub class: Class,
}

impl Instruction {
    /// One whose code is not known: nothing orders it.
    pub const UNKNOWN: Self = Self { address: 0, reads: 0, writes: 0, class: Class::None };
}

/// Place in the list of instructions that stands for unknown code.
pub const UNKNOWN_CODE: u32 = u32::MAX;
