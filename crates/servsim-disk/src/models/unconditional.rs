//! One histogram of response times for all requests: the yardstick every other model must beat.

use super::{ResponseContext, ResponseModel};
use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// Values kept.
const VALUES: usize = 8192;

/// Response times, us, ascending; at most 8192 quantiles of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Unconditional {
    /// The values, us.
    pub values_us: Vec<f32>,
}

impl Unconditional {
    /// Fits to the response times of a training part.
    pub fn fit(mut responses_us: Vec<f32>) -> Self {
        responses_us.sort_unstable_by(f32::total_cmp);
        let n = responses_us.len();
        if n > VALUES {
            responses_us = (0..VALUES).map(|k| responses_us[(2 * k + 1) * n / (2 * VALUES)]).collect();
        }
        Unconditional { values_us: responses_us }
    }

    /// Facts for `disk info`.
    pub fn describe(&self) -> serde_json::Value {
        serde_json::json!({ "values": self.values_us.len() })
    }
}

impl ResponseModel for Unconditional {
    fn draw_us(&self, _context: &ResponseContext, rng: &mut Pcg64Mcg) -> f32 {
        self.values_us[rng.random_range(0..self.values_us.len())]
    }

    fn knows(&self, _context: &ResponseContext) -> bool {
        true
    }
}
