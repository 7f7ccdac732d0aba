//! What a grant does: what was asked for is performed by the state found then, and carried to who asked.
//!
//! **Stores that take two transactions.** A store may have to fetch its line first and write on it then. What was fetched can be
//! displaced between the two, by prefetches of its own processor or, under an inclusive level, by another's fetch into the same set,
//! and again each time it is fetched anew. So a store that has lost what it fetched keeps the order point from its
//! next fetch on until it is performed, as an atomic operation on a bus does.

use super::{Completion, MemoryPort};
use crate::timing::pending::Pending;
use crate::timing::processor::Processor;
use servsim_core::CpuId;
use servsim_mem::interconnect::LATER;
use servsim_mem::protocol::{BusOp, Lines};
use servsim_mem::{
    BusRequest, Class, Completed, Grant, Origin, Outcome, PageMove, Supplier, Transaction, WordMask,
};

impl<W: WordMask> MemoryPort<W> {
    /// Grants it: what was asked for is performed by the state found now. `None` when nobody waits for it.
    pub fn grant(&mut self, mut grant: Grant, processors: &mut [Processor<W>]) -> Option<Completion> {
        if self.interconnect.moves_pages() {
            let op = self.needed_at(&grant, &processors[grant.request.cpu]);
            self.interconnect.touch(&mut grant, op);
        }
        while let Some(moved) = self.interconnect.next_move() {
            self.move_page(&moved, processors);
        }
        let BusRequest { cpu, class, .. } = grant.request;
        let completion = if class == Class::WriteBack {
            self.interconnect.carry(&grant, &Transaction::WRITE_BACK);
            None
        } else if !self.may_perform(&grant, &processors[cpu]) {
            None
        } else {
            self.carry_out(&grant, &mut processors[cpu])
        };
        self.post_write_backs(|_| grant.time);
        self.interconnect.end_grant();
        completion
    }

    /// Whether what was asked for is to be performed now; otherwise it is granted once more.
    fn may_perform(&mut self, grant: &Grant, processor: &Processor<W>) -> bool {
        (!self.interconnect.sends_first() || self.sent(grant, processor))
            && (self.node_caches.is_none() || self.decided(grant, processor))
    }

    /// Performs what was asked for and has it carried; what that brings, unless nobody waits for it or it is not known yet.
    fn carry_out(&mut self, grant: &Grant, processor: &mut Processor<W>) -> Option<Completion> {
        let BusRequest { cpu, origin, line, ready, .. } = grant.request;
        let (pending, outcome, supplier) = self.perform(&grant.request, processor)?;
        let transaction = Transaction::of(&outcome, supplier);
        let complete = self.interconnect.carry(grant, &transaction);
        if let Origin::Prefetch(_) = origin {
            processor.prefetch_arrives(line, complete);
            return None;
        }
        if let (Origin::StoreBuffer, Some(op)) = (origin, outcome.op) {
            processor.stores.iter_mut().take(1).for_each(|store| store.fetching = op.is_fetch());
        }
        if processor.has_more {
            self.after_access(cpu, processor, &pending, grant.time);
        }
        if complete == LATER {
            self.interconnect.defer(&grant.request, outcome.done);
            return None;
        }
        self.taken.add(&transaction, complete - grant.time);
        if !outcome.done && processor.fetched_first.replace((line, complete)) == Some((line, ready)) {
            let performed = self.keep_order(&Grant { time: complete, ..*grant }, processor);
            return performed.map(|performed| Completion { granted: grant.time, ..performed });
        }
        Some(Completion { cpu, origin, granted: grant.time, complete, done: outcome.done })
    }

    /// A store has fetched its line a second time, and has it at the time of `grant`: it is performed before anybody else is
    /// granted anything.
    #[cold]
    fn keep_order(&mut self, grant: &Grant, processor: &mut Processor<W>) -> Option<Completion> {
        self.interconnect.keep_order(grant.time);
        if self.may_perform(grant, processor) {
            self.carry_out(grant, processor)
        } else {
            None
        }
    }

    /// A page moves, or copies of it come or go: caches concerned lose its lines, and processors of theirs that run
    /// something are interrupted, but for the one that waits.
    #[cold]
    fn move_page(&mut self, moved: &PageMove, processors: &mut [Processor<W>]) {
        let Self { caches, interconnect, .. } = self;
        let concerned = |cpu: CpuId| interconnect.is_concerned(moved, cpu);
        let lines: Vec<_> =
            interconnect.lines_of(moved).into_iter().map(|line| caches.take_away(line, concerned)).collect();
        let runs = |(cpu, processor): &(usize, &mut Processor<W>)| {
            processor.context.is_some() && moved.by != Some(CpuId(*cpu)) && concerned(CpuId(*cpu))
        };
        let interrupted: Vec<usize> =
            processors.iter_mut().enumerate().filter(runs).map(|(cpu, _)| cpu).collect();
        let cycles = self.interconnect.carry_move(moved, &lines, interrupted.len() as u64);
        for cpu in interrupted {
            processors[cpu].shootdowns = processors[cpu].shootdowns + cycles;
        }
    }

    /// A request that is complete now, and was not when it was performed.
    pub fn completed(&mut self) -> Option<Completion> {
        let Completed { cpu, origin, granted, time, done, used_once: _ } = self.interconnect.completed()?;
        Some(Completion { cpu, origin, granted, complete: time, done })
    }

    /// Whether what was asked for is to be performed now, by what the node of its processor holds.
    fn decided(&mut self, grant: &Grant, processor: &Processor<W>) -> bool {
        let access = asked_for(&grant.request, processor).map(|pending| pending.access);
        let op = access.and_then(|access| self.caches.needed(&access));
        let node = self.node_caches.as_ref().map_or(0..0, |caches| caches[grant.request.cpu.0].clone());
        let held = self.caches.system.is_held_by(grant.request.line, node);
        let shared = self.interconnect.by_messages(grant) == Some(true);
        // No node is exclusive before it writes where others may have the line.
        self.caches.system.raised = if shared { Lines::SHARED } else { Lines::NONE };
        self.interconnect.decide(grant, op, held)
    }

    /// Sends what was asked for, if it needs a transaction by now; whether it may be performed.
    fn sent(&mut self, grant: &Grant, processor: &Processor<W>) -> bool {
        let op = self.needed_at(grant, processor);
        let within_group = waiting(&grant.request, processor)
            .is_some_and(|pending| self.caches.stays_within(&pending.access));
        self.interconnect.send(grant, op, within_group)
    }

    /// The transaction that what was asked for needs by now, if any.
    fn needed_at(&self, grant: &Grant, processor: &Processor<W>) -> Option<BusOp> {
        waiting(&grant.request, processor).and_then(|pending| self.caches.needed(&pending.access))
    }

    /// Performs what was asked for; `None` for a prefetch that is not needed any more.
    fn perform(
        &mut self,
        request: &BusRequest,
        processor: &mut Processor<W>,
    ) -> Option<(Pending<W>, Outcome, Supplier)> {
        if let Origin::Prefetch(number) = request.origin {
            let pending = processor.prefetch_granted(number)?;
            let (outcome, supplier) = self.caches.prefetch(&pending.access, pending.page)?;
            return Some((pending, outcome, supplier));
        }
        let pending = asked_for(request, processor);
        let Some(pending) = pending else { unreachable!("a request has its access") };
        self.forget_trigger();
        let (outcome, supplier) = self.caches.transact(&pending.access, pending.page);
        Some((pending, outcome, supplier))
    }
}

/// The access behind a request that is granted, a prefetch included.
fn waiting<W: WordMask>(request: &BusRequest, processor: &Processor<W>) -> Option<Pending<W>> {
    match request.origin {
        Origin::Prefetch(number) => processor.prefetch_waiting(number),
        _ => asked_for(request, processor),
    }
}

/// The access behind a request that is no prefetch.
fn asked_for<W: WordMask>(request: &BusRequest, processor: &Processor<W>) -> Option<Pending<W>> {
    match request.origin {
        Origin::Processor => processor.demand,
        Origin::StoreBuffer => processor.stores.front().copied(),
        Origin::Load(load) => processor.core.as_ref().and_then(|core| core.access(load)),
        Origin::Prefetch(_) => None,
    }
}
