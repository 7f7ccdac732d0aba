//! Which page of a trace follows which rule of a placement file. A page that holds data of several rules of one rank
//! follows the one that names most of its bytes; rules of one rank that name the same bytes are refused.

use crate::error::SimulateError;
use crate::names::{has_symbols, place_of, DataNames};
use crate::place::address_on;
use servsim_config::{NameKind, PageRule as Described, PlacementFile, Rank, Selector};
use servsim_core::source::PageHash;
use servsim_core::{Batch, CpuId, GlobalSource, NodeId, Op, PageOrigin, TaskInfo, PAGE_SHIFT};
use servsim_mem::interconnect::{page_policy_by_name, PagePlan, PageRule};
use servsim_units::nearest::suggestion;
use std::collections::{BTreeSet, HashSet};

/// The plan of `file` for the pages that `source` touches, and how many of them follow each rule.
///
/// # Errors
/// When a rule names what the trace does not have, or two rules the same bytes.
///
/// # Panics
/// For a policy that is not registered: placement files are checked before.
pub(crate) fn plan_of(
    file: &PlacementFile,
    source: &mut dyn GlobalSource,
    nodes: usize,
    processors: usize,
) -> Result<(PagePlan, Vec<u64>), SimulateError> {
    let names = DataNames::of(source)?;
    let rule = |rule: &Described| PageRule {
        policy: page_policy_by_name(&rule.policy).expect("a registered policy"),
        stride: rule.stride,
        nodes: if rule.nodes.is_empty() {
            (0..nodes).map(NodeId).collect()
        } else {
            rule.nodes.iter().copied().map(NodeId).collect()
        },
    };
    let mut plan = PagePlan {
        rules: file.pages.iter().map(|(_, described)| rule(described)).collect(),
        rest: file.rest.as_ref().map(rule),
        ..PagePlan::default()
    };
    let mut counts = vec![0; file.pages.len()];
    if file.pages.is_empty() {
        return Ok((plan, counts));
    }
    let touched = touched(source, processors)?;
    let selectors: Vec<&Selector> = file.pages.iter().map(|(selector, _)| selector).collect();
    let view = View { names: &names, tasks: source.tasks(), knows: source.knows_places() };
    let mut areas = BTreeSet::new();
    let mut held = vec![false; selectors.len()];
    for &page in &touched {
        let place = place_of(source, page << PAGE_SHIFT);
        areas.extend(place.map(|place| place.area));
        let parts: Vec<Parts> = selectors.iter().map(|selector| view.parts(selector, page, place)).collect();
        parts.iter().zip(&mut held).for_each(|(parts, held)| *held |= !parts.is_empty());
        if let Some(index) = chosen(&selectors, &parts, page)? {
            plan.pages.insert(page, index as u32);
            counts[index] += 1;
        }
    }
    let unheld = selectors.iter().zip(&held).filter(|(_, held)| !**held);
    let faults: Vec<String> = unheld.map(|(selector, _)| view.missing(selector, &areas)).collect();
    if !faults.is_empty() {
        return Err(SimulateError::Usage(faults.join("\n")));
    }
    Ok((plan, counts))
}

/// Parts of a page, as offsets, the ends excluded.
type Parts = Vec<(u64, u64)>;

/// The pages that a trace touches, those of the processors' own areas for each processor.
fn touched(source: &mut dyn GlobalSource, processors: usize) -> Result<Vec<u64>, SimulateError> {
    let mut seen: HashSet<u64, PageHash> = HashSet::default();
    let mut batch = Batch::default();
    while source.next_batch(&mut batch)? {
        for record in batch.records.iter().filter(|record| record.op != Op::Event) {
            let own = address_on(record, CpuId(0)) != record.address;
            for cpu in CpuId::all(if own { processors } else { 1 }) {
                let first = address_on(record, cpu);
                let last = first.wrapping_add(u64::from(record.size) - 1);
                seen.extend([first >> PAGE_SHIFT, last >> PAGE_SHIFT]);
            }
        }
    }
    let mut pages: Vec<u64> = seen.into_iter().collect();
    pages.sort_unstable();
    Ok(pages)
}

/// The selector that `page` follows, if there is one.
fn chosen(selectors: &[&Selector], parts: &[Parts], page: u64) -> Result<Option<usize>, SimulateError> {
    let holding = || (0..selectors.len()).filter(|&index| !parts[index].is_empty());
    let Some(rank) = holding().map(|index| selectors[index].rank()).max() else { return Ok(None) };
    let best: Vec<usize> = holding().filter(|&index| selectors[index].rank() == rank).collect();
    for (at, &one) in best.iter().enumerate() {
        for &other in &best[..at] {
            let meet = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.1 && b.0 < a.1;
            if parts[one].iter().any(|a| parts[other].iter().any(|b| meet(a, b))) {
                let narrower = if rank == Rank::Range { "take them apart" } else { "say it by addresses" };
                return Err(SimulateError::Usage(format!(
                    "{} and {}: both rules are for the same data of page {:#x}; {narrower}, or leave one out",
                    selectors[other].place,
                    selectors[one].place,
                    page << PAGE_SHIFT
                )));
            }
        }
    }
    let bytes = |index: usize| parts[index].iter().map(|(from, to)| to - from).sum::<u64>();
    Ok(best.into_iter().max_by_key(|&index| (bytes(index), usize::MAX - index)))
}

/// What selectors mean in a trace.
struct View<'a> {
    names: &'a DataNames,
    tasks: &'a [TaskInfo],
    knows: bool,
}

impl View<'_> {
    /// The parts of a page that `selector` names.
    fn parts(&self, selector: &Selector, page: u64, place: Option<PageOrigin>) -> Parts {
        let clip = |begin: u64, (from, to): (u64, u64)| crate::names::on_page(begin, from, to);
        if let Some(process) = &selector.process {
            let Some(place) = place else { return Vec::new() };
            if !self.is_of(place, process) {
                return Vec::new();
            }
        }
        match (&selector.name, place) {
            (Some((NameKind::Structure, name)), Some(place)) => {
                self.names.shared.parts(place, name, selector.range, self.tasks)
            }
            (Some((NameKind::Symbol, name)), Some(place)) if has_symbols(place) => {
                let within = |(from, to): (u64, u64)| match selector.range {
                    Some((first, last)) => (from + first, to.min(from + last)),
                    None => (from, to),
                };
                self.names
                    .symbols
                    .ranges(name)
                    .filter_map(|range| clip(place.address, within(range)))
                    .collect()
            }
            (Some((NameKind::Area, name)), Some(place)) if place.area == name => vec![(0, 1 << PAGE_SHIFT)],
            (Some(_), _) => Vec::new(),
            (None, place) => match (selector.range, &selector.process) {
                (Some(range), Some(_)) => {
                    clip(place.map_or(0, |place| place.address), range).into_iter().collect()
                }
                (Some(range), None) => clip(page << PAGE_SHIFT, range).into_iter().collect(),
                (None, _) => vec![(0, 1 << PAGE_SHIFT)],
            },
        }
    }

    fn is_of(&self, place: PageOrigin, process: &str) -> bool {
        let Some(pid) = place.process else { return false };
        let named = |task: &TaskInfo| task.pid == pid && task.name == process;
        pid.to_string() == process || self.tasks.iter().any(named)
    }

    /// Why `selector` names no page that the trace touches.
    fn missing(&self, selector: &Selector, areas: &BTreeSet<&str>) -> String {
        let place = &selector.place;
        let by_name = selector.name.is_some() || selector.process.is_some();
        if by_name && !self.knows {
            return format!(
                "{place}: only captured traces tell what lies on a page; name pages by addresses"
            );
        }
        let none = |what: &str, name: &str, known: &mut dyn Iterator<Item = &str>| {
            let known: BTreeSet<&str> = known.collect();
            if known.contains(name) {
                return format!("{place}: the trace touches no page of {what} `{name}` where this rule looks; leave it out");
            }
            let hint = suggestion(name, known.iter().copied());
            // Names in parentheses are what lies between the named ones.
            let some: Vec<&str> = known.iter().filter(|name| !name.starts_with('(')).copied().collect();
            let more = match some.len().saturating_sub(8) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let listed = if hint.is_empty() && !some.is_empty() {
                format!("; there are {}{more}", some[..some.len().min(8)].join(", "))
            } else {
                hint
            };
            format!("{place}: the trace knows no {what} `{name}`{listed}")
        };
        match (&selector.name, &selector.process) {
            (Some((NameKind::Structure, _)), _) if self.names.shared.names().next().is_none() => format!(
                "{place}: the trace does not say which relation or structure lies where; name pages by area, \
                 process or addresses"
            ),
            (Some((NameKind::Symbol, _)), _) if self.names.symbols.names().next().is_none() => {
                format!("{place}: the trace has no symbols; name pages by area, process or addresses")
            }
            (Some((NameKind::Structure, name)), _) => {
                none("relation or structure", name, &mut self.names.shared.names())
            }
            (Some((NameKind::Symbol, name)), _) => none("symbol", name, &mut self.names.symbols.names()),
            (Some((NameKind::Area, name)), _) => none("area", name, &mut areas.iter().copied()),
            (None, Some(process)) => {
                none("process", process, &mut self.tasks.iter().map(|task| task.name.as_str()))
            }
            (None, None) => {
                format!("{place}: the trace touches no page at these addresses; leave the rule out")
            }
        }
    }
}
