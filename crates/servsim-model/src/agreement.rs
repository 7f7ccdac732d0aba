//! Linearizer and AQL look at each other's answer. Where classes of a crowd are alike and a station is nearly saturated,
//! either may settle where these classes fare differently, a response time off by half or more, and nothing in its
//! own answer tells. Of 104,000 drawn crowds that were solved exactly, 3 such answers were Linearizer's and 28 AQL's, none
//! of them both. Wherever one erred by more than 15 %, the two differed by more than both their bands allow, which
//! otherwise happens in 2 of 1,000.

use crate::bands::{self, Accuracy};
use crate::network::Network;
use crate::solution::Solution;

/// Classes squared times stations up to which `auto` takes Linearizer, which keeps that many corrections.
pub const MOST_CORRECTED: usize = 1_000_000;

/// Why an answer has no band that its fellow contradicts.
const DOUBTED: Accuracy =
    Accuracy::Unknown { why: "`linearizer` and `aql` differ by more than both their bands allow" };

/// The solver to ask beside the one that answered; `None` where its answer is taken as it is.
pub fn fellow(network: &Network, found: &Solution) -> Option<&'static str> {
    let classes = network.closed().len();
    let banded = matches!(found.accuracy, Accuracy::Band { .. });
    let quick = classes.pow(2) * network.stations.len() <= MOST_CORRECTED;
    let doubtful = banded && quick && classes > 1 && network.population() > bands::CROWD;
    match found.solver.as_str() {
        "linearizer" if doubtful => Some("aql"),
        "aql" if doubtful => Some("linearizer"),
        _ => None,
    }
}

/// What an answer is worth, with that of its fellow beside it.
pub fn accuracy(found: &Solution, fellow: &Solution) -> Accuracy {
    if agree(found, fellow) {
        found.accuracy.clone()
    } else {
        DOUBTED
    }
}

/// Whether no figure of two answers differs by more than both bands together, where both have one.
fn agree(found: &Solution, fellow: &Solution) -> bool {
    let (Some(own), Some(other)) = (allowed(found), allowed(fellow)) else { return true };
    let [throughput, response, there] = [0, 1, 2].map(|of| own[of] + other[of]);
    let near = |a: f64, b: f64, allowed: f64| (a - b).abs() <= allowed * a;
    let classes =
        found.classes.iter().zip(&fellow.classes).all(|(a, b)| {
            near(a.throughput, b.throughput, throughput) && near(a.response, b.response, response)
        });
    let present = |queue: &[f64]| queue.iter().sum::<f64>();
    let mut stations = found.stations.iter().zip(&fellow.stations);
    classes && stations.all(|(a, b)| near(present(&a.queue), present(&b.queue), there))
}

/// The band of an answer: of throughput, response time and requests present.
fn allowed(found: &Solution) -> Option<[f64; 3]> {
    match found.accuracy {
        Accuracy::Band { throughput, response, present, .. } => Some([throughput, response, present]),
        _ => None,
    }
}
