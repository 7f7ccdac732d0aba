//! Placement files: where pages lie and where tasks run on a machine with nodes, in TOML.
//!
//! A rule names pages by what lies on them (structure, relation or allocation site; symbol; area), by a range of
//! addresses, or by a process, and says which nodes take them and how. What the names mean is up to whoever has a
//! trace or a program; here they are only read. Of two rules for one page the narrower kind wins ([`Rank`]).
//!
//! Nodes count from 1, as in descriptions; processors from 0, as in results.

use crate::read::{line_at, Faults};
use crate::setting::Kind;
use crate::settings::setting_named;
use crate::tables::{address, parse, words, Tables};
use servsim_units::nearest::suggestion;
use toml_edit::{Item, TableLike};

/// What a placement file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlacementFile {
    /// The rule of pages that no other names; that of the machine without it.
    pub rest: Option<PageRule>,
    /// Rules in the order of the file.
    pub pages: Vec<(Selector, PageRule)>,
    /// The order in which tasks are dealt to nodes; that of the machine without it.
    pub threads: Option<String>,
    /// Tasks with a place of their own.
    pub bound: Vec<BoundTask>,
}

/// Where pages lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRule {
    /// Registered policy.
    pub policy: String,
    /// Pages that lie in one node before the next is taken.
    pub stride: u64,
    /// The nodes, from 0; all of them if empty.
    pub nodes: Vec<usize>,
}

/// Which pages a rule is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    /// By what lies there.
    pub name: Option<(NameKind, String)>,
    /// By the process that reaches them first: its name or number.
    pub process: Option<String>,
    /// By address, the end excluded: of the process if there is one, from the beginning of what is named, otherwise
    /// of the simulated memory.
    pub range: Option<(u64, u64)>,
    /// Where it was written.
    pub place: String,
}

/// What kind of thing a name is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A relation of the database, a structure or an allocation site: what the trace knows of shared data.
    Structure,
    /// A symbol of the kernel.
    Symbol,
    /// An area of memory.
    Area,
}

/// How narrow a rule is; the narrowest for a page wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Whole areas and processes.
    Area,
    /// Named data.
    Named,
    /// Ranges of addresses.
    Range,
}

impl Selector {
    /// How narrow it is.
    pub fn rank(&self) -> Rank {
        match (&self.range, &self.name) {
            (Some(_), _) => Rank::Range,
            (None, Some((NameKind::Structure | NameKind::Symbol, _))) => Rank::Named,
            _ => Rank::Area,
        }
    }
}

/// A task with a place of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundTask {
    /// Its number, its name, or both as `NAME NUMBER`; of a name all tasks that have it.
    pub task: String,
    /// Where it may run.
    pub to: BoundTo,
    /// Where it was written.
    pub place: String,
}

/// Where a task may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundTo {
    /// On any processor of a node, from 0.
    Node(usize),
    /// On one processor.
    Processor(usize),
}

/// Keys by which pages are named, and of which kind the name is.
const NAMES: [(&str, NameKind); 5] = [
    ("relation", NameKind::Structure),
    ("structure", NameKind::Structure),
    ("site", NameKind::Structure),
    ("symbol", NameKind::Symbol),
    ("area", NameKind::Area),
];
const RULE_KEYS: [&str; 4] = ["policy", "stride", "node", "nodes"];

impl PlacementFile {
    /// Reads `text` for a machine of `nodes` and `processors`; `file` is used in messages.
    ///
    /// # Errors
    /// With every fault of the file.
    pub fn from_toml(text: &str, file: &str, nodes: usize, processors: usize) -> Result<Self, Faults> {
        let document = parse(text, file)?;
        let mut reader = Reader { file, text, nodes, processors, tables: Tables::default() };
        let read = reader.file(document.as_table());
        reader.tables.finish(read)
    }
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
    nodes: usize,
    processors: usize,
    tables: Tables,
}

impl Reader<'_> {
    fn place(&self, table: &dyn TableLike) -> String {
        let first = table.iter().next();
        let span = first
            .and_then(|(key, item)| table.key(key).and_then(toml_edit::Key::span).or_else(|| item.span()));
        format!("{}, line {}", self.file, span.map_or(1, |span| line_at(self.text, span.start)))
    }

    fn fault(&mut self, place: &str, what: &str) {
        self.tables.fault(place, what);
    }

    fn file(&mut self, table: &dyn TableLike) -> PlacementFile {
        let accepted: Vec<&str> = RULE_KEYS.into_iter().chain(["page", "threads", "thread"]).collect();
        let place = self.place(table);
        self.tables.check_keys(table, &accepted, &place);
        let says = RULE_KEYS.iter().any(|key| table.get(key).is_some());
        let rest = if says { self.rule(table, &place) } else { None };
        let mut read = PlacementFile { rest, ..PlacementFile::default() };
        for table in self.tables.all(table, "page", self.file) {
            let place = self.place(table);
            let names = NAMES.iter().map(|(key, _)| *key);
            let accepted: Vec<&str> =
                RULE_KEYS.into_iter().chain(names).chain(["process", "addresses", "offset"]).collect();
            self.tables.check_keys(table, &accepted, &place);
            if let (Some(selector), Some(rule)) = (self.selector(table, &place), self.rule(table, &place)) {
                read.pages.push((selector, rule));
            }
        }
        let threads = table.get("threads");
        if threads.is_some_and(|item| !item.is_table_like()) {
            self.fault(&place, "threads: write [threads] and below it order = \"...\"");
        }
        if let Some(threads) = threads.and_then(Item::as_table_like) {
            let place = self.place(threads);
            self.tables.check_keys(threads, &["order"], &place);
            read.threads = self.choice(threads, "order", "node.threads", &place);
        }
        for table in self.tables.all(table, "thread", self.file) {
            let place = self.place(table);
            self.tables.check_keys(table, &["task", "node", "processor"], &place);
            if let Some(bound) = self.bound(table, &place) {
                read.bound.push(bound);
            }
        }
        read
    }

    fn choice(&mut self, table: &dyn TableLike, key: &str, setting: &str, place: &str) -> Option<String> {
        let given = self.tables.text(table, key, place)?;
        let Some(Kind::Choice(names)) = setting_named(setting).map(|setting| &setting.kind) else {
            unreachable!("{setting} is a choice")
        };
        if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(&given)) {
            return Some((*name).to_owned());
        }
        let what = if given == "local" {
            "`local` goes by the task that allocates, which traces do not tell; use first-touch".to_owned()
        } else {
            let hint = suggestion(&given, names.iter().copied());
            format!("{key}: unknown `{given}`{hint}; accepted are {}", names.join(", "))
        };
        self.fault(place, &what);
        None
    }

    fn number(
        &mut self,
        table: &dyn TableLike,
        key: &str,
        least: usize,
        most: usize,
        place: &str,
    ) -> Option<usize> {
        let text = self.tables.text(table, key, place)?;
        self.one(&text, key, least, most, place)
    }

    fn one(&mut self, text: &str, key: &str, least: usize, most: usize, place: &str) -> Option<usize> {
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.fault(place, &format!("{key}: there is no {text}; this machine has {least} to {most}"));
        }
        number
    }

    fn rule(&mut self, table: &dyn TableLike, place: &str) -> Option<PageRule> {
        let faults = self.tables.count();
        let node = self.number(table, "node", 1, self.nodes, place).map(|node| node - 1);
        let list = self.tables.text(table, "nodes", place);
        let policy = self.choice(table, "policy", "node.placement", place);
        let mut nodes: Vec<usize> = node.into_iter().collect();
        for word in list.iter().flat_map(|list| words(list)) {
            if let Some(node) = self.one(word, "nodes", 1, self.nodes, place) {
                if nodes.contains(&(node - 1)) {
                    self.fault(place, &format!("nodes: {node} is there twice; name each node once"));
                }
                nodes.push(node - 1);
            }
        }
        if list.is_some() && nodes.is_empty() && self.tables.count() == faults {
            self.fault(place, "nodes: empty; leave it out for all nodes, or name some");
        }
        if table.get("node").is_some() && table.get("nodes").is_some() {
            self.fault(place, "node and nodes together; give one of them");
        }
        let gives = ["node", "nodes", "policy"].iter().any(|key| table.get(key).is_some());
        if !gives {
            self.fault(place, "a rule without policy, node and nodes; say where its pages lie");
        }
        let stride = match table.get("stride") {
            None => Some(1),
            Some(_) => self.number(table, "stride", 1, 1 << 20, place).map(|stride| stride as u64),
        };
        let policy = policy.unwrap_or_else(|| "striped".to_owned());
        if table.get("stride").is_some() && policy != "striped" {
            self.fault(place, "stride: only stripes have one; leave it out, or use policy = \"striped\"");
        }
        (self.tables.count() == faults).then(|| PageRule { policy, stride: stride.unwrap_or(1), nodes })
    }

    fn selector(&mut self, table: &dyn TableLike, place: &str) -> Option<Selector> {
        let faults = self.tables.count();
        let given: Vec<_> = NAMES.iter().filter(|(key, _)| table.get(key).is_some()).collect();
        if given.len() > 1 {
            self.fault(
                place,
                &format!("{} and {} in one rule; write a rule for each", given[0].0, given[1].0),
            );
        }
        let name = given.first().and_then(|(key, kind)| Some((*kind, self.tables.text(table, key, place)?)));
        let process = self.tables.text(table, "process", place);
        let key = if table.get("offset").is_some() { "offset" } else { "addresses" };
        let range = self.tables.text(table, key, place).and_then(|text| self.range(&text, key, place));
        if table.get("offset").is_some() && (name.is_none() || table.get("addresses").is_some()) {
            self.fault(place, "offset: goes with relation, structure, site or symbol, without addresses");
        }
        if table.get("addresses").is_some() && name.is_some() {
            self.fault(place, "addresses: names data already; leave out the name, or use offset");
        }
        if name.is_none() && process.is_none() && table.get("addresses").is_none() {
            let keys = NAMES.map(|(key, _)| key).join(", ");
            self.fault(place, &format!("a rule for no pages; name them by {keys}, process or addresses"));
        }
        (self.tables.count() == faults).then(|| Selector { name, process, range, place: place.to_owned() })
    }

    /// `FROM..TO`, each decimal or hexadecimal.
    fn range(&mut self, text: &str, key: &str, place: &str) -> Option<(u64, u64)> {
        let range =
            text.split_once("..").and_then(|(from, to)| Some((address(from.trim())?, address(to.trim())?)));
        match range {
            Some((from, to)) if from < to => Some((from, to)),
            _ => {
                let what = format!("{key}: `{text}` is no range; write FROM..TO, such as 0x10000..0x20000");
                self.fault(place, &what);
                None
            }
        }
    }

    fn bound(&mut self, table: &dyn TableLike, place: &str) -> Option<BoundTask> {
        let task = self.tables.text(table, "task", place);
        let node = self.number(table, "node", 1, self.nodes, place);
        let processor = match table.get("processor") {
            None => None,
            Some(_) => self.number(table, "processor", 0, self.processors - 1, place),
        };
        let given = ["node", "processor"].iter().filter(|key| table.get(key).is_some()).count();
        if task.is_none() || given != 1 {
            self.fault(place, "a thread needs its task, and either node or processor");
            return None;
        }
        let to = node.map(|node| BoundTo::Node(node - 1)).or(processor.map(BoundTo::Processor))?;
        Some(BoundTask { task: task?, to, place: place.to_owned() })
    }
}
