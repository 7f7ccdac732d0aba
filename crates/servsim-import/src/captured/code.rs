//! What processor cores want to know of captured code: which registers order its instructions, what
//! executes them, and which branches are mispredicted. The trace holds the machine code of every block;
//! it is decoded once per shape, and the records of a task point to its instructions.
//!
//! * *Registers*: general and vector registers and the flags, as one; values that an instruction merely
//!   steps the stack pointer by, and registers that it clears, depend on nothing.
//! * *Classes*: by mnemonic; moves from memory are loads and no more.
//! * *Branches*: conditional ones by gshare (`McFarling` 1993) with 4,096 two-bit counters and 12 bits of
//!   history; indirect jumps and calls go where they went last; returns are always right. Each task
//!   has a predictor of its own, as if it ran alone.
//!
//! Left out: dependences through memory (a store and a later load), x87 and mask registers, that
//! instructions may write a part of the flags.

use iced_x86::{Decoder, DecoderOptions, FlowControl, InstructionInfoFactory, Mnemonic, OpAccess, Register};
use servsim_core::code::{Class, Instruction, FLAGS, UNKNOWN_CODE, VECTORS};
use servsim_core::reference::{CONTINUATION, MISPREDICTED};
use servsim_core::source::PageHash;
use servsim_core::{Op, Record};
use servsim_trace::{Shape, ShapeId};
use std::collections::HashMap;

/// What records tell of the code that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodeDetail {
    /// Nothing.
    #[default]
    None,
    /// Instructions and branches.
    Instructions,
}

const COUNTERS: usize = 4096;

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// Without a branch that can be mispredicted.
    Plain,
    Conditional,
    Indirect,
}

/// One shape: where its instructions begin in the list, and how it ends.
#[derive(Debug, Clone)]
struct Block {
    first: u32,
    end: End,
    /// Address of the last instruction and of the one behind it.
    last: u64,
    behind: u64,
    begin: u64,
}

/// The code of a trace.
#[derive(Debug, Default)]
pub struct Code {
    blocks: Vec<Block>,
    /// The instructions of all shapes, one shape after the other.
    pub instructions: Vec<Instruction>,
}

impl Code {
    /// Decodes all `shapes`.
    pub fn of<'a>(shapes: impl Iterator<Item = &'a Shape>) -> Self {
        let mut code = Self::default();
        let mut factory = InstructionInfoFactory::new();
        for shape in shapes {
            code.add(shape, &mut factory);
        }
        code
    }

    fn add(&mut self, shape: &Shape, factory: &mut InstructionInfoFactory) {
        let first = self.instructions.len() as u32;
        let (mut last, mut end) = (shape.vaddr, End::Plain);
        let mut decoder = Decoder::with_ip(64, &shape.code, shape.vaddr, DecoderOptions::NONE);
        let mut ops = shape.ops.iter().peekable();
        for index in 0..shape.insns.len() {
            let decoded = decoder.decode();
            let mut loads = false;
            while let Some(op) = ops.next_if(|op| usize::from(op.insn) == index) {
                loads |= !op.store;
            }
            self.instructions.push(instruction(factory, &decoded, loads));
            last = decoded.ip();
            end = match decoded.flow_control() {
                FlowControl::ConditionalBranch => End::Conditional,
                FlowControl::IndirectBranch | FlowControl::IndirectCall => End::Indirect,
                _ => End::Plain,
            };
        }
        let behind = shape.vaddr + shape.code.len() as u64;
        self.blocks.push(Block { first, end, last, behind, begin: shape.vaddr });
    }

    /// Appends to `code` where the instructions of `records`, one execution of `shape`, are in the list.
    pub fn point(&self, shape: ShapeId, records: &[Record], code: &mut Vec<u32>) {
        let mut next = self.blocks[shape as usize].first;
        for record in records {
            code.push(next);
            if record.op == Op::Fetch && record.flags & CONTINUATION == 0 {
                next += u32::from(record.cpu);
            }
        }
    }
}

/// Lengthens `code` to the number of `records` with what stands for unknown code.
pub fn fill(code: &mut Vec<u32>, records: usize) {
    code.resize(records, UNKNOWN_CODE);
}

/// The number of a register among those of [`Instruction`].
fn number(register: Register) -> Option<usize> {
    if register.is_gpr() {
        Some(register.full_register().number())
    } else if register.is_vector_register() {
        Some(VECTORS + register.number())
    } else {
        None
    }
}

/// What a core wants to know of `decoded`.
fn instruction(
    factory: &mut InstructionInfoFactory,
    decoded: &iced_x86::Instruction,
    loads: bool,
) -> Instruction {
    let info = factory.info(decoded);
    let (mut address, mut reads, mut writes) = (0, 0, 0);
    for used in info.used_registers() {
        let Some(register) = number(used.register()) else { continue };
        // Stepping the stack pointer is done ahead of execution.
        if decoded.is_stack_instruction() && used.register().full_register() == Register::RSP {
            continue;
        }
        let (read, written) = match used.access() {
            OpAccess::Read | OpAccess::CondRead => (1, 0),
            OpAccess::Write => (0, 1),
            OpAccess::ReadWrite | OpAccess::ReadCondWrite | OpAccess::CondWrite => (1, 1),
            _ => (0, 0),
        };
        reads |= read << register;
        writes |= written << register;
    }
    for memory in info.used_memory() {
        let stack = |register: &Register| decoded.is_stack_instruction() && *register == Register::RSP;
        let registers = [memory.base(), memory.index()].into_iter().filter(|r| !stack(r));
        registers.filter_map(number).for_each(|register| address |= 1 << register);
    }
    reads |= u64::from(decoded.rflags_read() != 0) << FLAGS;
    writes |= u64::from(decoded.rflags_modified() != 0) << FLAGS;
    if clears(decoded) {
        reads = 0;
    }
    Instruction { address, reads, writes, class: class(decoded.mnemonic(), loads) }
}

/// Whether the result is zero whatever the operands.
fn clears(decoded: &iced_x86::Instruction) -> bool {
    let name = format!("{:?}", decoded.mnemonic());
    let exclusive = matches!(
        name.trim_start_matches('V'),
        "Xor"
            | "Sub"
            | "Pxor"
            | "Pxord"
            | "Pxorq"
            | "Xorps"
            | "Xorpd"
            | "Psubb"
            | "Psubw"
            | "Psubd"
            | "Psubq"
    );
    let count = decoded.op_count();
    let (one, other) = (count.saturating_sub(2), count.saturating_sub(1));
    exclusive
        && decoded.op_register(one) != Register::None
        && decoded.op_register(one) == decoded.op_register(other)
}

/// What executes instructions of this name; moves that `load` do no more than that.
fn class(mnemonic: Mnemonic, load: bool) -> Class {
    let full = format!("{mnemonic:?}").to_lowercase();
    let name = full.trim_start_matches('v');
    let float = ["ss", "sd", "ps", "pd"].iter().any(|end| name.ends_with(end));
    let begins = |names: &[&str]| names.iter().any(|begin| name.starts_with(begin));
    match mnemonic {
        Mnemonic::Mul | Mnemonic::Imul | Mnemonic::Mulx => return Class::Multiply,
        Mnemonic::Div | Mnemonic::Idiv => return Class::Divide,
        _ => {}
    }
    if begins(&["pmul", "pmadd", "pclmul"]) {
        Class::Multiply
    } else if float && begins(&["div", "sqrt"]) || begins(&["fdiv", "fidiv", "fsqrt"]) {
        Class::FloatDivide
    } else if float && begins(&["mul", "fmadd", "fmsub", "fnmadd", "fnmsub", "dp"])
        || begins(&["fmul", "fimul"])
    {
        Class::FloatMultiply
    } else if float
        && begins(&["add", "sub", "min", "max", "cmp", "comis", "ucomis", "hadd", "hsub", "round"])
        || begins(&["cvt", "fadd", "fiadd", "fsub", "fisub", "fcom", "fucom"])
    {
        Class::FloatAdd
    } else if load && begins(&["mov", "pop", "lods", "ret", "leave", "lddqu", "broadcast", "pbroadcast"]) {
        Class::None
    } else {
        Class::Integer
    }
}

/// Follows one task through its blocks and marks where it was mispredicted.
#[derive(Debug)]
pub struct BranchPredictor {
    before: Option<ShapeId>,
    history: usize,
    counters: Vec<u8>,
    targets: HashMap<u64, u64, PageHash>,
}

impl BranchPredictor {
    /// At the beginning of a task.
    pub fn new(detail: CodeDetail) -> Self {
        let counters = if detail == CodeDetail::None { Vec::new() } else { vec![1; COUNTERS] };
        Self { before: None, history: 0, counters, targets: HashMap::default() }
    }

    /// Marks the records of one execution of `shape`.
    pub fn block(&mut self, code: &Code, shape: ShapeId, records: &mut [Record]) {
        let block = &code.blocks[shape as usize];
        let mispredicted =
            self.before.is_some_and(|before| self.mispredicts(&code.blocks[before as usize], block.begin));
        if let (true, Some(first)) = (mispredicted, records.first_mut()) {
            first.flags |= MISPREDICTED;
        }
        self.before = Some(shape);
    }

    /// Whether the way from `block` to the one at `next` was mispredicted; learns it.
    fn mispredicts(&mut self, block: &Block, next: u64) -> bool {
        match block.end {
            End::Plain => false,
            End::Indirect => self.targets.insert(block.last, next).is_some_and(|before| before != next),
            End::Conditional => {
                let taken = next != block.behind;
                let counter = &mut self.counters[(block.last as usize ^ self.history) % COUNTERS];
                let predicted = *counter >= 2;
                *counter = if taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
                self.history = (self.history << 1 | usize::from(taken)) % COUNTERS;
                predicted != taken
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_trace::{Insn, MemOp};

    /// A shape of `code`, its instructions' lengths and the instructions that load.
    fn shape(vaddr: u64, code: &[u8], lengths: &[u8], loads: &[u16]) -> Shape {
        let op = |&insn: &u16| MemOp { insn, size: 8, store: false, slot: 0, disp: 0 };
        Shape {
            vaddr,
            paddr: 0,
            next_page: None,
            insns: lengths.iter().map(|&len| Insn { len, atomic: false }).collect(),
            code: code.into(),
            ops: loads.iter().map(op).collect(),
            stack_step: 0,
        }
    }

    fn decoded(code: &[u8], lengths: &[u8], loads: &[u16]) -> Vec<Instruction> {
        Code::of([shape(0x1000, code, lengths, loads)].iter()).instructions
    }

    const RAX: u64 = 1;
    const RCX: u64 = 1 << 1;
    const RDX: u64 = 1 << 2;
    const RBX: u64 = 1 << 3;
    const RSI: u64 = 1 << 6;
    const RFLAGS: u64 = 1 << FLAGS;
    const fn xmm(number: usize) -> u64 {
        1 << (VECTORS + number)
    }

    #[test]
    fn registers_order_instructions_and_the_address_is_apart() {
        // mov rax,[rsi+rcx*8]; add rax,rdx; imul rbx,rax; jne +0
        let code = [0x48, 0x8B, 0x04, 0xCE, 0x48, 0x01, 0xD0, 0x48, 0x0F, 0xAF, 0xD8, 0x75, 0x00];
        let list = decoded(&code, &[4, 3, 4, 2], &[0]);
        let expected = [
            Instruction { address: RSI | RCX, reads: RSI | RCX, writes: RAX, class: Class::None },
            Instruction { address: 0, reads: RAX | RDX, writes: RAX | RFLAGS, class: Class::Integer },
            Instruction { address: 0, reads: RBX | RAX, writes: RBX | RFLAGS, class: Class::Multiply },
            Instruction { address: 0, reads: RFLAGS, writes: 0, class: Class::Integer },
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn stepping_the_stack_pointer_and_clearing_a_register_depend_on_nothing() {
        // pop rax; push rbx; xor ecx,ecx; pxor xmm1,xmm1
        let code = [0x58, 0x53, 0x31, 0xC9, 0x66, 0x0F, 0xEF, 0xC9];
        let list = decoded(&code, &[1, 1, 2, 4], &[0]);
        let expected = [
            Instruction { address: 0, reads: 0, writes: RAX, class: Class::None },
            Instruction { address: 0, reads: RBX, writes: 0, class: Class::Integer },
            Instruction { address: 0, reads: 0, writes: RCX | RFLAGS, class: Class::Integer },
            Instruction { address: 0, reads: 0, writes: xmm(1), class: Class::Integer },
        ];
        assert_eq!(list, expected);
    }

    #[test]
    fn mnemonics_have_the_class_of_their_unit() {
        // div rcx; addsd xmm0,xmm1; mulsd xmm0,[rsi]; divss xmm2,xmm3; cvtsi2sd xmm0,rax; vfmadd231sd
        // xmm0,xmm1,xmm2; sqrtsd xmm0,xmm1; movsd xmm0,[rsi]; lea rax,[rsi+4]; pmulld xmm0,xmm1
        let code = [
            0x48, 0xF7, 0xF1, 0xF2, 0x0F, 0x58, 0xC1, 0xF2, 0x0F, 0x59, 0x06, 0xF3, 0x0F, 0x5E, 0xD3, 0xF2,
            0x48, 0x0F, 0x2A, 0xC0, 0xC4, 0xE2, 0xF1, 0xB9, 0xC2, 0xF2, 0x0F, 0x51, 0xC1, 0xF2, 0x0F, 0x10,
            0x06, 0x48, 0x8D, 0x46, 0x04, 0x66, 0x0F, 0x38, 0x40, 0xC1,
        ];
        let list = decoded(&code, &[3, 4, 4, 4, 5, 5, 4, 4, 4, 5], &[2, 7]);
        let classes: Vec<Class> = list.iter().map(|i| i.class).collect();
        let (add, multiply, divide) = (Class::FloatAdd, Class::FloatMultiply, Class::FloatDivide);
        let expected = [Class::Divide, add, multiply, divide, add, multiply, divide, Class::None];
        assert_eq!(classes[..8], expected);
        assert_eq!(classes[8..], [Class::Integer, Class::Multiply]);
        assert_eq!((list[2].address, list[2].reads), (RSI, RSI | xmm(0)));
    }

    #[test]
    fn records_point_to_the_first_of_their_instructions() {
        let nops = |vaddr| shape(vaddr, &[0x90; 4], &[1; 4], &[2]);
        let code = Code::of([nops(0x1000), nops(0x2000)].iter());
        let of = |op, cpu| Record { cpu, ..Record::new(0, op, 0, 1) };
        let records = [of(Op::Fetch, 3), of(Op::Load, 1), of(Op::Fetch, 1)];
        let mut pointers = Vec::new();
        code.point(1, &records, &mut pointers);
        fill(&mut pointers, 4);
        assert_eq!(pointers, [4, 7, 7, UNKNOWN_CODE]);
    }

    #[test]
    fn a_loop_is_learnt_and_its_end_mispredicted() {
        // A block that ends in `jne` back to itself, and the block behind it.
        let shapes = [shape(0x1000, &[0x90, 0x75, 0xFD], &[1, 2], &[]), shape(0x1003, &[0x90], &[1], &[])];
        let code = Code::of(shapes.iter());
        let mut predictor = BranchPredictor::new(CodeDetail::Instructions);
        let mut visit = |shape: ShapeId| {
            let mut records = [Record::new(0, Op::Fetch, 0, 1)];
            predictor.block(&code, shape, &mut records);
            records[0].flags & MISPREDICTED != 0
        };
        assert!(!visit(0), "nothing comes before the first block");
        let early = (0..20).filter(|_| visit(0)).count();
        assert!((1..=14).contains(&early), "each history must be met once: {early}");
        assert_eq!((0..20).filter(|_| visit(0)).count(), 0, "then it is known");
        assert!(visit(1), "the exit is mispredicted");
    }
}
