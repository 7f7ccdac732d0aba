//! The prefetcher of one processor and what it has under way. When it asks for the bus, and what a grant
//! leads to, is in `prefetching.rs`.

use super::pending::Pending;
use crate::place::{address_on, page_of};
use servsim_core::reference::KERNEL;
use servsim_core::{CpuId, LineAddr, Op, Privacy, Record};
use servsim_mem::{Access, PrefetchSpec, Prefetcher, WordMask};
use std::collections::VecDeque;

/// The prefetcher of one processor, and what it has under way.
#[derive(Debug)]
pub struct Prefetching<W> {
    unit: Prefetcher,
    /// What the policy wishes and nobody has asked the bus for.
    pub wishes: VecDeque<Pending<W>>,
    /// Requests that wait for the bus, by number.
    pub waiting: Vec<(u64, Pending<W>)>,
    /// Requests so far.
    pub made: u64,
    /// Lines on their way, and when their data arrive.
    pub on_their_way: Vec<(LineAddr, u64)>,
    /// References that waited for them.
    pub late: u64,
}

impl<W: WordMask> Prefetching<W> {
    /// Nothing under way; lines have `1 << shift` bytes.
    pub fn new(spec: &PrefetchSpec, shift: u32) -> Self {
        Self {
            unit: Prefetcher::new(spec, shift),
            wishes: VecDeque::new(),
            waiting: Vec::new(),
            made: 0,
            on_their_way: Vec::new(),
            late: 0,
        }
    }

    /// Whether something is to be asked of the bus.
    #[inline]
    pub fn has_wishes(&self) -> bool {
        !self.wishes.is_empty()
    }

    /// When the data of `line` arrive, if they were prefetched and have not by `now`.
    pub fn arrival(&mut self, line: LineAddr, now: u64) -> Option<u64> {
        self.on_their_way.retain(|&(_, until)| until > now);
        let place = self.on_their_way.iter().position(|&(other, _)| other == line)?;
        Some(self.on_their_way.swap_remove(place).1)
    }

    /// A miss on the line of `pending`, or the first use of a prefetched copy.
    pub fn triggered(&mut self, pending: &Pending<W>) {
        for &line in self.unit.triggered(pending.access.line) {
            self.wishes.push_back(ahead(pending, line));
        }
    }

    /// The first part of `record` was performed.
    pub fn referenced(&mut self, cpu: CpuId, record: &Record, privacy: &Privacy) {
        let address = address_on(record, cpu);
        if record.op == Op::Fetch {
            return self.unit.fetched(address, u64::from(record.size));
        }
        let lines = self.unit.referenced(address);
        if lines.is_empty() {
            return;
        }
        let page = page_of(privacy, &Record { address, ..*record });
        let access = Access {
            at: cpu,
            line: LineAddr::default(),
            words: W::default(),
            write: false,
            kernel: record.flags & KERNEL != 0,
            task: record.task,
            slot: record.op as usize,
        };
        let pending = Pending { access, page, fetching: false };
        self.wishes.extend(lines.iter().map(|&line| ahead(&pending, line)));
    }
}

fn ahead<W: WordMask>(pending: &Pending<W>, line: LineAddr) -> Pending<W> {
    let access = Access { line, words: W::default(), write: false, ..pending.access };
    Pending { access, fetching: false, ..*pending }
}
