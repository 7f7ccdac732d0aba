//! How large the board is, and which of its stories are read most.

use servsim_driver::rng::Stream;

/// Sections of the board.
pub const SECTIONS: u32 = 8;
/// Stories on a page that lists them.
pub const LISTED: u32 = 10;

/// What the board begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::Args)]
pub struct Size {
    /// Stories.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub stories: u32,
    /// Comments on them.
    #[arg(long, default_value_t = 2850, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    pub comments: u32,
    /// Members.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub members: u32,
}

impl Size {
    /// A comment, each as often.
    pub fn comment(self, stream: &mut Stream) -> u32 {
        stream.below(u64::from(self.comments)) as u32 + 1
    }

    /// A member, each as often.
    pub fn member(self, stream: &mut Stream) -> u32 {
        stream.below(u64::from(self.members)) as u32 + 1
    }
}

/// Which story is asked for: by Zipf's law, the newest most.
#[derive(Clone, Debug)]
pub struct Favourites(Vec<f64>);

impl Favourites {
    /// Of so many stories.
    pub fn of(stories: u32) -> Self {
        let mut sum = 0.0;
        Favourites(
            (1..=stories)
                .map(|rank| {
                    sum += 1.0 / f64::from(rank);
                    sum
                })
                .collect(),
        )
    }

    /// A story.
    pub fn story(&self, stream: &mut Stream) -> u32 {
        let all = self.0.last().copied().unwrap_or(0.0);
        let drawn = stream.unit() * all;
        // Stories are numbered as they came, so that the newest has the highest number.
        let rank = self.0.partition_point(|&sum| sum < drawn).min(self.0.len() - 1);
        (self.0.len() - rank) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    #[test]
    fn the_newest_story_is_read_as_often_as_the_law_has_it() {
        let favourites = Favourites::of(150);
        let mut stream = Stream::new(1, Purpose::Measured, 0);
        let mut counts = [0u32; 151];
        (0..100_000).for_each(|_| counts[favourites.story(&mut stream) as usize] += 1);
        let all: f64 = (1..=150).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [1, 2, 10, 150] {
            let expected = 100_000.0 / f64::from(rank) / all;
            let found = f64::from(counts[151 - rank as usize]);
            // Four standard errors.
            assert!((found - expected).abs() < 4.0 * expected.sqrt(), "rank {rank}: {found} {expected}");
        }
        assert_eq!(counts[0], 0);
    }
}
