//! What the comparisons with the oracle share.

use servsim_mem::Counters;
use servsim_oracle::{Counts, COUNTED};

/// The engine's counters that the oracle counts too, under their registered names, those that are 0 left out.
pub fn by_oracle_names(counters: &Counters) -> Counts {
    let mut counts = Counts::new();
    for (counter, values) in counters.registered() {
        if !COUNTED.contains(&counter.path) {
            continue;
        }
        let (user, kernel) = values.split_at(counter.width());
        let both = user.iter().zip(kernel).map(|(&user, &kernel)| [user, kernel]);
        counts.extend(counter.names().into_iter().zip(both).filter(|(_, values)| *values != [0, 0]));
    }
    counts
}
