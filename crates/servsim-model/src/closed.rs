//! The closed part of a product-form network in the dense form the solvers work on, and what they
//! return. Open classes have already been folded into the stations (see `solvers::mixed`).

use crate::error::ModelError;
use crate::network::Speed;

/// Closed classes over stations; demand `[station][class]` in seconds.
#[derive(Debug, Clone)]
pub struct Closed {
    /// Station names, for errors.
    pub names: Vec<String>,
    /// Service demands, `[station][class]`, seconds.
    pub demands: Vec<Vec<f64>>,
    /// Speeds.
    pub speeds: Vec<Speed>,
    /// Customers per class.
    pub population: Vec<usize>,
    /// Think time per class, seconds.
    pub think: Vec<f64>,
}

/// Means of a closed network.
#[derive(Debug, Clone, Default)]
pub struct ClosedMeans {
    /// Throughput per class, per second.
    pub throughput: Vec<f64>,
    /// Mean number present, `[station][class]`.
    pub queue: Vec<Vec<f64>>,
    /// Distribution of the number present (all classes) where the solver computed it.
    pub marginal: Vec<Option<Vec<f64>>>,
    /// Iterations made (0 for a direct method).
    pub iterations: usize,
    /// Largest relative change of the last iteration (0 for a direct method).
    pub residual: f64,
}

/// When an iteration may stop and when it must give up.
#[derive(Debug, Clone, Copy)]
pub struct Tolerance {
    /// Largest relative change of any queue length, per iteration, that counts as converged.
    pub residual: f64,
    /// Iterations after which non-convergence is reported.
    pub iterations: usize,
    /// States an exact multi-class solver may hold.
    pub states: f64,
}

impl Default for Tolerance {
    fn default() -> Self {
        Self { residual: 1e-9, iterations: 10_000, states: 5e7 }
    }
}

/// Relative excess over a capacity, in residuals of an iteration, that is taken for what the iteration left.
const RESIDUALS: f64 = 100.0;

/// A solver of closed networks.
pub type ClosedSolver = fn(&Closed, &Tolerance) -> Result<ClosedMeans, ModelError>;

impl Closed {
    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.population.len()
    }

    /// Number of stations.
    pub fn stations(&self) -> usize {
        self.demands.len()
    }

    /// Customers of all classes.
    pub fn total_population(&self) -> usize {
        self.population.iter().sum()
    }

    /// The same network with one customer of `class` fewer.
    #[must_use]
    pub fn without_one(&self, class: usize) -> Self {
        let mut fewer = self.clone();
        fewer.population[class] -= 1;
        fewer
    }

    /// Means of a network without customers.
    pub fn empty_means(&self) -> ClosedMeans {
        ClosedMeans {
            throughput: vec![0.0; self.classes()],
            queue: vec![vec![0.0; self.classes()]; self.stations()],
            marginal: vec![None; self.stations()],
            ..ClosedMeans::default()
        }
    }

    /// Points of the population lattice, `(N1+1)(N2+1)...`, refused above the limit.
    ///
    /// # Errors
    /// [`ModelError::TooLarge`] naming the station with the largest demand.
    pub fn lattice(&self, per_point: usize, limit: f64) -> Result<usize, ModelError> {
        let points: f64 = self.population.iter().map(|&n| n as f64 + 1.0).product();
        let states = points * per_point as f64;
        if states <= limit {
            return Ok(points as usize);
        }
        let total = |k: usize| self.demands[k].iter().sum::<f64>();
        let largest = (0..self.stations()).max_by(|&a, &b| total(a).total_cmp(&total(b))).unwrap_or(0);
        Err(ModelError::TooLarge {
            populations: self.population.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
            station: self.names[largest].clone(),
            states,
            limit,
            remedy: if self.speeds.iter().any(|speed| matches!(speed, Speed::Rates(_))) {
                "use `simulation`"
            } else {
                "use an approximate solver (`linearizer` or `aql`)"
            },
        })
    }

    /// Withholds means that break the utilisation bound or hold a value that is not a number; an excess within
    /// rounding and what the iteration left is rounded down to the bound it cannot exceed.
    ///
    /// # Errors
    /// [`ModelError::Numerical`].
    pub fn guard(&self, solver: &str, mut means: ClosedMeans) -> Result<ClosedMeans, ModelError> {
        let broken = |law: &'static str, station: usize, excess: f64| ModelError::Numerical {
            solver: solver.into(),
            law,
            station: self.names.get(station).cloned().unwrap_or_default(),
            excess,
        };
        if means.throughput.iter().any(|x| !x.is_finite() || *x < 0.0) {
            return Err(broken("finite, non-negative throughput", 0, f64::INFINITY));
        }
        for k in 0..self.stations() {
            if means.queue[k].iter().any(|q| !q.is_finite() || *q < -1e-9) {
                return Err(broken("finite, non-negative queue length", k, f64::INFINITY));
            }
            let capacity = self.speeds[k].capacity(self.total_population());
            let load: f64 = means.throughput.iter().zip(&self.demands[k]).map(|(x, d)| x * d).sum();
            let excess = load / capacity - 1.0;
            if excess > 1e-11 + RESIDUALS * means.residual {
                return Err(broken("the utilisation bound X D <= capacity", k, excess));
            }
            if excess > 0.0 {
                means.throughput.iter_mut().for_each(|x| *x = round_below(*x, load, capacity));
            }
        }
        Ok(means)
    }
}

/// The largest value near `x` with which a load of `load` no longer exceeds `capacity`.
fn round_below(x: f64, load: f64, capacity: f64) -> f64 {
    x * (capacity / load) * (1.0 - 2.0 * f64::EPSILON)
}
