//! What processor cores want to know of captured code: from which load each load's address comes, where
//! its data are first used, and which branches are mispredicted. The trace holds the machine code of
//! every block; it is decoded once per shape.
//!
//! * *Producers* (for out-of-order cores): the youngest load among the ancestors of the address,
//!   through registers, within the block and across blocks of the task.
//! * *Uses* (for in-order cores): instructions from the load to the first reader of a register it
//!   writes; one that is not used in its block counts as used by the next.
//! * *Branches*: conditional ones by gshare (`McFarling` 1993) with 4,096 two-bit counters and 12 bits of
//!   history; indirect jumps and calls go where they went last; returns are always right. Each task
//!   has a predictor of its own, as if it ran alone.
//!
//! Left out: dependences through memory (a store and a later load) and through flags alone.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory};
use iced_x86::{Mnemonic, OpAccess, Register};
use servsim_core::reference::MISPREDICTED;
use servsim_core::Record;
use servsim_trace::{Shape, ShapeId};
use std::collections::HashMap;

/// What records tell of the code that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wanted {
    /// Nothing.
    #[default]
    Nothing,
    /// Producers and branches.
    Producers,
    /// Uses and branches.
    Uses,
}

const REGISTERS: usize = 16;
/// Longest distance a record holds.
const FARTHEST: u64 = 254;
const COUNTERS: usize = 4096;

/// Where a value comes from: a load of the block, and the registers at its entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Source {
    load: Option<u16>,
    entry: u16,
}

impl Source {
    fn join(self, other: Self) -> Self {
        Self { load: self.load.max(other.load), entry: self.entry | other.entry }
    }
}

/// A load of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    address: Source,
    first_use: u8,
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// In a way that is always foreseen.
    Plain,
    Conditional,
    Indirect,
}

/// The flow of data and control through one shape.
#[derive(Debug, Clone)]
pub struct Flow {
    loads: Vec<Load>,
    exit: [Source; REGISTERS],
    end: End,
    /// Address of the last instruction and of the one behind it.
    last: u64,
    behind: u64,
    begin: u64,
}

fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

impl Flow {
    /// Decodes `shape`.
    pub fn of(shape: &Shape) -> Self {
        let mut registers: [Source; REGISTERS] =
            std::array::from_fn(|r| Source { load: None, entry: 1 << r });
        let mut flow = Self {
            loads: Vec::new(),
            exit: registers,
            end: End::Plain,
            last: shape.vaddr,
            behind: shape.vaddr + shape.code.len() as u64,
            begin: shape.vaddr,
        };
        let mut decoder = Decoder::with_ip(64, &shape.code, shape.vaddr, DecoderOptions::NONE);
        let mut factory = InstructionInfoFactory::new();
        // Where each load's data went and at which instruction, until they are used.
        let mut unused: Vec<(usize, usize, u16)> = Vec::new();
        let mut ops = shape.ops.iter().peekable();
        for index in 0..shape.insns.len() {
            let instruction = decoder.decode();
            flow.last = instruction.ip();
            let (reads, writes, address) = operands(&mut factory, &instruction, &registers);
            unused.retain(|&(load, at, into)| {
                let used = reads.0 & into != 0;
                if used {
                    flow.loads[load].first_use = (index - at).min(FARTHEST as usize) as u8;
                }
                !used
            });
            let mut made = reads.1;
            while let Some(op) = ops.next_if(|op| usize::from(op.insn) == index) {
                if !op.store {
                    made.load = Some(flow.loads.len() as u16);
                    let rest = (shape.insns.len() - index).min(FARTHEST as usize) as u8;
                    unused.push((flow.loads.len(), index, writes.0 & !writes.1));
                    flow.loads.push(Load { address, first_use: rest });
                }
            }
            write(&instruction, &mut registers, writes, made);
        }
        flow.exit = registers;
        flow.end = match decoder_end(shape) {
            Some(FlowControl::ConditionalBranch) => End::Conditional,
            Some(FlowControl::IndirectBranch | FlowControl::IndirectCall) => End::Indirect,
            _ => End::Plain,
        };
        flow
    }
}

/// How the last instruction of a shape goes on.
fn decoder_end(shape: &Shape) -> Option<FlowControl> {
    let mut decoder = Decoder::with_ip(64, &shape.code, shape.vaddr, DecoderOptions::NONE);
    (0..shape.insns.len()).map(|_| decoder.decode()).last().map(|last| last.flow_control())
}

type Reads = (u16, Source);

/// Registers read and where their values come from; registers written, and of them the stack pointer
/// that an instruction steps; where the addresses of its accesses come from.
fn operands(
    factory: &mut InstructionInfoFactory,
    instruction: &Instruction,
    registers: &[Source; REGISTERS],
) -> (Reads, (u16, u16), Source) {
    let info = factory.info(instruction);
    let mut reads: Reads = (0, Source::default());
    let (mut written, mut stepped) = (0_u16, 0_u16);
    for used in info.used_registers() {
        let Some(register) = number(used.register()) else { continue };
        let is_step = instruction.is_stack_instruction() && used.register().full_register() == Register::RSP;
        let access = used.access();
        if matches!(
            access,
            OpAccess::Read | OpAccess::CondRead | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) || matches!(access, OpAccess::CondWrite)
        {
            reads.0 |= 1 << register;
            if !is_step {
                reads.1 = reads.1.join(registers[register]);
            }
        }
        if matches!(
            access,
            OpAccess::Write | OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite
        ) {
            written |= 1 << register;
            stepped |= u16::from(is_step) << register;
        }
    }
    let mut address = Source::default();
    for memory in info.used_memory() {
        for register in [memory.base(), memory.index()].into_iter().filter_map(number) {
            address = address.join(registers[register]);
        }
    }
    (reads, (written, stepped), address)
}

fn write(
    instruction: &Instruction,
    registers: &mut [Source; REGISTERS],
    (written, stepped): (u16, u16),
    made: Source,
) {
    let clears = matches!(instruction.mnemonic(), Mnemonic::Xor | Mnemonic::Sub)
        && instruction.op0_register() != Register::None
        && instruction.op0_register() == instruction.op1_register();
    for (register, source) in registers.iter_mut().enumerate() {
        if (written & !stepped) >> register & 1 != 0 {
            *source = if clears { Source::default() } else { made };
        }
    }
}

/// Follows one task through its blocks and annotates its records.
#[derive(Debug)]
pub struct Follower {
    wanted: Wanted,
    /// One more than the number of the youngest load that each register's value comes from.
    registers: [u64; REGISTERS],
    loads: u64,
    before: Option<ShapeId>,
    history: usize,
    counters: Vec<u8>,
    targets: HashMap<u64, u64>,
}

impl Follower {
    /// At the beginning of a task.
    pub fn new(wanted: Wanted) -> Self {
        let counters = if wanted == Wanted::Nothing { Vec::new() } else { vec![1; COUNTERS] };
        let registers = [0; REGISTERS];
        Self { wanted, registers, loads: 0, before: None, history: 0, counters, targets: HashMap::new() }
    }

    /// Loads of another stream come in between.
    pub fn skip_loads(&mut self, count: u64) {
        self.loads += count;
    }

    /// Annotates the records of one execution of `shape`; `places` are those of its loads.
    pub fn block(
        &mut self,
        flows: &[Flow],
        shape: ShapeId,
        places: impl Iterator<Item = usize>,
        records: &mut [Record],
    ) {
        if self.wanted == Wanted::Nothing {
            return;
        }
        let flow = &flows[shape as usize];
        let mispredicted =
            self.before.is_some_and(|before| self.mispredicts(&flows[before as usize], flow.begin));
        if let (true, Some(first)) = (mispredicted, records.first_mut()) {
            first.flags |= MISPREDICTED;
        }
        self.before = Some(shape);
        for ((load, place), own) in flow.loads.iter().zip(places).zip(self.loads..) {
            let distance = match self.wanted {
                Wanted::Uses => u64::from(load.first_use),
                _ => self.youngest(load.address).map_or(0, |producer| own - producer),
            };
            if distance <= FARTHEST {
                records[place].cpu = 1 + distance as u8;
            }
        }
        let exits = flow.exit.map(|source| self.youngest(source).map_or(0, |load| load + 1));
        self.registers = exits;
        self.loads += flow.loads.len() as u64;
    }

    /// The youngest load that a value comes from, by its number in the task.
    fn youngest(&self, source: Source) -> Option<u64> {
        if let Some(load) = source.load {
            return Some(self.loads + u64::from(load));
        }
        let entry = (0..REGISTERS).filter(|register| source.entry >> register & 1 != 0);
        entry.map(|register| self.registers[register]).max().and_then(|load| load.checked_sub(1))
    }

    /// Whether the way from `block` to the one at `next` was foreseen wrongly; learns it.
    fn mispredicts(&mut self, block: &Flow, next: u64) -> bool {
        match block.end {
            End::Plain => false,
            End::Indirect => self.targets.insert(block.last, next).is_some_and(|before| before != next),
            End::Conditional => {
                let taken = next != block.behind;
                let counter = &mut self.counters[(block.last as usize ^ self.history) % COUNTERS];
                let foreseen = *counter >= 2;
                *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
                self.history = (self.history << 1 | usize::from(taken)) % COUNTERS;
                foreseen != taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::Op;
    use servsim_trace::{Insn, MemOp};

    /// A shape of `code`, its instructions' lengths and the instructions that load.
    fn flow(vaddr: u64, code: &[u8], lengths: &[u8], loads: &[u16]) -> Flow {
        let op = |&insn: &u16| MemOp { insn, size: 8, store: false, slot: 0, disp: 0 };
        Flow::of(&Shape {
            vaddr,
            paddr: 0,
            next_page: None,
            insns: lengths.iter().map(|&len| Insn { len, atomic: false }).collect(),
            code: code.into(),
            ops: loads.iter().map(op).collect(),
            stack_step: 0,
        })
    }

    fn distances(follower: &mut Follower, flows: &[Flow], shape: ShapeId) -> Vec<u8> {
        let count = flows[shape as usize].loads.len();
        let mut records = vec![Record { cpu: 1, ..Record::new(0, Op::Load, 0, 8) }; count];
        follower.block(flows, shape, 0..count, &mut records);
        records.iter().map(|record| record.cpu - 1).collect()
    }

    /// mov rax,[rdi]; mov rcx,[rsi]; add rax,8; mov rdx,[rax]
    const CHASE: [u8; 13] = [0x48, 0x8B, 0x07, 0x48, 0x8B, 0x0E, 0x48, 0x83, 0xC0, 0x08, 0x48, 0x8B, 0x10];

    #[test]
    fn a_loads_producer_is_found_through_registers_and_across_blocks() {
        // Then, in a block of its own: mov rdi,[rdx]; xor eax,eax; mov rbx,[rax]
        let next = [0x48, 0x8B, 0x3A, 0x31, 0xC0, 0x48, 0x8B, 0x18];
        let flows =
            [flow(0x1000, &CHASE, &[3, 3, 4, 3], &[0, 1, 3]), flow(0x100D, &next, &[3, 2, 3], &[0, 2])];
        let mut follower = Follower::new(Wanted::Producers);
        assert_eq!(distances(&mut follower, &flows, 0), [0, 0, 2], "rax comes from the first load");
        assert_eq!(distances(&mut follower, &flows, 1), [1, 0], "rdx from the last; rax is cleared");
        assert_eq!(distances(&mut follower, &flows, 0), [2, 0, 2], "rdi from the load before last");
        follower.skip_loads(10);
        assert_eq!(distances(&mut follower, &flows, 1), [11, 0]);
    }

    #[test]
    fn the_first_use_of_a_loads_data_is_counted_in_instructions() {
        let flows = [flow(0x1000, &CHASE, &[3, 3, 4, 3], &[0, 1, 3])];
        let mut follower = Follower::new(Wanted::Uses);
        assert_eq!(distances(&mut follower, &flows, 0), [2, 3, 1], "unused data count for the next block");
    }

    #[test]
    fn pushing_and_popping_make_no_chain_through_the_stack_pointer() {
        // pop rax; pop rbx; mov rcx,[rax]
        let flows = [flow(0x1000, &[0x58, 0x5B, 0x48, 0x8B, 0x08], &[1, 1, 3], &[0, 1, 2])];
        let mut follower = Follower::new(Wanted::Producers);
        assert_eq!(distances(&mut follower, &flows, 0), [0, 0, 2]);
        assert_eq!(distances(&mut follower, &flows, 0), [0, 0, 2]);
    }

    #[test]
    fn a_loop_is_learnt_and_its_end_mispredicted() {
        // A block that ends in `jne` back to itself, and the block behind it.
        let flows = [flow(0x1000, &[0x90, 0x75, 0xFD], &[1, 2], &[]), flow(0x1003, &[0x90], &[1], &[])];
        let mut follower = Follower::new(Wanted::Producers);
        let mut visit = |shape: ShapeId| {
            let mut records = [Record::new(0, Op::Fetch, 0, 1)];
            follower.block(&flows, shape, 0..0, &mut records);
            records[0].flags & MISPREDICTED != 0
        };
        assert!(!visit(0), "nothing comes before the first block");
        let early = (0..20).filter(|_| visit(0)).count();
        assert!((1..=14).contains(&early), "each history must be met once: {early}");
        assert_eq!((0..20).filter(|_| visit(0)).count(), 0, "then it is known");
        assert!(visit(1), "the end is not foreseen");
    }
}
