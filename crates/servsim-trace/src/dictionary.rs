//! The dictionary of block shapes: each is stored once, the streams refer to it by number.

use crate::budget::Claim;
use crate::error::Fault;
use crate::model::{Counts, Insn, MemOp, Shape, ShapeId};
use crate::predict::slots;
use crate::varint::{get, get_length, get_signed, put, put_signed};

/// Limits on one shape, against hostile input. QEMU ends a block after 512 instructions; the
/// instruction with most accesses saves the processor's whole vector state.
const MAX_INSNS: usize = 4096;
const MAX_OPS: usize = 8192;
const MAX_CODE: usize = 16 * MAX_INSNS;
/// Bytes of memory for a shape, an instruction and an access, about: here, expanded to records, and decoded.
const SHAPE_MEMORY: u64 = 320;
const INSN_MEMORY: u64 = 64;
const OP_MEMORY: u64 = 80;

/// What encoder and decoder need of a shape each time it runs, packed for the hot loop.
#[derive(Debug, Clone, Copy)]
pub struct PackedShape {
    pub ops_start: u32,
    pub ops_len: u16,
    pub insns: u16,
    pub loads: u16,
    pub stores: u16,
    pub kernel: bool,
    pub stack_step: i64,
}

/// All block shapes of a trace.
#[derive(Debug, Default)]
pub struct Dictionary {
    shapes: Vec<Shape>,
    pub(crate) packed: Vec<PackedShape>,
    pub(crate) ops: Vec<MemOp>,
    /// Bytes that the shapes take, in a reader and in whoever expands them.
    memory: u64,
}

impl Dictionary {
    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there is no shape.
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }

    /// All shapes, indexed by [`ShapeId`].
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// The shape with number `id`.
    ///
    /// # Panics
    /// When there is no such shape; cursors only return numbers that exist.
    pub fn shape(&self, id: ShapeId) -> &Shape {
        &self.shapes[id as usize]
    }

    /// Adds a shape and returns its number.
    pub fn push(&mut self, shape: Shape) -> ShapeId {
        let stores = shape.ops.iter().filter(|op| op.store).count() as u16;
        self.packed.push(PackedShape {
            ops_start: self.ops.len() as u32,
            ops_len: shape.ops.len() as u16,
            insns: shape.insns.len() as u16,
            loads: shape.ops.len() as u16 - stores,
            stores,
            kernel: shape.is_kernel(),
            stack_step: shape.stack_step,
        });
        self.ops.extend_from_slice(&shape.ops);
        self.shapes.push(shape);
        self.shapes.len() as ShapeId - 1
    }

    /// Appends the shapes from `first` on in the format's bytes.
    pub(crate) fn encode_from(&self, first: usize, out: &mut Vec<u8>) {
        put(out, (self.shapes.len() - first) as u64);
        let mut last = 0_u64;
        for shape in &self.shapes[first..] {
            put_signed(out, shape.vaddr.wrapping_sub(last) as i64);
            last = shape.vaddr;
            encode_shape(shape, out);
        }
    }

    /// Adds what one execution of shape `id` does to `counts`.
    pub(crate) fn count(&self, id: ShapeId, counts: &mut Counts) {
        let packed = &self.packed[id as usize];
        counts.add_block(packed.kernel, packed.insns.into(), packed.loads.into(), packed.stores.into());
    }

    /// Reads what [`Dictionary::encode_from`] wrote and adds it; its memory is taken by `claim`.
    pub(crate) fn decode_into(&mut self, bytes: &[u8], claim: &mut Claim) -> Result<(), Fault> {
        let mut at = 0;
        // The smallest shape takes eight bytes, so the count cannot exceed what the chunk can hold.
        let count = get_length(bytes, &mut at, bytes.len() / 8 + 1, "the number of shapes")?;
        let mut last = 0_u64;
        for _ in 0..count {
            last = last.wrapping_add(get_signed(bytes, &mut at)? as u64);
            let shape = decode_shape(last, bytes, &mut at)?;
            self.memory += SHAPE_MEMORY
                + shape.insns.len() as u64 * INSN_MEMORY
                + shape.ops.len() as u64 * OP_MEMORY
                + shape.code.len() as u64;
            claim.grow_to(self.memory).map_err(Fault)?;
            self.push(shape);
        }
        if at == bytes.len() {
            Ok(())
        } else {
            Err(Fault::from("the dictionary has bytes left over"))
        }
    }
}

fn encode_shape(shape: &Shape, out: &mut Vec<u8>) {
    put(out, shape.paddr);
    put(out, shape.next_page.map_or(0, |page| page + 1));
    put_signed(out, shape.stack_step);
    put(out, shape.insns.len() as u64);
    out.extend(shape.insns.iter().map(|insn| insn.len | u8::from(insn.atomic) << 7));
    put(out, shape.code.len() as u64);
    out.extend_from_slice(&shape.code);
    put(out, shape.ops.len() as u64);
    let mut insn = 0;
    for op in &shape.ops {
        put(out, u64::from(op.insn - insn));
        insn = op.insn;
        out.push(op.size | u8::from(op.store) << 7);
        out.push(op.slot);
        put_signed(out, op.disp);
    }
}

fn decode_shape(vaddr: u64, bytes: &[u8], at: &mut usize) -> Result<Shape, Fault> {
    let paddr = get(bytes, at)?;
    let next_page = get(bytes, at)?.checked_sub(1);
    let stack_step = get_signed(bytes, at)?;
    let count = get_length(bytes, at, MAX_INSNS, "the number of instructions of a block")?;
    let insns: Box<[Insn]> = take(bytes, at, count)?
        .iter()
        .map(|byte| Insn { len: byte & 0x7f, atomic: byte >> 7 == 1 })
        .collect();
    let code_len = get_length(bytes, at, MAX_CODE, "the code length of a block")?;
    let code = take(bytes, at, code_len)?.into();
    let ops = decode_ops(bytes, at, count)?;
    Ok(Shape { vaddr, paddr, next_page, insns, code, ops, stack_step })
}

fn decode_ops(bytes: &[u8], at: &mut usize, insns: usize) -> Result<Box<[MemOp]>, Fault> {
    let count = get_length(bytes, at, MAX_OPS, "the number of accesses of a block")?;
    let mut insn = 0_u64;
    let mut ops = Vec::with_capacity(count);
    for _ in 0..count {
        insn += get(bytes, at)?.min(u64::from(u16::MAX));
        if insn >= insns as u64 {
            return Err(Fault::from("an access belongs to an instruction past the end of its block"));
        }
        let head = take(bytes, at, 2)?;
        let (size, store, slot) = (head[0] & 0x7f, head[0] >> 7 == 1, head[1]);
        if slot as usize >= slots::COUNT || size == 0 {
            return Err(Fault(format!("an access has size {size} and slot {slot}")));
        }
        ops.push(MemOp { insn: insn as u16, size, store, slot, disp: get_signed(bytes, at)? });
    }
    Ok(ops.into())
}

/// The next `len` bytes.
pub(crate) fn take<'a>(bytes: &'a [u8], at: &mut usize, len: usize) -> Result<&'a [u8], Fault> {
    let end = at.checked_add(len).filter(|end| *end <= bytes.len());
    let end = end.ok_or_else(|| Fault::from("a list ends before its stated length"))?;
    let slice = &bytes[*at..end];
    *at = end;
    Ok(slice)
}
