//! Expansion of an executed block into records. The records of a block differ between executions
//! only in its data addresses, so a template per block shape is copied and patched: 16 bytes moved
//! per reference instead of a walk over instructions.

use servsim_core::reference::{ATOMIC, CONTINUATION, KERNEL, PER_CPU};
use servsim_core::{Op, Record};
use servsim_trace::{Dictionary, Ref, Shape, ShapeId};

/// Bytes of a page.
const PAGE: u64 = 4096;

/// One block shape, ready to copy.
#[derive(Debug, Default)]
struct Template {
    records: Vec<Record>,
    /// Virtual pages of the fetches; 0 for data.
    pages: Vec<u64>,
    /// Where the data references go: index of the record, per access of the shape.
    data: Vec<u16>,
}

/// Templates of every shape of a trace.
#[derive(Debug)]
pub struct Templates {
    shapes: Vec<Template>,
    per_cpu: std::ops::Range<u64>,
}

impl Templates {
    /// For all shapes. With `line` the fetches between two data references that fall into one
    /// line of that many bytes become one record that stands for all of them.
    pub fn new(dictionary: &Dictionary, per_cpu_area: (u64, u64), line: Option<u64>) -> Self {
        let shapes = dictionary.shapes().iter().map(|shape| template(shape, line)).collect();
        let (start, length) = per_cpu_area;
        Self { shapes, per_cpu: start..start.saturating_add(length) }
    }

    /// Appends the records of one execution of `shape` by `task`; with `pages` also their virtual
    /// pages, which are brought to the length of the records first.
    pub fn expand(
        &self,
        shape: ShapeId,
        refs: &[Ref],
        task: u32,
        out: &mut Vec<Record>,
        mut pages: Option<&mut Vec<u64>>,
    ) {
        let template = &self.shapes[shape as usize];
        let first = out.len();
        if let Some(pages) = &mut pages {
            pages.resize(first, 0);
            pages.extend_from_slice(&template.pages);
            for (&place, reference) in template.data.iter().zip(refs) {
                pages[first + usize::from(place)] = reference.vaddr / PAGE;
            }
        }
        out.extend_from_slice(&template.records);
        let added = &mut out[first..];
        for record in added.iter_mut() {
            record.task = task;
        }
        let mut split = false;
        for (&place, reference) in template.data.iter().zip(refs) {
            let record = &mut added[usize::from(place)];
            record.address = reference.paddr;
            if self.per_cpu.contains(&reference.vaddr) {
                record.address = reference.vaddr - self.per_cpu.start;
                record.flags |= PER_CPU;
            }
            split |= reference.next_page != 0
                && reference.next_page != (reference.paddr | (PAGE - 1)).wrapping_add(1);
        }
        if split {
            Self::split_pages(template, refs, first, out, pages);
        }
    }

    /// Splits the accesses that cross into a page elsewhere (a few in a million).
    fn split_pages(
        template: &Template,
        refs: &[Ref],
        first: usize,
        out: &mut Vec<Record>,
        mut pages: Option<&mut Vec<u64>>,
    ) {
        for (&place, reference) in template.data.iter().zip(refs).rev() {
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

fn template(shape: &Shape, line: Option<u64>) -> Template {
    let mut template = Template::default();
    let mode = if shape.is_kernel() { KERNEL } else { 0 };
    let mut ops = shape.ops.iter().peekable();
    let mut offset = 0;
    for (index, insn) in shape.insns.iter().enumerate() {
        let flags = mode | if insn.atomic { ATOMIC } else { 0 };
        let before = template.records.len();
        fetch(&mut template.records, shape, offset, insn.len.max(1), flags, line);
        // A second part, if there is one, lies on the next page.
        let page = (shape.vaddr + offset) / PAGE;
        template.pages.extend((page..).take(template.records.len() - before));
        offset += u64::from(insn.len);
        while let Some(op) = ops.next_if(|op| usize::from(op.insn) == index) {
            template.data.push(template.records.len() as u16);
            let kind = if op.store { Op::Store } else { Op::Load };
            let mut record = Record::new(0, kind, 0, op.size.max(1));
            record.flags = flags;
            record.cpu = 1;
            template.records.push(record);
            template.pages.push(0);
        }
    }
    template
}

fn fetch(out: &mut Vec<Record>, shape: &Shape, offset: u64, len: u8, flags: u8, line: Option<u64>) {
    let start = shape.physical(offset);
    let last = shape.physical(offset + u64::from(len) - 1);
    let contiguous = last == start + u64::from(len) - 1;
    if let (Some(line), true, Some(run)) = (line, contiguous, out.last_mut()) {
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
    record.cpu = 1;
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
