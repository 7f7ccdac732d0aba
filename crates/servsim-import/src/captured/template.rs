//! Expansion of an executed block into records. The records of a block differ between executions
//! only in its data addresses, so a template per block shape is copied and patched: 16 bytes moved
//! per reference instead of a walk over instructions.

use servsim_core::reference::{ATOMIC, CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Op, Record, ANY_CPU};
use servsim_trace::{Dictionary, Ref, Shape, ShapeId};

/// Bytes of a page.
const PAGE: u64 = 4096;

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
    #[allow(clippy::needless_range_loop)] // A zip is made by a call of its own.
    pub fn expand(
        &self,
        shape: ShapeId,
        refs: &[Ref],
        task: u32,
        out: &mut Vec<Record>,
        mut pages: Option<&mut Vec<u64>>,
    ) -> u64 {
        let template = self.shapes[shape as usize];
        let records =
            template.records as usize..template.records as usize + usize::from(template.record_count);
        let data = &self.data[template.data as usize..][..usize::from(template.data_count)];
        let first = out.len();
        if let Some(pages) = &mut pages {
            pages.resize(first, 0);
            pages.extend_from_slice(&self.pages[records.clone()]);
            for (&place, reference) in data.iter().zip(refs) {
                pages[first + usize::from(place)] = reference.vaddr / PAGE;
            }
        }
        out.extend_from_slice(&self.records[records]);
        let added = &mut out[first..];
        added.iter_mut().for_each(|record| record.task = task);
        let refs = &refs[..data.len()];
        let mut split = false;
        for index in 0..data.len() {
            let (record, reference) = (&mut added[usize::from(data[index])], &refs[index]);
            record.address = reference.paddr;
            if self.per_cpu.contains(&reference.vaddr) {
                record.address = reference.vaddr - self.per_cpu.start;
                record.flags |= PER_CPU;
            }
            split |= reference.next_page != 0
                && reference.next_page != (reference.paddr | (PAGE - 1)).wrapping_add(1);
        }
        if split {
            Self::split_pages(data, refs, first, out, pages);
        }
        u64::from(template.joined)
    }

    /// The records of `shape`, the addresses of its data references not known.
    #[inline]
    pub fn records(&self, shape: ShapeId) -> &[Record] {
        let template = self.shapes[shape as usize];
        &self.records[template.records as usize..][..usize::from(template.record_count)]
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

    /// Splits the accesses that cross into a page elsewhere (a few in a million).
    #[cold]
    fn split_pages(
        data: &[u16],
        refs: &[Ref],
        first: usize,
        out: &mut Vec<Record>,
        mut pages: Option<&mut Vec<u64>>,
    ) {
        for (&place, reference) in data.iter().zip(refs).rev() {
            let index = first + usize::from(place);
            let record = out[index];
            let room = PAGE - reference.paddr % PAGE;
            if reference.next_page != 0 && record.flags & PER_CPU == 0 && room < u64::from(record.size) {
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
