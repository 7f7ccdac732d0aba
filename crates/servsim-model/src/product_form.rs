//! Which networks have a product form (Baskett, Chandy, Muntz and Palacios 1975): what is worked out from it is for these
//! alone.

use crate::error::ModelError;
use crate::network::{Discipline, Network, Speed, Station};

/// Why a network has no product form, and at which station; priorities, pools and forks are looked for elsewhere.
pub fn irregular(network: &Network) -> Option<(&'static str, &Station)> {
    let reason = |k: usize| {
        let station = &network.stations[k];
        let times = network.times_per_visit(k);
        let unequal = times.iter().any(|t| (t - times[0]).abs() > 1e-9 * times[0]);
        let turns = station.in_turn();
        let feature = match station.discipline {
            _ if station.room.is_some() => "finite capacity",
            Discipline::Weighted => "sharing by weight",
            Discipline::NonPreemptive => "non-preemptive priorities",
            _ if turns && station.is_general() => "service in turn with times that are not exponential",
            Discipline::Fcfs if station.speed != Speed::Delay && unequal => {
                "first come, first served with unequal service times per visit"
            }
            _ => return None,
        };
        Some((feature, station))
    };
    (0..network.stations.len()).find_map(reason)
}

/// Refuses pools, forks, priorities, and whatever else is [`irregular`], on behalf of `what`, which does not know them.
/// `remedy` replaces those that name other solvers.
///
/// # Errors
/// [`ModelError::Unsupported`].
pub fn require(network: &Network, what: &str, remedy: Option<&str>) -> Result<(), ModelError> {
    const ANOTHER: &str = "use `auto` or `simulation`";
    let refused = |feature: &str, place: &str, usual: &str| {
        Err(ModelError::unsupported(what, feature, place, remedy.unwrap_or(usual)))
    };
    if let Some(pool) = network.pools.first() {
        return refused("pools", &pool.name, ANOTHER);
    }
    if let Some(fork) = network.forks.first() {
        return refused("forks", &fork.name, ANOTHER);
    }
    let ranked = |s: &&Station| s.speed != Speed::Delay && s.discipline == Discipline::Priority;
    if let Some(station) = network.stations.iter().find(ranked) {
        return refused("priorities", &station.name, "use `priority` or `simulation`");
    }
    match irregular(network) {
        Some((feature, station)) if feature.contains("unequal") => {
            let equal = "set discipline = \"ps\", give visits that make the times per visit equal, or use `simulation`";
            refused(feature, &station.name, equal)
        }
        Some((feature, station)) => refused(feature, &station.name, ANOTHER),
        None => Ok(()),
    }
}
