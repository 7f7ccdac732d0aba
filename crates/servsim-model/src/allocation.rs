//! Allocation of tables to disks and of disks to I/O buses, for the highest throughput of one
//! closed class. The stations that do not depend on the allocation are convolved once; a candidate
//! then costs `N` multiplications per disk and bus.
//!
//! Small problems are enumerated without the symmetries (equal disks of a bus, equal buses), so the
//! best is exact. Larger ones start from longest-first assignment and improve by moves and swaps.
//! The bound: `1/X` is convex in the demands of single servers (ratios of complete homogeneous
//! symmetric polynomials; Marshall and Olkin, "Inequalities", 1979, 3.F), so no allocation beats
//! loads divided evenly over the disks of each bus, at the best division over buses.

use crate::error::ModelError;
use crate::network::Speed;
use crate::solvers::convolution;
use crate::{Class, Closed, Network, Station};
use serde::{Deserialize, Serialize};

/// Leaves up to which a search is exhaustive.
const MOST_LEAVES: f64 = 3e6;

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

/// Evaluates throughputs quickly for one division of disks over buses.
struct Evaluator {
    /// Constants of everything fixed, scaled by `theta`.
    base: Vec<f64>,
    theta: f64,
    scratch: Vec<f64>,
    bus_of: Vec<usize>,
    buses: usize,
    disk_demand: f64,
    bus_demand: f64,
    evaluated: u64,
}

impl Evaluator {
    fn new(problem: &Problem, disks_per_bus: &[usize]) -> Result<Self, ModelError> {
        let bus_of: Vec<usize> =
            disks_per_bus.iter().enumerate().flat_map(|(bus, &n)| vec![bus; n]).collect();
        let mut closed = fixed_network(problem);
        // The scale is the throughput with everything evenly spread.
        let fixed = closed.stations();
        for _ in &bus_of {
            push(&mut closed, problem.disk_demand / bus_of.len() as f64);
        }
        for &n in disks_per_bus {
            push(&mut closed, problem.bus_demand * n as f64 / bus_of.len() as f64);
        }
        let theta = convolution::solve(&closed, &crate::Tolerance::default())?.throughput[0];
        closed.names.truncate(fixed);
        closed.demands.truncate(fixed);
        closed.speeds.truncate(fixed);
        Ok(Self {
            base: convolution::scaled_constants(&closed, theta),
            theta,
            scratch: vec![0.0; problem.population + 1],
            buses: disks_per_bus.len(),
            bus_of,
            disk_demand: problem.disk_demand,
            bus_demand: problem.bus_demand,
            evaluated: 0,
        })
    }

    /// Throughput with these shares of accesses per disk.
    fn throughput(&mut self, shares: &[f64]) -> f64 {
        self.evaluated += 1;
        let mut loads = vec![0.0; self.buses];
        for (share, &bus) in shares.iter().zip(&self.bus_of) {
            loads[bus] += share * self.bus_demand;
        }
        loads.extend(shares.iter().map(|s| s * self.disk_demand));
        let largest = loads.iter().copied().fold(0.0, f64::max) * self.theta;
        // A load above 1 would grow as its power: shrink the scale instead.
        let shrink = if largest > 1.0 { 1.0 / largest } else { 1.0 };
        let mut power = 1.0;
        for (g, base) in self.scratch.iter_mut().zip(&self.base) {
            *g = base * power;
            power *= shrink;
        }
        let theta = self.theta * shrink;
        for load in loads {
            convolution::add_single_server(&mut self.scratch, load * theta);
        }
        let n = self.scratch.len() - 1;
        theta * self.scratch[n - 1] / self.scratch[n]
    }
}

fn push(closed: &mut Closed, demand: f64) {
    closed.names.push(String::new());
    closed.demands.push(vec![demand]);
    closed.speeds.push(Speed::Servers(1));
}

fn fixed_network(problem: &Problem) -> Closed {
    let speed = |f: &Fixed| if f.rates == [1.0] { Speed::Servers(1) } else { Speed::Rates(f.rates.clone()) };
    Closed {
        names: problem.fixed.iter().map(|f| f.name.clone()).collect(),
        demands: problem.fixed.iter().map(|f| vec![f.demand]).collect(),
        speeds: problem.fixed.iter().map(speed).collect(),
        population: vec![problem.population],
        think: vec![problem.think],
    }
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

fn allocate_layout(problem: &Problem, layout: &[usize]) -> Result<Allocation, ModelError> {
    let mut evaluator = Evaluator::new(problem, layout)?;
    let total: f64 = problem.tables.iter().map(|t| t.share).sum();
    let weights: Vec<f64> = problem.tables.iter().map(|t| t.share / total).collect();
    let disks: usize = layout.iter().sum();
    let bound = bound(&mut evaluator, layout);
    let leaves = (disks as f64).powi(weights.len() as i32) / symmetries(layout);
    let exhaustive = leaves <= MOST_LEAVES;
    let (disk_of, throughput) = if exhaustive {
        enumerate(&mut evaluator, layout, &weights)
    } else {
        improve(&mut evaluator, &weights, disks)
    };
    let gap = (1.0 - throughput / bound).max(0.0);
    let evaluated = evaluator.evaluated;
    Ok(Allocation { disks_per_bus: layout.to_vec(), disk_of, throughput, bound, gap, exhaustive, evaluated })
}

/// Relabelings that change nothing: disks within a bus, and buses of equal size.
fn symmetries(layout: &[usize]) -> f64 {
    let factorial = |n: usize| (1..=n).map(|i| i as f64).product::<f64>();
    let within: f64 = layout.iter().map(|&n| factorial(n)).product();
    let mut sizes = layout.to_vec();
    sizes.dedup();
    let among: f64 = sizes.iter().map(|s| factorial(layout.iter().filter(|n| *n == s).count())).product();
    within * among
}

/// Walks every distinct allocation; the best and its throughput.
fn enumerate(evaluator: &mut Evaluator, layout: &[usize], weights: &[f64]) -> (Vec<usize>, f64) {
    struct Walk<'a> {
        evaluator: &'a mut Evaluator,
        layout: &'a [usize],
        weights: &'a [f64],
        disk_of: Vec<usize>,
        shares: Vec<f64>,
        used: Vec<usize>,
        best: (Vec<usize>, f64),
    }
    impl Walk<'_> {
        fn place(&mut self, table: usize) {
            if table == self.weights.len() {
                let x = self.evaluator.throughput(&self.shares);
                if x > self.best.1 {
                    self.best = (self.disk_of.clone(), x);
                }
                return;
            }
            let mut first = 0;
            for bus in 0..self.layout.len() {
                let count = self.layout[bus];
                // An empty bus equal to an earlier empty one would repeat its allocations.
                let repeats =
                    self.used[bus] == 0 && (0..bus).any(|b| self.used[b] == 0 && self.layout[b] == count);
                // Of the empty disks of a bus, only the first.
                let reach = if repeats { 0 } else { count.min(self.used[bus] + 1) };
                for slot in 0..reach {
                    let disk = first + slot;
                    let opens = slot == self.used[bus];
                    self.used[bus] += usize::from(opens);
                    let before = self.shares[disk];
                    self.shares[disk] += self.weights[table];
                    self.disk_of.push(disk);
                    self.place(table + 1);
                    self.disk_of.pop();
                    self.shares[disk] = before;
                    self.used[bus] -= usize::from(opens);
                }
                first += count;
            }
        }
    }
    let shares = vec![0.0; layout.iter().sum()];
    let used = vec![0; layout.len()];
    let best = (Vec::new(), f64::NEG_INFINITY);
    let mut walk = Walk { evaluator, layout, weights, disk_of: Vec::new(), shares, used, best };
    walk.place(0);
    walk.best
}

/// Longest first, then moves and swaps while they help.
fn improve(evaluator: &mut Evaluator, weights: &[f64], disks: usize) -> (Vec<usize>, f64) {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]));
    let mut shares = vec![0.0_f64; disks];
    let mut disk_of = vec![0; weights.len()];
    for &table in &order {
        let lightest = (0..disks).min_by(|&a, &b| shares[a].total_cmp(&shares[b])).unwrap_or(0);
        disk_of[table] = lightest;
        shares[lightest] += weights[table];
    }
    balance(weights, &mut disk_of, &mut shares);
    let mut best = evaluator.throughput(&shares);
    // A last pass on the true objective: moves of single tables.
    loop {
        let before = best;
        for table in 0..weights.len() {
            for disk in (0..disks).filter(|&d| d != disk_of[table]).collect::<Vec<_>>() {
                let home = disk_of[table];
                shares[home] -= weights[table];
                shares[disk] += weights[table];
                let x = evaluator.throughput(&shares);
                if x > best {
                    best = x;
                    disk_of[table] = disk;
                } else {
                    shares[disk] -= weights[table];
                    shares[home] += weights[table];
                }
            }
        }
        if best <= before * (1.0 + 1e-9) {
            return (disk_of, best);
        }
    }
}

/// Swaps and moves between pairs of disks while the sum of squared loads falls.
fn balance(weights: &[f64], disk_of: &mut [usize], shares: &mut [f64]) {
    let mut improved = true;
    while improved {
        improved = false;
        for a in 0..weights.len() {
            for b in 0..=a {
                let (from, to) = (disk_of[a], disk_of[b]);
                // b == a stands for moving `a` to the lightest disk.
                let to = if a == b {
                    (0..shares.len()).min_by(|&x, &y| shares[x].total_cmp(&shares[y])).unwrap_or(to)
                } else {
                    to
                };
                let moved = weights[a] - if a == b { 0.0 } else { weights[b] };
                // Squares fall when the difference moved is less than the difference of loads.
                let gain = moved * (shares[from] - shares[to] - moved);
                if from != to && gain > 1e-15 {
                    shares[from] -= moved;
                    shares[to] += moved;
                    disk_of[a] = to;
                    if a != b {
                        disk_of[b] = from;
                    }
                    improved = true;
                }
            }
        }
    }
}

/// Throughput with loads spread evenly within each bus, at the best division over buses.
fn bound(evaluator: &mut Evaluator, layout: &[usize]) -> f64 {
    let disks: usize = layout.iter().sum();
    let mut parts: Vec<f64> = layout.iter().map(|&n| n as f64 / disks as f64).collect();
    let mut value = |parts: &[f64]| {
        let shares: Vec<f64> =
            parts.iter().zip(layout).flat_map(|(part, &n)| vec![part / n as f64; n]).collect();
        evaluator.throughput(&shares)
    };
    let mut best = value(&parts);
    if layout.iter().all(|&n| n == layout[0]) {
        return best; // symmetric and convex: even is best
    }
    for _ in 0..20 {
        for a in 0..layout.len() {
            for b in 0..a {
                let (x, y) = (parts[a], parts[b]);
                let mut trial = |t: f64| {
                    parts[a] = (x + y) * t;
                    parts[b] = (x + y) * (1.0 - t);
                    value(&parts)
                };
                let t = golden_maximum(&mut trial);
                best = best.max(trial(t));
            }
        }
    }
    best
}

/// Argument of the maximum of a unimodal function on 0..1.
fn golden_maximum(f: &mut impl FnMut(f64) -> f64) -> f64 {
    const RATIO: f64 = 0.618_033_988_749_894_8;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let (a, b) = (high - RATIO * (high - low), low + RATIO * (high - low));
        if f(a) < f(b) {
            low = a;
        } else {
            high = b;
        }
    }
    0.5 * (low + high)
}
