//! What misses, a full store buffer and grants do to processors. What they do to caches and to what joins them is
//! in `port.rs`.

use super::engine::{Engine, TimedEvent};
use super::pending::Pending;
use super::port::Completion;
use super::processor::{Context, Wait};
use servsim_core::{CpuId, Cycles, Op};
use servsim_mem::protocol::BusOp;
use servsim_mem::{Class, Origin, WordMask};

impl<W: WordMask> Engine<'_, W> {
    /// A fetch or load misses; `true` when the processor goes on with words of its store buffer.
    pub(super) fn miss(&mut self, cpu: CpuId, context: Context, pending: Pending<W>) -> bool {
        let processor = &mut self.processors[cpu];
        let line = pending.access.line;
        if let Some(store) = processor.stores.iter().rev().find(|s| s.access.line == line) {
            if store.access.words.covers(pending.access.words) {
                let now = processor.time;
                if let (true, Some(core)) = (pending.access.slot == Op::Load as usize, &mut processor.core) {
                    core.hit(line, now, Cycles(0));
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
        let processor = &mut self.processors[cpu];
        processor.demand = Some(pending);
        processor.wait = Wait::Demand;
        processor.since = processor.time;
        self.port.post(cpu, Origin::Processor, &pending.access, processor.time);
    }

    /// A store needs the bus or its turn; `true` when the processor goes on.
    pub(super) fn store(&mut self, cpu: CpuId, context: Context, pending: Pending<W>) -> bool {
        let needed = self.port.needed(&pending.access);
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
        latency: Cycles,
    ) -> u64 {
        let processor = &mut self.processors[cpu];
        processor.stores.push_back(pending);
        let at = processor.time + latency;
        self.schedule(at, TimedEvent::Store { cpu, performed: true });
        self.advance(cpu, context);
        at
    }

    /// Asks for what the prefetcher of `cpu` wishes.
    pub(super) fn post_prefetches(&mut self, cpu: CpuId) {
        let processor = &mut self.processors[cpu];
        let ready = processor.time;
        self.port.post_prefetches(cpu, processor, ready);
    }

    /// Performs the oldest stores of a buffer as far as they hit, and asks for the next.
    pub(super) fn ask_for_store(&mut self, cpu: CpuId, now: u64) {
        if let Some(at) = self.port.perform_stores(cpu, &mut self.processors[cpu], now) {
            self.schedule(at, TimedEvent::Store { cpu, performed: true });
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
            processor.stall(processor.since, now, false, Some(Op::Store as usize));
            processor.time = now;
            processor.wait = Wait::Nothing;
        }
    }

    /// Grants the next request; whoever waits for it goes on when it is complete.
    pub(super) fn grant(&mut self) {
        if let Some(grant) = self.port.next_request() {
            let request = &grant.request;
            if request.class != Class::WriteBack {
                self.settle_holders(request.cpu, request.line, grant.time);
            }
            if let Some(completion) = self.port.grant(grant, &mut self.processors) {
                self.performed(completion);
            }
        }
        while let Some(completion) = self.port.completed() {
            self.performed(completion);
        }
    }

    /// A request was performed, and is complete at a known time.
    fn performed(&mut self, completion: Completion) {
        let Completion { cpu, origin, granted, complete, done } = completion;
        match origin {
            Origin::StoreBuffer => self.schedule(complete, TimedEvent::Store { cpu, performed: done }),
            Origin::Load(load) => self.schedule(complete, TimedEvent::Load { cpu, load }),
            Origin::Processor => self.demand_returns(cpu, granted, complete, done),
            Origin::Prefetch(_) => {}
        }
    }

    pub(super) fn demand_returns(&mut self, cpu: CpuId, granted: u64, complete: u64, done: bool) {
        self.stale.insert(cpu);
        let processor = &mut self.processors[cpu];
        let slot = processor.demand.take().map_or(Op::Load as usize, |demand| demand.access.slot);
        processor.repeats_store = !done && slot == Op::Store as usize;
        let translation = self.model.translation.filter(|_| processor.is_walking());
        let cause = translation.is_none().then_some(slot);
        // What it waited for was charged up to `since` when a window ended, if that was after the grant.
        let granted = granted.max(processor.since);
        processor.stall(processor.since, granted, true, cause);
        processor.stall(granted, complete, false, cause);
        processor.time = complete;
        processor.wait = Wait::Nothing;
        if let Some(times) = translation {
            return processor.table_returned(done, times);
        }
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
