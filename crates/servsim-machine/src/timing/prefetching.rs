//! The timing engine's side of prefetchers. A prefetch asks for the bus behind everything that processors
//! wait for and before write-backs, and needs one of the fetches that a cache may have under way. At the
//! grant it is made only if the processor still lacks the line. At most `outstanding_misses` of them wait;
//! what comes then is dropped. A reference to a line on its way waits until the data are there: a late
//! prefetch.

use super::engine::Engine;
use super::processor::{Pending, Processor};
use crate::place::{address_on, page_of};
use servsim_core::reference::{CONTINUATION, KERNEL};
use servsim_core::{Op, Privacy, Record};
use servsim_mem::{Access, BusRequest, Class, Origin, PrefetchSpec, Prefetcher, WordMask};
use std::collections::VecDeque;

/// The prefetcher of one processor, and what it has under way.
#[derive(Debug)]
pub struct Prefetching<W> {
    unit: Prefetcher,
    /// What the policy wishes and nobody has asked the bus for.
    wishes: VecDeque<Pending<W>>,
    /// Requests that wait for the bus, by number.
    waiting: Vec<(u64, Pending<W>)>,
    made: u64,
    /// Lines on their way, and when their data arrive.
    on_their_way: Vec<(u64, u64)>,
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
    fn arrival(&mut self, line: u64, now: u64) -> Option<u64> {
        self.on_their_way.retain(|&(_, until)| until > now);
        let place = self.on_their_way.iter().position(|&(other, _)| other == line)?;
        Some(self.on_their_way.swap_remove(place).1)
    }

    /// A miss on the line of `pending`, or the first use of a prefetched copy.
    fn triggered(&mut self, pending: &Pending<W>) {
        for &line in self.unit.triggered(pending.access.line) {
            self.wishes.push_back(ahead(pending, line));
        }
    }

    /// The first part of `record` was performed.
    fn referenced(&mut self, cpu: usize, record: &Record, privacy: &Privacy) {
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
            cpu,
            line: 0,
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

fn ahead<W: WordMask>(pending: &Pending<W>, line: u64) -> Pending<W> {
    let access = Access { line, words: W::default(), write: false, ..pending.access };
    Pending { access, fetching: false, ..*pending }
}

impl<W: WordMask> Processor<W> {
    /// Waits for the data of a line that was prefetched and is on its way; whether it did.
    pub(super) fn waits_for_prefetch(&mut self, line: u64, slot: usize) -> bool {
        let Some(prefetching) = &mut self.prefetching else { return false };
        let Some(until) = prefetching.arrival(line, self.time) else { return false };
        prefetching.late += 1;
        let waited = until - self.time;
        self.time = until;
        self.times.memory_stall += waited;
        self.times.stalls[slot] += waited;
        true
    }

    /// Part of `record` was performed, the first if `first`.
    pub(super) fn performed(&mut self, cpu: usize, record: &Record, first: bool, privacy: &Privacy) {
        if let (Some(prefetching), true) = (&mut self.prefetching, first) {
            if record.flags & CONTINUATION == 0 {
                prefetching.referenced(cpu, record, privacy);
            }
        }
    }

    /// The caches told of a miss or a first use by the access of `pending`.
    pub(super) fn prefetch_after(&mut self, told: u64, pending: &Pending<W>) {
        if let (Some(prefetching), true) = (&mut self.prefetching, told == pending.access.line) {
            prefetching.triggered(pending);
        }
    }
}

impl<W: WordMask> Engine<'_, W> {
    /// The access of `pending` was performed; what it leads to asks for the bus at `ready`.
    pub(super) fn after_access(&mut self, cpu: usize, pending: &Pending<W>, ready: u64) {
        if let Some((_, line)) = self.caches.system.trigger.take() {
            if !self.processors[cpu].is_walking() {
                self.processors[cpu].prefetch_after(line, pending);
            }
        }
        self.post_prefetches(cpu, ready);
    }

    /// Asks the bus for what the prefetcher of `cpu` wishes.
    pub(super) fn post_prefetches(&mut self, cpu: usize, ready: u64) {
        let most = self.model.outstanding_misses;
        let Self { processors, caches, bus, .. } = self;
        let Some(prefetching) = &mut processors[cpu].prefetching else { return };
        while let Some(pending) = prefetching.wishes.pop_front() {
            let line = pending.access.line;
            let asked = prefetching.waiting.iter().any(|(_, other)| other.access.line == line);
            if asked || prefetching.waiting.len() >= most || caches.needed(&pending.access).is_none() {
                continue;
            }
            prefetching.made += 1;
            prefetching.waiting.push((prefetching.made, pending));
            let origin = Origin::Prefetch(prefetching.made);
            bus.post(BusRequest { cpu, ready, line, class: Class::Prefetch, origin });
        }
    }

    /// The bus is granted to prefetch `number`.
    pub(super) fn grant_prefetch(&mut self, now: u64, request: &BusRequest, number: u64) {
        let Some(prefetching) = &mut self.processors[request.cpu].prefetching else { return };
        let Some(place) = prefetching.waiting.iter().position(|&(other, _)| other == number) else { return };
        let (_, pending) = prefetching.waiting.remove(place);
        if let Some((outcome, supplier)) = self.caches.prefetch(&pending.access, pending.page) {
            let complete = self.carry(now, request, &outcome, supplier);
            if let Some(prefetching) = &mut self.processors[request.cpu].prefetching {
                prefetching.on_their_way.push((request.line, complete));
            }
            self.write_back(request.cpu, now, &outcome);
        }
        self.bus.choose();
    }
}
