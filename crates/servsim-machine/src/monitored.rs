//! The monitor of traffic between nodes, from its program to what a result says of its counters.

use crate::error::SimulateError;
use crate::names::{place_of, DataNames};
use crate::run_spec::TextFile;
use serde_json::{json, Map, Value};
use servsim_config::{Filter, Machine, MonitorProgram, DIRECTIONS, SERVED, TYPES};
use servsim_core::{GlobalSource, PageOrigin, PAGE_SHIFT};
use servsim_mem::interconnect::{MonitorCounts, MonitorSpec, RegionFilter};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Columns of a histogram; those from the virtual address on, of granules within a page, are where the captured system had
/// them. The last is only told of programs with several parts.
const COLUMNS: [&str; 10] =
    ["filter", "node", "processor", "address", "count", "data", "virtual_address", "process", "offset", PART];
/// The part of the measured transactions, from 1.
const PART: &str = "part";

/// Most names of what lies in a granule of several pages.
const MOST_NAMES: usize = 3;

/// Reads a program for `machine`.
///
/// # Errors
/// With every fault of the file, or when the machine has one memory.
pub(crate) fn read(file: &TextFile, machine: &Machine) -> Result<MonitorProgram, SimulateError> {
    if machine.nodes.is_none() {
        return Err(SimulateError::Usage(format!(
            "{}: a monitor watches traffic between nodes, and {} has one memory; describe nodes with node.count, or \
             leave out --monitor",
            file.name, machine.name
        )));
    }
    MonitorProgram::from_toml(&file.text, &file.name, machine.cache.line.0)
        .map_err(|faults| SimulateError::Usage(faults.to_string()))
}

/// The program in lines of `line` bytes.
pub(crate) fn spec_of(program: &MonitorProgram, line: u64) -> MonitorSpec {
    let filter = |filter: &Filter| RegionFilter {
        first: filter.start / line,
        lines: filter.size / line,
        shift: (filter.granularity / line).trailing_zeros(),
        types: filter.types,
        directions: filter.directions,
        served: filter.served,
        base: filter.base,
        threshold: filter.threshold,
    };
    MonitorSpec {
        simulator: program.simulator,
        filters: program.filters.iter().map(filter).collect(),
        secondary: program.secondary.iter().map(|c| (c.filters.clone(), c.types)).collect(),
        parts: program.parts,
    }
}

/// Refuses a program in file `name` that wants more parts than so many transactions that are measured have.
///
/// # Errors
/// When it does.
pub(crate) fn check_parts(
    program: &MonitorProgram,
    name: &str,
    measured: Option<u64>,
) -> Result<(), SimulateError> {
    let parts = program.parts;
    let found = match measured {
        _ if parts == 1 => return Ok(()),
        None => "this run measures no number of them".into(),
        Some(measured) if measured < parts => format!("this run measures {measured}"),
        Some(_) => return Ok(()),
    };
    Err(SimulateError::Usage(format!(
        "{name}: parts: {parts} parts of the measured transactions, and {found}; leave out parts, or measure {parts} \
         transactions or more (--transactions)"
    )))
}

/// What counters say, with the names of the data that they stand for.
pub(crate) struct Telling<'a> {
    program: &'a MonitorProgram,
    of_processor: Vec<usize>,
    source: Box<dyn GlobalSource>,
    names: DataNames,
    called: HashMap<(u64, u64), String>,
}

impl<'a> Telling<'a> {
    /// For runs of the trace `source` on `machine`.
    ///
    /// # Errors
    /// When the names of the trace cannot be read.
    pub fn new(
        program: &'a MonitorProgram,
        machine: &Machine,
        source: Box<dyn GlobalSource>,
    ) -> Result<Self, SimulateError> {
        let names = DataNames::of(source.as_ref())?;
        let of_processor = machine.nodes.as_ref().map_or_else(Vec::new, |nodes| nodes.of_processor.clone());
        Ok(Self { program, of_processor, source, names, called: HashMap::new() })
    }

    /// What one replication counted.
    pub fn tell(&mut self, counts: &MonitorCounts) -> Value {
        let mut columns: [Vec<Value>; COLUMNS.len()] = Default::default();
        let by_part = counts.by_part();
        let parts =
            (1..).zip(&by_part).flat_map(|(part, counters)| counters.iter().map(move |one| (part, one)));
        for (part, (&(owner, counter), &count)) in parts {
            let Some((number, address, granularity)) = self.granule(counter) else { continue };
            let (node, processor) = self.owner(owner);
            let data = self.called(address, granularity);
            let is_within = granularity <= 1 << PAGE_SHIFT;
            let place = place_of(self.source.as_ref(), address).filter(|_| is_within);
            let offset = place.and_then(|place| self.names.shared.offset(place, self.source.tasks()));
            let row = [
                json!(number + 1),
                json!(node + 1),
                json!(processor),
                json!(format!("{address:#x}")),
                json!(count),
                json!(data),
                place.map_or(Value::Null, |place| json!(format!("{:#x}", place.address))),
                json!(place.and_then(|place| place.process)),
                json!(offset.map(|offset| format!("{offset:#x}"))),
                json!(part),
            ];
            columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        }
        let told = COLUMNS.iter().zip(columns).filter(|(name, _)| self.program.parts > 1 || **name != PART);
        let histogram: Map<String, Value> =
            told.map(|(&name, column)| (name.into(), column.into())).collect();
        let events = counts.events.iter().map(|event| {
            let address = self.granule(event.counter).map(|(_, address, _)| format!("{address:#x}"));
            let (node, processor) = self.owner(event.owner);
            json!({"cycle": event.time, "node": node + 1, "processor": processor, "address": address})
        });
        let events: Vec<Value> = events.collect();
        let secondary = counts.secondary.iter().enumerate().map(|(owner, counts)| {
            let (node, processor) = self.owner(owner);
            json!({"node": node + 1, "processor": processor, "counts": counts})
        });
        let secondary: Vec<Value> =
            if self.program.secondary.is_empty() { Vec::new() } else { secondary.collect() };
        json!({
            "mode": if self.program.simulator { "simulator" } else { "card" },
            "seen": counts.seen,
            "filters": self.program.filters.iter().map(filter_json).collect::<Vec<_>>(),
            "histogram": histogram,
            "secondary": secondary,
            "thresholds": {"reached": counts.events_in_all, "first": events},
        })
    }

    /// Filter, first address and bytes of a counter.
    fn granule(&self, counter: u64) -> Option<(usize, u64, u64)> {
        let filters = self.program.filters.iter().enumerate();
        let mut found = filters.filter_map(|(number, filter)| {
            let place = counter.checked_sub(filter.base).filter(|place| *place < filter.counters())?;
            Some((number, filter.start + place * filter.granularity, filter.granularity))
        });
        found.next()
    }

    /// Node and, in the mode of the simulator, processor of an owner of counters.
    fn owner(&self, owner: usize) -> (usize, Option<usize>) {
        match (self.program.simulator, owner.checked_sub(self.of_processor.len())) {
            (false, _) => (owner, None),
            (true, Some(node)) => (node, None),
            (true, None) => (self.of_processor[owner], Some(owner)),
        }
    }

    /// What lies in `bytes` of a page: data by name, and what has none by area and process.
    fn name(&self, place: PageOrigin, bytes: u64) -> String {
        let tasks = self.source.tasks();
        let name = self.names.called(place, bytes, tasks);
        let of_area = name == format!("({})", place.area);
        let process = place.process.filter(|_| of_area);
        match process.and_then(|pid| tasks.iter().find(|task| task.pid == pid)) {
            Some(task) => format!("({}, {} {})", place.area, task.name, task.pid),
            None => name,
        }
    }

    /// What lies in a granule: the names with most pages.
    fn called(&mut self, address: u64, bytes: u64) -> String {
        if let Some(name) = self.called.get(&(address, bytes)) {
            return name.clone();
        }
        let source = self.source.as_ref();
        let step = bytes.min(1 << PAGE_SHIFT);
        let mut pages: BTreeMap<String, u64> = BTreeMap::new();
        for first in (0..bytes / step).map(|place| address + place * step) {
            if let Some(place) = place_of(source, first) {
                *pages.entry(self.name(place, step)).or_default() += 1;
            }
        }
        let mut most: Vec<(u64, String)> = pages.into_iter().map(|(name, pages)| (pages, name)).collect();
        most.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let more = most.len().saturating_sub(MOST_NAMES);
        let mut name = most.into_iter().take(MOST_NAMES).map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        if more > 0 {
            let _ = write!(name, " and {more} more");
        }
        self.called.insert((address, bytes), name.clone());
        name
    }
}

fn filter_json(filter: &Filter) -> Value {
    let named = |mask: u8, names: &[&'static str]| -> Vec<&str> {
        (0..names.len()).filter(|bit| mask >> bit & 1 == 1).map(|bit| names[bit]).collect()
    };
    json!({
        "start": format!("{:#x}", filter.start),
        "bytes": filter.size,
        "granularity_bytes": filter.granularity,
        "types": named(filter.types, &TYPES),
        "directions": named(filter.directions, &DIRECTIONS),
        "served": named(filter.served, &SERVED),
        "base": filter.base,
        "threshold": filter.threshold,
    })
}
