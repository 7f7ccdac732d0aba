//! The form of a coherence protocol: one table of state x event -> actions, next state.
//!
//! The engines execute it, the model checker explores it and the documentation prints it, so the
//! three cannot disagree. A cell that cannot be reached is `Impossible` and meeting it is an
//! internal error. Actions happen atomically at the grant of the bus (its address phase), which is
//! the point of serialisation.
//!
//! Over 400 lines: the vocabulary of all protocols in one place, half of it their printed form.

// The printed tables are a few hundred bytes.
#![allow(clippy::format_push_string)]

use std::fmt;

/// Index of a state in its table; 0 is always Invalid.
pub type State = u8;

/// The state of a copy that holds nothing.
pub const INVALID: State = 0;

/// Most states that a protocol may have (Invalid included).
pub const MAX_STATES: usize = 16;

/// A bus transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BusOp {
    /// Fetch a block to read it.
    Read,
    /// Fetch a block and invalidate every other copy.
    ReadExclusive,
    /// Invalidate every other copy.
    Invalidate,
    /// Send one word to every other copy.
    Write,
    /// Write a dirty block back (Foglia et al. 2004 call it update-block).
    WriteBack,
}

impl BusOp {
    /// Every transaction, in the order of the counters.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::ReadExclusive, Self::Invalidate, Self::Write, Self::WriteBack];

    /// Their names in results.
    pub const NAMES: [&'static str; 5] = [
        Self::ALL[0].name(),
        Self::ALL[1].name(),
        Self::ALL[2].name(),
        Self::ALL[3].name(),
        Self::ALL[4].name(),
    ];

    /// The name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadExclusive => "read_exclusive",
            Self::Invalidate => "invalidate",
            Self::Write => "write",
            Self::WriteBack => "write_back",
        }
    }

    /// The name used in the printed tables.
    pub fn short(self) -> &'static str {
        match self {
            Self::Read => "BusRd",
            Self::ReadExclusive => "BusRdX",
            Self::Invalidate => "BusInv",
            Self::Write => "BusWr",
            Self::WriteBack => "BusWB",
        }
    }

    /// Transactions that bring a block.
    pub const FETCHES: [Self; 2] = [Self::Read, Self::ReadExclusive];

    /// Whether the transaction brings a block.
    #[inline]
    pub fn is_fetch(self) -> bool {
        Self::FETCHES.contains(&self)
    }
}

/// Response lines of the bus, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Lines(pub u8);

impl Lines {
    /// No line raised.
    pub const NONE: Self = Self(0);
    /// SHD: another valid copy remains.
    pub const SHARED: Self = Self(1);
    /// DIRTY: a dirty owner supplies the block.
    pub const DIRTY: Self = Self(2);
    /// MIG: the block migrates.
    pub const MIGRATORY: Self = Self(4);
    /// EVD: the block was handed over once, which is evidence that it migrates.
    pub const EVIDENCE: Self = Self(8);

    /// The union of two sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether every line of `other` is raised.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::SHARED, "SHD"),
            (Self::DIRTY, "DIRTY"),
            (Self::MIGRATORY, "MIG"),
            (Self::EVIDENCE, "EVD"),
        ];
        let raised: Vec<_> = names.iter().filter(|(l, _)| self.has(*l)).map(|(_, n)| *n).collect();
        f.write_str(&raised.join(","))
    }
}

/// What a state allows and owes; the model checker holds the protocol to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StateInfo {
    /// Name, as printed.
    pub name: &'static str,
    /// No other valid copy exists.
    pub exclusive: bool,
    /// No other copy in a state with this mark exists.
    pub single: bool,
    /// This copy must be written back: memory may be out of date.
    pub dirty: bool,
}

/// A next state that depends on the response lines and the requester's P bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Lines that must be raised.
    pub lines: Lines,
    /// Required value of the P bit, if it matters.
    pub private: Option<bool>,
    /// The next state.
    pub next: State,
}

/// Reaction to an access by the own processor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnAccess {
    /// No bus transaction; next state.
    Local(State),
    /// A bus transaction, then the first branch that applies.
    Bus {
        /// The transaction.
        op: BusOp,
        /// Branches in order; the last applies always.
        branches: Vec<Branch>,
        /// Whether the access is then applied again in the new state.
        again: bool,
    },
}

/// Reaction to the eviction of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnEvict {
    /// Cannot occur.
    Impossible,
    /// The copy is dropped without a transaction.
    Silent,
    /// The block is written back.
    WriteBack,
}

/// A transaction of another cache, as a column of the snoop table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Snoop {
    /// `BusRd` for a shared page (P = 0).
    Read = 0,
    /// `BusRd` for a private page (P = 1).
    ReadPrivate = 1,
    /// `BusRdX`.
    ReadExclusive = 2,
    /// `BusInv`.
    Invalidate = 3,
    /// `BusWr`.
    Write = 4,
}

impl Snoop {
    /// Every column in order.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::ReadPrivate, Self::ReadExclusive, Self::Invalidate, Self::Write];

    /// The column that `op` of a requester with P bit `private` meets.
    ///
    /// # Panics
    /// For a write-back, which nobody snoops.
    #[inline]
    pub fn of(op: BusOp, private: bool) -> Self {
        match (op, private) {
            (BusOp::Read, false) => Self::Read,
            (BusOp::Read, true) => Self::ReadPrivate,
            (BusOp::ReadExclusive, _) => Self::ReadExclusive,
            (BusOp::Invalidate, _) => Self::Invalidate,
            (BusOp::Write, _) => Self::Write,
            (BusOp::WriteBack, _) => panic!("a write-back is not snooped"),
        }
    }

    /// Heading of the column.
    pub fn heading(self) -> &'static str {
        ["BusRd", "BusRd (P)", "BusRdX", "BusInv", "BusWr"][self as usize]
    }
}

/// Reaction to a transaction of another cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnSnoop {
    /// Cannot occur.
    Impossible,
    /// Lines raised, data moved, next state.
    Act {
        /// Lines raised.
        raise: Lines,
        /// Whether this cache supplies the block.
        supply: bool,
        /// Whether memory takes the block at the same time.
        memory: bool,
        /// Whether this copy takes the written word.
        update: bool,
        /// Next state.
        next: State,
    },
}

impl OnSnoop {
    /// A plain transition to `next`.
    pub const fn to(next: State) -> Self {
        Self::Act { raise: Lines::NONE, supply: false, memory: false, update: false, next }
    }

    /// The same, raising `lines`.
    #[must_use]
    pub const fn raising(self, lines: Lines) -> Self {
        match self {
            Self::Act { supply, memory, update, next, raise } => {
                Self::Act { raise: raise.and(lines), supply, memory, update, next }
            }
            Self::Impossible => self,
        }
    }

    /// The same, supplying the block if `yes`.
    #[must_use]
    pub const fn supplying(self, yes: bool) -> Self {
        match self {
            Self::Act { raise, memory, update, next, .. } => {
                Self::Act { raise, supply: yes, memory, update, next }
            }
            Self::Impossible => self,
        }
    }

    /// The same, memory taking the block if `yes`.
    #[must_use]
    pub const fn into_memory(self, yes: bool) -> Self {
        match self {
            Self::Act { raise, supply, update, next, .. } => {
                Self::Act { raise, supply, memory: yes, update, next }
            }
            Self::Impossible => self,
        }
    }

    /// The same, taking the written word.
    #[must_use]
    pub const fn updating(self) -> Self {
        match self {
            Self::Act { raise, supply, memory, next, .. } => {
                Self::Act { raise, supply, memory, update: true, next }
            }
            Self::Impossible => self,
        }
    }
}

/// One state's reactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The state.
    pub info: StateInfo,
    /// Load or fetch by the own processor.
    pub read: OnAccess,
    /// Store by the own processor.
    pub write: OnAccess,
    /// Eviction.
    pub evict: OnEvict,
    /// Transactions of others, in the order of [`Snoop::ALL`].
    pub snoop: [OnSnoop; 5],
}

/// Rules around a table that change no cell of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// A task that leaves a processor takes its private copies with it: they are written back if
    /// dirty and dropped.
    pub flush_private: bool,
    /// True sharing is told from false by the missing words alone (Torrellas, Lam & Hennessy,
    /// IEEE TC 43(6) 1994), not by all words used until the copy is lost.
    pub judge_at_miss: bool,
}

/// A protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Name in descriptions.
    pub name: &'static str,
    /// Title and source.
    pub title: &'static str,
    /// One row per state; row 0 is Invalid.
    pub rows: Vec<Row>,
    /// Whether P reaches the bus.
    pub uses_private: bool,
    /// Whether a miss on a copy that a remote *fetch* removed counts as an invalidation miss
    /// (AMSD) or as any other miss (PSCR); see decision D33.
    pub removal_is_invalidation: bool,
    /// Whether memory takes the word of every `BusWr`, sharers or not.
    pub words_to_memory: bool,
    /// What else the memory system is to do.
    pub rules: Rules,
}

/// Branches of a transaction: `when(SHD, S)`, ..., `otherwise(E)`.
pub const fn when(lines: Lines, next: State) -> Branch {
    Branch { lines, private: None, next }
}

/// The branch that always applies.
pub const fn otherwise(next: State) -> Branch {
    when(Lines::NONE, next)
}

/// A transaction with its branches.
pub fn bus(op: BusOp, branches: &[Branch]) -> OnAccess {
    OnAccess::Bus { op, branches: branches.to_vec(), again: false }
}

impl Table {
    /// The next state after a transaction answered with `lines` for a requester with P bit
    /// `private`.
    pub fn resolve(branches: &[Branch], lines: Lines, private: bool) -> State {
        branches
            .iter()
            .find(|b| lines.has(b.lines) && b.private.is_none_or(|p| p == private))
            .map_or(INVALID, |b| b.next)
    }

    /// Whether a load or fetch that hits never changes a state.
    pub fn reads_quietly(&self) -> bool {
        self.rows.iter().enumerate().skip(1).all(|(state, row)| row.read == OnAccess::Local(state as State))
    }

    /// Whether no fetch by another cache for reading takes a copy away.
    pub fn reads_keep_copies(&self) -> bool {
        let kept = |cell: OnSnoop| !matches!(cell, OnSnoop::Act { next: INVALID, .. });
        let columns = [Snoop::Read as usize, Snoop::ReadPrivate as usize];
        self.rows.iter().skip(1).all(|row| columns.iter().all(|&column| kept(row.snoop[column])))
    }

    /// Whether the state after a store lets the next one pass without a transaction or a change.
    pub fn writes_repeat_quietly(&self) -> bool {
        let quiet = |state: State| self.rows[usize::from(state)].write == OnAccess::Local(state);
        self.rows.iter().all(|row| match &row.write {
            OnAccess::Local(next) => quiet(*next),
            OnAccess::Bus { again: true, .. } => true,
            OnAccess::Bus { branches, .. } => branches.iter().all(|branch| quiet(branch.next)),
        })
    }

    /// Name of a state.
    pub fn state_name(&self, state: State) -> &'static str {
        self.rows[usize::from(state)].info.name
    }

    /// The table as Markdown, generated from the object that the engines execute.
    pub fn to_markdown(&self) -> String {
        let columns: Vec<Snoop> =
            Snoop::ALL.into_iter().filter(|&column| self.column_is_used(column)).collect();
        let mut text = format!("**{}**\n\n| State | PrRd | PrWr | Evict |", self.title);
        for column in &columns {
            text += &format!(" {} |", column.heading());
        }
        text += &format!("\n|{}\n", "---|".repeat(4 + columns.len()));
        for (index, row) in self.rows.iter().enumerate() {
            text += &format!("| {} |", row.info.name);
            text += &format!(" {} |", self.access_text(index as State, &row.read));
            text += &format!(" {} |", self.access_text(index as State, &row.write));
            text += match row.evict {
                OnEvict::Impossible => " - |",
                OnEvict::Silent => " silent ->I |",
                OnEvict::WriteBack => " BusWB ->I |",
            };
            for &column in &columns {
                text += &format!(" {} |", self.snoop_text(row.snoop[column as usize]));
            }
            text.push('\n');
        }
        text
    }

    fn column_is_used(&self, column: Snoop) -> bool {
        let issued = |op: BusOp| {
            self.rows.iter().any(|row| {
                [&row.read, &row.write].iter().any(|a| matches!(a, OnAccess::Bus { op: o, .. } if *o == op))
            })
        };
        match column {
            Snoop::Read => issued(BusOp::Read),
            Snoop::ReadPrivate => self.uses_private,
            Snoop::ReadExclusive => issued(BusOp::ReadExclusive),
            Snoop::Invalidate => issued(BusOp::Invalidate),
            Snoop::Write => issued(BusOp::Write),
        }
    }

    fn access_text(&self, state: State, access: &OnAccess) -> String {
        match access {
            OnAccess::Local(next) if *next == state => "hit".into(),
            OnAccess::Local(next) => format!("silent ->{}", self.state_name(*next)),
            OnAccess::Bus { op, branches, again } => {
                let word = if *op == BusOp::Write && self.words_to_memory { "; mem:=word" } else { "" };
                let mut text = format!("{}{word} /", op.short());
                for branch in branches {
                    let p = match branch.private {
                        Some(true) => "P",
                        Some(false) => "not P",
                        None => "",
                    };
                    let lines = branch.lines.to_string();
                    let glue = if p.is_empty() || lines.is_empty() { "" } else { "," };
                    let question = if p.is_empty() && lines.is_empty() { "" } else { "?" };
                    text += &format!(" {p}{glue}{lines}{question}->{}", self.state_name(branch.next));
                }
                text + if *again { ", then PrWr there" } else { "" }
            }
        }
    }

    fn snoop_text(&self, cell: OnSnoop) -> String {
        let OnSnoop::Act { raise, supply, memory, update, next } = cell else {
            return "-".into();
        };
        let mut parts = Vec::new();
        if raise != Lines::NONE {
            parts.push(raise.to_string());
        }
        for (on, word) in [(supply, "supply"), (memory, "mem:=data"), (update, "update")] {
            if on {
                parts.push(word.into());
            }
        }
        format!("{} ->{}", parts.join("; "), self.state_name(next)).trim_start().to_owned()
    }
}
