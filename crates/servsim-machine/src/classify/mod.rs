//! Which data miss, and why: a functional run with an observer that keeps every miss and every
//! coherence transaction by line, by task and by transaction.

mod document;
mod follow;
mod ledger;
mod watch;

pub use crate::names::Symbols;

use crate::builders::{hierarchy_of, open_machine};
use crate::error::{Proceed, SimulateError};
use crate::names::{DataNames, SharedData};
use crate::replay;
use crate::run_spec::RunSpec;
use crate::up_to::UpTo;
use crate::window::{Held, Window};
use document::Frame;
use follow::follow;
use ledger::Ledger;
use serde_json::Value;
use servsim_config::nearest;
use servsim_core::{GlobalSource, LineAddr};
use watch::Watch;

/// How the rows are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grouping {
    /// By area of memory: kernel text, shared memory, a process's heap.
    Area,
    /// By symbol of the kernel's static data; other data by area.
    Symbol,
    /// By relation of the database or structure of its shared memory; other data by area.
    Relation,
    /// By task.
    Task,
    /// By kind of transaction.
    Kind,
    /// By cache line.
    Line,
    /// By page.
    Page,
}

impl Grouping {
    /// Names, as on the command line.
    pub const NAMES: [(&'static str, Self); 8] = [
        ("area", Self::Area),
        ("structure", Self::Area),
        ("symbol", Self::Symbol),
        ("relation", Self::Relation),
        ("task", Self::Task),
        ("kind", Self::Kind),
        ("line", Self::Line),
        ("page", Self::Page),
    ];

    /// The grouping called `name`.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn named(name: &str) -> Result<Self, SimulateError> {
        named(&Self::NAMES, "--by", name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, grouping)| *grouping == self).map_or("", |(name, _)| name)
    }
}

/// What the rows are sorted by: a class of misses and transactions, or all.
pub const ORDERS: [(&str, Order); 8] = [
    ("total", Order::Total),
    ("cold", Order::Miss(0)),
    ("capacity", Order::Miss(1)),
    ("conflict", Order::Miss(2)),
    ("true", Order::Both(3, 1)),
    ("false", Order::Both(4, 2)),
    ("passive", Order::Both(5, 3)),
    ("needless", Order::Transaction(0)),
];

/// An order of rows; the numbers are those of the classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Misses and coherence transactions together.
    Total,
    /// Misses of a class.
    Miss(usize),
    /// Coherence transactions of a class.
    Transaction(usize),
    /// Misses of one class and transactions of another.
    Both(usize, usize),
}

/// What is asked.
#[derive(Debug)]
pub struct Question {
    /// Grouping of the rows; the best that the trace allows without it.
    pub by: Option<Grouping>,
    /// Order of the rows.
    pub order: Order,
    /// Most rows.
    pub top: usize,
    /// Address whose line is watched instead.
    pub watch: Option<u64>,
    /// Symbols of the kernel.
    pub symbols: Option<Symbols>,
}

/// The entry of `table` called `name`.
///
/// # Errors
/// When there is none, with the nearest name.
pub fn named<T: Copy>(table: &[(&'static str, T)], what: &str, name: &str) -> Result<T, SimulateError> {
    if let Some((_, value)) = table.iter().find(|(known, _)| *known == name) {
        return Ok(*value);
    }
    let names: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
    let hint =
        nearest(name, names.iter().copied()).map_or(String::new(), |n| format!(" (did you mean `{n}`?)"));
    let message = format!("{what}: unknown `{name}`{hint}; accepted are {}", names.join(", "));
    Err(SimulateError::Usage(message))
}

/// Answers `question` about the trace and machine of `request`; schema `servsim.classify/1`.
///
/// # Errors
/// For wrong input, an interruption, or an internal fault.
pub fn classify(
    request: &RunSpec,
    question: &Question,
    proceed: &mut Proceed<'_>,
) -> Result<Value, SimulateError> {
    let (machine, setup, mut source) = open_machine(request)?;
    let symbols = match (&question.symbols, source.kernel_symbols()) {
        (Some(given), _) => Some(given.clone()),
        (None, Some(text)) => {
            Some(Symbols::parse(text, "symbols of the trace").map_err(SimulateError::Usage)?)
        }
        (None, None) => None,
    };
    let spec = hierarchy_of(&machine, request.seed)?;
    let by = grouping(question.by, source.as_ref(), symbols.is_some())?;
    let symbols = symbols.unwrap_or_default();
    let shared = source.shared_data().map_or(Ok(SharedData::default()), SharedData::parse);
    let shared = shared.map_err(SimulateError::Usage)?;
    let names = DataNames { symbols, shared };
    let (line, per_processor) = (setup.geometry.line, spec.coherent_caches());
    let held = Held::of(&source.transaction_ends());
    let frame = Frame { request, names, machine: machine.resolved(), line, per_processor };
    if let Some(address) = question.watch {
        let watch = Watch::new(LineAddr(address / setup.geometry.line), &setup.protocol);
        let source = source.as_mut();
        let (watch, _) = replay::guarded(&setup, || follow(source, &setup, &spec, 0, watch, proceed))??;
        return Ok(frame.watched(address, source.tasks(), &watch));
    }
    let window = Window::of(request.transactions, request.warmup, held, 0)?;
    if let Some(number) = window.transactions {
        source = Box::new(UpTo::new(source, window.warmup + number));
    }
    let source = source.as_mut();
    let ledger = Ledger::new(source.tasks(), setup.geometry.line);
    let followed =
        replay::guarded(&setup, || follow(source, &setup, &spec, window.warmup, ledger, proceed))??;
    Ok(frame.classified(question, by, source, window, &followed))
}

/// Checks the grouping against what the trace knows.
fn grouping(
    by: Option<Grouping>,
    source: &dyn GlobalSource,
    has_symbols: bool,
) -> Result<Grouping, SimulateError> {
    let fault = |text: &str| Err(SimulateError::Usage(text.into()));
    match by {
        None if source.knows_places() => Ok(Grouping::Area),
        None => Ok(Grouping::Line),
        Some(Grouping::Relation) if source.shared_data().is_none() => fault(
            "--by relation: the trace does not say which relation lies in which buffer of the database; capture \
             it again with this version, or see `--by area` for shared memory and the rest, `--by page` for pages",
        ),
        Some(Grouping::Area | Grouping::Symbol) if !source.knows_places() => fault(
            "--by area, symbol: only captured traces tell what lies at an address; \
             group this one by line, page, task or kind",
        ),
        Some(Grouping::Symbol) if !has_symbols => fault(
            "--by symbol: the trace has no symbols; give the guest kernel's symbol table, as in \
             /proc/kallsyms or System.map, with --symbols FILE",
        ),
        Some(by) => Ok(by),
    }
}
