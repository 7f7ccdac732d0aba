//! The model: classes of customers, stations they visit, pools they hold meanwhile, and forks.
//!
//! Follows the notation of Lazowska, Zahorjan, Graham and Sevcik, "Quantitative System
//! Performance" (1984): service demand `D` is the total time one request of a class spends in
//! service at a station, all visits together, in seconds at the speed of one server.

pub use crate::discipline::Discipline;
use crate::error::ModelError;
use crate::routing::Routing;
use crate::service::Law;

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
    /// Larger is served first, at stations that serve by priority.
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

/// What becomes of a request that finds a station full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// It is lost: an open request leaves, a customer thinks again.
    Lose,
    /// It stays where it was served, with the server it has there, until there is room (blocking after service); who
    /// comes from outside waits there.
    Block,
}

/// A limit to how many requests a station takes, those in service included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Requests, at least one.
    pub most: usize,
    /// What happens beyond.
    pub full: Full,
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
    /// Shape of the service times per class; empty where nothing is said of it, and exponential is presumed.
    pub laws: Vec<Law>,
    /// Weight of a request of each class under [`Discipline::Weighted`]; empty where all are alike.
    pub weights: Vec<f64>,
    /// How many requests there is room for; `None` for any number.
    pub room: Option<Room>,
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
    /// Demand per station and class, the class changing quickest, seconds, while this is the innermost pool held.
    pub holds: Vec<f64>,
    /// How often a request asks for it, each time that it holds the parent; a fraction happens with that probability.
    pub calls: f64,
}

/// What a branch of a fork does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// One visit to a station.
    Station(usize),
    /// A fork listed before, within this one.
    Fork(usize),
}

/// A request splits into one task per branch and continues when all are done.
#[derive(Debug, Clone, PartialEq)]
pub struct Fork {
    /// Unique name.
    pub name: String,
    /// What each task does, in order.
    pub branches: Vec<Vec<Part>>,
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
    /// Classes that go from station to station by chance; visits and demands follow from it ([`crate::routing::apply`]).
    pub routings: Vec<Routing>,
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
            laws: Vec::new(),
            weights: Vec::new(),
            room: None,
        }
    }

    /// The same with room for so many requests.
    #[must_use]
    pub fn with_room(mut self, most: usize, full: Full) -> Self {
        self.room = Some(Room { most, full });
        self
    }

    /// The same with service times of this shape, for all classes.
    #[must_use]
    pub fn with_law(mut self, law: &Law) -> Self {
        self.laws = vec![law.clone(); self.demands.len()];
        self
    }

    /// Shape of the service times of a class.
    pub fn law(&self, class: usize) -> &Law {
        self.laws.get(class).unwrap_or(&Law::Exponential)
    }

    /// Weight of a request of a class.
    pub fn weight(&self, class: usize) -> f64 {
        self.weights.get(class).copied().unwrap_or(1.0)
    }

    /// True where requests are served one after the other rather than all at once.
    pub fn in_turn(&self) -> bool {
        let servers = matches!(self.speed, Speed::Servers(_));
        servers && !self.discipline.is_sharing()
    }

    /// True where some class that comes needs times that are not exponential.
    pub fn is_general(&self) -> bool {
        (0..self.demands.len()).any(|c| self.demands[c] > 0.0 && !self.law(c).is_exponential())
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

impl Fork {
    /// A fork of one station per branch.
    pub fn to_stations(name: &str, stations: &[usize]) -> Self {
        let branch = |&k: &usize| vec![Part::Station(k)];
        Self { name: name.into(), branches: stations.iter().map(branch).collect() }
    }

    /// All stations of its own branches, in order.
    pub fn stations(&self) -> impl Iterator<Item = usize> + '_ {
        self.branches.iter().flatten().filter_map(|part| match part {
            Part::Station(k) => Some(*k),
            Part::Fork(_) => None,
        })
    }

    /// The forks within its branches.
    pub fn inner(&self) -> impl Iterator<Item = usize> + '_ {
        self.branches.iter().flatten().filter_map(|part| match part {
            Part::Fork(f) => Some(*f),
            Part::Station(_) => None,
        })
    }

    /// True where each branch is one station.
    pub fn is_flat(&self) -> bool {
        self.branches.iter().all(|branch| matches!(branch[..], [Part::Station(_)]))
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

    /// True for a class without a single request.
    pub fn is_nobody(&self) -> bool {
        match self.load {
            Load::Closed { population, .. } => population == 0,
            Load::Open { rate } => rate <= 0.0,
        }
    }
}

impl Network {
    /// A network of classes and stations only.
    pub fn new(name: &str, classes: Vec<Class>, stations: Vec<Station>) -> Self {
        Self { name: name.into(), classes, stations, ..Self::default() }
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

    /// The service times per visit at a station, of all classes and phases that come.
    pub fn times_per_visit(&self, station: usize) -> Vec<f64> {
        let here = &self.stations[station];
        let mut times = Vec::new();
        for c in (0..self.classes.len()).filter(|&c| here.demands[c] > 0.0) {
            match self.routing(c) {
                None => times.push(here.demands[c] / here.visits[c]),
                Some(r) => {
                    times.extend(r.places().iter().filter(|p| p.1 == station).map(|p| r.service[p.0][p.1]));
                }
            }
        }
        times
    }

    /// How a class is routed, if it is.
    pub fn routing(&self, class: usize) -> Option<&Routing> {
        self.routings.iter().find(|r| r.class == class)
    }

    /// Demand of a class at a station, seconds, while a pool is the innermost held.
    pub fn held(&self, pool: &Pool, station: usize, class: usize) -> f64 {
        pool.holds[station * self.classes.len() + class]
    }

    /// True where some station loses requests that it has no room for.
    pub fn loses(&self) -> bool {
        self.stations.iter().any(|s| s.room.is_some_and(|room| room.full == Full::Lose))
    }

    /// Refuses what no solver could answer; see [`crate::validate`].
    ///
    /// # Errors
    /// The first problem found, naming its place.
    pub fn check(&self) -> Result<(), ModelError> {
        crate::validate::check(self)
    }
}
