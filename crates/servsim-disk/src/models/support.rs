//! Which requests a fit has seen the like of: a coarse census of operation, length, seek and
//! idleness. A request in an empty cell is outside the support of the training part, and the
//! verdict of an evaluation counts them.

use crate::features::Features;
use serde::{Deserialize, Serialize};

const OPS: usize = 2;
const LENGTHS: usize = 8;
const SEEKS: usize = 18;
const IDLES: usize = 4;
const CELLS: usize = OPS * LENGTHS * SEEKS * IDLES;
/// Requests of a kind that make it known.
const KNOWN: u32 = 3;

/// Counts of training requests by kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Support {
    counts: Vec<u32>,
}

impl Default for Support {
    fn default() -> Self {
        Support { counts: vec![0; CELLS] }
    }
}

impl Support {
    /// Counts one training request.
    pub fn add(&mut self, features: &Features) {
        let cell = cell(features);
        self.counts[cell] = self.counts[cell].saturating_add(1);
    }

    /// Whether enough requests like this one were seen.
    pub fn knows(&self, features: &Features) -> bool {
        self.counts.get(cell(features)).is_some_and(|&count| count >= KNOWN)
    }
}

/// The cell of a request: lengths by doubling from 8 sectors, seeks by quadrupling with their sign,
/// idle times as none, under 1 ms, under 100 ms, more.
fn cell(features: &Features) -> usize {
    let op = usize::from(features[0] > 0.5);
    let length = ((features[3].max(1.0) / 4.0).log2().max(0.0) as usize).min(LENGTHS - 1);
    let magnitude = features[2];
    let seek = if magnitude < 1.0 {
        0
    } else {
        let size = ((magnitude.log2() / 3.0) as usize).min(7);
        1 + size * 2 + usize::from(features[1] < 0.0)
    };
    let idle = match features[4] {
        us if us <= 0.0 => 0,
        us if us < 1e3 => 1,
        us if us < 1e5 => 2,
        _ => 3,
    };
    ((op * LENGTHS + length) * SEEKS + seek) * IDLES + idle
}
