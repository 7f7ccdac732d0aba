//! The answer as JSON, schema `servsim.classify/1`.

use super::follow::Totals;
use super::ledger::{Ledger, LineTally, Tally};
use super::watch::{Step, Watch};
use super::{Grouping, Order, Question};
use crate::json::by_mode;
use crate::names::{place_of, DataNames};
use crate::run_spec::RunSpec;
use crate::warnings::{of_machine::began_empty, Warning};
use crate::window::Window;
use serde_json::{json, Map, Value};
use servsim_core::{CacheId, GlobalSource, PageOrigin, TaskInfo, PAGE_SHIFT};
use servsim_mem::{CoherenceClass, Counters, MissClass, SwitchCause};
use std::collections::{BTreeMap, BTreeSet};

/// What every answer says first.
pub struct Frame<'a> {
    /// What was asked for.
    pub request: &'a RunSpec,
    /// The resolved machine.
    pub machine: Value,
    /// What is known of data.
    pub names: DataNames,
    /// Bytes per line.
    pub line: u64,
    /// Coherent caches of a processor.
    pub per_processor: usize,
}

/// A group being made.
#[derive(Default)]
struct Group {
    name: String,
    tally: Tally,
    /// Address of the first byte, for lines and pages.
    address: Option<u64>,
    place: Option<PageOrigin>,
    symbol: Option<String>,
    words: Vec<(u16, u32)>,
}

impl Group {
    fn weight(&self, order: Order) -> u64 {
        let miss = |class: usize| self.tally.misses[0][class] + self.tally.misses[1][class];
        let transaction = |class: usize| self.tally.coherence[0][class] + self.tally.coherence[1][class];
        match order {
            Order::Total => (0..6).map(miss).sum::<u64>() + (0..4).map(transaction).sum::<u64>(),
            Order::Miss(class) => miss(class),
            Order::Transaction(class) => transaction(class),
            Order::Both(a, b) => miss(a) + transaction(b),
        }
    }

    fn to_json(&self, tasks: &[TaskInfo]) -> Value {
        let mut object = Map::new();
        object.insert("name".into(), json!(self.name));
        if let Some(address) = self.address {
            object.insert("address".into(), json!(format!("{address:#x}")));
        }
        if let Some(place) = self.place {
            object.insert("area".into(), json!(place.area));
            object.insert("virtual_address".into(), json!(format!("{:#x}", place.address)));
        }
        if let Some(symbol) = &self.symbol {
            object.insert("symbol".into(), json!(symbol));
        }
        object.insert("misses".into(), by_mode(&MissClass::NAMES, &self.tally.misses, true));
        object.insert("coherence".into(), by_mode(&CoherenceClass::NAMES, &self.tally.coherence, true));
        object.insert("removed".into(), json!(self.tally.removed));
        if !self.words.is_empty() {
            let mut words: BTreeMap<u16, BTreeSet<u32>> = BTreeMap::new();
            for &(offset, task) in &self.words {
                words.entry(offset).or_default().insert(task);
            }
            let names = |set: &BTreeSet<u32>| set.iter().map(|&t| task_name(tasks, t)).collect::<Vec<_>>();
            let word = |(offset, set): (&u16, &BTreeSet<u32>)| json!({"offset": offset, "tasks": names(set)});
            object.insert("words".into(), words.iter().map(word).collect());
        }
        Value::Object(object)
    }
}

fn task_name(tasks: &[TaskInfo], task: u32) -> String {
    let info = &tasks[task as usize];
    if info.name == info.pid.to_string() {
        info.name.clone()
    } else {
        format!("{} {}", info.name, info.pid)
    }
}

impl Frame<'_> {
    fn document(&self) -> Map<String, Value> {
        let trace = self.request.trace.file_name().map(|n| n.to_string_lossy().into_owned());
        let mut object = Map::new();
        object.insert("schema".into(), json!("servsim.classify/1"));
        object.insert("engine".into(), json!("functional"));
        object.insert("machine".into(), self.machine.clone());
        object.insert("trace".into(), json!({"name": trace, "hash": self.request.trace_hash}));
        object.insert("line_bytes".into(), json!(self.line));
        object
    }

    /// The tables of misses and transactions.
    pub fn classified(
        &self,
        question: &Question,
        by: Grouping,
        source: &dyn GlobalSource,
        window: Window,
        (ledger, totals): &(Ledger, Totals),
    ) -> Value {
        let mut groups = self.groups(by, source, ledger);
        groups.retain(|group| group.weight(question.order) > 0);
        groups.sort_by_key(|group| (std::cmp::Reverse(group.weight(question.order)), group.address));
        let shown = groups.len().min(question.top);
        let mut rest = Tally::default();
        for group in &groups[shown..] {
            rest.add(&group.tally);
        }
        let mut object = self.document();
        object.insert("window".into(), window.to_json());
        object.insert("total".into(), total_json(&totals.caches));
        object.insert("by".into(), json!(by.name()));
        let rows = groups[..shown].iter().map(|group| group.to_json(source.tasks()));
        object.insert("rows".into(), rows.collect());
        let rest = Group { name: "others".into(), tally: rest, ..Group::default() };
        object.insert("left_out".into(), json!({"rows": groups.len() - shown, "sum": rest.to_json(&[])}));
        let warnings = began_empty(&totals.levels, "classify later transactions of a longer trace");
        object.insert("warnings".into(), warnings.iter().map(Warning::to_json).collect());
        Value::Object(object)
    }

    fn groups(&self, by: Grouping, source: &dyn GlobalSource, ledger: &Ledger) -> Vec<Group> {
        match by {
            Grouping::Task => {
                let named = |(task, tally): (usize, &Tally)| Group {
                    name: task_name(source.tasks(), task as u32),
                    tally: *tally,
                    ..Group::default()
                };
                ledger.tasks.iter().enumerate().map(named).collect()
            }
            Grouping::Kind => {
                let names = source.transaction_kinds();
                let name = |kind: Option<u32>| match kind {
                    None => "outside transactions".into(),
                    Some(kind) => names.get(kind as usize).cloned().unwrap_or(format!("kind {kind}")),
                };
                let kinds = ledger.by_kind().into_iter();
                kinds.map(|(kind, tally)| Group { name: name(kind), tally, ..Group::default() }).collect()
            }
            _ => self.by_data(by, source, ledger),
        }
    }

    fn by_data(&self, by: Grouping, source: &dyn GlobalSource, ledger: &Ledger) -> Vec<Group> {
        let mut groups: BTreeMap<(String, u64), Group> = BTreeMap::new();
        for (&line, LineTally { tally, words }) in &ledger.lines {
            let address = line.0 * self.line;
            let place = place_of(source, address);
            let symbol = place.and_then(|place| self.names.symbol(place, self.line));
            let area = place.map_or("unknown", |place| place.area);
            let (name, first) = match by {
                Grouping::Line => (format!("{address:#x}"), Some(address)),
                Grouping::Page => {
                    let page = address >> PAGE_SHIFT << PAGE_SHIFT;
                    (format!("{page:#x}"), Some(page))
                }
                Grouping::Relation => {
                    let name = place.and_then(|place| self.names.shared.at(place, source.tasks()));
                    (name.map_or_else(|| format!("({area})"), str::to_owned), None)
                }
                Grouping::Symbol => (symbol.clone().unwrap_or_else(|| format!("({area})")), None),
                _ => (area.to_owned(), None),
            };
            let group = groups.entry((name.clone(), first.unwrap_or(0))).or_default();
            group.name = name;
            group.tally.add(tally);
            if first.is_some() {
                group.address = first;
                group.place = place.map(|place| PageOrigin {
                    address: place.address - (address - first.unwrap_or(address)),
                    ..place
                });
            }
            if by == Grouping::Line {
                let shared = place.and_then(|place| self.names.shared.at(place, source.tasks()));
                group.symbol = symbol.or_else(|| shared.map(str::to_owned));
                group.words.clone_from(words);
            }
        }
        groups.into_values().collect()
    }

    /// The steps of one line.
    pub fn watched(&self, address: u64, tasks: &[TaskInfo], watch: &Watch) -> Value {
        let mut object = self.document();
        let line = address / self.line * self.line;
        let json = |step: &Step| {
            let op = if step.by.write { "store" } else { ["fetch", "load", "store"][step.by.slot.min(2)] };
            let mut row = json!({
                "reference": step.reference,
                "cpu": step.cache.0 / self.per_processor,
                "by_cpu": step.by.cache.0 / self.per_processor,
                "task": task_name(tasks, step.by.task),
                "mode": if step.by.kernel { "kernel" } else { "user" },
                "op": op,
                "from": step.change.map(|c| c.from),
                "event": step.change.map(|c| c.event),
                "transaction": step.change.and_then(|c| c.transaction),
                "to": step.change.map(|c| c.to),
                "class": step.class,
            });
            if self.per_processor > 1 {
                // Both halves of a split first level are coherent: which of the two.
                let half = |cache: CacheId| ["instruction", "data"][cache.0 % self.per_processor];
                row["cache"] = half(step.cache).into();
                row["by_cache"] = half(step.by.cache).into();
            }
            row
        };
        object.insert(
            "watch".into(),
            json!({
                "address": format!("{address:#x}"),
                "line": format!("{line:#x}"),
                "steps": watch.steps.iter().map(json).collect::<Vec<_>>(),
                "left_out": watch.left_out,
            }),
        );
        Value::Object(object)
    }
}

fn total_json(total: &Counters) -> Value {
    json!({
        "references": by_mode(&["fetch", "load", "store"], &total.references, true),
        "misses": by_mode(&MissClass::NAMES, &total.misses, true),
        "misses_by_owner": by_mode(&MissClass::NAMES, &total.misses_by_owner, true),
        "coherence": by_mode(&CoherenceClass::NAMES, &total.coherence, true),
        "coherence_by_owner": by_mode(&CoherenceClass::NAMES, &total.coherence_by_owner, true),
        "context_switch_misses": by_mode(&SwitchCause::NAMES, &total.context_switch, true),
        "removed": by_mode(&["copies", "misses"], &total.removed, false),
        "true_by_self": {"user": total.true_by_self[0][0], "kernel": total.true_by_self[1][0]},
    })
}
