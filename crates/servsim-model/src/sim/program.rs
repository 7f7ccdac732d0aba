//! What a request of each class does, in order: the itinerary the simulator follows. Visits are
//! interleaved over stations; a fractional visit happens with that probability. Inside a pool the
//! work of each station is one visit each time that the pool is held. A class with routing goes by its matrix instead.
//! Branches of a fork stand behind it, each ended by a join.

use crate::error::ModelError;
use crate::network::{Fork, Network, Part};
use crate::routing::{Hop, Routing};

/// Visits per station, or calls of a pool, beyond which a description is certainly wrong.
const MOST_VISITS: f64 = 10_000.0;

/// One step of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Service with this mean, taken with this probability.
    Serve {
        /// Station.
        station: usize,
        /// Mean, seconds.
        mean: f64,
        /// Probability that the visit happens.
        probability: f64,
    },
    /// Wait for a unit of a pool.
    Acquire(usize),
    /// Give it back.
    Release(usize),
    /// One task per branch, beginning at these steps; when all have joined, on at `after`.
    Fork {
        /// First step of each branch.
        branches: Vec<usize>,
        /// The step behind all of them.
        after: usize,
    },
    /// A task ends here.
    Join,
    /// Go on at one of these steps, with these probabilities; a step behind the last ends the request.
    Jump(Vec<(f64, usize)>),
}

/// The steps of one class.
///
/// # Errors
/// [`ModelError::Invalid`] for absurd visit counts.
pub fn compile(network: &Network, class: usize) -> Result<Vec<Step>, ModelError> {
    let mut steps = Vec::new();
    let forked: Vec<usize> = network.forks.iter().flat_map(Fork::stations).collect();
    let plain: Vec<usize> = (0..network.stations.len()).filter(|k| !forked.contains(k)).collect();
    if let Some(routing) = network.routing(class) {
        return Ok(routed(routing));
    }
    if network.pools.is_empty() {
        visits(network, class, &plain, &mut steps)?;
    } else {
        for &k in &plain {
            let held: f64 = network.pools.iter().map(|p| network.held(p, k, class)).sum();
            serve_once(k, network.stations[k].demands[class] - held, &mut steps);
        }
        inside(network, class, None, 1.0, &mut steps)?;
    }
    let within: Vec<usize> = network.forks.iter().flat_map(Fork::inner).collect();
    for index in (0..network.forks.len()).filter(|f| !within.contains(f)) {
        fork(network, class, index, &mut steps);
    }
    Ok(steps)
}

fn serve_once(station: usize, mean: f64, steps: &mut Vec<Step>) {
    if mean > 1e-15 {
        steps.push(Step::Serve { station, mean, probability: 1.0 });
    }
}

/// The branches in which the class has something to do, one after the other behind the fork.
fn fork(network: &Network, class: usize, index: usize, steps: &mut Vec<Step>) {
    let at = steps.len();
    steps.push(Step::Join);
    let mut branches = Vec::new();
    for branch in &network.forks[index].branches {
        let begin = steps.len();
        for part in branch {
            match *part {
                Part::Station(k) => serve_once(k, network.stations[k].demands[class], steps),
                Part::Fork(inner) => fork(network, class, inner, steps),
            }
        }
        if steps.len() > begin {
            branches.push(begin);
            steps.push(Step::Join);
        }
    }
    if branches.is_empty() {
        steps.truncate(at);
        return;
    }
    let after = steps.len();
    steps[at] = Step::Fork { branches, after };
}

/// One service per place, and behind it where to go on.
fn routed(routing: &Routing) -> Vec<Step> {
    let places = routing.places();
    let end = 1 + 2 * places.len();
    let target = |hop: &Hop| {
        let step = hop.to.map_or(end, |to| 1 + 2 * places.binary_search(&to).unwrap_or(0));
        (hop.probability, step)
    };
    let jump =
        |from| Step::Jump(routing.after(from).filter(|hop| hop.probability > 0.0).map(target).collect());
    let mut steps = vec![jump(None)];
    for &(phase, station) in &places {
        steps.push(Step::Serve { station, mean: routing.service[phase][station], probability: 1.0 });
        steps.push(jump(Some((phase, station))));
    }
    steps
}

fn visits(
    network: &Network,
    class: usize,
    stations: &[usize],
    steps: &mut Vec<Step>,
) -> Result<(), ModelError> {
    let mut round = 0.0;
    loop {
        let mut any = false;
        for &k in stations {
            let station = &network.stations[k];
            let count = station.visits[class];
            if count > MOST_VISITS {
                return Err(ModelError::invalid(
                    format!("station `{}` has {count} visits per request", station.name),
                    "the simulator follows at most 10,000; merge visits into longer ones",
                ));
            }
            let probability = (count - round).min(1.0);
            if station.demands[class] > 0.0 && probability > 1e-12 {
                any = true;
                let mean = station.demands[class] / count;
                steps.push(Step::Serve { station: k, mean, probability });
            }
        }
        if !any {
            return Ok(());
        }
        round += 1.0;
    }
}

/// The pools directly inside `level`, each acquired, used and released in turn, as often as it is called. A request
/// comes to the level `times` times.
fn inside(
    network: &Network,
    class: usize,
    level: Option<usize>,
    times: f64,
    steps: &mut Vec<Step>,
) -> Result<(), ModelError> {
    for (index, pool) in network.pools.iter().enumerate().filter(|(_, p)| p.parent == level) {
        let calls = times * pool.calls;
        if calls > MOST_VISITS {
            return Err(ModelError::invalid(
                format!("pool `{}` is called {calls} times per request", pool.name),
                "give at most 10,000 calls, of all levels together",
            ));
        }
        let begin = steps.len();
        steps.push(Step::Acquire(index));
        for station in 0..network.stations.len() {
            serve_once(station, network.held(pool, station, class) / calls, steps);
        }
        inside(network, class, Some(index), calls, steps)?;
        steps.push(Step::Release(index));
        if steps.len() == begin + 2 {
            // The class has nothing to do in it.
            steps.truncate(begin);
            continue;
        }
        let once = steps.split_off(begin);
        let whole = pool.calls.floor() as usize;
        (0..whole).for_each(|_| append(steps, &once, steps.len() - begin));
        let part = pool.calls.fract();
        if part > 1e-12 {
            let skip = steps.len() + 1 + once.len();
            steps.push(Step::Jump(vec![(part, steps.len() + 1), (1.0 - part, skip)]));
            append(steps, &once, steps.len() - begin);
        }
    }
    Ok(())
}

/// Appends steps that stood `shift` places before.
fn append(steps: &mut Vec<Step>, more: &[Step], shift: usize) {
    steps.extend(more.iter().map(|step| match step {
        Step::Jump(targets) => Step::Jump(targets.iter().map(|&(p, to)| (p, to + shift)).collect()),
        other => other.clone(),
    }));
}

/// The steps that can be next after a step at which nobody is served.
fn passes(steps: &[Step], at: usize) -> Vec<usize> {
    match &steps[at] {
        Step::Serve { probability, .. } if *probability >= 1.0 => Vec::new(),
        Step::Jump(targets) => targets.iter().map(|t| t.1).collect(),
        _ => vec![at + 1],
    }
}

/// True where a request may come to its end without having been served.
pub fn may_pass(steps: &[Step]) -> bool {
    let (mut open, mut seen) = (vec![0], vec![false; steps.len() + 1]);
    while let Some(at) = open.pop() {
        match steps.get(at) {
            None => return true,
            Some(Step::Fork { .. }) => {}
            Some(_) if std::mem::replace(&mut seen[at], true) => {}
            Some(_) => open.extend(passes(steps, at)),
        }
    }
    false
}

/// Pairs of stations of which one can directly follow the other within a request, or in the next where requests follow
/// one another `again` and again.
pub fn followers(steps: &[Step], again: bool) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let Step::Serve { station, .. } = step else { continue };
        let (mut open, mut seen) = (vec![index + 1], vec![false; steps.len() + 1]);
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match steps.get(at) {
                Some(Step::Serve { station: next, .. }) => {
                    pairs.push((*station, *next));
                    open.extend(passes(steps, at));
                }
                Some(_) => open.extend(passes(steps, at)),
                None if again && at == steps.len() => open.push(0),
                None => {}
            }
        }
    }
    pairs
}
