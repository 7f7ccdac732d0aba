//! The engine's side of the memory system: misses, the store buffer, and what a grant of the bus
//! leads to.

use super::engine::{Engine, TimedEvent};
use super::pending::Pending;
use super::processor::{Context, Wait};
use servsim_core::Op;
use servsim_mem::fabric::{Granted, Supplier};
use servsim_mem::protocol::BusOp;
use servsim_mem::{BusRequest, Class, Origin, Outcome, WordMask};

impl<W: WordMask> Engine<'_, W> {
    /// A fetch or load misses; `true` when the processor goes on with words of its store buffer.
    pub(super) fn miss(&mut self, cpu: usize, context: Context, pending: Pending<W>) -> bool {
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

    pub(super) fn demand(&mut self, cpu: usize, pending: Pending<W>) {
        let class = self.class_of(&pending);
        let processor = &mut self.processors[cpu];
        processor.demand = Some(pending);
        processor.wait = Wait::Demand;
        processor.since = processor.time;
        let ready = processor.time;
        let line = pending.access.line;
        self.bus.post(BusRequest { cpu, ready, line, class, origin: Origin::Processor });
    }

    pub(super) fn class_of(&self, pending: &Pending<W>) -> Class {
        match self.caches.needed(&pending.access) {
            Some(op) if op.is_fetch() => Class::Fetch,
            _ => Class::Coherence,
        }
    }

    /// A store needs the bus or its turn; `true` when the processor goes on.
    pub(super) fn store(&mut self, cpu: usize, context: Context, pending: Pending<W>) -> bool {
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
        cpu: usize,
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
    pub(super) fn ask_for_store(&mut self, cpu: usize, now: u64) {
        while let Some(pending) = self.processors[cpu].stores.front().copied() {
            match self.caches.try_hit(&pending.access) {
                None => {
                    let class = self.class_of(&pending);
                    let line = pending.access.line;
                    self.bus.post(BusRequest { cpu, ready: now, line, class, origin: Origin::StoreBuffer });
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

    pub(super) fn store_returned(&mut self, cpu: usize, now: u64, performed: bool) {
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

    pub(super) fn grant(&mut self) {
        let Some((now, request)) = self.bus.grant() else { return };
        let cpu = request.cpu;
        if request.class == Class::WriteBack {
            let op = BusOp::WriteBack;
            let (latency, occupancy) = self.model.bus.of(op, false);
            let granted = Granted { now, cpu, line: request.line, op, latency, occupancy };
            let (_, occupancy) = self.fabric.carry(&granted, Supplier::Memory);
            self.bus.occupy(now, &request, occupancy, None);
            self.bus.choose();
            return;
        }
        if let Origin::Prefetch(number) = request.origin {
            return self.grant_prefetch(now, &request, number);
        }
        let processor = &mut self.processors[cpu];
        let pending = match request.origin {
            Origin::Processor => processor.demand,
            Origin::StoreBuffer => processor.stores.front().copied(),
            Origin::Load(load) => processor.core.as_ref().and_then(|core| core.access(load)),
            Origin::Prefetch(_) => None,
        };
        let Some(pending) = pending else { unreachable!("a request has its access") };
        self.caches.system.trigger = None;
        let (outcome, supplier) = self.caches.transact(&pending.access, pending.page);
        let mut complete = now;
        if let Some(op) = outcome.op {
            complete = self.carry(now, &request, &outcome, supplier);
            if let (Origin::StoreBuffer, Some(store)) =
                (request.origin, self.processors[cpu].stores.front_mut())
            {
                store.fetching = op.is_fetch();
            }
        }
        self.write_back(cpu, now, &outcome);
        if self.processors[cpu].has_more {
            self.after_access(cpu, &pending, now);
        }
        self.bus.choose();
        match request.origin {
            Origin::StoreBuffer => {
                self.schedule(complete, TimedEvent::Store { cpu, performed: outcome.done });
            }
            Origin::Load(load) => self.schedule(complete, TimedEvent::Load { cpu, load }),
            Origin::Processor | Origin::Prefetch(_) => self.demand_returns(cpu, now, complete, outcome.done),
        }
    }

    /// Occupies bus and interconnect with a transaction; when it is complete.
    pub(super) fn carry(
        &mut self,
        now: u64,
        request: &BusRequest,
        outcome: &Outcome,
        supplier: Supplier,
    ) -> u64 {
        let Some(op) = outcome.op else { return now };
        let supplier = self.snoop_buffers(request.line, op, supplier);
        let (latency, occupancy) = self.model.times_of(op, supplier);
        let latency = if op.is_fetch() { self.perturbed(latency) } else { latency };
        let granted = Granted { now, cpu: request.cpu, line: request.line, op, latency, occupancy };
        let (latency, occupancy) = self.fabric.carry(&granted, supplier);
        let complete = now + latency;
        self.bus.occupy(now, request, occupancy, op.is_fetch().then_some(complete));
        complete
    }

    /// A write buffer that holds the line supplies it, unless a cache does; who takes it to write needs no
    /// write-back of it any more.
    fn snoop_buffers(&mut self, line: u64, op: BusOp, supplier: Supplier) -> Supplier {
        let holder = if op.is_fetch() { self.bus.buffered(line) } else { None };
        let Some(cpu) = holder else { return supplier };
        if op == BusOp::ReadExclusive {
            self.bus.cancel_buffered(line);
        }
        if matches!(supplier, Supplier::Processor(_)) {
            return supplier;
        }
        self.bus.buffers.supplied += 1;
        Supplier::Processor(cpu)
    }

    /// Asks the bus for the write-back that a transaction led to.
    pub(super) fn write_back(&mut self, cpu: usize, now: u64, outcome: &Outcome) {
        if let Some(line) = outcome.write_back {
            let class = Class::WriteBack;
            self.bus.post(BusRequest { cpu, ready: now, line, class, origin: Origin::Processor });
        }
    }

    /// The latency with its random delay: uniform, with the mean unchanged.
    pub(super) fn perturbed(&mut self, latency: u64) -> u64 {
        let width = self.model.memory_delay;
        if width == 0 {
            return latency;
        }
        latency - width / 2 + self.delay.below(width + 1)
    }

    pub(super) fn demand_returns(&mut self, cpu: usize, granted: u64, complete: u64, done: bool) {
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
