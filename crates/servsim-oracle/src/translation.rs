//! Address translation, from docs/parts/translation.md: every buffer is one list, the most recent last;
//! a set is the pages that leave the same remainder; a page walk is four divisions.

use crate::{Facts, Oracle};
use servsim_core::{Op, Record};

/// Shape of the buffers of every processor.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    /// Entries and ways of the first level, or of each half.
    pub first: (u64, u64),
    /// One half for instructions, one for data.
    pub split: bool,
    /// Entries and ways of the second level.
    pub second: Option<(u64, u64)>,
    /// Entries keep their address space.
    pub tagged: bool,
    /// Entries of the page-walk cache.
    pub walk_entries: usize,
}

/// A virtual page with its address space, and the physical page it is.
type Mapping = (u64, u64, u64);

#[derive(Debug, Clone, Default)]
struct Unit {
    halves: [Vec<Mapping>; 2],
    second: Vec<Mapping>,
    /// Known table entries: level from 1, address divided by what an entry covers, space.
    known: Vec<(u32, u64, u64)>,
    space: u64,
}

/// The translation hardware of a machine.
#[derive(Debug)]
pub(crate) struct Translation {
    buffers: Buffers,
    units: Vec<Unit>,
}

const PAGE: u64 = 4096;

fn of_kernel(page: u64) -> bool {
    page * PAGE / (1 << 47) % 2 == 1
}

fn space_of(page: u64, space: u64) -> u64 {
    if of_kernel(page) {
        0
    } else {
        space
    }
}

fn present(list: &mut Vec<Mapping>, mapping: Mapping) -> bool {
    let found = list.iter().position(|&m| m == mapping);
    if let Some(place) = found {
        let used = list.remove(place);
        list.push(used);
    }
    found.is_some()
}

fn put(list: &mut Vec<Mapping>, mapping: Mapping, (entries, ways): (u64, u64)) {
    let sets = entries / ways;
    list.retain(|m| (m.0, m.1) != (mapping.0, mapping.1));
    let mates = || list.iter().filter(|m| m.0 % sets == mapping.0 % sets);
    if mates().count() as u64 == ways {
        let oldest = *mates().next().expect("a full set has an oldest");
        list.retain(|m| *m != oldest);
    }
    list.push(mapping);
}

/// Where the entry of `page` lies in the tables of `space`; level 1 is the table of pages.
fn table_entry(level: u32, page: u64, space: u64) -> u64 {
    let covers = 512_u64.pow(level - 1);
    let number = page % (1 << 36) / covers;
    let owner = if level < 4 { space_of(page, space) } else { space };
    let table = u128::from((owner * 4 + u64::from(level - 1)) * (1 << 27) + number / 512);
    let fold = |bits: u128| bits ^ (bits / (1 << 25));
    let frame = fold(fold(table) * 0x9E37_79B9_7F4A_7C15 % (1 << 49));
    (1 << 61) + frame as u64 * PAGE + number % 512 * 8
}

impl Oracle {
    /// The same machine with address translation.
    #[must_use]
    pub fn translating(self, buffers: Buffers) -> Self {
        let units = vec![Unit::default(); self.current.len()];
        Self { translation: Some(Translation { buffers, units }), ..self }
    }

    /// As [`Oracle::reference`], after translating what it touches: `page` is the virtual page of its
    /// first byte, `process` that of its task, if it has one.
    pub fn translated_reference(
        &mut self,
        cpu: usize,
        record: &Record,
        counted: bool,
        (page, process): (u64, Option<u32>),
        facts: &dyn Fn(u64) -> Facts,
    ) {
        // The quantum of the task begins before its walks.
        self.switch(cpu, record.task);
        if let Some(process) = process {
            self.enter(cpu, u64::from(process) + 1);
        }
        let first = record.address / PAGE;
        let end = record.address + u64::from(record.size);
        for frame in first..=(end - 1) / PAGE {
            let from = record.address.max(frame * PAGE);
            let size = (end.min((frame + 1) * PAGE) - from) as u8;
            self.translate(cpu, record, page + (frame - first), frame);
            let part = Record { address: from, size, ..*record };
            self.reference(cpu, &part, counted && frame == first, facts);
        }
    }

    fn enter(&mut self, cpu: usize, space: u64) {
        let Translation { buffers, units } = self.translation.as_mut().expect("translating");
        let unit = &mut units[cpu];
        if unit.space == space {
            return;
        }
        unit.space = space;
        if !buffers.tagged {
            unit.halves.iter_mut().chain([&mut unit.second]).for_each(|list| list.retain(|m| of_kernel(m.0)));
            unit.known.clear();
            self.count("tlb.flushes", 1);
        }
    }

    fn translate(&mut self, cpu: usize, record: &Record, page: u64, frame: u64) {
        let mode = usize::from(record.is_kernel());
        let Translation { buffers, units } = self.translation.as_mut().expect("translating");
        let (buffers, unit) = (*buffers, &mut units[cpu]);
        let mapping = (page, space_of(page, unit.space), frame);
        let half = usize::from(buffers.split && record.op != Op::Fetch);
        let what = if record.op == Op::Fetch { "fetch" } else { "data" };
        if present(&mut unit.halves[half], mapping) {
            return self.count(&format!("tlb.{what}_hits"), mode);
        }
        put(&mut unit.halves[half], mapping, buffers.first);
        let second = buffers.second.is_some() && present(&mut unit.second, mapping);
        let mut read = Vec::new();
        if !second {
            if let Some(shape) = buffers.second {
                put(&mut unit.second, mapping, shape);
            }
            read = walk(unit, page, buffers.walk_entries);
        }
        self.count(&format!("tlb.{what}_misses"), mode);
        self.count(if second { "tlb.second_hits" } else { "tlb.walks" }, mode);
        for address in read {
            self.count("tlb.walk_references", mode);
            if !self.has_at(cpu, address) {
                self.count("tlb.walk_misses", mode);
            }
            let mut entry = Record::new(record.task, Op::Load, address, 8);
            entry.flags = servsim_core::reference::KERNEL;
            self.prefetch_walking(true);
            self.reference(cpu, &entry, false, &|_| Facts { private: false, kernel: true });
            self.prefetch_walking(false);
        }
    }
}

/// The entries that a walk reads, from the outside in.
fn walk(unit: &mut Unit, page: u64, most: usize) -> Vec<u64> {
    let mut read = Vec::new();
    for level in 1..=4 {
        read.insert(0, table_entry(level, page, unit.space));
        // Is the entry one further out known, which tells where this table is?
        let key = (level, page / 512_u64.pow(level), unit.space);
        if let Some(place) = unit.known.iter().position(|&k| k == key) {
            let used = unit.known.remove(place);
            unit.known.push(used);
            break;
        }
    }
    for level in (1..read.len() as u32).rev() {
        unit.known.push((level, page / 512_u64.pow(level), unit.space));
        if unit.known.len() > most {
            unit.known.remove(0);
        }
    }
    read
}
