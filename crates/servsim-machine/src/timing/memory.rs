//! The engine's side of the memory system: misses, the store buffer, and what a grant of the bus
//! leads to.

use super::engine::{Engine, TimedEvent};
use super::pending::Pending;
use super::processor::{Context, Wait};
use servsim_core::{CpuId, Op};
use servsim_mem::protocol::BusOp;
use servsim_mem::{BusRequest, Class, Origin, Outcome, Supplier, Transaction, WordMask};

impl<W: WordMask> Engine<'_, W> {
    /// A fetch or load misses; `true` when the processor goes on with words of its store buffer.
    pub(super) fn miss(&mut self, cpu: CpuId, context: Context, pending: Pending<W>) -> bool {
        let processor = &mut self.processors[cpu];
        let line = pending.access.line;
        if let Some(store) = processor.stores.iter().rev().find(|s| s.access.line == line) {
            if store.access.words.covers(pending.access.words) {
                let now = processor.time;
                if let (true, Some(core)) = (pending.access.slot == Op::Load as usize, &mut processor.core) {
                    core.hit(line, now, 0);
                }
                self.advance(cpu, context);
                return true;
            }
            processor.wait = Wait::Store;
            processor.since = processor.time;
            return false;
        }
        self.demand(cpu, pending);
        false
    }

    pub(super) fn demand(&mut self, cpu: CpuId, pending: Pending<W>) {
        let class = self.class_of(&pending);
        let processor = &mut self.processors[cpu];
        processor.demand = Some(pending);
        processor.wait = Wait::Demand;
        processor.since = processor.time;
        let ready = processor.time;
        let line = pending.access.line;
        self.bus.post(BusRequest { cpu: cpu.0, ready, line, class, origin: Origin::Processor });
    }

    pub(super) fn class_of(&self, pending: &Pending<W>) -> Class {
        match self.caches.needed(&pending.access) {
            Some(op) if op.is_fetch() => Class::Fetch,
            _ => Class::Coherence,
        }
    }

    /// A store needs the bus or its turn; `true` when the processor goes on.
    pub(super) fn store(&mut self, cpu: CpuId, context: Context, pending: Pending<W>) -> bool {
        let needed = self.caches.needed(&pending.access);
        let write_only = needed.is_none_or(|op| op == BusOp::Write);
        let processor = &mut self.processors[cpu];
        if !self.model.all_asynchronous && !write_only && processor.stores.is_empty() {
            self.demand(cpu, pending);
            return false;
        }
        let may_wait = self.model.all_asynchronous || write_only;
        if !may_wait || processor.stores.len() == self.model.store_buffer {
            processor.wait = Wait::Store;
            processor.since = processor.time;
            return false;
        }
        processor.stores.push_back(pending);
        if processor.stores.len() == 1 {
            let time = processor.time;
            self.ask_for_store(cpu, time);
        }
        self.advance(cpu, context);
        true
    }

    /// A core's store, alone in its buffer, hit in a level outside the first.
    /// Returns when it leaves the buffer.
    pub(super) fn far_store(
        &mut self,
        cpu: CpuId,
        context: Context,
        pending: Pending<W>,
        latency: u64,
    ) -> u64 {
        let processor = &mut self.processors[cpu];
        processor.stores.push_back(pending);
        let at = processor.time + latency;
        self.schedule(at, TimedEvent::Store { cpu, performed: true });
        self.advance(cpu, context);
        at
    }

    /// Performs the oldest stores that need no bus and asks for the first that does.
    pub(super) fn ask_for_store(&mut self, cpu: CpuId, now: u64) {
        while let Some(pending) = self.processors[cpu].stores.front().copied() {
            match self.caches.try_hit(&pending.access) {
                None => {
                    let class = self.class_of(&pending);
                    let line = pending.access.line;
                    self.bus.post(BusRequest {
                        cpu: cpu.0,
                        ready: now,
                        line,
                        class,
                        origin: Origin::StoreBuffer,
                    });
                    return;
                }
                Some(depth) if depth != 0 && self.model.core.is_some() => {
                    let at = now + self.model.outer_hit_latency[depth - 1];
                    self.schedule(at, TimedEvent::Store { cpu, performed: true });
                    return;
                }
                Some(_) => {}
            }
            self.processors[cpu].stores.pop_front();
        }
    }

    pub(super) fn store_returned(&mut self, cpu: CpuId, now: u64, performed: bool) {
        self.stale.insert(cpu);
        if performed {
            self.processors[cpu].stores.pop_front();
        } else if let Some(store) = self.processors[cpu].stores.front_mut() {
            store.fetching = false;
        }
        self.ask_for_store(cpu, now);
        let processor = &mut self.processors[cpu];
        if processor.wait == Wait::Store {
            processor.times.memory_stall += now - processor.since;
            processor.times.stalls[Op::Store as usize] += now - processor.since;
            processor.time = now;
            processor.wait = Wait::Nothing;
        }
    }

    /// Grants the next request: what was asked for is performed by the state found now, a prefetch as any
    /// other.
    pub(super) fn grant(&mut self) {
        let Some(grant) = self.bus.grant() else { return };
        let BusRequest { cpu, origin, class, line, .. } = grant.request;
        let cpu = CpuId(cpu);
        if class == Class::WriteBack {
            self.bus.carry(&grant, &Transaction::WRITE_BACK);
            return self.bus.end_grant();
        }
        let Some((pending, outcome, supplier)) = self.perform(&grant.request) else {
            return self.bus.end_grant();
        };
        let complete = self.bus.carry(&grant, &Transaction::of(&outcome, supplier));
        let processor = &mut self.processors[cpu];
        match origin {
            Origin::Prefetch(_) => processor.prefetch_arrives(line, complete),
            Origin::StoreBuffer => {
                if let (Some(op), Some(store)) = (outcome.op, processor.stores.front_mut()) {
                    store.fetching = op.is_fetch();
                }
            }
            Origin::Processor | Origin::Load(_) => {}
        }
        if processor.has_more && !matches!(origin, Origin::Prefetch(_)) {
            self.after_access(cpu, &pending, grant.time);
        }
        self.bus.end_grant();
        match origin {
            Origin::StoreBuffer => {
                self.schedule(complete, TimedEvent::Store { cpu, performed: outcome.done });
            }
            Origin::Load(load) => self.schedule(complete, TimedEvent::Load { cpu, load }),
            Origin::Processor => self.demand_returns(cpu, grant.time, complete, outcome.done),
            Origin::Prefetch(_) => {}
        }
    }

    /// Performs what was asked for; `None` for a prefetch that is not needed any more.
    fn perform(&mut self, request: &BusRequest) -> Option<(Pending<W>, Outcome, Supplier)> {
        let processor = &mut self.processors[request.cpu];
        let pending = match request.origin {
            Origin::Processor => processor.demand,
            Origin::StoreBuffer => processor.stores.front().copied(),
            Origin::Load(load) => processor.core.as_ref().and_then(|core| core.access(load)),
            Origin::Prefetch(number) => {
                let pending = processor.prefetch_granted(number)?;
                let (outcome, supplier) = self.caches.prefetch(&pending.access, pending.page)?;
                return Some((pending, outcome, supplier));
            }
        };
        let Some(pending) = pending else { unreachable!("a request has its access") };
        self.caches.system.trigger = None;
        let (outcome, supplier) = self.caches.transact(&pending.access, pending.page);
        Some((pending, outcome, supplier))
    }

    pub(super) fn demand_returns(&mut self, cpu: CpuId, granted: u64, complete: u64, done: bool) {
        self.stale.insert(cpu);
        let processor = &mut self.processors[cpu];
        processor.times.bus_wait += granted - processor.since;
        processor.times.memory_stall += complete - granted;
        let slot = processor.demand.take().map_or(Op::Load as usize, |demand| demand.access.slot);
        let waited = complete - processor.since;
        processor.time = complete;
        processor.wait = Wait::Nothing;
        if let (true, Some(times)) = (processor.is_walking(), self.model.translation) {
            return processor.table_returned(waited, done, times);
        }
        processor.times.stalls[slot] += waited;
        // A load of a spinning processor is not one of its stream.
        let of_stream = done && processor.spinning.is_none();
        if let (true, Some(core)) = (of_stream && slot == Op::Load as usize, &mut processor.core) {
            core.loaded(complete);
        }
        if let (true, Some(context)) = (of_stream, processor.context) {
            self.advance(cpu, context);
        }
    }
}
