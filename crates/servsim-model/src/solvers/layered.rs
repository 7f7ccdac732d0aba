//! Layered networks and passive resources (threads, connections, locks), one closed class, by
//! hierarchical decomposition (Chandy, Herzog and Woo 1975; Sauer 1981).
//!
//! A pool whose stations are used by nothing outside it becomes a flow-equivalent station: its
//! inside is solved at every number of holders up to the pool's size, and requests beyond that
//! wait. A pool that shares stations with the outside (a lock around part of the processor's work)
//! is followed explicitly: with `m` requests at the pool, holders and non-holders form two classes
//! of a closed network whose throughputs are the rates of a birth-death process in `m`. Both are
//! exact when the pool never fills. Several sharing pools at one level are treated in turn, each
//! seeing the others' waiting as a delay, until the waits agree.
//!
//! Approximate: a request inside a pool is taken to be in equilibrium with the other holders.

use super::{multi_convolution, mva};
use crate::closed::{Closed, ClosedMeans, Tolerance};
use crate::error::ModelError;
use crate::network::{Load, Network, Speed};
use std::collections::HashMap;

/// What the hierarchy yields.
#[derive(Debug, Clone, Default)]
pub struct LayeredMeans {
    /// Requests per second.
    pub throughput: f64,
    /// Mean number at each station.
    pub queue: Vec<f64>,
    /// Mean number waiting per pool.
    pub waiting: Vec<f64>,
    /// Mean number of units held per pool.
    pub held: Vec<f64>,
    /// Rounds that sharing pools needed to agree.
    pub rounds: usize,
    /// Residual of the last round.
    pub residual: f64,
}

/// One level (inside a pool, or the root) with a given number of requests inside.
#[derive(Debug, Clone, Default)]
struct Inside {
    throughput: f64,
    queue: Vec<f64>,
    /// Per child pool: probability that 0, 1, ... requests wait for or hold it.
    present: Vec<(usize, Vec<f64>)>,
    rounds: usize,
    residual: f64,
}

struct Solver<'a> {
    network: &'a Network,
    tolerance: &'a Tolerance,
    /// Per pool: its inside at 1..=size holders.
    curves: Vec<Vec<Inside>>,
}

/// Solves a network with pools.
///
/// # Errors
/// [`ModelError::Unsupported`] for a sharing pool that itself contains a sharing pool, or several
/// sharing pools of which one contains others; [`ModelError::NotConverged`].
pub fn solve(network: &Network, tolerance: &Tolerance) -> Result<LayeredMeans, ModelError> {
    let Load::Closed { population, .. } = network.classes[0].load else {
        let place = &network.classes[0].name;
        return Err(ModelError::unsupported("layered", "open classes", place, "use `simulation`"));
    };
    let mut solver = Solver { network, tolerance, curves: vec![Vec::new(); network.pools.len()] };
    // Inner pools come after outer ones in the list.
    for pool in (0..network.pools.len()).rev() {
        let size = network.pools[pool].size.min(population);
        let mut curve = Vec::with_capacity(size);
        for holders in 1..=size {
            curve.push(solver.inside(Some(pool), holders)?);
        }
        solver.curves[pool] = curve;
    }
    let root = solver.inside(None, population)?;
    Ok(solver.unfold(&root))
}

impl Solver<'_> {
    fn children(&self, level: Option<usize>) -> Vec<usize> {
        (0..self.network.pools.len()).filter(|&p| self.network.pools[p].parent == level).collect()
    }

    /// Demand per station while `level` is the innermost pool held.
    fn own(&self, level: Option<usize>) -> Vec<f64> {
        if let Some(pool) = level {
            return self.network.pools[pool].holds.clone();
        }
        let held = |k: usize| self.network.pools.iter().map(|p| p.holds[k]).sum::<f64>();
        let rest = |(k, s): (usize, &crate::network::Station)| {
            let rest = s.demands[0] - held(k);
            if rest < 1e-12 * s.demands[0] {
                0.0
            } else {
                rest
            }
        };
        self.network.stations.iter().enumerate().map(rest).collect()
    }

    /// Demand per station inside `pool` and everything below it.
    fn below(&self, pool: usize) -> Vec<f64> {
        let mut demand = self.network.pools[pool].holds.clone();
        for child in self.children(Some(pool)) {
            demand.iter_mut().zip(self.below(child)).for_each(|(d, more)| *d += more);
        }
        demand
    }

    /// Children that share a station with the level's own work or with a sibling.
    fn sharing(&self, level: Option<usize>) -> Vec<usize> {
        let own = self.own(level);
        let children = self.children(level);
        let below: Vec<Vec<f64>> = children.iter().map(|&c| self.below(c)).collect();
        let shares = |i: usize| {
            (0..own.len()).any(|k| {
                let elsewhere = own[k] > 0.0 || (0..below.len()).any(|j| j != i && below[j][k] > 0.0);
                below[i][k] > 0.0 && elsewhere && self.network.stations[k].speed != Speed::Delay
            })
        };
        (0..children.len()).filter(|&i| shares(i)).map(|i| children[i]).collect()
    }

    fn inside(&self, level: Option<usize>, requests: usize) -> Result<Inside, ModelError> {
        if requests == 0 {
            return Ok(Inside { queue: vec![0.0; self.network.stations.len()], ..Inside::default() });
        }
        let sharing = self.sharing(level);
        for &pool in &sharing {
            let nested = self.children(Some(pool));
            if nested.is_empty() || (sharing.len() == 1 && self.sharing(Some(pool)).is_empty()) {
                continue;
            }
            let name = &self.network.pools[pool].name;
            let remedy = "give the inner pool stations of its own, or use `simulation`";
            return Err(ModelError::unsupported(
                "layered",
                "pools that share stations at two levels",
                name,
                remedy,
            ));
        }
        if sharing.is_empty() {
            self.separate(level, requests)
        } else {
            self.shared(level, requests, &sharing)
        }
    }

    fn think(&self, level: Option<usize>) -> f64 {
        if level.is_none() {
            self.network.classes[0].think()
        } else {
            0.0
        }
    }

    /// A child as a station: demand 1, rate = throughput of its inside.
    fn flow_equivalent(&self, child: usize) -> Speed {
        Speed::Rates(self.curves[child].iter().map(|inside| inside.throughput).collect())
    }

    /// No sharing: one class over own stations and flow-equivalent children.
    fn separate(&self, level: Option<usize>, requests: usize) -> Result<Inside, ModelError> {
        let children = self.children(level);
        let mut closed = self.base(1, &[self.own(level)], &[self.think(level)], &[requests]);
        for &child in &children {
            closed.names.push(self.network.pools[child].name.clone());
            closed.demands.push(vec![1.0]);
            closed.speeds.push(self.flow_equivalent(child));
        }
        let means = super::convolution::solve(&closed, self.tolerance)?;
        let stations = self.network.stations.len();
        let present = |(i, &child): (usize, &usize)| {
            (child, means.marginal[stations + i].clone().unwrap_or_else(|| vec![1.0]))
        };
        Ok(Inside {
            throughput: means.throughput[0],
            queue: (0..stations).map(|k| means.queue[k][0]).collect(),
            present: children.iter().enumerate().map(present).collect(),
            ..Inside::default()
        })
    }

    /// The physical stations with the given demands per class.
    fn base(&self, classes: usize, demands: &[Vec<f64>], think: &[f64], population: &[usize]) -> Closed {
        Closed {
            names: self.network.stations.iter().map(|s| s.name.clone()).collect(),
            demands: (0..self.network.stations.len())
                .map(|k| (0..classes).map(|c| demands[c][k]).collect())
                .collect(),
            speeds: self.network.stations.iter().map(|s| s.speed.clone()).collect(),
            population: population.to_vec(),
            think: think.to_vec(),
        }
    }

    /// Sharing children in turn until their waits agree.
    fn shared(&self, level: Option<usize>, requests: usize, sharing: &[usize]) -> Result<Inside, ModelError> {
        let mut waits = vec![0.0; sharing.len()];
        let mut result = Inside::default();
        let rounds = if sharing.len() == 1 { 1 } else { self.tolerance.iterations.min(500) };
        for round in 1..=rounds {
            let mut change: f64 = 0.0;
            let mut present = Vec::new();
            for index in 0..sharing.len() {
                let others: f64 = (0..waits.len()).filter(|&i| i != index).map(|i| waits[i]).sum();
                let inside = self.birth_death(level, requests, sharing, index, others)?;
                let size = self.network.pools[sharing[index]].size;
                let waiting = beyond(&inside.present[0].1, size);
                let wait = waiting / inside.throughput;
                change = change.max((wait - waits[index]).abs() * inside.throughput / requests as f64);
                waits[index] = 0.5 * (wait + if round == 1 { wait } else { waits[index] });
                present.push(inside.present[0].clone());
                result = inside;
            }
            result.present.splice(0..1, present);
            result.rounds = round;
            result.residual = if sharing.len() == 1 { 0.0 } else { change };
            if result.residual <= self.tolerance.residual.max(1e-8) {
                return Ok(result);
            }
        }
        Err(ModelError::NotConverged {
            solver: "layered".into(),
            residual: result.residual,
            iterations: rounds,
            station: self.network.pools[sharing[0]].name.clone(),
        })
    }

    /// Follows the number of requests at one sharing child.
    fn birth_death(
        &self,
        level: Option<usize>,
        requests: usize,
        sharing: &[usize],
        index: usize,
        other_waits: f64,
    ) -> Result<Inside, ModelError> {
        let child = sharing[index];
        let size = self.network.pools[child].size;
        let mut outside = self.own(level);
        for &other in sharing.iter().filter(|&&p| p != child) {
            outside.iter_mut().zip(self.below(other)).for_each(|(d, more)| *d += more);
        }
        let holder = self.network.pools[child].holds.clone();
        let think = [0.0, self.think(level) + other_waits];
        let mut closed = self.base(2, &[holder, outside], &think, &[0, 0]);
        let separate: Vec<usize> =
            self.children(level).into_iter().filter(|p| !sharing.contains(p)).collect();
        for (&pool, demand) in separate
            .iter()
            .map(|p| (p, [0.0, 1.0]))
            .chain(self.children(Some(child)).iter().map(|p| (p, [1.0, 0.0])))
        {
            closed.names.push(self.network.pools[pool].name.clone());
            closed.demands.push(demand.to_vec());
            closed.speeds.push(self.flow_equivalent(pool));
        }
        let mut known: HashMap<(usize, usize), ClosedMeans> = HashMap::new();
        let mut at = |m: usize| -> Result<ClosedMeans, ModelError> {
            let key = (m.min(size), requests - m);
            if let Some(means) = known.get(&key) {
                return Ok(means.clone());
            }
            closed.population = vec![key.0, key.1];
            let means = two_classes(&closed, self.tolerance)?;
            known.insert(key, means.clone());
            Ok(means)
        };
        let states: Vec<ClosedMeans> = (0..=requests).map(&mut at).collect::<Result<_, _>>()?;
        let weights = equilibrium(&states);
        let throughput = (0..=requests).map(|m| weights[m] * states[m].throughput[0]).sum();
        let stations = self.network.stations.len();
        let queue = (0..stations)
            .map(|k| (0..=requests).map(|m| weights[m] * states[m].queue[k].iter().sum::<f64>()).sum())
            .collect();
        let mut present = vec![(child, weights.clone())];
        for (i, &pool) in separate.iter().chain(&self.children(Some(child))).enumerate() {
            let mut p = vec![0.0; requests + 1];
            for m in 0..=requests {
                match &states[m].marginal[stations + i] {
                    Some(marginal) => marginal.iter().enumerate().for_each(|(n, x)| p[n] += weights[m] * x),
                    None => p[0] += weights[m],
                }
            }
            // A grandchild is listed here with its probabilities already unconditioned.
            present.push((pool, p));
        }
        Ok(Inside { throughput, queue, present, rounds: 1, residual: 0.0 })
    }

    /// Weighs the insides of all pools by how often each number of holders occurs.
    fn unfold(&self, root: &Inside) -> LayeredMeans {
        let pools = self.network.pools.len();
        let mut means = LayeredMeans {
            throughput: root.throughput,
            queue: vec![0.0; self.network.stations.len()],
            waiting: vec![0.0; pools],
            held: vec![0.0; pools],
            rounds: root.rounds,
            residual: root.residual,
        };
        self.add(root, 1.0, &[], &mut means);
        means
    }

    fn add(&self, inside: &Inside, weight: f64, skip: &[usize], means: &mut LayeredMeans) {
        means.queue.iter_mut().zip(&inside.queue).for_each(|(q, x)| *q += weight * x);
        let followed: Vec<usize> = inside.present.iter().map(|(p, _)| *p).collect();
        for (pool, p) in inside.present.iter().filter(|(pool, _)| !skip.contains(pool)) {
            let size = self.network.pools[*pool].size;
            let explicit = self.sharing(self.network.pools[*pool].parent).contains(pool);
            for (present, probability) in p.iter().enumerate().skip(1) {
                let holders = present.min(size);
                means.held[*pool] += weight * probability * holders as f64;
                means.waiting[*pool] += weight * probability * (present - holders) as f64;
                // The stations inside an explicitly followed pool are in `inside.queue` already.
                if !explicit {
                    self.add(&self.curves[*pool][holders - 1], weight * probability, &followed, means);
                }
            }
        }
    }
}

fn two_classes(closed: &Closed, tolerance: &Tolerance) -> Result<ClosedMeans, ModelError> {
    if closed.speeds.iter().all(|s| s.is_single() || *s == Speed::Delay) {
        mva::solve(closed, tolerance)
    } else {
        multi_convolution::solve(closed, tolerance)
    }
}

/// Equilibrium of the birth-death process whose state `m` ends by class 1 (birth) or 0 (death).
fn equilibrium(states: &[ClosedMeans]) -> Vec<f64> {
    let mut logs = vec![0.0f64];
    for m in 1..states.len() {
        logs.push(logs[m - 1] + (states[m - 1].throughput[1] / states[m].throughput[0]).ln());
    }
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|log| (log - top).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| w / sum).collect()
}

/// Mean excess over `size`.
fn beyond(p: &[f64], size: usize) -> f64 {
    p.iter().enumerate().skip(size).map(|(n, x)| (n - size) as f64 * x).sum()
}
