//! Translated blocks and the shapes they took when they ran.

use crate::operands::{Flush, Operands};
use servsim_trace::{Insn, MemOp, Shape, ShapeId};
use std::ffi::c_void;

/// One access as the emulator reported it: instruction, size and direction in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AccessKey(u32);

/// Size and direction of an access, as they stand in its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessKind(u32);

impl AccessKind {
    /// Packs a size, as a logarithm, and a direction.
    pub fn new(size_shift: u32, store: bool) -> Self {
        AccessKind(size_shift << 1 | u32::from(store))
    }
}

impl AccessKey {
    /// Packs an access.
    #[inline]
    pub fn new(insn: u16, AccessKind(kind): AccessKind) -> Self {
        AccessKey(u32::from(insn) << 8 | kind)
    }

    fn insn(self) -> u16 {
        (self.0 >> 8) as u16
    }

    /// Bytes accessed.
    pub fn size(self) -> u8 {
        1 << (self.0 >> 1 & 7)
    }

    /// Whether it is a store.
    #[inline]
    pub fn store(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Where an access is made, in one word that the emulator hands to each memory callback: reading it from memory would
/// cost more than all the rest of a callback.
///
/// The block it was translated in, the instruction's place in it from bit 48 on, and in bit 63 whether that exchanges
/// a byte with memory. Programs of x86-64 Linux have 47 bits of addresses
/// (`Documentation/arch/x86/x86_64/mm.rst`), and the emulator ends a block after 512 instructions.
#[derive(Debug, Clone, Copy)]
pub struct Site(u64);

const ADDRESS_BITS: u32 = 48;
const EXCHANGES_BYTE: u64 = 1 << 63;

impl Site {
    /// The site of instruction `insn` of `block`, which stays where it is.
    ///
    /// # Panics
    /// When they do not fit into the word.
    pub fn new(block: *const Block, insn: u16, exchanges_byte: bool) -> Self {
        let address = block.expose_provenance() as u64;
        assert!(
            address >> ADDRESS_BITS == 0 && insn >> 15 == 0,
            "an address and a place that fit into the word"
        );
        Site(address | u64::from(insn) << ADDRESS_BITS | if exchanges_byte { EXCHANGES_BYTE } else { 0 })
    }

    /// What the emulator hands to the callback.
    pub fn to_data(self) -> *mut c_void {
        std::ptr::without_provenance_mut(self.0 as usize)
    }

    /// What the callback was handed.
    #[inline]
    pub fn of_data(data: *mut c_void) -> Self {
        Site(data.addr() as u64)
    }

    /// The block it was translated in.
    #[inline]
    pub fn block(self) -> *const Block {
        std::ptr::with_exposed_provenance((self.0 & ((1 << ADDRESS_BITS) - 1)) as usize)
    }

    /// The instruction's place in it.
    #[inline]
    pub fn insn(self) -> u16 {
        ((self.0 & !EXCHANGES_BYTE) >> ADDRESS_BITS) as u16
    }

    /// Whether the instruction exchanges a byte with memory.
    #[inline]
    pub fn exchanges_byte(self) -> bool {
        self.0 & EXCHANGES_BYTE != 0
    }
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

/// Accesses of a way to run that are kept with it: as many as make the usual way one line of the host's cache.
const NEAR_KEYS: usize = 12;

/// The way a block ran last, as far as its accesses are few.
#[repr(C)]
struct Usual {
    keys: [AccessKey; NEAR_KEYS],
    shape: ShapeId,
    begun: u16,
    /// More than [`NEAR_KEYS`] if nothing is known.
    count: u16,
}

impl Usual {
    const NONE: Usual = Usual { keys: [AccessKey(0); NEAR_KEYS], shape: 0, begun: 0, count: u16::MAX };

    /// The same way in one line; longer ones are looked for among all.
    fn of(variant: &Variant) -> Self {
        let mut usual = Usual { shape: variant.shape, ..Usual::NONE };
        let Ok(begun) = u16::try_from(variant.begun) else { return usual };
        if let Some(near) = usual.keys.get_mut(..variant.keys.len()) {
            near.copy_from_slice(&variant.keys);
            (usual.begun, usual.count) = (begun, variant.keys.len() as u16);
        }
        usual
    }

    #[inline]
    fn is(&self, begun: u64, keys: &[AccessKey]) -> bool {
        let same_length = u64::from(self.begun) == begun && usize::from(self.count) == keys.len();
        same_length && keys.iter().zip(&self.keys).all(|(key, own)| key == own)
    }
}

/// A translated block; lives as long as the process, as the emulator may run it at any time.
#[repr(C, align(64))]
pub struct Block {
    /// In the block's first line, which is asked for when it begins ([`prefetch`]).
    usual: Usual,
    /// What to forget once the block has run.
    pub flush: Flush,
    pub insns: Vec<TranslatedInsn>,
    variants: Vec<Variant>,
}

/// Asks the host's memory for what is looked at when `block` has run.
#[inline]
pub fn prefetch(block: *const Block) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(block.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = block;
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
        Block { usual: Usual::NONE, flush, insns, variants: Vec::new() }
    }

    /// The shape of this run, if the block ran this way before.
    #[inline]
    pub fn known_shape(&mut self, begun: u64, keys: &[AccessKey]) -> Option<ShapeId> {
        if self.usual.is(begun, keys) {
            return Some(self.usual.shape);
        }
        let same = |variant: &&Variant| variant.begun == begun && *variant.keys == *keys;
        let variant = self.variants.iter().find(same)?;
        self.usual = Usual::of(variant);
        Some(variant.shape)
    }

    /// Remembers the shape of a new way to run.
    pub fn remember(&mut self, begun: u64, keys: &[AccessKey], shape: ShapeId) {
        let variant = Variant { begun, keys: keys.into(), shape };
        self.usual = Usual::of(&variant);
        self.variants.push(variant);
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
        let (load, store) = (AccessKind::new(3, false), AccessKind::new(3, true));
        let push = AccessKey::new(0, store);
        let whole = [push, AccessKey::new(1, store), AccessKey::new(2, load)];
        assert_eq!(block.known_shape(3, &whole), None);
        block.remember(3, &whole, 7);
        assert_eq!(block.known_shape(3, &whole), Some(7));
        assert_eq!(block.known_shape(2, &[push]), None);
        let cut = block.shape(2, &[push], 0x7f00_0000_0000);
        assert_eq!((cut.insns.len(), cut.ops.len(), cut.stack_step), (2, 1, -8));
        let shape = block.shape(3, &whole, 0x7f00_0000_0000);
        assert_eq!((shape.paddr, shape.stack_step, shape.ops[2].disp), (0x1000, 0, -8));
    }

    #[test]
    fn ways_to_run_are_told_apart_whether_they_are_short_or_long() {
        let mut block = block();
        let keys: Vec<_> = (0..40).map(|insn| AccessKey::new(insn, AccessKind::new(2, false))).collect();
        let ways = [(1, 0), (2, 0), (2, 1), (2, 12), (2, 13), (3, 13), (3, 40)];
        for (shape, (begun, count)) in (0..).zip(ways) {
            assert_eq!(block.known_shape(begun, &keys[..count]), None);
            block.remember(begun, &keys[..count], shape);
        }
        for _ in 0..2 {
            for (shape, (begun, count)) in (0..).zip(ways) {
                assert_eq!(block.known_shape(begun, &keys[..count]), Some(shape));
            }
        }
        assert_eq!(block.known_shape(2, &keys[1..13]), None, "as many accesses, but others");
        assert_eq!(block.known_shape(3, &keys[..12]), None);
    }

    #[test]
    fn a_site_is_a_block_a_place_and_a_property_in_one_word() {
        let block = block();
        for (insn, exchanges) in [(0, false), (511, true), (0x7fff, true), (3, false)] {
            let site = Site::of_data(Site::new(&raw const block, insn, exchanges).to_data());
            assert_eq!(
                (site.block(), site.insn(), site.exchanges_byte()),
                (&raw const block, insn, exchanges)
            );
        }
    }
}
