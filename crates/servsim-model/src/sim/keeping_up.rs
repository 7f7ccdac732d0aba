//! Open classes that fall behind: their figures would tell the length of a run, so they are refused with the reason.

use crate::error::ModelError;
use crate::network::{Load, Network};
use crate::solution::ClassResult;
use crate::solvers::mixed::asked_of_ranked;

/// What helps an open class that falls behind.
const KEEP_UP: &str = "lower its rate or their load, give it a higher priority, or make the station faster";
/// Share of an open class's requests that may still be under way when a run ends.
const MOST_BEHIND: f64 = 0.02;

/// Why a simulation ends in which more than `most` requests of an open class came together.
pub fn outgrown(class: &str, most: usize) -> ModelError {
    ModelError::saturated(
        format!(
            "class `{class}` does not keep up: more than {most} of its requests are in the system at once"
        ),
        KEEP_UP,
    )
}

/// Refuses an open class of which fewer requests leave than come, in runs that are long enough: what others leave of a
/// station is too little for it, which offered loads alone cannot tell when the others are closed.
pub fn keep_up(network: &Network, classes: &[ClassResult]) -> Result<(), ModelError> {
    for (class, result) in network.classes.iter().zip(classes) {
        let (Load::Open { rate }, Some(interval)) = (&class.load, result.throughput_interval) else {
            continue;
        };
        let leaves = result.throughput / (1.0 - result.loss.unwrap_or(0.0));
        // Three times the interval's half-width, so that chance never refuses.
        if rate - leaves < (3.0 * (interval.high - result.throughput)).max(MOST_BEHIND * rate) {
            continue;
        }
        return Err(ModelError::saturated(
            format!(
                "class `{}` does not keep up: of {rate:.4} requests a second {leaves:.4} are completed, since classes served before or beside it take the rest of a station, or hold it back for longer than a run lasts",
                class.name
            ),
            KEEP_UP,
        ));
    }
    Ok(())
}

/// Refuses an open class to which a station is left that cannot serve it: with the load that the classes before it were
/// seen to bring, its line grows for ever, and a mean over a run tells the run's length.
pub fn left_enough(network: &Network, classes: &[ClassResult]) -> Result<(), ModelError> {
    let rate = |c: usize| match network.classes[c].load {
        Load::Open { rate } => rate,
        // The low end of its interval, so that chance hardly refuses.
        Load::Closed { .. } => classes[c].throughput_interval.map_or(classes[c].throughput, |i| i.low),
    };
    for class in network.open() {
        let Some((station, share)) = asked_of_ranked(network, class, rate).find(|(_, share)| *share > 1.0)
        else {
            continue;
        };
        return Err(ModelError::saturated(
            format!(
                "class `{}` does not keep up: with the classes served before it, it asks for {:.2} % of what station \
                 `{}` can do",
                network.classes[class].name,
                100.0 * share,
                station.name
            ),
            KEEP_UP,
        ));
    }
    Ok(())
}
