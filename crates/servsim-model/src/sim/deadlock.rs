//! Whether customers may block one another for ever: a circle of stations that block, and enough to fill it.

use super::program::{compile, followers};
use crate::error::ModelError;
use crate::network::{Full, Load, Network, Room};

/// Refuses as many customers as can fill a circle of stations that block: then nobody in it can go on.
///
/// # Errors
/// [`ModelError::Invalid`], naming a station of the circle.
pub fn check(network: &Network) -> Result<(), ModelError> {
    if !network.stations.iter().any(|s| s.room.is_some_and(|room| room.full == Full::Block)) {
        return Ok(());
    }
    let count = network.stations.len();
    let room = |k: usize| match network.stations[k].room {
        Some(Room { most, full: Full::Block }) => most as f64,
        _ => f64::INFINITY,
    };
    // Least room on the way from one station to another, the first not counted.
    let mut least = vec![vec![f64::INFINITY; count]; count];
    for class in 0..network.classes.len() {
        let steps = compile(network, class)?;
        // Who does not think begins again where the last request ended.
        let again = network.classes[class].is_closed() && network.classes[class].think() == 0.0;
        for (from, to) in followers(&steps, again) {
            least[from][to] = room(to);
        }
    }
    for via in 0..count {
        for from in 0..count {
            for to in 0..count {
                least[from][to] = least[from][to].min(least[from][via] + least[via][to]);
            }
        }
    }
    let open = network.classes.iter().any(|c| matches!(c.load, Load::Open { .. }));
    let people = if open { f64::INFINITY } else { network.population() as f64 };
    let tight = (0..count).find(|&k| least[k][k].is_finite() && least[k][k] <= people);
    match tight {
        None => Ok(()),
        Some(k) => Err(ModelError::invalid(
            format!(
                "station `{}` lies on a circle of stations with room for {} that block: once it is full, nobody goes on",
                network.stations[k].name, least[k][k]
            ),
            "give one of them more room than there are customers, or let it lose requests",
        )),
    }
}
