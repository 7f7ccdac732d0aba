//! The model: classes of customers, stations they visit, pools they hold meanwhile, and forks.
//!
//! Follows the notation of Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System
//! Performance" (1984): service demand `D` is the total time one request of a class spends in
//! service at a station, all visits together, in seconds at the speed of one server. Left out:
//! finite buffers, class switching, and service times other than exponential.

use crate::error::ModelError;

/// How many requests of a class there are.
#[derive(Debug, Clone, PartialEq)]
pub enum Load {
    /// A fixed number of customers, each thinking for `think` seconds between requests.
    Closed {
        /// Number of customers.
        population: usize,
        /// Mean think time, seconds.
        think: f64,
    },
    /// Poisson arrivals.
    Open {
        /// Arrival rate, requests per second.
        rate: f64,
    },
}

/// A class of statistically identical customers.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Unique name.
    pub name: String,
    /// Closed or open.
    pub load: Load,
    /// Larger is served first, at stations whose discipline is [`Discipline::Priority`].
    pub priority: i32,
}

/// How fast a station works.
#[derive(Debug, Clone, PartialEq)]
pub enum Speed {
    /// No queueing: each request is served at once.
    Delay,
    /// `n` identical servers (1 is the ordinary queue).
    Servers(usize),
    /// Speed relative to one server when 1, 2, ... requests are present; the last value repeats.
    Rates(Vec<f64>),
}

impl Speed {
    /// Relative speed with `present` requests (at least one).
    pub fn at(&self, present: usize) -> f64 {
        match self {
            Self::Delay => present as f64,
            Self::Servers(servers) => present.min(*servers) as f64,
            Self::Rates(rates) => rates[present.min(rates.len()) - 1],
        }
    }

    /// Largest speed the station can reach with up to `present` requests.
    pub fn capacity(&self, present: usize) -> f64 {
        match self {
            Self::Delay => f64::INFINITY,
            Self::Servers(servers) => *servers as f64,
            Self::Rates(rates) => rates.iter().take(present.max(1)).copied().fold(0.0, f64::max),
        }
    }

    /// The speed that unboundedly many requests see.
    pub fn limit(&self) -> f64 {
        match self {
            Self::Delay => f64::INFINITY,
            Self::Servers(servers) => *servers as f64,
            Self::Rates(rates) => rates[rates.len() - 1],
        }
    }

    /// True for a single server of constant speed.
    pub fn is_single(&self) -> bool {
        matches!(self, Self::Servers(1))
    }
}

/// Order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// Processor sharing: product form with any demands (BCMP type 2).
    Ps,
    /// First come, first served: product form when all classes need the same time per visit.
    Fcfs,
    /// Preemptive-resume priority between classes, first come, first served within one.
    Priority,
}

/// A place where requests receive service.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Unique name.
    pub name: String,
    /// Speed as a function of the requests present.
    pub speed: Speed,
    /// Order of service.
    pub discipline: Discipline,
    /// Service demand per class, seconds; 0 where the class does not come.
    pub demands: Vec<f64>,
    /// Visits per request and class; the time per visit is demand / visits.
    pub visits: Vec<f64>,
}

/// A passive resource (threads, connections, a lock): held while the request is inside.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    /// Unique name.
    pub name: String,
    /// Units available; 1 is a lock.
    pub size: usize,
    /// The pool that is already held when this one is asked for.
    pub parent: Option<usize>,
    /// Demand per station, seconds, while this is the innermost pool held (single class).
    pub holds: Vec<f64>,
}

/// A request splits into one task per branch station and continues when all are done.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// Unique name.
    pub name: String,
    /// Stations, each visited by one task.
    pub branches: Vec<usize>,
}

/// A queueing network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// Name for reports.
    pub name: String,
    /// Classes.
    pub classes: Vec<Class>,
    /// Stations.
    pub stations: Vec<Station>,
    /// Passive resources.
    pub pools: Vec<Pool>,
    /// Fork-join sections.
    pub forks: Vec<Fork>,
}

impl Station {
    /// A processor-sharing station with one server and the given demands per class.
    pub fn queue(name: &str, demands: &[f64]) -> Self {
        Self {
            name: name.into(),
            speed: Speed::Servers(1),
            discipline: Discipline::Ps,
            demands: demands.to_vec(),
            visits: vec![1.0; demands.len()],
        }
    }

    /// The same with another speed.
    #[must_use]
    pub fn with_speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }

    /// The same with another discipline.
    #[must_use]
    pub fn with_discipline(mut self, discipline: Discipline) -> Self {
        self.discipline = discipline;
        self
    }

    /// True when some class brings work.
    pub fn is_used(&self) -> bool {
        self.demands.iter().any(|&d| d > 0.0)
    }
}

impl Class {
    /// A closed class.
    pub fn closed(name: &str, population: usize, think: f64) -> Self {
        Self { name: name.into(), load: Load::Closed { population, think }, priority: 0 }
    }

    /// An open class.
    pub fn open(name: &str, rate: f64) -> Self {
        Self { name: name.into(), load: Load::Open { rate }, priority: 0 }
    }

    /// Think time of a closed class, zero of an open one.
    pub fn think(&self) -> f64 {
        match self.load {
            Load::Closed { think, .. } => think,
            Load::Open { .. } => 0.0,
        }
    }

    /// True for a closed class.
    pub fn is_closed(&self) -> bool {
        matches!(self.load, Load::Closed { .. })
    }
}

impl Network {
    /// A network of classes and stations only.
    pub fn new(name: &str, classes: Vec<Class>, stations: Vec<Station>) -> Self {
        Self { name: name.into(), classes, stations, pools: Vec::new(), forks: Vec::new() }
    }

    /// One closed class over single-server stations, one per demand (seconds).
    pub fn single(population: usize, think: f64, demands: &[f64]) -> Self {
        let stations = demands.iter().enumerate().map(|(k, &d)| Station::queue(&format!("s{k}"), &[d]));
        Self::new("network", vec![Class::closed("customers", population, think)], stations.collect())
    }

    /// Indices of the closed classes.
    pub fn closed(&self) -> Vec<usize> {
        (0..self.classes.len()).filter(|&c| self.classes[c].is_closed()).collect()
    }

    /// Indices of the open classes.
    pub fn open(&self) -> Vec<usize> {
        (0..self.classes.len()).filter(|&c| !self.classes[c].is_closed()).collect()
    }

    /// Sum of closed populations.
    pub fn population(&self) -> usize {
        let of = |class: &Class| match class.load {
            Load::Closed { population, .. } => population,
            Load::Open { .. } => 0,
        };
        self.classes.iter().map(of).sum()
    }

    /// Total demand of a class over queueing and delay stations, seconds.
    pub fn total_demand(&self, class: usize) -> f64 {
        self.stations.iter().map(|s| s.demands[class]).sum()
    }

    /// Refuses what no solver could answer; see [`crate::validate`].
    ///
    /// # Errors
    /// The first problem found, naming its place.
    pub fn check(&self) -> Result<(), ModelError> {
        crate::validate::check(self)
    }
}
