//! The equilibrium of a Markov chain by Gauss-Seidel sweeps, between which states are grouped by the
//! number of requests at one place after the other and the groups are put in balance exactly
//! (aggregation and disaggregation; Takahashi 1975; Stewart, "Introduction to the Numerical Solution of
//! Markov Chains", 1994, chapter 6). What sweeps alone would need thousands of rounds for, the flow
//! between far-off groups, is right after each place had its turn.

use super::chain::Chain;

/// Probabilities are kept above this, or a group would have none to share; far below what is resolved.
const LEAST: f64 = 1e-250;
/// Weights beyond this are scaled down before they leave the range of numbers, and by how much.
const LARGE: f64 = 1e200;

/// An equilibrium, and how well it is known.
pub struct Equilibrium {
    /// Probability of each state.
    pub probability: Vec<f64>,
    /// Sweeps made.
    pub rounds: usize,
    /// Flow out of balance, over the whole flow.
    pub residual: f64,
}

/// Iterates until the residual is below `wanted`, about `rounds` sweeps at most; the caller looks at it.
///
/// Grouping by one place can undo what grouping by another put right. So when a turn of all places does not
/// halve the residual, twice as many sweeps follow each grouping: sweeps alone always get there.
pub fn equilibrium(chain: &Chain, wanted: f64, rounds: usize) -> Equilibrium {
    let mut found = Equilibrium {
        probability: vec![1.0 / chain.size() as f64; chain.size()],
        rounds: 0,
        residual: if chain.size() == 1 { 0.0 } else { f64::INFINITY },
    };
    let places: Vec<_> = chain.counts().iter().map(|number| Groups::new(chain, number)).collect();
    let (mut sweeps, mut before) = (1, f64::INFINITY);
    while found.residual > wanted && found.rounds < rounds {
        for groups in &places {
            groups.balance(chain, &mut found.probability);
            for _ in 0..sweeps {
                found.residual = sweep(chain, &mut found.probability);
            }
            found.rounds += sweeps;
            if found.residual <= wanted {
                break;
            }
        }
        if found.residual > 0.5 * before {
            sweeps *= 2;
        }
        before = found.residual;
    }
    let sum: f64 = found.probability.iter().sum();
    found.probability.iter_mut().for_each(|p| *p /= sum);
    found
}

/// One sweep; returns the flow that was out of balance, over all flow.
fn sweep(chain: &Chain, probability: &mut [f64]) -> f64 {
    let (mut wrong, mut all) = (0.0, 0.0);
    for state in 0..chain.size() {
        let inflow: f64 =
            chain.sources(state).iter().map(|&(from, rate)| probability[from as usize] * rate).sum();
        wrong += (inflow - probability[state] * chain.out[state]).abs();
        all += inflow;
        probability[state] = (inflow / chain.out[state]).max(LEAST);
    }
    wrong / all
}

/// Groups of the states with equal numbers of requests at one place, in the order of that number.
struct Groups<'a> {
    /// Number at the place in each state.
    number: &'a [u32],
    /// Group of each number that occurs: a place that is never empty has none for zero.
    group: Vec<usize>,
    /// Number of groups.
    count: usize,
    /// How many groups further a transition leads at most.
    apart: usize,
}

impl<'a> Groups<'a> {
    fn new(chain: &Chain, number: &'a [u32]) -> Self {
        let most = number.iter().copied().max().unwrap_or(0) as usize;
        let mut occurs = vec![false; most + 1];
        number.iter().for_each(|&number| occurs[number as usize] = true);
        let mut count = 0;
        let group = occurs
            .iter()
            .map(|&occurs| {
                count += usize::from(occurs);
                count.saturating_sub(1)
            })
            .collect();
        let mut groups = Self { number, group, count, apart: 0 };
        let steps = (0..chain.size())
            .flat_map(|to| chain.sources(to).iter().map(move |&(from, _)| (from as usize, to)))
            .map(|(from, to)| groups.of(from).abs_diff(groups.of(to)));
        groups.apart = steps.max().unwrap_or(0);
        groups
    }

    /// The group of a state.
    fn of(&self, state: usize) -> usize {
        self.group[self.number[state] as usize]
    }

    /// Puts the groups in balance, and leaves what states of one have to each other.
    fn balance(&self, chain: &Chain, probability: &mut [f64]) {
        let mut weight = vec![0.0; self.count];
        let mut flow = Band::new(self.count, self.apart);
        for state in 0..chain.size() {
            let to = self.of(state);
            weight[to] += probability[state];
            for &(from, rate) in chain.sources(state) {
                *flow.at(self.of(from as usize), to) += probability[from as usize] * rate;
            }
        }
        for (from, weight) in weight.iter().enumerate() {
            flow.row(from).for_each(|flow| *flow /= weight);
        }
        let balanced = eliminate(flow);
        for (state, probability) in probability.iter_mut().enumerate() {
            let here = self.of(state);
            *probability = (*probability * balanced[here] / weight[here]).max(LEAST);
        }
    }
}

/// Rates between groups in a row, of which those further apart than `width` are zero: a request comes or goes, so that
/// hardly any number changes by more than one at a time, however many numbers there are.
struct Band {
    groups: usize,
    width: usize,
    rate: Vec<f64>,
}

impl Band {
    fn new(groups: usize, width: usize) -> Self {
        Self { groups, width, rate: vec![0.0; groups * (2 * width + 1)] }
    }

    /// Rate from a group to one at most `width` apart.
    fn at(&mut self, from: usize, to: usize) -> &mut f64 {
        &mut self.rate[from * (2 * self.width + 1) + self.width + to - from]
    }

    /// All rates of a group.
    fn row(&mut self, from: usize) -> impl Iterator<Item = &mut f64> {
        let width = 2 * self.width + 1;
        self.rate[from * width..(from + 1) * width].iter_mut()
    }
}

/// Equilibrium of a chain of groups given by its rates, without a subtraction (Grassmann, Taksar & Heyman,
/// "Regenerative analysis and steady state distributions", Operations Research 33, 1985). What is eliminated leaves
/// rates within the band.
fn eliminate(mut rate: Band) -> Vec<f64> {
    let (n, width) = (rate.groups, rate.width);
    for last in (1..n).rev() {
        let near = last.saturating_sub(width)..last;
        let out: f64 = near.clone().map(|to| *rate.at(last, to)).sum();
        if out <= 0.0 {
            continue;
        }
        for from in near.clone() {
            *rate.at(from, last) /= out;
            let share = *rate.at(from, last);
            for to in near.clone().filter(|&to| to != from) {
                *rate.at(from, to) += share * *rate.at(last, to);
            }
        }
    }
    let mut probability = vec![1.0; n];
    for to in 1..n {
        let near = to.saturating_sub(width)..to;
        probability[to] = near.map(|from| probability[from] * *rate.at(from, to)).sum();
        if probability[to] > LARGE {
            probability[..=to].iter_mut().for_each(|p| *p /= LARGE);
        }
    }
    let sum: f64 = probability.iter().sum();
    probability.iter().map(|p| p / sum).collect()
}
