//! How often each file is asked for: Zipf's law over the files, and Pareto's over the sizes of replies.
//!
//! Which file has which rank decides what sizes replies have. SURGE matches them: here the files, sorted
//! by size, are halved again and again, and at each halving the requests are dealt to the two sides, the
//! heaviest rank first, each to the side that still lacks more of its share of requests. A rank is not
//! divided, so the law is met to about half the share of the first rank.

use super::laws::Law;

/// Requests for the file of each rank (from 0), at least one: proportional to `(rank + 1)^-exponent`, the last of
/// `files` being asked for once.
pub fn requests_by_rank(files: usize, exponent: f64) -> Vec<u32> {
    let first = (files as f64).powf(exponent);
    (0..files).map(|rank| ((first / (rank as f64 + 1.0).powf(exponent)).round() as u32).max(1)).collect()
}

/// Requests for each file, so that the sizes of all replies follow `law`.
pub fn matched(sizes: &[u64], by_rank: &[u32], law: Law) -> Vec<u32> {
    let mut files: Vec<usize> = (0..sizes.len()).collect();
    files.sort_by_key(|&file| (sizes[file], file));
    let total: u64 = by_rank.iter().map(|&count| u64::from(count)).sum();
    let matching = Matching { sizes, law, total: total as f64 };
    let mut requests = vec![0; sizes.len()];
    matching.deal(&files, by_rank, 0.0, &mut requests);
    requests
}

struct Matching<'a> {
    sizes: &'a [u64],
    law: Law,
    total: f64,
}

impl Matching<'_> {
    /// Deals ranks (heaviest first) to as many files (smallest first); `before` requests are for smaller files.
    fn deal(&self, files: &[usize], ranks: &[u32], before: f64, requests: &mut [u32]) {
        if let ([file], [count]) = (files, ranks) {
            requests[*file] = *count;
            return;
        }
        let (small, large) = files.split_at(files.len() / 2);
        let sum: f64 = ranks.iter().map(|&count| f64::from(count)).sum();
        let upper_end = self.sizes[*small.last().expect("a half of two or more")] as f64;
        let wanted = (self.law.cdf(upper_end) * self.total - before).clamp(0.0, sum);
        let (mut lacks, mut free) = ([wanted, sum - wanted], [small.len(), large.len()]);
        let mut dealt: [Vec<u32>; 2] = [Vec::with_capacity(free[0]), Vec::with_capacity(free[1])];
        for &count in ranks {
            let side = usize::from(free[0] == 0 || (free[1] > 0 && lacks[1] > lacks[0]));
            lacks[side] -= f64::from(count);
            free[side] -= 1;
            dealt[side].push(count);
        }
        let below: f64 = dealt[0].iter().map(|&count| f64::from(count)).sum();
        self.deal(small, &dealt[0], before, requests);
        self.deal(large, &dealt[1], before + below, requests);
    }
}

/// The largest distance between the law of reply sizes and the shares that the replies have.
pub fn distance(sizes: &[u64], requests: &[u32], law: Law) -> f64 {
    let mut files: Vec<usize> = (0..sizes.len()).collect();
    files.sort_by_key(|&file| sizes[file]);
    let total: f64 = requests.iter().map(|&count| f64::from(count)).sum();
    let (mut below, mut worst) = (0.0, 0.0);
    for file in files {
        let expected = law.cdf(sizes[file] as f64);
        let above = below + f64::from(requests[file]) / total;
        worst = f64::max(worst, f64::max((expected - below).abs(), (above - expected).abs()));
        below = above;
    }
    worst
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::sizes::{sizes, SetSpec};
    use crate::surge::Model;
    use servsim_driver::rng::{Purpose, Stream};

    #[test]
    fn every_rank_goes_to_one_file() {
        let by_rank = requests_by_rank(1000, 1.0);
        assert_eq!((by_rank[0], by_rank[1], by_rank[999]), (1000, 500, 1));
        let model = Model::published();
        let sizes =
            sizes(model.file_size, SetSpec { files: 1000, total_bytes: 25_000_000, seed: 3 }).unwrap();
        let mut requests = matched(&sizes, &by_rank, model.request_size.law());
        requests.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(requests, by_rank);
    }

    #[test]
    fn matched_replies_follow_the_law_and_unmatched_ones_do_not() {
        let model = Model::published();
        let law = model.request_size.law();
        for (files, total_bytes) in [(1000, 25_000_000), (20_000, 500_000_000)] {
            let sizes = sizes(model.file_size, SetSpec { files, total_bytes, seed: 42 }).unwrap();
            let mut by_rank = requests_by_rank(files as usize, model.popularity.exponent);
            let first = f64::from(by_rank[0]) / by_rank.iter().map(|&count| f64::from(count)).sum::<f64>();
            let found = distance(&sizes, &matched(&sizes, &by_rank, law), law);
            assert!(found < first / 2.0 + 0.02, "{files} files: {found}, the first rank has {first}");
            Stream::new(1, Purpose::Load, 9).shuffle(&mut by_rank);
            assert!(distance(&sizes, &by_rank, law) > 0.3, "random pairing");
        }
    }
}
