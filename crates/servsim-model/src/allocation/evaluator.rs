//! Throughput of one candidate allocation: the stations that do not depend on it are convolved once,
//! so that a candidate costs `N` multiplications per disk and bus.

use super::{Fixed, Problem};
use crate::error::ModelError;
use crate::network::Speed;
use crate::solvers::convolution;
use crate::{Closed, Tolerance};

/// Evaluates throughputs quickly for one division of disks over buses.
pub(super) struct Evaluator {
    /// Constants of everything fixed, scaled by `theta`.
    base: Vec<f64>,
    theta: f64,
    scratch: Vec<f64>,
    bus_of: Vec<usize>,
    buses: usize,
    disk_demand: f64,
    bus_demand: f64,
    pub(super) evaluated: u64,
}

impl Evaluator {
    pub(super) fn new(problem: &Problem, disks_per_bus: &[usize]) -> Result<Self, ModelError> {
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
        let theta = convolution::solve(&closed, &Tolerance::default())?.throughput[0];
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
    pub(super) fn throughput(&mut self, shares: &[f64]) -> f64 {
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
