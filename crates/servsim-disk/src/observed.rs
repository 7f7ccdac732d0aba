//! What a device has served, where its completions are told as they pass: one step at a time.

use crate::features::{Features, History, Start, MISSES_BY};
use crate::models::Model;
use crate::order::Served;
use crate::platters::follow::PhaseTracker;

/// A device whose completions are known as they pass: platters that slip are followed.
pub(crate) struct Observed {
    history: History,
    follower: Option<PhaseTracker>,
}

impl Observed {
    /// An unused one; `history` is what `model` asks of its past.
    pub(crate) fn of(model: &Model, history: History) -> Observed {
        let platters = if let Model::Forest(forest) = model { forest.platters.clone() } else { None };
        Observed { history, follower: platters.map(PhaseTracker::new) }
    }

    /// The features of the request that starts, of which `served` is told.
    #[inline(always)]
    pub(crate) fn features(&self, served: &Served) -> Features {
        let start = served.start();
        match &self.follower {
            None => self.history.features(&start),
            Some(follower) => {
                let start_ns = follower.unslipped_ns(start.start_ns);
                self.history.features(&Start { start_ns, ..start })
            }
        }
    }

    /// Notes that the request of which `features` told has completed.
    #[inline(always)]
    pub(crate) fn completed(&mut self, served: &Served, features: &Features) {
        let (command, completion_ns) = (served.start().command, served.request.completion_ns);
        let Some(follower) = &mut self.follower else {
            self.history.advance(&command, completion_ns);
            return;
        };
        // By the same clock as starts, so that times between the two stay what they are.
        self.history.advance(&command, follower.unslipped_ns(completion_ns));
        // What a cache may have answered tells no angle.
        if features[MISSES_BY] >= 0.0 {
            follower.completed(&command, served.service_ns(), completion_ns);
        }
    }
}
