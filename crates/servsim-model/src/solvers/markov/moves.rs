//! What may happen in a state of a chain, and where it leads: services end, and whoever was served goes on until it
//! has to stay somewhere, letting others go on by the units of pools that it gives back.

use super::route::{Activity, Line, Order, Route, RoutePlace, State};
use crate::sim::program::Step;

/// A place that stands for the outside, from which a request of the class given as position comes.
const OUTSIDE: usize = usize::MAX;

/// A state that a move may lead to.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The state.
    pub state: State,
    /// How likely it is.
    pub probability: f64,
    /// Classes of the requests that ended on the way.
    pub ended: Vec<u16>,
}

/// A change of state: the request at a place goes on, or its part at a station ends, or one comes.
#[derive(Debug, Clone, Copy)]
pub struct Move {
    place: usize,
    /// Position in the line, where order is kept.
    position: usize,
    /// Which part ended.
    part: usize,
    /// Times per second.
    pub rate: f64,
}

/// A request between two places.
struct Moving {
    state: State,
    /// Units of each pool in use, its own among them.
    held: Vec<u32>,
    /// Of these, what those hold who let it go on and will then go on themselves.
    outer: Vec<u32>,
    class: usize,
    /// Of what has happened on its way so far.
    probability: f64,
    ended: Vec<u16>,
}

impl Moving {
    fn stays(self) -> Outcome {
        Outcome { state: self.state, probability: self.probability, ended: self.ended }
    }
}

impl Route {
    /// All requests, new.
    pub fn start(&self) -> State {
        let mut state =
            State { counts: vec![0; self.places.len()], lines: vec![Vec::new(); self.kept.len()] };
        for (class, &population) in self.populations.iter().enumerate() {
            let population = if self.rates[class] > 0.0 { 0 } else { population };
            for _ in 0..population {
                let held = self.held(&state.counts);
                let mut outcomes = Vec::new();
                let outer = vec![0; held.len()];
                let moving = Moving { state, held, outer, class, probability: 1.0, ended: Vec::new() };
                self.proceed(moving, None, &mut outcomes);
                state = outcomes.swap_remove(0).state;
            }
        }
        state
    }

    /// Units of each pool in use.
    pub fn held(&self, counts: &[u32]) -> Vec<u32> {
        let mut held = vec![0; self.sizes.len()];
        for (place, &count) in self.places.iter().zip(counts) {
            place.holds.iter().for_each(|&pool| held[pool] += count);
        }
        held
    }

    /// Requests, or parts of them, at a station.
    pub fn present(&self, station: usize, counts: &[u32]) -> u32 {
        self.there[station].iter().map(|&place| counts[place]).sum()
    }

    /// What may happen in a state.
    pub fn moves(&self, state: &State) -> Vec<Move> {
        let mut moves = Vec::new();
        for (index, place) in self.places.iter().enumerate().filter(|(p, _)| state.counts[*p] > 0) {
            let count = f64::from(state.counts[index]);
            let mut go = |part: usize, rate: f64| moves.push(Move { place: index, position: 0, part, rate });
            let share = |station: usize, mean: f64| {
                let present = self.present(station, &state.counts);
                let weight = |&p: &usize| self.weights[p] * f64::from(state.counts[p]);
                let all: f64 = self.there[station].iter().map(weight).sum();
                count * self.weights[index] / all * self.speeds[station].at(present as usize) / mean
            };
            match &place.kind {
                Activity::Think(mean) => go(0, count / mean),
                Activity::Wait(_) => {}
                Activity::Serve(station, mean) => {
                    if matches!(self.orders[*station], Order::Shared) {
                        go(0, share(*station, *mean));
                    }
                }
                Activity::Part(_, mean) => go(0, 1.0 / mean),
                Activity::Parts(parts) => {
                    parts.iter().enumerate().for_each(|(i, &(station, mean))| go(i, share(station, mean)));
                }
            }
        }
        for (class, &rate) in self.rates.iter().enumerate().filter(|(_, rate)| **rate > 0.0) {
            moves.push(Move { place: OUTSIDE, position: class, part: 0, rate });
        }
        for order in &self.orders {
            if let Order::Lines(servers, lines) = order {
                self.serve_lines(state, *servers, lines, &mut moves);
            }
        }
        moves
    }

    fn serve_lines(&self, state: &State, servers: usize, lines: &[Line], moves: &mut Vec<Move>) {
        let mut free = servers;
        let mean = |place: usize| match self.places[place].kind {
            Activity::Serve(_, mean) => Some(mean),
            _ => None,
        };
        for line in lines {
            match *line {
                Line::Alike(place) => {
                    let served = free.min(state.counts[place] as usize);
                    if let Some(mean) = mean(place).filter(|_| served > 0) {
                        moves.push(Move { place, position: 0, part: 0, rate: served as f64 / mean });
                    }
                    free -= served;
                }
                Line::Kept(kept) => {
                    let served = free.min(state.lines[kept].len());
                    for (position, &place) in state.lines[kept][..served].iter().enumerate() {
                        let place = place as usize;
                        if let Some(mean) = mean(place) {
                            moves.push(Move { place, position, part: 0, rate: 1.0 / mean });
                        }
                    }
                    free -= served;
                }
            }
        }
    }

    /// The states that a move may lead to, with their probabilities.
    pub fn follow(&self, state: &State, chosen: Move, outcomes: &mut Vec<Outcome>) {
        let held = self.held(&state.counts);
        let mut after = state.clone();
        let outer = vec![0; held.len()];
        if chosen.place == OUTSIDE {
            let class = chosen.position;
            let moving = Moving { state: after, held, outer, class, probability: 1.0, ended: Vec::new() };
            return self.proceed(moving, None, outcomes);
        }
        let mut ends = 1.0;
        for &(next, probability) in &self.places[chosen.place].next {
            let mut on = state.clone();
            on.counts[chosen.place] -= 1;
            on.counts[next] += 1;
            if let Some(kept) = self.kept_with(chosen.place) {
                on.lines[kept][chosen.position] = next as u32;
                self.arrange(kept, &mut on);
            }
            ends -= probability;
            outcomes.push(Outcome { state: on, probability, ended: Vec::new() });
        }
        if ends < 1e-12 {
            return;
        }
        let place = &self.places[chosen.place];
        let ended = match &place.kind {
            Activity::Parts(parts) if parts.len() > 1 => {
                let mut left = parts.clone();
                left.remove(chosen.part);
                let left = Activity::Parts(left);
                let same = |p: &RoutePlace| p.class == place.class && p.step == place.step && p.kind == left;
                after.counts[chosen.place] -= 1;
                after.counts[self.places.iter().position(same).unwrap_or(0)] += 1;
                false
            }
            Activity::Part(..) => {
                let before = self.split(place.step, &after.counts);
                after.counts[chosen.place] -= 1;
                self.split(place.step, &after.counts) < before
            }
            _ => {
                after.counts[chosen.place] -= 1;
                if let Some(kept) = self.kept_with(chosen.place) {
                    after.lines[kept].remove(chosen.position);
                    self.arrange(kept, &mut after);
                }
                true
            }
        };
        let (class, ended_classes) = (place.class, Vec::new());
        let moving = Moving { state: after, held, outer, class, probability: ends, ended: ended_classes };
        if ended {
            self.proceed(moving, Some(place.step), outcomes);
        } else {
            outcomes.push(moving.stays());
        }
    }

    /// Requests in a section whose parts are served in turn: as many as the slowest branch has.
    fn split(&self, step: usize, counts: &[u32]) -> u32 {
        let part = |place: &RoutePlace| place.step == step && matches!(place.kind, Activity::Part(..));
        self.places.iter().zip(counts).filter(|(p, _)| part(p)).map(|(_, &n)| n).max().unwrap_or(0)
    }

    fn kept_with(&self, place: usize) -> Option<usize> {
        self.kept.iter().position(|places| places.contains(&place))
    }

    /// Those in service at once are alike in any order: one order stands for all.
    fn arrange(&self, kept: usize, state: &mut State) {
        let serves = |order: &Order| match order {
            Order::Lines(servers, lines) => {
                matches!(lines[..], [Line::Kept(k)] if k == kept).then_some(*servers)
            }
            Order::Shared => None,
        };
        if let Some(servers) = self.orders.iter().find_map(serves) {
            let line = &mut state.lines[kept];
            let served = servers.min(line.len());
            line[..served].sort_unstable();
        }
    }

    fn put(&self, state: &mut State, place: usize) {
        state.counts[place] += 1;
        if let Some(kept) = self.kept_with(place) {
            let rank = |place: u32| self.priorities[self.places[place as usize].class];
            let line = &mut state.lines[kept];
            let at = match self.ranked[kept] {
                Some(servers) if line.len() > servers => {
                    let lower = |&other: &u32| rank(other) < rank(place as u32);
                    line[servers..].iter().position(lower).map_or(line.len(), |i| servers + i)
                }
                _ => line.len(),
            };
            line.insert(at, place as u32);
            self.arrange(kept, state);
        }
    }

    /// Lets a request go on after a step (`None`: it is new) until it stays somewhere.
    fn proceed(&self, moving: Moving, after: Option<usize>, outcomes: &mut Vec<Outcome>) {
        let class = moving.class;
        let step = match (after, self.thinks[class]) {
            (None, Some(_)) => self.programs[class].len(),
            (None, None) | (Some(usize::MAX), _) => 0,
            (Some(step), _) => match self.programs[class][step] {
                Step::Fork { after, .. } => after,
                _ => step + 1,
            },
        };
        self.proceed_from(moving, step, outcomes);
    }

    /// Lets a request go on with a step until it stays somewhere.
    fn proceed_from(&self, mut moving: Moving, mut step: usize, outcomes: &mut Vec<Outcome>) {
        let class = moving.class;
        loop {
            let Some(found) = self.programs[class].get(step) else {
                moving.ended.push(class as u16);
                if self.rates[class] > 0.0 {
                    return outcomes.push(moving.stays());
                }
                let Some(think) = self.thinks[class] else {
                    step = 0;
                    continue;
                };
                moving.state.counts[think] += 1;
                return outcomes.push(moving.stays());
            };
            let place = self.entries[class][step].first().map_or(0, |entry| entry.0);
            match found {
                Step::Jump(targets) => {
                    for &(probability, target) in targets.iter().filter(|t| t.0 > 0.0) {
                        let Moving { state, held, outer, ended, .. } = &moving;
                        let chosen = Moving {
                            state: state.clone(),
                            held: held.clone(),
                            outer: outer.clone(),
                            class,
                            probability: moving.probability * probability,
                            ended: ended.clone(),
                        };
                        self.proceed_from(chosen, target, outcomes);
                    }
                    return;
                }
                Step::Join => {}
                Step::Serve { station, probability, .. } => {
                    for &(entry, share) in &self.entries[class][step] {
                        let mut there = moving.state.clone();
                        if self.present(*station, &there.counts) as usize >= self.rooms[*station] {
                            // It is lost: nobody, or one who thinks again.
                            self.thinks[class].into_iter().for_each(|think| there.counts[think] += 1);
                        } else {
                            self.put(&mut there, entry);
                        }
                        outcomes.push(Outcome {
                            state: there,
                            probability: moving.probability * probability * share,
                            ended: moving.ended.clone(),
                        });
                    }
                    if *probability >= 1.0 {
                        return;
                    }
                    moving.probability *= 1.0 - probability;
                }
                Step::Acquire(pool) if (moving.held[*pool] as usize) < self.sizes[*pool] => {
                    moving.held[*pool] += 1;
                }
                Step::Acquire(_) => {
                    self.put(&mut moving.state, place);
                    return outcomes.push(moving.stays());
                }
                Step::Release(pool) => {
                    let Some(next) = moving.state.take_first(self.waiting[*pool]) else {
                        moving.held[*pool] -= 1;
                        step += 1;
                        continue;
                    };
                    // The unit goes to who waits; where that one goes may be chance, and this one goes on in each case.
                    let (other, at) = (self.places[next].class, self.places[next].step);
                    let mut all = Vec::new();
                    let before = moving.outer.clone();
                    self.add_own(class, step, &mut moving.outer);
                    let own = moving.outer.clone();
                    self.proceed(Moving { class: other, ..moving }, Some(at), &mut all);
                    for Outcome { state, probability, ended } in all {
                        let mut held = self.held(&state.counts);
                        held.iter_mut().zip(&own).for_each(|(held, own)| *held += own);
                        let moving = Moving { state, held, outer: before.clone(), class, probability, ended };
                        self.proceed(moving, Some(step), outcomes);
                    }
                    return;
                }
                Step::Fork { .. } => {
                    let last = match self.places[place].kind {
                        Activity::Part(..) => place + self.there_in(place),
                        _ => place + 1,
                    };
                    (place..last).for_each(|p| moving.state.counts[p] += 1);
                    return outcomes.push(moving.stays());
                }
            }
            step += 1;
        }
    }

    /// Number of branches of the fork whose first part is at this place.
    fn there_in(&self, place: usize) -> usize {
        let step = self.places[place].step;
        self.places[place..].iter().take_while(|p| p.step == step).count()
    }

    /// Adds the units that a request of `class` holds when it has just given one back at `step`.
    fn add_own(&self, class: usize, step: usize, held: &mut [u32]) {
        let mut own = Vec::new();
        for done in &self.programs[class][..=step] {
            match done {
                Step::Acquire(pool) => own.push(*pool),
                Step::Release(pool) => own.retain(|p| p != pool),
                _ => {}
            }
        }
        own.into_iter().for_each(|pool: usize| held[pool] += 1);
    }
}
