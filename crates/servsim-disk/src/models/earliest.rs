//! Which of many channels is free first, without asking all of them: a tournament, in which a change of one channel replays
//! only the matches above it. Of equals the one with the lower number wins, as in a search from the first to the last.

/// Moments, one a channel, and the earliest of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Earliest {
    moments: Vec<f64>,
    /// Winners of the matches: those of node `n` are `2 n` and `2 n + 1`, and the channels enter below, in order.
    winners: Vec<u32>,
}

impl Earliest {
    /// Begins anew with these moments, at least one.
    pub(super) fn fill(&mut self, moments: impl Iterator<Item = f64>) {
        self.moments.clear();
        self.moments.extend(moments);
        let width = self.moments.len().next_power_of_two();
        self.moments.resize(width, f64::INFINITY);
        self.winners.clear();
        self.winners.resize(width, 0);
        for node in (1..width).rev() {
            self.winners[node] = self.match_of(node);
        }
    }

    /// The channel with the earliest moment.
    #[inline]
    pub(super) fn first(&self) -> usize {
        self.winners.get(1).map_or(0, |&winner| winner as usize)
    }

    /// Its moment.
    #[inline]
    pub(super) fn moment(&self) -> f64 {
        self.moments[self.first()]
    }

    /// Channel `at` has another moment.
    #[inline]
    pub(super) fn set(&mut self, at: usize, moment: f64) {
        self.moments[at] = moment;
        let mut node = (self.winners.len() + at) >> 1;
        while node > 0 {
            let (before, now) = (self.winners[node], self.match_of(node));
            self.winners[node] = now;
            // Nobody above hears of a channel that lost here before and loses again.
            if before == now && now as usize != at {
                break;
            }
            node /= 2;
        }
    }

    #[inline]
    fn match_of(&self, node: usize) -> u32 {
        let width = self.winners.len();
        let side = |child: usize| if child >= width { (child - width) as u32 } else { self.winners[child] };
        let (left, right) = (side(2 * node), side(2 * node + 1));
        if self.moments[right as usize] < self.moments[left as usize] {
            right
        } else {
            left
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_first_of_the_earliest_is_found_whatever_changes() {
        let mut rng = Pcg64Mcg::seed_from_u64(7);
        for count in [1, 2, 3, 8, 13, 128] {
            let mut moments: Vec<f64> = (0..count).map(|_| f64::from(rng.random_range(0..9))).collect();
            let mut earliest = Earliest::default();
            earliest.fill(moments.iter().copied());
            for _ in 0..2000 {
                let least = moments.iter().copied().fold(f64::INFINITY, f64::min);
                let first = moments.iter().position(|&moment| moment == least).expect("there are some");
                assert_eq!((earliest.first(), earliest.moment()), (first, least), "{moments:?}");
                let at = rng.random_range(0..count);
                moments[at] = f64::from(rng.random_range(0..9));
                earliest.set(at, moments[at]);
            }
        }
    }
}
