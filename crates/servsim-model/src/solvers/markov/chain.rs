//! The Markov chain of a closed model: every state that its requests can get into, and the rates among them.

use super::moves::Outcome;
use super::route::{Route, State};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// States that can be reached, and the rates among them.
#[derive(Debug)]
pub struct Chain {
    /// Per place the number there in each state.
    counts: Vec<Vec<u32>>,
    /// All states in a row, as they are written.
    rows: Vec<u32>,
    /// Where each begins; one more at the end.
    rows_begin: Vec<usize>,
    /// Rate out of each state, per second.
    pub out: Vec<f64>,
    /// Per state where its entries of `sources` begin; one more at the end.
    begin: Vec<usize>,
    /// States that lead into it, with their rates per second.
    sources: Vec<(u32, f64)>,
    /// Requests that end in each state, by class, per second.
    pub ends: Vec<(u32, u16, f64)>,
}

impl Chain {
    /// Follows the route from its start; `None` beyond `limit` states.
    pub fn explore(route: &Route, limit: usize) -> Option<Self> {
        let width = route.places.len();
        let mut known: HashMap<Box<[u32]>, u32, BuildHasherDefault<Folding>> = HashMap::default();
        let (mut rows, mut begin) = (Vec::new(), vec![0]);
        let mut row = Vec::new();
        route.start().write(&mut row);
        known.insert(row.clone().into(), 0);
        rows.extend_from_slice(&row);
        begin.push(rows.len());
        let (mut moves, mut out, mut outcomes, mut ends) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        while out.len() + 1 < begin.len() {
            let from = out.len();
            let here = route.read(&rows[begin[from]..begin[from + 1]]);
            let mut sum = 0.0;
            for chosen in route.moves(&here) {
                route.follow(&here, chosen, &mut outcomes);
                for Outcome { state: there, probability, ended } in outcomes.drain(..) {
                    ends.extend(ended.iter().map(|&class| (from as u32, class, chosen.rate * probability)));
                    if there == here {
                        continue;
                    }
                    there.write(&mut row);
                    let to = known.get(row.as_slice()).copied().unwrap_or_else(|| {
                        let next = known.len() as u32;
                        known.insert(row.clone().into(), next);
                        rows.extend_from_slice(&row);
                        begin.push(rows.len());
                        next
                    });
                    let rate = chosen.rate * probability;
                    sum += rate;
                    moves.push((from as u32, to, rate));
                }
                if known.len() > limit {
                    return None;
                }
            }
            out.push(sum);
        }
        let column = |place: usize| begin[..out.len()].iter().map(|&at| rows[at + place]).collect();
        let counts = (0..width).map(column).collect();
        Some(Self { rows, rows_begin: begin, ends, ..Self::assemble(counts, out, &moves) })
    }

    fn assemble(counts: Vec<Vec<u32>>, out: Vec<f64>, moves: &[(u32, u32, f64)]) -> Self {
        let mut begin = vec![0; out.len() + 1];
        moves.iter().for_each(|&(_, to, _)| begin[to as usize + 1] += 1);
        for state in 0..out.len() {
            begin[state + 1] += begin[state];
        }
        let (mut free, mut sources) = (begin.clone(), vec![(0, 0.0); moves.len()]);
        for &(from, to, rate) in moves {
            sources[free[to as usize]] = (from, rate);
            free[to as usize] += 1;
        }
        Self { counts, out, begin, sources, ends: Vec::new(), rows: Vec::new(), rows_begin: Vec::new() }
    }

    /// Number of states.
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// States that lead into one, with their rates per second.
    pub fn sources(&self, state: usize) -> &[(u32, f64)] {
        &self.sources[self.begin[state]..self.begin[state + 1]]
    }

    /// Per place the number there in each state.
    pub fn counts(&self) -> &[Vec<u32>] {
        &self.counts
    }

    /// A state.
    pub fn at(&self, route: &Route, state: usize) -> State {
        route.read(&self.rows[self.rows_begin[state]..self.rows_begin[state + 1]])
    }
}

/// A hash of a few small numbers: nobody chooses them to collide.
#[derive(Default)]
struct Folding(u64);

impl Hasher for Folding {
    fn write(&mut self, bytes: &[u8]) {
        for four in bytes.chunks(4) {
            let number = four.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            // An odd constant without structure: 2^64 over the golden ratio.
            self.0 = (self.0.rotate_left(23) ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        }
    }

    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }
}
