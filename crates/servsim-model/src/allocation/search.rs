//! The searches: exhaustive without symmetries for small problems, longest-first with moves and swaps
//! for large ones, and the bound that no allocation exceeds.

use super::evaluator::Evaluator;
use super::{Allocation, Problem};
use crate::error::ModelError;

/// Leaves up to which a search is exhaustive.
const MOST_LEAVES: f64 = 3e6;

/// The best (or a good) allocation for one division of the disks over the buses.
pub(super) fn allocate_layout(problem: &Problem, layout: &[usize]) -> Result<Allocation, ModelError> {
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
