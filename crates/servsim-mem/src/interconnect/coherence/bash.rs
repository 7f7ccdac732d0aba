//! BASH (Martin, Sorin, Hill & Wood, HPCA 2002): each request is a broadcast or goes to its home alone, as the links
//! into the asker's node have room. Sampled every interval: where they were taken for more than the threshold, a
//! saturating counter grows by one, and where for less, it falls by one. A request goes to the home alone if a random
//! number is below the counter, so that nodes change over one by one and not all at once.
//!
//! The paper's form adds 1 for a busy cycle and subtracts 3 for an idle one, and takes the sign: a threshold of 75 %.

use super::{AtHome, Made, Policy, Reach};
use servsim_core::{Cycles, NodeId, RandomStream};
use std::collections::VecDeque;

/// How it is decided between broadcast and unicast.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adaptive {
    /// Between samples.
    pub interval: Cycles,
    /// Utilisation in per cent above which the counter grows.
    pub threshold: u64,
    /// Per cent by which the utilisation must differ from the threshold to count.
    pub dead_band: u64,
    /// Bits of the counter, at most 16.
    pub width: u32,
}

impl Default for Adaptive {
    fn default() -> Self {
        Self { interval: Cycles(512), threshold: 75, dead_band: 0, width: 8 }
    }
}

#[derive(Debug)]
struct Bash {
    adaptive: Adaptive,
    nodes: Vec<Node>,
}

/// What a node decides by.
#[derive(Debug)]
struct Node {
    /// Links into it.
    links: u64,
    /// Cycles that they were taken, or are promised to be, by interval from `first` on.
    taken: VecDeque<u64>,
    /// The first interval that was not sampled yet.
    first: u64,
    counter: u32,
    lfsr: Lfsr,
}

/// A linear feedback shift register of 16 bits (Galois form, x^16 + x^14 + x^13 + x^11 + 1).
#[derive(Debug)]
struct Lfsr(u16);

pub(super) fn policy(made: &Made<'_>) -> Box<dyn Policy> {
    let adaptive = made.spec.adaptive;
    let node = |(number, &links): (usize, &usize)| {
        let start = RandomStream::new(made.seed, &format!("bash {number}")).below(0xffff) as u16 + 1;
        let (taken, links) = (VecDeque::new(), links as u64);
        Node { links, taken, first: 0, counter: 1 << (adaptive.width - 1), lfsr: Lfsr(start) }
    };
    Box::new(Bash { adaptive, nodes: made.incoming.iter().enumerate().map(node).collect() })
}

impl Policy for Bash {
    fn at_home(&self) -> AtHome {
        AtHome::AsksAgain
    }

    fn reach(&mut self, asker: NodeId, now: u64) -> Reach {
        let node = &mut self.nodes[asker];
        node.sample(now, &self.adaptive);
        if node.lfsr.draw(self.adaptive.width) < node.counter {
            Reach::Home
        } else {
            Reach::Everybody
        }
    }

    fn watches_links(&self) -> bool {
        true
    }

    fn link_taken(&mut self, node: NodeId, mut start: u64, span: Cycles) {
        let (node, interval, end) = (&mut self.nodes[node], self.adaptive.interval.0, start + span);
        while start < end {
            let place = (start / interval).saturating_sub(node.first) as usize;
            let until = end.min((start / interval + 1) * interval);
            if place >= node.taken.len() {
                node.taken.resize(place + 1, 0);
            }
            node.taken[place] += until - start;
            start = until;
        }
    }
}

impl Node {
    /// Moves the counter by every interval that ended before `now`.
    fn sample(&mut self, now: u64, adaptive: &Adaptive) {
        let most = (1 << adaptive.width) - 1;
        let interval = adaptive.interval.0;
        let whole = interval * self.links;
        while (self.first + 1) * interval <= now {
            let Some(taken) = self.taken.pop_front() else {
                // The links were idle ever since; so far down the counter goes.
                let idle = now / interval - self.first;
                if adaptive.threshold > adaptive.dead_band {
                    self.counter = self.counter.saturating_sub(u32::try_from(idle).unwrap_or(most));
                }
                self.first += idle;
                return;
            };
            self.first += 1;
            if taken * 100 > (adaptive.threshold + adaptive.dead_band) * whole {
                self.counter = most.min(self.counter + 1);
            } else if taken * 100 + adaptive.dead_band * whole < adaptive.threshold * whole {
                self.counter = self.counter.saturating_sub(1);
            }
        }
    }
}

impl Lfsr {
    /// The next number of `width` bits.
    fn draw(&mut self, width: u32) -> u32 {
        for _ in 0..width {
            let low = self.0 & 1;
            self.0 = (self.0 >> 1) ^ if low == 1 { 0xb400 } else { 0 };
        }
        u32::from(self.0) & ((1 << width) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(links: u64) -> Node {
        Node { links, taken: VecDeque::new(), first: 0, counter: 128, lfsr: Lfsr(1) }
    }

    /// The paper's counter, cycle by cycle: +1 for a busy one, -3 for an idle one, and the sign at the sample.
    #[test]
    fn the_threshold_is_the_sign_of_a_signed_counter() {
        let mut r = RandomStream::new(1, "bash");
        let adaptive = Adaptive { interval: Cycles(64), ..Adaptive::default() };
        let mut bash = Bash { adaptive, nodes: vec![node(1)] };
        let (mut counter, mut moved) = (128_i64, [0; 3]);
        for interval in 0..3000_u64 {
            let mut signed = 0;
            let busy_in_4 = [40, 48, 56][r.below(3) as usize];
            for cycle in 0..64 {
                let busy = u64::from(r.below(64) < busy_in_4);
                signed += if busy == 1 { 1 } else { -3 };
                bash.link_taken(NodeId(0), interval * 64 + cycle, Cycles(busy));
            }
            bash.nodes[0].sample((interval + 1) * 64, &adaptive);
            counter = (counter + i64::signum(signed)).clamp(0, 255);
            moved[(signed.signum() + 1) as usize] += 1;
            assert_eq!(i64::from(bash.nodes[0].counter), counter, "interval {interval}");
        }
        assert!(moved.iter().all(|&times| times > 50), "{moved:?}");
    }

    #[test]
    fn what_a_long_packet_takes_counts_in_each_interval_that_it_spans() {
        let adaptive = Adaptive { interval: Cycles(10), dead_band: 5, ..Adaptive::default() };
        let mut bash = Bash { adaptive, nodes: vec![node(2)] };
        bash.link_taken(NodeId(0), 5, Cycles(30));
        bash.link_taken(NodeId(0), 10, Cycles(11));
        assert_eq!(bash.nodes[0].taken, [5, 20, 11, 5]);
        bash.nodes[0].sample(19, &adaptive);
        assert_eq!(bash.nodes[0].counter, 127);
        bash.nodes[0].sample(20, &adaptive);
        assert_eq!(bash.nodes[0].counter, 128);
        bash.nodes[0].sample(10_000, &adaptive);
        assert_eq!((bash.nodes[0].counter, bash.nodes[0].first), (0, 1000), "idle ever since");
    }

    #[test]
    fn a_utilisation_within_the_dead_band_moves_nothing() {
        let adaptive = Adaptive { interval: Cycles(100), dead_band: 10, ..Adaptive::default() };
        for (busy, counter) in [(64, 127), (65, 128), (75, 128), (85, 128), (86, 129)] {
            let mut bash = Bash { adaptive, nodes: vec![node(1)] };
            bash.link_taken(NodeId(0), 0, Cycles(busy));
            bash.nodes[0].sample(100, &adaptive);
            assert_eq!(bash.nodes[0].counter, counter, "{busy} % busy");
        }
    }

    #[test]
    fn a_register_goes_through_all_numbers_and_its_draws_are_even() {
        let mut lfsr = Lfsr(1);
        let mut seen = vec![false; 1 << 16];
        for _ in 0..0xffff {
            lfsr.draw(1);
            assert!(!std::mem::replace(&mut seen[usize::from(lfsr.0)], true));
        }
        assert_eq!(lfsr.0, 1);
        let below = (0..65_535).filter(|_| lfsr.draw(8) < 64).count();
        assert!((16_000..16_700).contains(&below), "a quarter: {below}");
    }
}
