//! Pages that move from node to node while the machine runs, and pages of which further nodes get copies: one policy per
//! file, one line each in [`MIGRATIONS`].
//!
//! A policy says which page goes where; what that costs is the same for all (docs/adr/0342, 0343): the kernel's work, an
//! interrupt for every processor concerned that runs something, so that it forgets the translation, and the page's lines
//! over the links, from the caches that alone have them or from memory. Who asks for the page meanwhile waits for its end.
//! Caches lose the lines of what has another address in memory then. Left out: pages that the kernel could not move
//! because it uses them itself, and another place in caches for the new address.

mod drain;
mod next_touch;
mod replicate;
mod tiering;

use super::node_set::NodeSet;
use super::pages::Pages;
use servsim_core::{CpuId, Cycles, NodeId};
use std::collections::VecDeque;
use std::fmt::Debug;

/// When pages move, and what that costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationSpec {
    /// By name.
    pub policy: String,
    /// Cycles between marks of pages, or between runs of who moves them in the background.
    pub interval: Cycles,
    /// Kernel work of a move that a processor waits for.
    pub work: Cycles,
    /// What an interrupt that makes a processor forget a translation takes from it.
    pub shootdown: Cycles,
    /// Pages moved in the background in one interval, at most.
    pub pages: usize,
    /// One of so many fetches is seen.
    pub sample_period: u64,
    /// Fetches seen from which on a page is hot.
    pub hot_threshold: u64,
    /// The node that is to be emptied, where one is.
    pub drained: Option<NodeId>,
}

/// What becomes of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It lies elsewhere.
    Moves,
    /// A further node has a copy of it.
    IsCopied,
    /// It is written, so that its copies are dropped.
    LosesCopies,
}

/// A page that moves, or whose copies come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageMove {
    /// What of these.
    pub change: Change,
    /// Its number.
    pub page: u64,
    /// Where it lay; of copies, where the page itself lies.
    pub from: NodeId,
    /// Where it lies from now on, or has a copy; where copies are dropped, as `from`.
    pub to: NodeId,
    /// The nodes whose processors reach it at another address from now on: their caches lose its lines.
    pub concerned: NodeSet,
    /// Since when.
    pub at: u64,
    /// The processor that waits for it; none in the background.
    pub by: Option<CpuId>,
}

servsim_core::counters! {
    /// What pages that moved did.
    pub struct MigrationCounters {
        pages: u64 = "nodes.migration.pages" [], "pages", Parts, [summary],
            "Pages that moved from one node to another";
        promoted: u64 = "nodes.migration.promoted" [], "pages", Parts, [summary],
            "Of these, from a node without processors to one with some";
        demoted: u64 = "nodes.migration.demoted" [], "pages", Parts, [summary],
            "Of these, from a node with processors to one without";
        cached_lines: u64 = "nodes.migration.cached_lines" [], "lines", Parts, [summary],
            "Copies of their lines that caches lost";
        dirty_lines: u64 = "nodes.migration.dirty_lines" [], "lines", Parts, [],
            "Lines of these pages that came from a cache because memory lacked them";
        cycles: u64 = "nodes.migration.cycles" [], "cycles", Parts, [summary],
            "Cycles from the beginnings of moves to their last lines in place";
        shootdowns: u64 = "nodes.migration.shootdowns" [], "interrupts", Parts, [summary],
            "Processors interrupted to forget the translation of a page that moved";
        shootdown_cycles: u64 = "nodes.migration.shootdown_cycles" [], "cycles", Parts, [summary],
            "Cycles that these interrupts took, which are part of the time in kernel mode";
        without_room: u64 = "nodes.migration.without_room" [], "pages", Parts, [summary],
            "Moves and copies wished for to nodes without room";
        copies: u64 = "nodes.migration.copies" [], "pages", Parts, [summary],
            "Copies of pages that further nodes got";
        copies_dropped: u64 = "nodes.migration.copies_dropped" [], "pages", Parts, [summary],
            "Of these, dropped because the page was written";
    }
}

/// A request for a line of a page, as a policy sees it.
#[derive(Debug, Clone, Copy)]
struct Touch {
    now: u64,
    page: u64,
    /// The node of the processor that asks.
    asker: NodeId,
    /// Where the page lies.
    home: NodeId,
    /// Whether it writes.
    write: bool,
}

/// What a policy wishes for a page before the request for it is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    MoveTo(NodeId),
    CopyTo(NodeId),
    DropCopies,
}

/// Decides which pages move.
trait Policy: Debug {
    /// A processor asks for a line: what should happen to its page first.
    fn touched(&mut self, touch: &Touch) -> Option<Wish>;

    /// Pages that should move at `now` though nobody waits for them, and where to, in this order.
    fn in_background(&mut self, now: u64, pages: &mut Pages) -> Vec<(u64, NodeId)> {
        let _ = (now, pages);
        Vec::new()
    }

    /// Whether it is told of lines that are written back, as of writes.
    fn sees_write_backs(&self) -> bool {
        false
    }
}

/// When a policy that works by intervals has its turn: at the first request after the end of each.
#[derive(Debug)]
struct Turns {
    interval: u64,
    next: u64,
}

impl Turns {
    fn every(interval: Cycles) -> Self {
        Self { interval: interval.0, next: interval.0 }
    }

    /// Whether it is due at `now`; then it is not again before the end of this interval.
    fn is_due(&mut self, now: u64) -> bool {
        let due = now >= self.next;
        if due {
            self.next = (now / self.interval + 1) * self.interval;
        }
        due
    }
}

/// What a policy is made for.
struct Made<'a> {
    spec: &'a MigrationSpec,
    /// By node, whether it has processors.
    has_processors: &'a [bool],
}

/// A registered policy: its name and what makes it.
type Entry = (&'static str, fn(&Made<'_>) -> Box<dyn Policy>);

/// Every policy by the name that descriptions use.
const MIGRATIONS: &[Entry] = &[
    ("drain", drain::policy),
    ("next-touch", next_touch::policy),
    ("replicate", replicate::policy),
    ("tiering", tiering::policy),
];

/// The names of the policies.
pub fn migration_names() -> impl Iterator<Item = &'static str> {
    MIGRATIONS.iter().map(|(name, _)| *name)
}

/// Pages on the move.
#[derive(Debug)]
pub(super) struct Migration {
    pub spec: MigrationSpec,
    policy: Box<dyn Policy>,
    has_processors: Vec<bool>,
    /// Moves decided and not yet carried out.
    pub decided: VecDeque<PageMove>,
    /// Pages whose lines are not all in place in a node, and when they are.
    under_way: Vec<(u64, NodeId, u64)>,
    pub counts: MigrationCounters,
}

impl Migration {
    /// No page moves yet; `of_processor` has the node of each processor.
    ///
    /// # Panics
    /// For a policy that is not registered: descriptions are checked before.
    pub fn new(spec: MigrationSpec, nodes: usize, of_processor: &[NodeId]) -> Self {
        let (_, policy) = MIGRATIONS
            .iter()
            .find(|(name, _)| *name == spec.policy)
            .unwrap_or_else(|| panic!("policy `{}` is not registered", spec.policy));
        let has_processors: Vec<bool> = NodeId::all(nodes).map(|node| of_processor.contains(&node)).collect();
        let policy = policy(&Made { spec: &spec, has_processors: &has_processors });
        let (decided, under_way) = (VecDeque::new(), Vec::new());
        Self { spec, policy, has_processors, decided, under_way, counts: MigrationCounters::default() }
    }

    /// Whether a request that nobody waits for is one that pages may move for.
    pub fn sees_write_backs(&self) -> bool {
        self.policy.sees_write_backs()
    }

    /// A processor of node `asker` is granted a request for a line of `page` at `now`, which `by` waits for, if anybody;
    /// what moves is decided.
    pub fn touched(
        &mut self,
        now: u64,
        page: u64,
        (asker, by): (NodeId, Option<CpuId>),
        write: bool,
        pages: &mut Pages,
    ) {
        for (page, to) in self.policy.in_background(now, pages) {
            self.decide_move(now, (page, to), None, pages);
        }
        let Some(home) = pages.home_of(page) else { return };
        match self.policy.touched(&Touch { now, page, asker, home, write }) {
            Some(Wish::MoveTo(to)) => self.decide_move(now, (page, to), by, pages),
            Some(Wish::CopyTo(to)) => self.decide_copy(now, (page, home, to), by, pages),
            Some(Wish::DropCopies) => self.drop_copies(now, (page, home), by, pages),
            None => {}
        }
    }

    /// A page moves, unless it is there, a rule of the placement file holds it, or there is no room. What empties a node
    /// takes such pages with it.
    fn decide_move(&mut self, at: u64, (page, to): (u64, NodeId), by: Option<CpuId>, pages: &mut Pages) {
        let stays = pages.is_planned(page) && self.spec.drained.is_none();
        if pages.home_of(page).is_none_or(|home| home == to) || stays || !self.has_room(to, pages) {
            return;
        }
        let from = pages.move_to(page, to);
        let concerned = NodeSet::first(self.has_processors.len());
        self.decided.push_back(PageMove { change: Change::Moves, page, from, to, concerned, at, by });
        self.counts.pages += 1;
        match (self.has_processors[from], self.has_processors[to]) {
            (false, true) => self.counts.promoted += 1,
            (true, false) => self.counts.demoted += 1,
            _ => {}
        }
    }

    /// A node gets a copy of a page that lies elsewhere, where there is room. One that a rule of the placement file holds
    /// stays where it is meanwhile.
    fn decide_copy(
        &mut self,
        at: u64,
        (page, from, to): (u64, NodeId, NodeId),
        by: Option<CpuId>,
        pages: &mut Pages,
    ) {
        if !self.has_room(to, pages) {
            return;
        }
        pages.copy_to(page, to);
        let (change, concerned) = (Change::IsCopied, NodeSet::of(to));
        self.decided.push_back(PageMove { change, page, from, to, concerned, at, by });
        self.counts.copies += 1;
    }

    /// All nodes reach a page where it lies again.
    fn drop_copies(&mut self, at: u64, (page, home): (u64, NodeId), by: Option<CpuId>, pages: &mut Pages) {
        let concerned = pages.drop_copies(page);
        if concerned.is_empty() {
            return;
        }
        let change = Change::LosesCopies;
        self.decided.push_back(PageMove { change, page, from: home, to: home, concerned, at, by });
        self.counts.copies_dropped += concerned.len() as u64;
    }

    fn has_room(&mut self, node: NodeId, pages: &Pages) -> bool {
        let has = pages.room(node) > 0;
        self.counts.without_room += u64::from(!has);
        has
    }

    /// The lines of a page are in place at `until`.
    pub fn ends(&mut self, moved: &PageMove, until: u64) {
        self.counts.cycles += until - moved.at;
        self.under_way.retain(|&(.., end)| end > moved.at);
        self.under_way.push((moved.page, moved.to, until));
    }

    /// When the lines of `page` are in place in `node`, if they are not at `now`.
    pub fn until(&self, page: u64, node: NodeId, now: u64) -> u64 {
        let here = |&&(moved, to, _): &&(u64, NodeId, u64)| (moved, to) == (page, node);
        self.under_way.iter().filter(here).map(|&(.., until)| until).fold(now, u64::max)
    }

    /// The nodes whose processors are told of a move.
    pub fn told(&self, moved: &PageMove) -> impl Iterator<Item = NodeId> + '_ {
        let concerned = moved.concerned;
        concerned.iter().filter(|&node| self.has_processors[node])
    }
}
