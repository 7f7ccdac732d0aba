//! Whether a measured window shows a workload in its steady state: judged by the ends of its
//! transactions, and by the users who had work.
//!
//! Transactions that end independently of one another would come at exponential intervals. Users who
//! wait for their replies make them steadier than that, so what is unlikely even then is no chance:
//! thirds whose counts differ by more than two standard deviations of a Poisson count, and a pause that
//! one window in a hundred would have.

use crate::result::Timing;
use crate::timing::user_states::UserState;

/// Share of the users' time without work beyond which a window shows the end of the trace, not the workload.
pub const MOST_WITHOUT_WORK: f64 = 0.05;

/// The same share, beyond which it is worth a remark.
pub const SOME_WITHOUT_WORK: f64 = 0.005;

/// Change of the throughput from the first third to the last that matters.
const CHANGE: f64 = 0.2;

/// Share of a window without any transaction's end that matters.
const PAUSE: f64 = 0.1;

/// What the replications of a run show of their windows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Judged {
    /// Change of the throughput from the first to the last third, as a share of the first, if it is beyond
    /// chance; infinite if none ended in the first.
    pub change: Option<f64>,
    /// The same where it matters, but so few transactions may differ by as much by chance.
    pub perhaps: Option<f64>,
    /// Longest time without a transaction's end, as a share of the window, if it is beyond chance.
    pub pause: Option<f64>,
    /// Share of the users' time in which the trace had no more work for them.
    pub without_work: f64,
}

/// Judges the windows of `timings`: medians over replications, so that one odd run does not decide.
pub fn judge<'a>(timings: impl Iterator<Item = &'a Timing> + Clone) -> Judged {
    let ended = || timings.clone().filter(|t| !t.transaction_ends.is_empty());
    let first = median(ended().map(|t| thirds(t).0));
    let last = median(ended().map(|t| thirds(t).1));
    let count = median(ended().map(|t| t.transaction_ends.len() as f64));
    let pause = median(ended().map(longest_pause));
    let matters = (last - first).abs() > CHANGE * first.max(last);
    let by_chance = (last - first).abs() <= 2.0 * (first + last).sqrt();
    let change = Some(last / first - 1.0).filter(|_| matters);
    // Of n exponential intervals, the longest exceeds (ln n + 4.6) / n of the whole with probability 1 %.
    let likely = if count > 0.0 { (count.ln() + 4.6) / count } else { 1.0 };
    Judged {
        change: change.filter(|_| !by_chance),
        perhaps: change.filter(|_| by_chance),
        pause: (pause > PAUSE.max(likely)).then_some(pause),
        without_work: median(timings.map(without_work)),
    }
}

/// Transactions that ended in the first and in the last third.
fn thirds(timing: &Timing) -> (f64, f64) {
    let third = timing.cycles as f64 / 3.0;
    let count = |in_it: &dyn Fn(f64) -> bool| {
        timing.transaction_ends.iter().filter(|&&end| in_it(end as f64)).count() as f64
    };
    (count(&|end| end <= third), count(&|end| end > 2.0 * third))
}

/// The longest time without a transaction's end, as a share of the window.
fn longest_pause(timing: &Timing) -> f64 {
    let ends = timing.transaction_ends.iter().copied();
    let begins = std::iter::once(0).chain(ends.clone());
    let pauses = begins.zip(ends.chain([timing.cycles])).map(|(begin, end)| end.saturating_sub(begin));
    pauses.max().unwrap_or(0) as f64 / timing.cycles.max(1) as f64
}

/// The share of a run after its last transaction.
pub fn after_the_last(timing: &Timing) -> f64 {
    let last = timing.transaction_ends.last().copied().unwrap_or(0);
    timing.cycles.saturating_sub(last) as f64 / timing.cycles.max(1) as f64
}

fn without_work(timing: &Timing) -> f64 {
    let (users, times) = &timing.users;
    times[UserState::Gone as usize] as f64 / (timing.cycles.max(1) as f64 * (*users).max(1) as f64)
}

/// The median; 0 of nothing.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => f64::midpoint(values[n / 2 - 1], values[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(cycles: u64, ends: impl IntoIterator<Item = u64>) -> Timing {
        Timing { cycles, transaction_ends: ends.into_iter().collect(), ..Timing::default() }
    }

    fn judged(timing: Timing) -> Judged {
        judge([timing].iter())
    }

    #[test]
    fn a_steady_window_is_settled() {
        let found = judged(timing(1000, (1..=100).map(|n| n * 10)));
        assert_eq!(found, Judged::default());
    }

    #[test]
    fn few_transactions_differ_by_chance() {
        let found = judged(timing(300, [10, 150, 210, 220, 230, 300]));
        assert_eq!((found.change, found.perhaps), (None, Some(3.0)));
        // A fifth of the larger third does not matter, whether or not it is chance.
        let alike = judged(timing(300, [10, 20, 30, 40, 210, 220, 230, 240, 300]));
        assert_eq!((alike.change, alike.perhaps), (None, None));
    }

    #[test]
    fn a_window_that_speeds_up_or_fades_out_is_not_settled() {
        let faster = judged(timing(900, (1..=10).map(|n| n * 30).chain((301..=900).step_by(6))));
        assert!(faster.change.is_some_and(|change| change > 3.0), "{faster:?}");
        let fading = judged(timing(900, (1..=60).map(|n| n * 10)));
        assert_eq!(fading.change, Some(-1.0));
        assert!(fading.pause.is_some_and(|pause| (pause - 1.0 / 3.0).abs() < 1e-9), "{fading:?}");
    }

    #[test]
    fn a_pause_counts_at_the_beginning_and_in_the_middle() {
        for begin in [0, 400] {
            let ends = (1..=100).map(|n| n * 10).filter(|end| !(begin + 1..begin + 200).contains(end));
            let found = judged(timing(1000, ends));
            assert!(found.pause.is_some_and(|pause| pause >= 0.199), "{begin} {found:?}");
        }
    }

    #[test]
    fn time_without_work_is_a_share_of_all_users() {
        let mut one = timing(100, [100]);
        one.users = (4, [0, 0, 0, 0, 0, 40]);
        assert!((judged(one).without_work - 0.1).abs() < 1e-12);
    }
}
