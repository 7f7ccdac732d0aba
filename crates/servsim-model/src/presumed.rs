//! What an answer presumes because a description does not say otherwise: in what order a station serves, and how the times
//! are spread that it takes. Means often depend on neither, percentiles on both.

use crate::network::{Discipline, Network, Speed, Station};
use crate::solution::{Solution, StationResult};

/// Utilisation, or share of a class's response time, from which it shows what a station is presumed to do.
const MATTERS: f64 = 0.1;
/// Stations that a note names.
const NAMED: usize = 4;

/// Says what is presumed of the stations that matter, where figures go by it. Of a disk at 84 % the 99th percentile is 1.6
/// times that of first come, first served, if requests share it; and where it serves in turn, they wait for exponential
/// times twice as long as for constant ones (Pollaczek and Khinchine).
pub fn note(network: &Network, solution: &mut Solution) {
    let alone = network.open().is_empty() && network.population() <= 1;
    let queues = |s: &Station, found: &StationResult| {
        !alone && found.utilization >= MATTERS && s.speed != Speed::Delay
    };
    let matters = |s: &Station, found: &StationResult| {
        let mut shares =
            found.residence.iter().zip(&solution.classes).map(|(time, class)| time / class.response);
        queues(s, found) || shares.any(|share| share >= MATTERS)
    };
    let those = |met: &dyn Fn(&Station, &StationResult) -> bool| {
        let stations = network.stations.iter().zip(&solution.stations);
        stations.filter(|(s, found)| met(s, found)).map(|(s, _)| s.name.as_str()).collect::<Vec<_>>()
    };
    let in_turn = those(&|s, found| s.in_turn() && s.laws.is_empty() && queues(s, found));
    let shared = those(&|s, found| s.discipline == Discipline::Ps && queues(s, found));
    let exponential = those(&|s, found| s.laws.is_empty() && matters(s, found));
    let mut notes = Vec::new();
    if !in_turn.is_empty() {
        let names = listed(&in_turn);
        notes.push(format!(
            "figures presume exponential service times at stations that serve in turn and have no `cv`: {names}"
        ));
    }
    let mut presumed = Vec::new();
    if !shared.is_empty() {
        let names = listed(&shared);
        presumed.push(format!(
            "that requests share {names} (discipline = \"ps\"; a station that serves in turn, as a disk does, is \"fcfs\")"
        ));
    }
    if !exponential.is_empty() {
        presumed.push("that service times are exponential where no `cv` is given".into());
    }
    if solution.classes.iter().any(|class| !class.percentiles.is_empty()) && !presumed.is_empty() {
        notes.push(format!("percentiles presume {}", presumed.join(", and ")));
    }
    solution.notes.append(&mut notes);
}

/// Names in words.
fn listed(names: &[&str]) -> String {
    let most = if names.len() > NAMED { NAMED - 1 } else { NAMED };
    let mut words: Vec<String> = names.iter().take(most).map(|name| format!("`{name}`")).collect();
    if names.len() > most {
        words.push(format!("{} more", names.len() - most));
    }
    words.join(", ")
}
