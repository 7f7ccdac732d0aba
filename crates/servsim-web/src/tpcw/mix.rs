//! The mixes: chains of the fourteen interactions, and the share of each in the long run.

use std::collections::BTreeMap;

use serde::Deserialize;
use servsim_driver::rng::Stream;

use super::stationary::{shares, variances, Chain};
use crate::{Error, Result};

/// The largest number that is drawn, from 1: the last threshold of every row.
const LAST: u32 = 9999;

/// An interaction of a browser with the shop; the number is that of its transaction mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Interaction {
    /// The shop's first page.
    Home = 1,
    /// The newest books of a subject.
    NewProducts = 2,
    /// The books of a subject that sold best of late.
    BestSellers = 3,
    /// One book.
    ProductDetail = 4,
    /// The form of a search.
    SearchRequest = 5,
    /// What a search found.
    SearchResults = 6,
    /// The cart, changed or looked at.
    ShoppingCart = 7,
    /// Who is buying: a known customer or a new one.
    CustomerRegistration = 8,
    /// Address and payment.
    BuyRequest = 9,
    /// The order is placed.
    BuyConfirm = 10,
    /// The form that asks for one's last order.
    OrderInquiry = 11,
    /// One's last order.
    OrderDisplay = 12,
    /// The form that changes a book.
    AdminRequest = 13,
    /// A book is changed.
    AdminConfirm = 14,
}

impl Interaction {
    /// All of them, in the order of their numbers.
    pub const ALL: [Interaction; 14] = [
        Interaction::Home,
        Interaction::NewProducts,
        Interaction::BestSellers,
        Interaction::ProductDetail,
        Interaction::SearchRequest,
        Interaction::SearchResults,
        Interaction::ShoppingCart,
        Interaction::CustomerRegistration,
        Interaction::BuyRequest,
        Interaction::BuyConfirm,
        Interaction::OrderInquiry,
        Interaction::OrderDisplay,
        Interaction::AdminRequest,
        Interaction::AdminConfirm,
    ];

    fn index(self) -> usize {
        self as usize - 1
    }
}

/// A mix as the file has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    target: BTreeMap<Interaction, f64>,
    from: BTreeMap<Interaction, BTreeMap<Interaction, u32>>,
}

/// A mix: from each interaction, the next by thresholds.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Next interactions with their thresholds, ascending; by the number of the interaction before, less one.
    rows: Vec<Vec<(u32, Interaction)>>,
    /// Shares that the specification demands, in percent.
    pub target: [f64; 14],
}

impl Mix {
    /// The mix of a name: `browsing`, `shopping` or `ordering`.
    ///
    /// # Errors
    /// [`Error::Usage`] for another name.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test reads it.
    pub fn named(name: &str) -> Result<Mix> {
        let mut mixes: BTreeMap<String, Written> =
            toml::from_str(include_str!("mixes.toml")).expect("mixes.toml is part of the program");
        let known = mixes.keys().cloned().collect::<Vec<_>>().join(", ");
        let written = mixes.remove(name);
        let written =
            written.ok_or_else(|| Error::Usage(format!("there is no mix {name:?}; known: {known}")))?;
        let row = |from: &Interaction| {
            let thresholds = written.from.get(from).into_iter().flatten();
            let mut row: Vec<(u32, Interaction)> = thresholds.map(|(&next, &upto)| (upto, next)).collect();
            row.sort_unstable();
            row
        };
        let target =
            Interaction::ALL.map(|interaction| written.target.get(&interaction).copied().unwrap_or(0.0));
        Ok(Mix { rows: Interaction::ALL.iter().map(row).collect(), target })
    }

    /// Draws what follows an interaction.
    ///
    /// # Panics
    /// If a row does not end at its last threshold.
    pub fn next(&self, from: Interaction, stream: &mut Stream) -> Interaction {
        let drawn = stream.below(u64::from(LAST)) as u32 + 1;
        let row = &self.rows[from.index()];
        row.iter().find(|(upto, _)| drawn <= *upto).expect("every row ends at the last threshold").1
    }

    /// Probabilities of what follows each interaction.
    fn probabilities(&self) -> Chain {
        let mut chain = [[0.0; 14]; 14];
        for (row, chances) in self.rows.iter().zip(&mut chain) {
            let mut before = 0;
            for &(upto, next) in row {
                chances[next.index()] = f64::from(upto - before) / f64::from(LAST);
                before = upto;
            }
        }
        chain
    }

    /// The share of each interaction in the long run, in percent.
    pub fn stationary(&self) -> [f64; 14] {
        shares(&self.probabilities()).map(|share| share * 100.0)
    }

    /// An interaction with the chances that it has at any moment of the long run.
    pub fn anywhere(&self, stream: &mut Stream) -> Interaction {
        let mut left = stream.unit() * 100.0;
        let found = self.stationary().into_iter().position(|share| {
            left -= share;
            left <= 0.0
        });
        Interaction::ALL[found.unwrap_or(0)]
    }

    /// How many standard deviations the count of each interaction is off, for browsers whose sessions end behind a
    /// share `ends` of their interactions and begin at home.
    pub fn deviations(&self, counts: [u64; 14], ends: f64) -> [f64; 14] {
        let mut chain = self.probabilities();
        for row in &mut chain {
            row.iter_mut().for_each(|chance| *chance *= 1.0 - ends);
            row[Interaction::Home.index()] += ends;
        }
        let (shares, total) = (shares(&chain), counts.iter().sum::<u64>() as f64);
        let variances = variances(&chain, &shares);
        std::array::from_fn(|kind| {
            // Half a visit is the error of whole numbers.
            let off = counts[kind] as f64 - total * shares[kind];
            off.signum() * (off.abs() - 0.5).max(0.0) / (total * variances[kind]).sqrt()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    const MIXES: [&str; 3] = ["browsing", "shopping", "ordering"];

    /// The largest distance of a share from the specification's, in points.
    fn off(mix: &Mix) -> f64 {
        mix.stationary()
            .iter()
            .zip(mix.target)
            .fold(0.0, |worst, (share, target)| f64::max(worst, (share - target).abs()))
    }

    #[test]
    fn every_mix_meets_the_specification_within_a_hundredth_of_a_point() {
        for name in MIXES {
            let mix = Mix::named(name).unwrap();
            assert!(off(&mix) <= 0.01, "{name}: {}", off(&mix));
            // Rows end at the last threshold, and no threshold is met twice.
            for row in &mix.rows {
                assert_eq!(row.last().map(|(upto, _)| *upto), Some(LAST));
                assert!(row.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }

    #[test]
    fn the_threshold_of_the_java_implementation_would_miss_it() {
        let mut mix = Mix::named("shopping").unwrap();
        let row = &mut mix.rows[Interaction::ShoppingCart.index()];
        let home = row.iter_mut().find(|(_, next)| *next == Interaction::Home).unwrap();
        assert_eq!(home.0, 9552);
        home.0 = 9992;
        assert!((off(&mix) - 0.446).abs() < 0.001, "{}", off(&mix));
    }

    #[test]
    fn shares_are_unchanged_by_a_step_of_the_chain() {
        for name in MIXES {
            let mix = Mix::named(name).unwrap();
            let (shares, chain) = (mix.stationary(), mix.probabilities());
            for state in 0..14 {
                let after: f64 = (0..14).map(|before| shares[before] * chain[before][state]).sum();
                assert!((after - shares[state]).abs() < 1e-11);
            }
        }
    }

    #[test]
    fn walks_have_the_shares_of_the_chain_and_no_others() {
        let visits = 400_000;
        let walked = |mix: &Mix| {
            let mut stream = Stream::new(11, Purpose::Measured, 0);
            let mut counts = [0u32; 14];
            let mut at = Interaction::Home;
            for _ in 0..visits {
                at = mix.next(at, &mut stream);
                counts[at.index()] += 1;
            }
            counts
        };
        let chi = |counts: [u32; 14], shares: [f64; 14]| -> f64 {
            let expected = shares.map(|share| share / 100.0 * f64::from(visits));
            counts.iter().zip(expected).map(|(&count, e)| (f64::from(count) - e).powi(2) / e).sum()
        };
        let (shopping, ordering) = (Mix::named("shopping").unwrap(), Mix::named("ordering").unwrap());
        // Steps of a chain depend on one another, so that the statistic is wider than chi-square's: three times its
        // .1 % point of 13 degrees of freedom (34.5) is far below what another mix gives.
        assert!(chi(walked(&shopping), shopping.stationary()) < 103.0);
        assert!(chi(walked(&ordering), ordering.stationary()) < 103.0);
        assert!(chi(walked(&shopping), ordering.stationary()) > 10_000.0);
    }

    #[test]
    fn deviations_of_many_walks_have_a_mean_of_zero_and_a_variance_of_one() {
        // 400 walks of 2,500 steps: four standard errors of a mean are .2, and of a variance .28.
        let mix = Mix::named("ordering").unwrap();
        let walks = 400;
        let (mut sums, mut squares) = ([0.0; 14], [0.0; 14]);
        for walk in 0..walks {
            let mut stream = Stream::new(17, Purpose::Measured, walk);
            let mut counts = [0; 14];
            let mut at = mix.anywhere(&mut stream);
            for _ in 0..2500 {
                let ends = stream.below(100) < 1;
                at = if ends { Interaction::Home } else { mix.next(at, &mut stream) };
                counts[at.index()] += 1;
            }
            for (kind, off) in mix.deviations(counts, 0.01).into_iter().enumerate() {
                sums[kind] += off / walks as f64;
                squares[kind] += off * off / walks as f64;
            }
        }
        for (kind, interaction) in Interaction::ALL.into_iter().enumerate() {
            assert!(sums[kind].abs() < 0.2, "{interaction:?}: {}", sums[kind]);
            // Half a visit less matters where there are few: .22 % of 2,500 is 5.5.
            assert!((0.5..1.28).contains(&squares[kind]), "{interaction:?}: {}", squares[kind]);
        }
    }

    #[test]
    fn a_walk_through_another_mix_is_far_off() {
        let (shopping, ordering) = (Mix::named("shopping").unwrap(), Mix::named("ordering").unwrap());
        let mut stream = Stream::new(3, Purpose::Measured, 0);
        let (mut counts, mut at) = ([0; 14], Interaction::Home);
        for _ in 0..2000 {
            at = ordering.next(at, &mut stream);
            counts[at.index()] += 1;
        }
        let worst = |mix: &Mix| {
            mix.deviations(counts, 0.0).into_iter().fold(0.0, |worst: f64, off| worst.max(off.abs()))
        };
        assert!(worst(&ordering) < 4.0 && worst(&shopping) > 10.0);
    }

    #[test]
    fn another_mix_is_refused_with_those_there_are() {
        let refused = Mix::named("looking").unwrap_err();
        assert_eq!(refused.to_string(), "there is no mix \"looking\"; known: browsing, ordering, shopping");
    }
}
