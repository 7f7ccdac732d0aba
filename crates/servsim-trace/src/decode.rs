//! Decoder of one task's stream within one epoch: the mirror of `encode`.

use crate::budget::Claim;
use crate::dictionary::Dictionary;
use crate::encode::{expected_page, Successors, TOKEN_EVENT, TOKEN_FORGET, TOKEN_PREDICTED, TOKEN_SHAPE};
use crate::error::Fault;
use crate::event::{Event, EventContext};
use crate::model::{Ref, ShapeId, PAGE_BYTES};
use crate::predict::{Bases, Translations};
use crate::varint::{get, get_signed, get_signed_at};

/// What one call of [`StreamDecoder::step`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// A block, whose references [`StreamDecoder::references`] reads.
    Block(ShapeId),
    /// An event, which [`StreamDecoder::event`] reads. It is not here, so that blocks, nearly all there is, do not move it.
    Event,
}

/// The decompressed columns of one stream.
#[derive(Debug, Default)]
pub struct Columns {
    pub tokens: Vec<u8>,
    pub addresses: Vec<u8>,
    pub pages: Vec<u8>,
    pub events: Vec<u8>,
    /// Their memory and that of their decoder.
    _claim: Option<Claim>,
}

impl Columns {
    /// Tokens, addresses, pages and events, which take the memory of `claim`.
    pub fn new([tokens, addresses, pages, events]: [Vec<u8>; 4], claim: Claim) -> Self {
        Columns { tokens, addresses, pages, events, _claim: Some(claim) }
    }
}

/// Calls `each` with every event of a stream; needs its tokens and events only, so that nothing is
/// spent on its references.
pub fn events(tokens: &[u8], events: &[u8], each: &mut impl FnMut(Event)) -> Result<(), Fault> {
    let (mut token_at, mut event_at) = (0, 0);
    let mut context = EventContext::default();
    while token_at < tokens.len() {
        match get(tokens, &mut token_at)? {
            TOKEN_EVENT => each(context.decode(events, &mut event_at)?),
            TOKEN_FORGET => {
                get(events, &mut event_at)?;
            }
            _ => {}
        }
    }
    if event_at == events.len() {
        Ok(())
    } else {
        Err(Fault::from("the columns of a stream do not end together"))
    }
}

/// Walks one stream of one epoch by its blocks and events alone: no reference is decoded.
#[derive(Debug, Default)]
pub struct Skimmer {
    tokens: Vec<u8>,
    events: Vec<u8>,
    at: [usize; 2],
    successors: Successors,
    context: EventContext,
}

impl Skimmer {
    /// Begins at the start of the columns.
    pub fn new((tokens, events): (Vec<u8>, Vec<u8>)) -> Self {
        Self { tokens, events, ..Self::default() }
    }

    /// Tells `block` the next blocks, `most` at most, up to the next event: how many they were, and that event; neither
    /// at the end of the stream.
    #[inline]
    pub fn run(&mut self, most: u64, block: &mut impl FnMut(ShapeId)) -> Result<(u64, Option<Event>), Fault> {
        let Self { tokens, events, at: [at, event_at], successors, context } = self;
        let mut blocks = 0;
        while blocks < most {
            if *at == tokens.len() {
                if *event_at != events.len() {
                    return Err(Fault::from("the columns of a stream do not end together"));
                }
                break;
            }
            let token = get(tokens, at)?;
            let shape = match token {
                TOKEN_PREDICTED => successors.predicted(),
                TOKEN_EVENT => return Ok((blocks, Some(context.decode(events, event_at)?))),
                TOKEN_FORGET => {
                    get(events, event_at)?;
                    continue;
                }
                _ => ShapeId::try_from(token - TOKEN_SHAPE).map_err(|_| no_token(token))?,
            };
            successors.advance(shape);
            block(shape);
            blocks += 1;
        }
        Ok((blocks, None))
    }
}

/// Walks one stream of one epoch.
#[derive(Debug, Default)]
pub struct StreamDecoder {
    columns: Columns,
    at: [usize; 4],
    successors: Successors,
    bases: Bases,
    translations: Translations,
    last_page: u64,
    event_context: EventContext,
}

impl StreamDecoder {
    /// Bytes of the tables of one decoder, about.
    pub const MEMORY: u64 = 40 << 10;

    /// Begins at the start of `columns`.
    pub fn new(columns: Columns) -> Self {
        StreamDecoder { columns, ..StreamDecoder::default() }
    }

    /// The next item, or `None` at the end of the stream. What it leaves unread of a block is for
    /// [`StreamDecoder::references`].
    #[inline(always)]
    #[allow(clippy::inline_always)] // Its result would be moved through memory.
    pub fn step(&mut self, dictionary: &Dictionary) -> Result<Option<Decoded>, Fault> {
        loop {
            if self.at[0] == self.columns.tokens.len() {
                return self.finished().map(|()| None);
            }
            let token = get(&self.columns.tokens, &mut self.at[0])?;
            let shape = match token {
                TOKEN_PREDICTED => self.successors.predicted(),
                TOKEN_EVENT => return Ok(Some(Decoded::Event)),
                TOKEN_FORGET => {
                    self.forget()?;
                    continue;
                }
                _ => ShapeId::try_from(token - TOKEN_SHAPE).map_err(|_| no_token(token))?,
            };
            if shape as usize >= dictionary.len() {
                return Err(unknown_block(shape));
            }
            self.successors.advance(shape);
            return Ok(Some(Decoded::Block(shape)));
        }
    }

    #[cold]
    fn forget(&mut self) -> Result<(), Fault> {
        let page = get(&self.columns.events, &mut self.at[3])?;
        self.translations.forget(page);
        Ok(())
    }

    /// The event that [`StreamDecoder::step`] has found.
    #[cold]
    pub fn event(&mut self) -> Result<Event, Fault> {
        self.event_context.decode(&self.columns.events, &mut self.at[3])
    }

    /// Calls `each` with the references of the block that [`StreamDecoder::step`] found, and the place of each among
    /// them.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As above, of each reference.
    pub fn references(
        &mut self,
        dictionary: &Dictionary,
        shape: ShapeId,
        each: &mut impl FnMut(usize, Ref),
    ) -> Result<(), Fault> {
        let packed = &dictionary.packed[shape as usize];
        let ops = &dictionary.ops[packed.ops_start as usize..][..usize::from(packed.ops_len)];
        // Each part by itself: the compiler knows then that no write to one changes another.
        let Self { columns, at: [_, place, page_place, _], bases, translations, last_page, .. } = self;
        let addresses = columns.addresses.as_slice();
        let mut next = *place;
        for (index, op) in ops.iter().enumerate() {
            let delta;
            (delta, next) = get_signed_at(addresses, next)?;
            let vaddr = bases.decode(op.slot, op.disp, delta);
            let reference = if let Some(paddr) = translations.within_page(vaddr, op.size) {
                Ref { vaddr, paddr, next_page: 0 }
            } else {
                // Made here, so that nothing of it lies in memory along the loop.
                let column = columns.pages.as_slice();
                Pages { translations, column, place: page_place, last: last_page }.locate(vaddr, op.size)?
            };
            each(index, reference);
        }
        *place = next;
        bases.step_stack(packed.stack_step);
        Ok(())
    }

    /// Whether every item was read.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.at[0] == self.columns.tokens.len()
    }

    /// Every column must end where the tokens do.
    fn finished(&self) -> Result<(), Fault> {
        let lengths = [
            self.columns.tokens.len(),
            self.columns.addresses.len(),
            self.columns.pages.len(),
            self.columns.events.len(),
        ];
        if self.at == lengths {
            Ok(())
        } else {
            Err(Fault::from("the columns of a stream do not end together"))
        }
    }
}

/// Physical pages, and where those that nothing remembers are read.
struct Pages<'a> {
    translations: &'a mut Translations,
    column: &'a [u8],
    place: &'a mut usize,
    last: &'a mut u64,
}

impl Pages<'_> {
    /// The addresses of an access of `size` bytes whose page is not remembered, or that reaches a second one.
    #[cold]
    fn locate(mut self, vaddr: u64, size: u8) -> Result<Ref, Fault> {
        let (page, offset) = (vaddr / PAGE_BYTES, vaddr % PAGE_BYTES);
        let paddr = self.translate(page)? * PAGE_BYTES + offset;
        let crosses = offset + u64::from(size) > PAGE_BYTES;
        let next_page = if crosses { self.translate(page.wrapping_add(1))? * PAGE_BYTES } else { 0 };
        Ok(Ref { vaddr, paddr, next_page })
    }

    fn translate(&mut self, page: u64) -> Result<u64, Fault> {
        match self.translations.get(page) {
            Some(physical) => Ok(physical),
            None => self.learn(page),
        }
    }

    fn learn(&mut self, page: u64) -> Result<u64, Fault> {
        let delta = get_signed(self.column, self.place)?;
        let physical = expected_page(page, *self.last).wrapping_add(delta as u64);
        if physical >> 40 != 0 {
            return Err(Fault(format!("physical page {physical:#x} is beyond 52 address bits")));
        }
        *self.last = physical;
        self.translations.set(page, physical);
        Ok(physical)
    }
}

#[cold]
fn no_token(token: u64) -> Fault {
    Fault(format!("block token {token} is out of range"))
}

#[cold]
fn unknown_block(shape: ShapeId) -> Fault {
    Fault(format!("block {shape} is not in the dictionary"))
}
