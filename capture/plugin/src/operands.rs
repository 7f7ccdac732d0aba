//! Which register an access is relative to: read once from an instruction, used by the trace's
//! address predictor. A wrong guess costs a few bytes in the trace, never correctness.

use iced_x86::{
    Code, ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use servsim_trace::{slots, Slot};

/// What the capture needs to know of an instruction.
#[allow(clippy::struct_excessive_bools)] // Independent properties of one instruction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Operands {
    /// Explicit memory operand: slot and constant.
    explicit: Option<(Slot, i64)>,
    /// Slot and constant of a string instruction's source and destination.
    string: bool,
    /// Pushes (negative) or pops (positive) this many bytes.
    stack_step: i64,
    /// Accesses the stack besides an explicit operand.
    stack_access: bool,
    /// Reads and writes memory indivisibly.
    pub atomic: bool,
    /// May change address translations; what to forget.
    pub flush: Flush,
    /// Reads the time-stamp counter.
    pub reads_time: bool,
    /// Exchanges a byte with memory: how a program takes a spinlock.
    pub exchanges_byte: bool,
    /// Computes with general registers alone, which nothing can stop: the next instruction follows.
    pub goes_on: bool,
}

/// Which remembered translations an instruction makes stale.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flush {
    /// None.
    #[default]
    Nothing,
    /// Those of the user half (a new address space).
    User,
    /// All.
    All,
}

impl Operands {
    /// Decodes the instruction `code` at `vaddr`.
    pub fn decode(code: &[u8], vaddr: u64) -> Self {
        let instruction = Decoder::with_ip(64, code, vaddr, DecoderOptions::NONE).decode();
        Operands {
            explicit: explicit_operand(&instruction),
            string: instruction.is_string_instruction(),
            stack_step: stack_step(&instruction),
            stack_access: accesses_stack(instruction.mnemonic()),
            atomic: is_atomic(&instruction),
            flush: flush(&instruction),
            reads_time: matches!(instruction.code(), Code::Rdtsc | Code::Rdtscp),
            exchanges_byte: instruction.code() == Code::Xchg_rm8_r8 && is_atomic(&instruction),
            goes_on: goes_on(&instruction),
        }
    }

    /// Slot and constant for one access, given how far the block has moved the stack pointer.
    pub fn predict(&self, store: bool, size: u8, stack: i64) -> (Slot, i64) {
        let pushes = self.stack_step < 0;
        if self.string {
            return (if store { DESTINATION } else { SOURCE }, 0);
        }
        if self.stack_access && (self.explicit.is_none() || store == pushes) {
            let below = if pushes { i64::from(size) } else { 0 };
            return (slots::STACK, stack - below);
        }
        match self.explicit {
            Some((slots::STACK, disp)) => (slots::STACK, disp + stack),
            Some(place) => place,
            None => (OTHER, 0),
        }
    }

    /// What the instruction adds to the stack pointer, as far as that is constant.
    pub fn stack_step(&self) -> i64 {
        self.stack_step
    }
}

/// Encoding of `rsi` and `rdi`, the pointers of string instructions.
const SOURCE: Slot = 6;
const DESTINATION: Slot = 7;
/// Accesses that no rule covers share the last slot.
const OTHER: Slot = slots::COUNT as Slot - 1;

fn explicit_operand(instruction: &Instruction) -> Option<(Slot, i64)> {
    let has_memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    if !has_memory || instruction.mnemonic() == Mnemonic::Lea {
        return None;
    }
    let disp = instruction.memory_displacement64() as i64;
    let (base, index) = (instruction.memory_base(), instruction.memory_index());
    Some(match (instruction.memory_segment(), number(base), number(index)) {
        (Register::GS, None, None) => (slots::GS, disp),
        (Register::FS, None, None) => (slots::FS, disp),
        (_, None, None) => (slots::ABSOLUTE, disp),
        (_, Some(base), None) => (base, disp),
        (_, base, Some(index)) => {
            let spread = (slots::COUNT as u8 - 1) - slots::INDEXED;
            (slots::INDEXED + (base.unwrap_or(16) * 5 + index * 3) % spread, disp)
        }
    })
}

/// Encoding of a general register; `None` for no register or the instruction pointer.
fn number(register: Register) -> Option<u8> {
    register.is_gpr64().then(|| register.number() as u8)
}

fn accesses_stack(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Push | Mnemonic::Pop | Mnemonic::Call | Mnemonic::Ret | Mnemonic::Pushfq | Mnemonic::Popfq
    )
}

fn stack_step(instruction: &Instruction) -> i64 {
    let immediate = || instruction.immediate(1) as i64;
    let on_stack_pointer = instruction.op_count() == 2
        && instruction.op0_kind() == OpKind::Register
        && instruction.op0_register() == Register::RSP
        && !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
    match instruction.mnemonic() {
        Mnemonic::Sub if on_stack_pointer => -immediate(),
        Mnemonic::Add if on_stack_pointer => immediate(),
        mnemonic if accesses_stack(mnemonic) => i64::from(instruction.stack_pointer_increment()),
        _ => 0,
    }
}

fn is_atomic(instruction: &Instruction) -> bool {
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg
        && (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    instruction.has_lock_prefix() || exchanges
}

/// Whether the instruction moves or sets by a condition.
fn is_conditional(instruction: &Instruction) -> bool {
    // With a condition there are jumps, conditional moves and set instructions; jumps end a block.
    instruction.condition_code() != ConditionCode::None && instruction.flow_control() == FlowControl::Next
}

/// Whether the instruction is one of those that compilers put between accesses: integers in general registers, no access,
/// no jump, no exception. Of what is not listed nothing is known.
fn goes_on(instruction: &Instruction) -> bool {
    let mnemonic = matches!(
        instruction.mnemonic(),
        Mnemonic::Mov
            | Mnemonic::Movzx
            | Mnemonic::Movsx
            | Mnemonic::Movsxd
            | Mnemonic::Lea
            | Mnemonic::Add
            | Mnemonic::Adc
            | Mnemonic::Sub
            | Mnemonic::Sbb
            | Mnemonic::And
            | Mnemonic::Or
            | Mnemonic::Xor
            | Mnemonic::Not
            | Mnemonic::Neg
            | Mnemonic::Inc
            | Mnemonic::Dec
            | Mnemonic::Cmp
            | Mnemonic::Test
            | Mnemonic::Imul
            | Mnemonic::Shl
            | Mnemonic::Shr
            | Mnemonic::Sar
            | Mnemonic::Rol
            | Mnemonic::Ror
            | Mnemonic::Cdqe
            | Mnemonic::Cwde
            | Mnemonic::Cdq
            | Mnemonic::Cqo
            | Mnemonic::Bswap
            | Mnemonic::Nop
            | Mnemonic::Endbr64
    ) || is_conditional(instruction);
    let operand = |i| match instruction.op_kind(i) {
        OpKind::Register => instruction.op_register(i).is_gpr(),
        // An address that is only computed, or the operand of a long NOP, which makes no access.
        OpKind::Memory => matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop),
        _ => true,
    };
    mnemonic && !instruction.has_lock_prefix() && (0..instruction.op_count()).all(operand)
}

fn flush(instruction: &Instruction) -> Flush {
    match (instruction.mnemonic(), instruction.code()) {
        (_, Code::Mov_cr_r64) if instruction.op0_register() == Register::CR3 => Flush::User,
        (Mnemonic::Invlpg | Mnemonic::Invpcid, _) | (_, Code::Mov_cr_r64) => Flush::All,
        _ => Flush::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stack_instructions_follow_the_moving_stack_pointer() {
        let push = Operands::decode(&[0x55], 0x1000); // push rbp
        assert_eq!((push.stack_step(), push.predict(true, 8, -16)), (-8, (slots::STACK, -24)));
        let ret = Operands::decode(&[0xc3], 0x1000);
        assert_eq!((ret.stack_step(), ret.predict(false, 8, 24)), (8, (slots::STACK, 24)));
        let sub = Operands::decode(&[0x48, 0x83, 0xec, 0x28], 0x1000); // sub rsp,0x28
        assert_eq!(sub.stack_step(), -0x28);
    }

    #[test]
    fn an_indirect_push_loads_from_its_operand_and_stores_on_the_stack() {
        let push = Operands::decode(&[0xff, 0x70, 0x08], 0x1000); // push qword [rax+8]
        assert_eq!(push.predict(false, 8, 0), (0, 8));
        assert_eq!(push.predict(true, 8, 0), (slots::STACK, -8));
    }

    #[test]
    fn operands_name_their_base_register() {
        let load = Operands::decode(&[0x48, 0x8b, 0x47, 0x10], 0x1000); // mov rax,[rdi+0x10]
        assert_eq!(load.predict(false, 8, 0), (7, 0x10));
        let relative = Operands::decode(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], 0x1000); // mov rax,[rip+0x10]
        assert_eq!(relative.predict(false, 8, 0), (slots::ABSOLUTE, 0x1017));
        let per_cpu = Operands::decode(&[0x65, 0x48, 0x8b, 0x04, 0x25, 0xc0, 0xfb, 0x01, 0], 0x1000);
        assert_eq!(per_cpu.predict(false, 8, 0), (slots::GS, 0x1_fbc0)); // mov rax,gs:0x1fbc0
    }

    #[test]
    fn only_what_nothing_can_stop_goes_on_unsaid() {
        let goes_on = |code: &[u8]| Operands::decode(code, 0x1000).goes_on;
        for code in [
            &[0x48, 0x89, 0xc8][..],   // mov rax,rcx
            &[0x48, 0x8d, 0x47, 0x10], // lea rax,[rdi+0x10]
            &[0x83, 0xf8, 0x05],       // cmp eax,5
            &[0x0f, 0x44, 0xc1],       // cmove eax,ecx
            &[0x0f, 0x94, 0xc0],       // sete al
            &[0x0f, 0x1f, 0x44, 0, 0], // nop [rax+rax]
        ] {
            assert!(goes_on(code), "{code:x?}");
        }
        for code in [
            &[0x48, 0x8b, 0x07][..],   // mov rax,[rdi]
            &[0x83, 0x3f, 0x05],       // cmp dword [rdi],5
            &[0x0f, 0x44, 0x07],       // cmove eax,[rdi]
            &[0x0f, 0x94, 0x07],       // sete [rdi]
            &[0x0f, 0x22, 0xdf],       // mov cr3,rdi
            &[0x8e, 0xd8],             // mov ds,eax
            &[0xf7, 0xf1],             // div ecx
            &[0x74, 0x02],             // je
            &[0x55],                   // push rbp
            &[0xf4],                   // hlt
            &[0x66, 0x87, 0xdb],       // xchg bx,bx: the mark
            &[0x0f, 0x31],             // rdtsc
            &[0x0f, 0x0b],             // ud2
            &[0x66, 0x0f, 0xef, 0xc0], // pxor xmm0,xmm0: may be switched off
        ] {
            assert!(!goes_on(code), "{code:x?}");
        }
    }

    #[test]
    fn atomic_flushing_and_time_reading_instructions_are_recognised() {
        assert!(Operands::decode(&[0xf0, 0x0f, 0xb1, 0x17], 0).atomic); // lock cmpxchg [rdi],edx
        assert!(Operands::decode(&[0x87, 0x07], 0).atomic); // xchg [rdi],eax
        assert!(!Operands::decode(&[0x66, 0x87, 0xdb], 0).atomic); // xchg bx,bx: the mark
        assert_eq!(Operands::decode(&[0x0f, 0x22, 0xdf], 0).flush, Flush::User); // mov cr3,rdi
        assert_eq!(Operands::decode(&[0x0f, 0x01, 0x3f], 0).flush, Flush::All); // invlpg [rdi]
        assert!(Operands::decode(&[0x0f, 0x31], 0).reads_time);
        assert!(Operands::decode(&[0xf0, 0x86, 0x07], 0).exchanges_byte); // lock xchg [rdi],al
        assert!(!Operands::decode(&[0x86, 0xc4], 0).exchanges_byte); // xchg ah,al
        assert!(!Operands::decode(&[0x87, 0x07], 0).exchanges_byte); // xchg [rdi],eax
    }
}
