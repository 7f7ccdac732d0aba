//! Allocation of tables to disks and of disks to I/O buses, for the highest throughput of one
//! closed class. The stations that do not depend on the allocation are convolved once; a candidate
//! then costs `N` multiplications per disk and bus.
//!
//! Small problems are enumerated without the symmetries (equal disks of a bus, equal buses), so the
//! best is exact. Larger ones start from longest-first assignment and improve by moves and swaps.
//! The bound: `1/X` is convex in the demands of single servers (ratios of complete homogeneous
//! symmetric polynomials; Marshall and Olkin, "Inequalities", 1979, 3.F), so no allocation beats
//! loads divided evenly over the disks of each bus, at the best division over buses.

mod evaluator;
mod search;

use crate::error::ModelError;
use crate::network::Speed;
use crate::{Class, Network, Station};
use evaluator::Evaluator;
use search::allocate_layout;
use serde::{Deserialize, Serialize};

/// What is to be allocated, and what surrounds it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// Customers.
    pub population: usize,
    /// Think time, seconds.
    pub think: f64,
    /// Other stations: name, demand in seconds, relative rates (`[1.0]` is a single server).
    pub fixed: Vec<Fixed>,
    /// Tables with their share of all accesses (any positive weights).
    pub tables: Vec<Table>,
    /// Number of disks on each bus.
    pub disks_per_bus: Vec<usize>,
    /// Demand at a disk that received all accesses, seconds.
    pub disk_demand: f64,
    /// Demand at a bus that received all accesses, seconds.
    pub bus_demand: f64,
    /// Try every division of the disks over the buses, not only `disks_per_bus`.
    #[serde(default)]
    pub reconnect: bool,
}

/// A station outside the allocation.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fixed {
    /// Name.
    pub name: String,
    /// Demand, seconds.
    pub demand: f64,
    /// Relative rates with 1, 2, ... requests; the last repeats.
    pub rates: Vec<f64>,
}

/// A table and its share of accesses.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Name.
    pub name: String,
    /// Weight of its accesses.
    pub share: f64,
}

/// An allocation and its worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Allocation {
    /// Number of disks on each bus.
    pub disks_per_bus: Vec<usize>,
    /// Disk of each table; disks are numbered bus by bus.
    pub disk_of: Vec<usize>,
    /// Requests per second.
    pub throughput: f64,
    /// No allocation exceeds this throughput.
    pub bound: f64,
    /// `1 - throughput / bound`, or 0 after an exhaustive search.
    pub gap: f64,
    /// True when every distinct allocation was evaluated.
    pub exhaustive: bool,
    /// Allocations evaluated.
    pub evaluated: u64,
}

/// The network that a finished allocation describes.
pub fn network(problem: &Problem, allocation: &Allocation) -> Network {
    let shares = shares(problem, &allocation.disk_of, allocation.disks_per_bus.iter().sum());
    let mut stations: Vec<Station> = problem
        .fixed
        .iter()
        .map(|f| Station::queue(&f.name, &[f.demand]).with_speed(Speed::Rates(f.rates.clone())))
        .collect();
    let mut disk = 0;
    for (bus, &count) in allocation.disks_per_bus.iter().enumerate() {
        let share: f64 = shares[disk..disk + count].iter().sum();
        stations.push(Station::queue(&format!("bus {}", bus + 1), &[share * problem.bus_demand]));
        for _ in 0..count {
            stations
                .push(Station::queue(&format!("disk {}", disk + 1), &[shares[disk] * problem.disk_demand]));
            disk += 1;
        }
    }
    let class = Class::closed("customers", problem.population, problem.think);
    Network::new("allocation", vec![class], stations)
}

/// Share of accesses per disk.
fn shares(problem: &Problem, disk_of: &[usize], disks: usize) -> Vec<f64> {
    let total: f64 = problem.tables.iter().map(|t| t.share).sum();
    let mut shares = vec![0.0; disks];
    for (table, &disk) in problem.tables.iter().zip(disk_of) {
        shares[disk] += table.share / total;
    }
    shares
}

fn check(problem: &Problem) -> Result<(), ModelError> {
    let bad = |what: String, remedy: &str| Err(ModelError::invalid(what, remedy));
    if problem.population == 0 || !problem.think.is_finite() || problem.think < 0.0 {
        return bad(
            "allocation needs customers and a think time of zero or more".into(),
            "set population and think",
        );
    }
    if problem.tables.is_empty() || problem.disks_per_bus.is_empty() || problem.disks_per_bus.contains(&0) {
        return bad("allocation needs tables, buses, and a disk on each bus".into(), "add what is missing");
    }
    if let Some(table) = problem.tables.iter().find(|t| !t.share.is_finite() || t.share < 0.0) {
        return bad(
            format!("table `{}` has a share of {}", table.name, table.share),
            "give a share of zero or more",
        );
    }
    if problem.tables.iter().map(|t| t.share).sum::<f64>() <= 0.0 {
        return bad("no table is accessed".into(), "give at least one positive share");
    }
    for (name, demand) in [("disk", problem.disk_demand), ("bus", problem.bus_demand)] {
        let is_bad = !demand.is_finite() || demand < 0.0 || (name == "disk" && demand == 0.0);
        if is_bad {
            let (station, class) = (name.to_string(), "customers".to_string());
            return Err(ModelError::BadDemand { station, class, demand, problem: "not a usable time" });
        }
    }
    match problem.fixed.iter().find(|f| !f.demand.is_finite() || f.demand < 0.0 || f.rates.is_empty()) {
        Some(f) => bad(
            format!("station `{}` has demand {} s or no rates", f.name, f.demand),
            "give a demand and rates",
        ),
        None => Ok(()),
    }
}

/// Throughput of a given allocation.
///
/// # Errors
/// [`ModelError::Invalid`] when the allocation does not fit the problem.
pub fn evaluate(problem: &Problem, disk_of: &[usize]) -> Result<f64, ModelError> {
    check(problem)?;
    let disks: usize = problem.disks_per_bus.iter().sum();
    if disk_of.len() != problem.tables.len() || disk_of.iter().any(|&d| d >= disks) {
        return Err(ModelError::invalid(
            format!(
                "{} tables are assigned among {disks} disks, but {} are given",
                problem.tables.len(),
                disk_of.len()
            ),
            "give one disk number, from 0, per table",
        ));
    }
    Ok(Evaluator::new(problem, &problem.disks_per_bus)?.throughput(&shares(problem, disk_of, disks)))
}

/// Finds the best allocation, or a good one with its gap to the bound.
///
/// # Errors
/// [`ModelError::Invalid`], [`ModelError::BadDemand`].
pub fn allocate(problem: &Problem) -> Result<Allocation, ModelError> {
    check(problem)?;
    let layouts =
        if problem.reconnect { layouts(&problem.disks_per_bus) } else { vec![problem.disks_per_bus.clone()] };
    let mut best: Option<Allocation> = None;
    let (mut evaluated, mut bound, mut exhaustive) = (0, 0.0f64, true);
    for layout in layouts {
        let found = allocate_layout(problem, &layout)?;
        evaluated += found.evaluated;
        bound = bound.max(found.bound);
        exhaustive &= found.exhaustive;
        if best.as_ref().is_none_or(|b| found.throughput > b.throughput) {
            best = Some(found);
        }
    }
    let mut best = best.ok_or_else(|| ModelError::invalid("no layout of disks", "give disks_per_bus"))?;
    best.evaluated = evaluated;
    best.exhaustive = exhaustive;
    best.bound = if exhaustive { best.throughput } else { bound };
    best.gap = if exhaustive { 0.0 } else { (1.0 - best.throughput / bound).max(0.0) };
    Ok(best)
}

/// Divisions of all disks over at most as many buses, largest first.
fn layouts(disks_per_bus: &[usize]) -> Vec<Vec<usize>> {
    fn extend(left: usize, most: usize, buses: usize, so_far: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
        if left == 0 {
            out.push(so_far.clone());
            return;
        }
        for n in (1..=left.min(most)).rev().filter(|_| buses > 0) {
            so_far.push(n);
            extend(left - n, n, buses - 1, so_far, out);
            so_far.pop();
        }
    }
    let mut out = Vec::new();
    let disks = disks_per_bus.iter().sum();
    extend(disks, disks, disks_per_bus.len(), &mut Vec::new(), &mut out);
    out
}
