//! Misses and coherence transactions, kept by line, by task and by transaction.

use super::follow::ReferenceObserver;
use servsim_core::{CacheId, LineAddr, Record, TaskInfo, TaskKind};
use servsim_mem::protocol::BusOp;
use servsim_mem::{By, CoherenceClass, MissClass, Observer};
use std::collections::HashMap;

/// Most words of a line that are told apart.
const MOST_WORDS: usize = 64;

/// Counts of one group, the first index being the mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Misses by class.
    pub misses: [[u64; 6]; 2],
    /// Coherence transactions by class.
    pub coherence: [[u64; 4]; 2],
    /// Copies of these data removed by remote fetches.
    pub removed: u64,
}

impl Tally {
    /// Adds another group.
    pub fn add(&mut self, other: &Self) {
        for mode in 0..2 {
            for (a, b) in self.misses[mode].iter_mut().zip(other.misses[mode]) {
                *a += b;
            }
            for (a, b) in self.coherence[mode].iter_mut().zip(other.coherence[mode]) {
                *a += b;
            }
        }
        self.removed += other.removed;
    }

    fn count(&mut self, kernel: bool, what: What) {
        match what {
            What::Miss(class) => self.misses[usize::from(kernel)][class as usize] += 1,
            What::Transaction(class) => self.coherence[usize::from(kernel)][class as usize] += 1,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    Miss(MissClass),
    Transaction(CoherenceClass),
}

/// What is kept of a line.
#[derive(Debug, Clone, Default)]
pub struct LineTally {
    /// Its counts.
    pub tally: Tally,
    /// Words at which tasks missed or asked others to give up their copies: offset in bytes, task.
    pub words: Vec<(u16, u32)>,
}

/// Who made a reference.
#[derive(Debug, Clone, Copy)]
struct Maker {
    task: u32,
    /// Number of the task's transaction under way.
    transaction: u32,
    kernel: bool,
    offset: u16,
}

/// The observer.
#[derive(Debug)]
pub struct Ledger {
    line_bytes: u64,
    address: u64,
    servers: HashMap<u32, u32>,
    under_way: Vec<u32>,
    pending: HashMap<(CacheId, LineAddr), Maker>,
    kinds: HashMap<(u32, u32), u32>,
    by_transaction: HashMap<(u32, u32), Tally>,
    /// By line.
    pub lines: HashMap<LineAddr, LineTally>,
    /// By task.
    pub tasks: Vec<Tally>,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(tasks: &[TaskInfo], line_bytes: u64) -> Self {
        let users = tasks.iter().enumerate().filter(|(_, t)| t.kind == TaskKind::User);
        Self {
            line_bytes,
            address: 0,
            servers: users.map(|(index, task)| (task.pid, index as u32)).collect(),
            under_way: vec![0; tasks.len()],
            pending: HashMap::new(),
            kinds: HashMap::new(),
            by_transaction: HashMap::new(),
            lines: HashMap::new(),
            tasks: vec![Tally::default(); tasks.len()],
        }
    }

    fn maker(&self, by: &By) -> Maker {
        // The part of a reference that begins in an earlier line begins at the line's first byte.
        let offset = self.address.max(by.line.0 * self.line_bytes) % self.line_bytes;
        let transaction = self.under_way[by.task as usize];
        Maker { task: by.task, transaction, kernel: by.kernel, offset: offset as u16 }
    }

    fn count(&mut self, line: LineAddr, maker: Maker, what: What) {
        let entry = self.lines.entry(line).or_default();
        entry.tally.count(maker.kernel, what);
        let shared = match what {
            What::Miss(class) => class as usize >= MissClass::TrueSharing as usize,
            What::Transaction(_) => true,
        };
        let word = (maker.offset & !3, maker.task);
        if shared && entry.words.len() < MOST_WORDS && !entry.words.contains(&word) {
            entry.words.push(word);
        }
        self.tasks[maker.task as usize].count(maker.kernel, what);
        let transaction = (maker.task, maker.transaction);
        self.by_transaction.entry(transaction).or_default().count(maker.kernel, what);
    }

    /// Counts by kind of transaction; `None` for what belongs to no transaction that ended.
    pub fn by_kind(&self) -> HashMap<Option<u32>, Tally> {
        let mut kinds: HashMap<Option<u32>, Tally> = HashMap::new();
        for (transaction, tally) in &self.by_transaction {
            kinds.entry(self.kinds.get(transaction).copied()).or_default().add(tally);
        }
        kinds
    }
}

impl ReferenceObserver for Ledger {
    fn reference(&mut self, _: u64, record: &Record) {
        self.address = record.address;
    }

    fn transaction_end(&mut self, task: u32, kind: u32, user: u32) {
        let task = if user == 0 { Some(task) } else { self.servers.get(&user).copied() };
        if let Some(task) = task {
            let number = &mut self.under_way[task as usize];
            self.kinds.insert((task, *number), kind);
            *number += 1;
        }
    }

    fn begin(&mut self) {
        self.pending.clear();
        self.kinds.clear();
        self.by_transaction.clear();
        self.lines.clear();
        self.tasks.fill(Tally::default());
    }
}

impl Observer for Ledger {
    fn miss(&mut self, by: &By, class: Option<MissClass>) {
        let maker = self.maker(by);
        match class {
            Some(class) => self.count(by.line, maker, What::Miss(class)),
            None => {
                self.pending.insert((by.cache, by.line), maker);
            }
        }
    }

    fn judged(&mut self, cache: CacheId, line: LineAddr, class: MissClass) {
        if let Some(maker) = self.pending.remove(&(cache, line)) {
            self.count(line, maker, What::Miss(class));
        }
    }

    fn coherence(&mut self, by: &By, _: BusOp, class: CoherenceClass) {
        let maker = self.maker(by);
        self.count(by.line, maker, What::Transaction(class));
    }

    fn removal(&mut self, by: &By, _: CacheId) {
        self.lines.entry(by.line).or_default().tally.removed += 1;
        self.tasks[by.task as usize].removed += 1;
        let transaction = (by.task, self.under_way[by.task as usize]);
        self.by_transaction.entry(transaction).or_default().removed += 1;
    }
}
