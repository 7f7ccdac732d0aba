//! The tables of Thornock, Tu & Flanagan (1997, section 3.1), as printed: for each operation, length
//! and queue length (clipped at 15) a surface whose columns are exact seek distances and whose
//! entries are distributions of response time. One such model per device.
//!
//! The paper does not say what happens to a request whose column was never seen. The fall-backs
//! here, in order: the whole surface of its operation, length and queue; that of its operation and
//! length; of its operation; of the device. The share of requests that needed each is reported.

use super::{ResponseContext, ResponseModel};
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// Longest queue with a surface of its own.
pub const QUEUE_LIMIT: u32 = 15;
/// Values kept of one distribution; more become quantiles.
const CELL_VALUES: usize = 64;
/// Stands for "any" in a key.
const ANY: i64 = i64::MIN;

/// A cell: level of fall-back (0 exact), operation, length, queue, seek.
pub type Key = [i64; 5];

/// The tables of one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Paper {
    /// Keys in ascending order.
    pub keys: Vec<Key>,
    /// Where the values of each cell begin; one more than keys.
    pub starts: Vec<u32>,
    /// Response times, us, ascending within a cell.
    pub values_us: Vec<f32>,
}

fn key(level: i64, context: &ResponseContext) -> Key {
    let op = i64::from(context.is_write);
    let length = i64::from(context.sectors);
    let queue = i64::from(context.queue.min(QUEUE_LIMIT));
    match level {
        0 => [0, op, length, queue, context.seek],
        1 => [1, op, length, queue, ANY],
        2 => [2, op, length, ANY, ANY],
        3 => [3, op, ANY, ANY, ANY],
        _ => [4, ANY, ANY, ANY, ANY],
    }
}

impl Paper {
    /// Fits to the contexts and response times (us) of a training part.
    pub fn fit(training: &[(ResponseContext, f32)]) -> Self {
        let mut cells: BTreeMap<Key, Vec<f32>> = BTreeMap::new();
        for (context, response_us) in training {
            for level in 0..5 {
                cells.entry(key(level, context)).or_default().push(*response_us);
            }
        }
        let mut paper = Paper { keys: Vec::new(), starts: vec![0], values_us: Vec::new() };
        for (key, mut values) in cells {
            values.sort_unstable_by(f32::total_cmp);
            // A surface may be kept finer than a column: it stands in for many.
            let limit = if key[0] == 0 { CELL_VALUES } else { 16 * CELL_VALUES };
            let n = values.len();
            if n > limit {
                values = (0..limit).map(|k| values[(2 * k + 1) * n / (2 * limit)]).collect();
            }
            paper.keys.push(key);
            paper.values_us.extend(values);
            paper.starts.push(paper.values_us.len() as u32);
        }
        paper
    }

    /// The level of fall-back a request needs (0 none, 4 the whole device) and its cell.
    pub fn find(&self, context: &ResponseContext) -> (usize, usize) {
        (0..5)
            .find_map(|level| Some((level, self.keys.binary_search(&key(level as i64, context)).ok()?)))
            .expect("the whole device is always a cell")
    }

    /// Facts for `disk info`.
    pub fn describe(&self) -> serde_json::Value {
        let at_level = |level: i64| self.keys.iter().filter(|key| key[0] == level).count();
        serde_json::json!({
            "columns": at_level(0),
            "surfaces": at_level(1),
            "values": self.values_us.len(),
            "queue_limit": QUEUE_LIMIT,
        })
    }
}

impl ResponseModel for Paper {
    fn draw_us(&self, context: &ResponseContext, rng: &mut Pcg64Mcg) -> f32 {
        let (_, cell) = self.find(context);
        self.values_us[rng.random_range(self.starts[cell] as usize..self.starts[cell + 1] as usize)]
    }

    fn knows(&self, context: &ResponseContext) -> bool {
        self.find(context).0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn context(queue: u32, seek: i64) -> ResponseContext {
        ResponseContext { is_write: false, sectors: 8, queue, seek }
    }

    #[test]
    fn an_exact_column_answers_and_an_unseen_one_falls_back_to_its_surface() {
        let paper = Paper::fit(&[(context(1, 0), 1.0), (context(1, 100), 7.0), (context(2, 0), 50.0)]);
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        assert_eq!(paper.draw_us(&context(1, 100), &mut rng), 7.0);
        assert_eq!(paper.find(&context(1, 5)).0, 1);
        let seen: Vec<f32> = (0..50).map(|_| paper.draw_us(&context(1, 5), &mut rng)).collect();
        assert!(seen.contains(&1.0) && seen.contains(&7.0) && !seen.contains(&50.0));
    }

    #[test]
    fn queues_beyond_fifteen_share_a_surface() {
        let paper = Paper::fit(&[(context(40, 0), 9.0)]);
        assert_eq!(paper.find(&context(15, 0)).0, 0);
    }
}
