//! Translated blocks and the shapes they took when they ran.

use crate::operands::{Flush, Operands};
use servsim_trace::{Insn, MemOp, Shape, ShapeId};

/// One access as the emulator reported it: instruction, size and direction in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessKey(u32);

impl AccessKey {
    /// Packs an access.
    #[inline]
    pub fn new(insn: u16, size_shift: u32, store: bool) -> Self {
        AccessKey(u32::from(insn) << 8 | size_shift << 1 | u32::from(store))
    }

    fn insn(self) -> u16 {
        (self.0 >> 8) as u16
    }

    /// Bytes accessed.
    pub fn size(self) -> u8 {
        1 << (self.0 >> 1 & 7)
    }

    fn store(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Where an access is made: given to the emulator with each memory callback.
pub struct Site {
    /// The block it was translated in.
    pub block: *const Block,
    /// The instruction's place in it.
    pub insn: u16,
}

/// One instruction of a translated block.
#[derive(Debug, Clone)]
pub struct TranslatedInsn {
    pub vaddr: u64,
    pub host: u64,
    pub code: Vec<u8>,
    pub operands: Operands,
}

/// How a block ran: how many instructions were begun, and which accesses they made.
struct Variant {
    begun: u64,
    keys: Box<[AccessKey]>,
    shape: ShapeId,
}

/// A translated block; lives as long as the process, as the emulator may run it at any time.
pub struct Block {
    pub insns: Vec<TranslatedInsn>,
    pub sites: Vec<Site>,
    /// What to forget once the block has run.
    pub flush: Flush,
    /// Whether an instruction of it may take a spinlock.
    pub exchanges_byte: bool,
    variants: Vec<Variant>,
    recent: usize,
}

impl Block {
    /// A block of `insns` that has not run yet.
    pub fn new(insns: Vec<TranslatedInsn>) -> Self {
        let flushes = |wanted| insns.iter().any(|insn| insn.operands.flush == wanted);
        let flush = match (flushes(Flush::All), flushes(Flush::User)) {
            (true, _) => Flush::All,
            (_, true) => Flush::User,
            _ => Flush::Nothing,
        };
        let exchanges_byte = insns.iter().any(|insn| insn.operands.exchanges_byte);
        Block { insns, sites: Vec::new(), flush, exchanges_byte, variants: Vec::new(), recent: 0 }
    }

    /// The shape of this run, if the block ran this way before.
    #[inline]
    pub fn known_shape(&mut self, begun: u64, keys: &[AccessKey]) -> Option<ShapeId> {
        let same = |variant: &Variant| variant.begun == begun && *variant.keys == *keys;
        if let Some(variant) = self.variants.get(self.recent).filter(|variant| same(variant)) {
            return Some(variant.shape);
        }
        self.recent = self.variants.iter().position(same)?;
        Some(self.variants[self.recent].shape)
    }

    /// Remembers the shape of a new way to run.
    pub fn remember(&mut self, begun: u64, keys: &[AccessKey], shape: ShapeId) {
        self.recent = self.variants.len();
        self.variants.push(Variant { begun, keys: keys.into(), shape });
    }

    /// Builds the shape of a run. `ram_base` is the host address of guest-physical zero.
    pub fn shape(&self, begun: u64, keys: &[AccessKey], ram_base: u64) -> Shape {
        let insns = &self.insns[..(begun as usize).min(self.insns.len())];
        let vaddr = self.insns[0].vaddr;
        let on_first_page = |insn: &&TranslatedInsn| insn.vaddr / 4096 == vaddr / 4096;
        let second = insns.iter().find(|insn| !on_first_page(insn));
        let next_page = second.map(|insn| (insn.host - ram_base) & !0xfff);
        let mut stack = 0;
        let mut ops = Vec::with_capacity(keys.len());
        let mut keys = keys.iter().peekable();
        for (index, insn) in (0_u16..).zip(insns) {
            while let Some(key) = keys.next_if(|key| key.insn() <= index) {
                let (slot, disp) = insn.operands.predict(key.store(), key.size(), stack);
                ops.push(MemOp { insn: index, size: key.size(), store: key.store(), slot, disp });
            }
            stack += insn.operands.stack_step();
        }
        Shape {
            vaddr,
            paddr: self.insns[0].host - ram_base,
            next_page,
            insns: insns
                .iter()
                .map(|insn| Insn { len: insn.code.len() as u8, atomic: insn.operands.atomic })
                .collect(),
            code: insns.iter().flat_map(|insn| insn.code.iter().copied()).collect(),
            ops: ops.into(),
            stack_step: stack,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block() -> Block {
        let insn = |vaddr: u64, code: &[u8]| TranslatedInsn {
            vaddr,
            host: 0x7f00_0000_0000 + vaddr,
            code: code.to_vec(),
            operands: Operands::decode(code, vaddr),
        };
        Block::new(vec![insn(0x1000, &[0x55]), insn(0x1001, &[0x48, 0x89, 0x07]), insn(0x1004, &[0xc3])])
    }

    #[test]
    fn a_run_cut_short_is_another_shape_than_a_whole_one() {
        let mut block = block();
        let push = AccessKey::new(0, 3, true);
        let whole = [push, AccessKey::new(1, 3, true), AccessKey::new(2, 3, false)];
        assert_eq!(block.known_shape(3, &whole), None);
        block.remember(3, &whole, 7);
        assert_eq!(block.known_shape(3, &whole), Some(7));
        assert_eq!(block.known_shape(2, &[push]), None);
        let cut = block.shape(2, &[push], 0x7f00_0000_0000);
        assert_eq!((cut.insns.len(), cut.ops.len(), cut.stack_step), (2, 1, -8));
        let shape = block.shape(3, &whole, 0x7f00_0000_0000);
        assert_eq!((shape.paddr, shape.stack_step, shape.ops[2].disp), (0x1000, 0, -8));
    }
}
