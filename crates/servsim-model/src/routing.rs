//! Routing matrices and class switching. A class with routing goes from station to station by chance, and may change
//! its phase on the way: what the literature calls a class is a phase here, and its chain is a class (Bruell and Balbo,
//! "Computational Algorithms for Closed Queueing Networks", 1980). How often each station is visited follows from the
//! traffic equations, exactly; with these visits and times the product-form solvers need to know no more of it.

use crate::error::ModelError;
use crate::network::Network;
use crate::special::solve_linear;

/// Most equations of a class: phases times stations.
const MOST_PLACES: usize = 2_000;
/// Visits per request beyond which routing hardly ever ends.
const MOST_VISITS: f64 = 10_000.0;

/// A phase at a station.
pub type Stage = (usize, usize);

/// One entry of the matrix.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hop {
    /// From here; `None` where a request begins.
    pub from: Option<Stage>,
    /// To there; `None` where it ends.
    pub to: Option<Stage>,
    /// With this probability.
    pub probability: f64,
}

/// How the requests of a class go.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    /// The class.
    pub class: usize,
    /// Names of its phases; requests begin in the first.
    pub phases: Vec<String>,
    /// Mean service time per visit, seconds, by phase and station.
    pub service: Vec<Vec<f64>>,
    /// The matrix.
    pub hops: Vec<Hop>,
}

impl Routing {
    /// What follows `from`, with probabilities.
    pub fn after(&self, from: Option<Stage>) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(move |hop| hop.from == from)
    }

    /// Places that a request can be at.
    pub fn places(&self) -> Vec<Stage> {
        let mut all: Vec<Stage> = self.hops.iter().filter_map(|hop| hop.to).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Visits per request of each place.
    ///
    /// # Errors
    /// [`ModelError::Invalid`] for probabilities that do not sum to one, and for requests that never end.
    pub fn visits(&self, network: &Network) -> Result<Vec<(Stage, f64)>, ModelError> {
        let class = &network.classes[self.class].name;
        let name = |place: Option<Stage>| match place {
            None => "start".into(),
            Some((phase, station)) => format!("{} ({})", network.stations[station].name, self.phases[phase]),
        };
        let places = self.places();
        if self.after(None).any(|hop| hop.to.is_none()) {
            return Err(ModelError::invalid(
                format!("class `{class}` is routed from start to end"),
                "route every request to a station; ask for the throughput of those that come to one",
            ));
        }
        if places.is_empty() || places.len() > MOST_PLACES {
            return Err(ModelError::invalid(
                format!("class `{class}` is routed to {} places", places.len()),
                format!("give routes from \"start\", to at most {MOST_PLACES} places"),
            ));
        }
        for from in std::iter::once(None).chain(places.iter().map(|&place| Some(place))) {
            let sum: f64 = self.after(from).map(|hop| hop.probability).sum();
            if (sum - 1.0).abs() > 1e-9 || self.after(from).any(|hop| !(0.0..=1.0).contains(&hop.probability))
            {
                return Err(ModelError::invalid(
                    format!("class `{class}`: the routes from {} sum to {sum}, not to 1", name(from)),
                    "add what is missing, for example to \"end\"",
                ));
            }
            if let Some((phase, station)) = from {
                let time = self.service[phase][station];
                if !time.is_finite() || time <= 0.0 {
                    return Err(ModelError::invalid(
                        format!("class `{class}` is routed to {} and has no service time there", name(from)),
                        "give it one above zero, or route past it",
                    ));
                }
            }
        }
        let at = |place: Stage| places.binary_search(&place).unwrap_or(0);
        let mut matrix: Vec<Vec<f64>> = (0..places.len())
            .map(|i| (0..places.len()).map(|j| f64::from(u8::from(i == j))).collect())
            .collect();
        let mut start = vec![0.0; places.len()];
        for hop in &self.hops {
            match (hop.from, hop.to) {
                (None, Some(to)) => start[at(to)] += hop.probability,
                (Some(from), Some(to)) if places.contains(&from) => {
                    matrix[at(to)][at(from)] -= hop.probability;
                }
                _ => {}
            }
        }
        let visits = solve_linear(&matrix, &start);
        let Some(visits) = visits.filter(|all| all.iter().all(|v| (-1e-9..=MOST_VISITS).contains(v))) else {
            return Err(ModelError::invalid(
                format!(
                    "class `{class}`: some requests never come to their end, or after thousands of visits"
                ),
                "route every station to \"end\" at some point",
            ));
        };
        Ok(places.into_iter().zip(visits).collect())
    }
}

/// Puts the visits and demands that follow from the routing into the stations.
///
/// # Errors
/// As [`Routing::visits`].
pub fn apply(network: &mut Network) -> Result<(), ModelError> {
    for routing in network.routings.clone() {
        let class = routing.class;
        for station in &mut network.stations {
            (station.visits[class], station.demands[class]) = (0.0, 0.0);
        }
        for ((phase, k), visits) in routing.visits(network)? {
            let station = &mut network.stations[k];
            station.visits[class] += visits.max(0.0);
            station.demands[class] += visits.max(0.0) * routing.service[phase][k];
        }
        for station in &mut network.stations {
            if station.demands[class] == 0.0 {
                station.visits[class] = 1.0;
            }
        }
    }
    Ok(())
}
