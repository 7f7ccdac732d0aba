//! Expansion of an executed block into records. The records of a block differ between executions
//! only in its data addresses, so a template per block shape is copied and patched: 16 bytes moved
//! per reference instead of a walk over instructions.

use super::code::{fill, Code};
use servsim_core::reference::{ATOMIC, CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Op, Record, ANY_CPU};
use servsim_trace::{Dictionary, Ref, Shape, ShapeId};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Records for which there is room at once.
const RECORDS_AHEAD: usize = 1 << 10;

/// Where the parts of one block shape lie in the lists of all.
#[derive(Debug, Clone, Copy)]
struct Template {
    records: u32,
    data: u32,
    record_count: u16,
    data_count: u16,
    /// References that its records stand for beyond one each.
    joined: u16,
}

/// Templates of every shape of a trace, in lists of all shapes: those that are used together lie together more often
/// than if each had lists of its own.
#[derive(Debug)]
pub struct Templates {
    shapes: Vec<Template>,
    records: Vec<Record>,
    /// Virtual pages of the fetches; 0 for data.
    pages: Vec<u64>,
    /// Where the instructions of the records are in the list of a trace's code, if that was made.
    code: Vec<u32>,
    /// Where the data references go: index of the record in its shape, per access of the shape.
    data: Vec<u16>,
    per_cpu: std::ops::Range<u64>,
}

impl Templates {
    /// For all shapes. With `line` the fetches between two data references that fall into one
    /// line of that many bytes become one record that stands for all of them; without, records are bound to no
    /// processor.
    pub fn new(dictionary: &Dictionary, per_cpu_area: (u64, u64), line: Option<u64>) -> Self {
        let (start, length) = per_cpu_area;
        let mut templates = Self {
            shapes: Vec::with_capacity(dictionary.len()),
            records: Vec::new(),
            pages: Vec::new(),
            code: Vec::new(),
            data: Vec::new(),
            per_cpu: start..start.saturating_add(length),
        };
        dictionary.shapes().iter().for_each(|shape| templates.push(shape, line));
        templates
    }

    /// Appends the records of one execution of `shape` by `task`; with `pages` also their virtual
    /// pages, which are brought to the length of the records first. Returns how many references these records stand for
    /// beyond one each.
    #[inline]
    pub fn expand(
        &self,
        shape: ShapeId,
        refs: &[Ref],
        task: u32,
        out: &mut Vec<Record>,
        mut pages: Option<&mut Vec<u64>>,
    ) -> u64 {
        let mut expansion = Expansion::new(self);
        let joined = expansion.begin(shape, task, out, pages.as_deref_mut());
        for (index, &reference) in refs.iter().enumerate() {
            expansion.reference(index, reference, out, pages.as_deref_mut());
        }
        let _ = expansion.end(out, pages);
        joined
    }

    /// The records of `shape`, the addresses of its data references not known.
    #[inline]
    pub fn records(&self, shape: ShapeId) -> &[Record] {
        let template = self.shapes[shape as usize];
        &self.records[template.records as usize..][..usize::from(template.record_count)]
    }

    /// Points records to their instructions in `code` from now on.
    pub fn point_to(&mut self, code: &Code) {
        let mut pointers = Vec::with_capacity(self.records.len());
        for shape in 0..self.shapes.len() as ShapeId {
            code.point(shape, self.records(shape), &mut pointers);
        }
        self.code = pointers;
    }

    /// Adds that of the next shape.
    fn push(&mut self, shape: &Shape, line: Option<u64>) {
        let (records, data) = (self.records.len(), self.data.len());
        template(shape, line, (&mut self.records, &mut self.pages, &mut self.data));
        let fetches =
            self.records[records..].iter().filter(|r| r.op == Op::Fetch && r.flags & CONTINUATION == 0);
        let joined = shape.insns.len() - fetches.count();
        self.shapes.push(Template {
            records: records as u32,
            data: data as u32,
            record_count: (self.records.len() - records) as u16,
            data_count: (self.data.len() - data) as u16,
            joined: joined as u16,
        });
    }
}

/// One block after another while its references are told.
#[derive(Debug)]
pub struct Expansion<'a> {
    templates: &'a Templates,
    /// Where its records begin, and which of them are data references.
    first: usize,
    data: &'a [u16],
    /// Accesses that cross into a page elsewhere, by their records.
    split: Vec<(usize, Ref)>,
}

impl<'a> Expansion<'a> {
    /// With no block begun.
    pub fn new(templates: &'a Templates) -> Self {
        Self { templates, first: 0, data: &[], split: Vec::new() }
    }

    /// Appends the records of a block, the addresses of its data references left open; as [`Templates::expand`].
    #[inline(always)]
    #[allow(clippy::inline_always)] // Else its state lies in memory.
    #[allow(clippy::needless_range_loop)]
    pub fn begin(
        &mut self,
        shape: ShapeId,
        task: u32,
        out: &mut Vec<Record>,
        pages: Option<&mut Vec<u64>>,
    ) -> u64 {
        let templates = self.templates;
        let template = templates.shapes[shape as usize];
        let records =
            template.records as usize..template.records as usize + usize::from(template.record_count);
        self.data = &templates.data[template.data as usize..][..usize::from(template.data_count)];
        self.first = out.len();
        if let Some(pages) = pages {
            pages.resize(self.first, 0);
            pages.extend_from_slice(&templates.pages[records.clone()]);
        }
        let records = &templates.records[records];
        if out.capacity() - out.len() < records.len() {
            out.reserve(RECORDS_AHEAD.max(records.len()));
        }
        let places = &mut out.spare_capacity_mut()[..records.len()];
        // A zip is made by a call of its own.
        for index in 0..records.len() {
            places[index].write(Record { task, ..records[index] });
        }
        // SAFETY: so many were reserved and written.
        unsafe { out.set_len(self.first + records.len()) };
        u64::from(template.joined)
    }

    /// Fills in the address of a data reference.
    #[inline(always)]
    #[allow(clippy::inline_always)] // As above.
    pub fn reference(
        &mut self,
        index: usize,
        reference: Ref,
        out: &mut [Record],
        pages: Option<&mut Vec<u64>>,
    ) {
        let place = self.first + usize::from(self.data[index]);
        let record = &mut out[place];
        record.address = reference.paddr;
        let per_cpu = &self.templates.per_cpu;
        if per_cpu.contains(&reference.vaddr) {
            record.address = reference.vaddr - per_cpu.start;
            record.flags |= PER_CPU;
        }
        if let Some(pages) = pages {
            pages[place] = reference.vaddr / PAGE;
        }
        if reference.next_page != 0 {
            keep_crossing(&mut self.split, place, reference.vaddr, reference.paddr, reference.next_page);
        }
    }

    /// Appends to `code` where the instructions of the block that has begun, of this shape, are in the list; `code` is
    /// brought to the length of the records before it first.
    #[inline]
    pub fn point(&self, shape: ShapeId, code: &mut Vec<u32>) {
        if code.len() < self.first {
            fill(code, self.first);
        }
        let template = self.templates.shapes[shape as usize];
        let first = template.records as usize;
        code.extend_from_slice(&self.templates.code[first..first + usize::from(template.record_count)]);
    }

    /// The block is whole; whether accesses of it had to be split.
    #[inline]
    pub fn end(&mut self, out: &mut Vec<Record>, pages: Option<&mut Vec<u64>>) -> bool {
        let splits = !self.split.is_empty();
        if splits {
            self.split_pages(out, pages);
        }
        splits
    }

    /// Points the second parts of split accesses to the instructions of the first.
    #[cold]
    pub fn point_rests(&self, records: &[Record], code: &mut Vec<u32>) {
        for place in self.first..records.len() {
            if records[place].op != Op::Fetch && records[place].flags & CONTINUATION != 0 {
                code.insert(place, code[place - 1]);
            }
        }
    }

    /// Splits the accesses that cross into a page elsewhere (a few in a million).
    #[cold]
    fn split_pages(&mut self, out: &mut Vec<Record>, mut pages: Option<&mut Vec<u64>>) {
        for (index, reference) in self.split.drain(..).rev() {
            let record = out[index];
            let room = PAGE - reference.paddr % PAGE;
            if record.flags & PER_CPU == 0 && room < u64::from(record.size) {
                out[index].size = room as u8;
                let rest = Record {
                    address: reference.next_page,
                    size: record.size - room as u8,
                    flags: record.flags | CONTINUATION,
                    ..record
                };
                out.insert(index + 1, rest);
                if let Some(pages) = &mut pages {
                    pages.insert(index + 1, reference.vaddr / PAGE + 1);
                }
            }
        }
    }
}

/// Keeps an access that crosses into a page, if that lies elsewhere. It is told in numbers, so that the hot loop holds
/// nothing in memory.
#[cold]
fn keep_crossing(split: &mut Vec<(usize, Ref)>, place: usize, vaddr: u64, paddr: u64, next_page: u64) {
    if next_page != (paddr | (PAGE - 1)).wrapping_add(1) {
        split.push((place, Ref { vaddr, paddr, next_page }));
    }
}

/// Adds the records of `shape` to `records`, the virtual pages of its fetches to `pages`, and where its data references
/// are to `data`.
fn template(
    shape: &Shape,
    line: Option<u64>,
    (records, pages, data): (&mut Vec<Record>, &mut Vec<u64>, &mut Vec<u16>),
) {
    let mode = if shape.is_kernel() { KERNEL } else { 0 };
    let mut ops = shape.ops.iter().peekable();
    let (mut offset, first) = (0, records.len());
    for (index, insn) in shape.insns.iter().enumerate() {
        let flags = mode | if insn.atomic { ATOMIC } else { 0 };
        let before = records.len();
        fetch((records, first), shape, offset, insn.len.max(1), flags, line);
        // A second part, if there is one, lies on the next page.
        let page = (shape.vaddr + offset) / PAGE;
        pages.extend((page..).take(records.len() - before));
        offset += u64::from(insn.len);
        while let Some(op) = ops.next_if(|op| usize::from(op.insn) == index) {
            data.push((records.len() - first) as u16);
            let kind = if op.store { Op::Store } else { Op::Load };
            let mut record = Record::new(0, kind, 0, op.size.max(1));
            record.flags = flags;
            record.cpu = if line.is_some() { 1 } else { ANY_CPU };
            records.push(record);
            pages.push(0);
        }
    }
}

/// Adds the fetch of an instruction of the block whose records begin at `first`.
fn fetch(
    (out, first): (&mut Vec<Record>, usize),
    shape: &Shape,
    offset: u64,
    len: u8,
    flags: u8,
    line: Option<u64>,
) {
    let start = shape.physical(offset);
    let last = shape.physical(offset + u64::from(len) - 1);
    let contiguous = last == start + u64::from(len) - 1;
    if let (Some(line), true, Some(run)) = (line, contiguous, out[first..].last_mut()) {
        let joins = run.op == Op::Fetch
            && run.flags & CONTINUATION == 0
            && run.address / line == last / line
            && start == run.address + u64::from(run.size)
            && u64::from(run.size) + u64::from(len) <= 255
            && run.cpu < 255;
        if joins {
            run.size += len;
            run.cpu += 1;
            run.flags |= flags;
            return;
        }
    }
    let mut record = Record::new(0, Op::Fetch, start, len);
    record.flags = flags;
    record.cpu = if line.is_some() { 1 } else { ANY_CPU };
    if contiguous {
        out.push(record);
        return;
    }
    record.size = (PAGE - start % PAGE) as u8;
    out.push(record);
    let rest = len - record.size;
    out.push(Record {
        address: last + 1 - u64::from(rest),
        size: rest,
        flags: flags | CONTINUATION,
        ..record
    });
}
