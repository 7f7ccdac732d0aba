//! Encoder of one task's stream within one epoch. Four columns, so that like stands beside like
//! for the compressor: tokens (which block next), addresses, physical pages, events.

use crate::dictionary::Dictionary;
use crate::event::{Event, EventContext};
use crate::model::{Counts, MemOp, Ref, ShapeId, PAGE_BYTES};
use crate::predict::{Bases, Translations};
use crate::varint::{put, put_signed};

/// The block that followed last time.
pub const TOKEN_PREDICTED: u64 = 0;
/// The next record of the event column.
pub const TOKEN_EVENT: u64 = 1;
/// The next number of the event column is a virtual page whose translation has changed.
pub const TOKEN_FORGET: u64 = 2;
/// Added to a shape number to make its token.
pub const TOKEN_SHAPE: u64 = 3;

/// Entries of the successor table: a power of two that fits the first-level cache.
const SUCCESSORS: usize = 4096;

/// Predicts the next block from the last one; shared by encoder and decoder.
#[derive(Debug, Clone)]
pub struct Successors {
    table: Box<[ShapeId; SUCCESSORS]>,
    last: ShapeId,
}

impl Default for Successors {
    fn default() -> Self {
        Successors { table: Box::new([ShapeId::MAX; SUCCESSORS]), last: 0 }
    }
}

impl Successors {
    /// The block that followed the current one last time.
    #[inline]
    pub fn predicted(&self) -> ShapeId {
        self.table[self.last as usize % SUCCESSORS]
    }

    /// Moves on to `shape`.
    #[inline]
    pub fn advance(&mut self, shape: ShapeId) {
        self.table[self.last as usize % SUCCESSORS] = shape;
        self.last = shape;
    }
}

/// One task's columns for the current epoch.
#[derive(Debug, Default)]
pub struct StreamEncoder {
    pub tokens: Vec<u8>,
    pub addresses: Vec<u8>,
    pub pages: Vec<u8>,
    pub events: Vec<u8>,
    pub items: u64,
    pub counts: Counts,
    successors: Successors,
    bases: Bases,
    translations: Translations,
    last_page: u64,
    event_context: EventContext,
}

impl StreamEncoder {
    /// Appends one execution of `shape`; `refs` match its accesses one to one. A virtual page has one
    /// translation within them, since whatever changes a mapping ends a block; should a guessed second
    /// page say otherwise, the first one holds for the whole block.
    #[inline]
    pub fn block(&mut self, dictionary: &Dictionary, shape: ShapeId, refs: &[Ref]) {
        let packed = dictionary.packed[shape as usize];
        let ops = &dictionary.ops[packed.ops_start as usize..][..packed.ops_len as usize];
        for (index, (op, reference)) in ops.iter().zip(refs).enumerate() {
            let before = (&ops[..index], &refs[..index]);
            put_signed(&mut self.addresses, self.bases.encode(op.slot, op.disp, reference.vaddr));
            let page = reference.vaddr / PAGE_BYTES;
            self.translate(page, reference.paddr / PAGE_BYTES, before);
            if crosses(op, reference) {
                self.translate(page.wrapping_add(1), reference.next_page / PAGE_BYTES, before);
            }
        }
        self.bases.step_stack(packed.stack_step);
        self.counts.add_block(packed.kernel, packed.insns.into(), packed.loads.into(), packed.stores.into());
        self.token(shape);
    }

    fn token(&mut self, shape: ShapeId) {
        if self.successors.predicted() == shape {
            self.tokens.push(TOKEN_PREDICTED as u8);
        } else {
            put(&mut self.tokens, u64::from(shape) + TOKEN_SHAPE);
        }
        self.successors.advance(shape);
        self.items += 1;
    }

    #[inline]
    fn translate(&mut self, page: u64, physical: u64, before: (&[MemOp], &[Ref])) {
        match self.translations.get(page) {
            Some(known) if known == physical => return,
            // The decoder forgets before the block begins: too late for what the block used already.
            Some(_) if used(page, before) => return,
            Some(_) => {
                self.tokens.push(TOKEN_FORGET as u8);
                put(&mut self.events, page);
            }
            None => {}
        }
        put_signed(&mut self.pages, physical.wrapping_sub(expected_page(page, self.last_page)) as i64);
        self.last_page = physical;
        self.translations.set(page, physical);
    }

    /// Appends an event.
    pub fn event(&mut self, event: &Event) {
        put(&mut self.tokens, TOKEN_EVENT);
        self.event_context.encode(&mut self.events, event);
        self.items += 1;
    }
}

/// Whether an access reaches into the page behind the one it begins in.
#[inline]
fn crosses(op: &MemOp, reference: &Ref) -> bool {
    reference.vaddr % PAGE_BYTES + u64::from(op.size) > PAGE_BYTES
}

/// Whether one of these accesses touched `page`.
#[cold]
fn used(page: u64, (ops, refs): (&[MemOp], &[Ref])) -> bool {
    ops.iter().zip(refs).any(|(op, reference)| {
        let first = reference.vaddr / PAGE_BYTES;
        first == page || crosses(op, reference) && first.wrapping_add(1) == page
    })
}

/// The physical page to expect for a virtual page that is not remembered: the direct map's for
/// kernel addresses, the neighbour of the last one for user addresses.
#[inline]
pub fn expected_page(page: u64, last: u64) -> u64 {
    if page >> 51 == 1 {
        Translations::expected(page)
    } else {
        last
    }
}
