//! Nodes whose pages move: what a move takes from links, memories and processors (docs/adr/0342). Which pages do is for
//! `migration` to say.

use super::super::links::{Links, Packet};
use super::super::migration::{Change, PageMove};
use super::super::node_set::NodeSet;
use super::super::{BusRequest, Class, LatencyTable, Origin, Supplier};
use super::Nodes;
use crate::protocol::BusOp;
use servsim_core::{CpuId, Cycles, LineAddr, NodeId};

impl Nodes {
    /// Whether pages move.
    #[inline]
    pub fn moves_pages(&self) -> bool {
        self.migration.is_some()
    }

    /// A request is granted at `now` that needs `op`, if anything by now: its page may move first, or copies of it come and
    /// go. The home of its line after that.
    pub fn touch(&mut self, now: u64, request: &BusRequest, op: Option<BusOp>) -> NodeId {
        let page = request.line.0 >> self.spec.page_shift;
        let asker = self.spec.of_processor[request.cpu];
        let is_awaited = request.class != Class::WriteBack && !matches!(request.origin, Origin::Prefetch(_));
        if let Some(migration) = &mut self.migration {
            let writes = request.class == Class::WriteBack && migration.sees_write_backs();
            if is_awaited || writes {
                let write = writes || op.is_some_and(|op| op != BusOp::Read);
                let by = is_awaited.then_some(request.cpu);
                migration.touched(now, page, (asker, by), write, &mut self.pages);
            }
        }
        self.home(request.line, request.cpu)
    }

    /// A move that was decided, to be carried out before anything else.
    #[inline]
    pub fn next_move(&mut self) -> Option<PageMove> {
        self.migration.as_mut()?.decided.pop_front()
    }

    /// The lines of a page that moves.
    pub fn lines_of(&self, moved: &PageMove) -> impl Iterator<Item = LineAddr> {
        let first = moved.page << self.spec.page_shift;
        (first..first + (1 << self.spec.page_shift)).map(LineAddr)
    }

    /// Carries a move out: `lines` has, for each line of the page, how many copies the caches concerned lost and the
    /// processor whose cache alone had it, if one did; `interrupted` processors forget the translation. What the interrupt
    /// takes from each.
    pub fn carry_move(
        &mut self,
        moved: &PageMove,
        lines: &[(u64, Option<CpuId>)],
        interrupted: u64,
        latency: &LatencyTable,
    ) -> Cycles {
        let Some(mut migration) = self.migration.take() else { return Cycles(0) };
        let (now, to) = (moved.at, moved.to);
        let spec = &migration.spec;
        // In the background the node that the page goes to moves it, or the one that gives it up.
        let (mover, start) = match moved.by {
            Some(cpu) => (self.spec.of_processor[cpu], now + spec.work),
            None => (migration.told(moved).find(|&node| node == to).unwrap_or(moved.from), now),
        };
        let others = migration.told(moved).filter(|&node| node != mover).fold(NodeSet::NONE, NodeSet::with);
        let told = self.links.send_to_several(now, mover, others, start, Packet::Request);
        let answer = |links: &mut Links, node| {
            links.send(now, (node, mover), told.at(node) + spec.shootdown, Packet::Request)
        };
        let known =
            others.iter().map(|node| answer(&mut self.links, node)).fold(start + spec.shootdown, u64::max);
        let mut until = known;
        for (line, (copies, dirty)) in self.lines_of(moved).zip(lines) {
            migration.counts.cached_lines += copies;
            migration.counts.dirty_lines += u64::from(dirty.is_some());
            let dirty_in = dirty.map(|cpu| self.spec.of_processor[cpu]);
            match (moved.change, dirty_in, self.entries.get_mut(&line)) {
                (Change::Moves, ..) => drop(self.entries.remove(&line)),
                (_, Some(node), Some(entry)) => entry.written_back(node, true),
                _ => {}
            }
            // What a cache alone had of a page with copies goes to where the page itself lies.
            let (from, to, ready) = match (dirty_in, moved.change) {
                (Some(from), Change::Moves) => (from, to, known),
                (Some(from), Change::IsCopied | Change::LosesCopies) => (from, moved.from, known),
                (None, Change::LosesCopies) => continue,
                (None, Change::Moves | Change::IsCopied) => {
                    let read = self.take_memory(now, moved.from, known);
                    (moved.from, to, read + self.spec.memories[moved.from].latency)
                }
            };
            if dirty_in.is_some() {
                self.pair(from, to).write_backs += 1;
            }
            let supplier = dirty.map_or(Supplier::Memory, Supplier::Processor);
            let ready = ready + latency.of(BusOp::Read, supplier).0;
            let arrives = self.links.send(now, (from, to), ready, Packet::Data);
            until = until.max(self.take_memory(now, to, arrives));
        }
        migration.counts.shootdowns += interrupted;
        migration.counts.shootdown_cycles += interrupted * migration.spec.shootdown.0;
        migration.ends(moved, until);
        let shootdown = migration.spec.shootdown;
        self.migration = Some(migration);
        self.note_taken();
        shootdown
    }
}
