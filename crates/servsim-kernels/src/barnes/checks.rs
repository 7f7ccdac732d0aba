//! Checks of Barnes-Hut, of the state after the last step.

use super::force::Attraction;
use super::tree::{CELL_MASS, CHILDREN, IS_LEAF, NONE, SIDE};
use super::{Barnes, ACCELERATION, MASS, POSITION};
use crate::kernel::Check;

/// Bodies whose forces are compared with sums over all.
const SAMPLES: usize = 100;
/// Change of the energy that is allowed, as a part of its magnitude.
const ENERGY: f64 = 1e-2;

pub fn all(barnes: &Barnes) -> Vec<Check> {
    let start = barnes.energy.get(0);
    let change = (barnes.total_energy() - start).abs() / start.abs();
    let mass = (barnes.tree.part(0, CELL_MASS) - 1.0).abs();
    vec![
        Check::at_most("mean error of forces against direct sums", mean_error(barnes), allowed(barnes.theta)),
        Check::at_most("change of the energy", change, ENERGY),
        Check::at_most("mass of the root against that of all bodies", mass, 1e-12),
        Check::at_most("bodies that are not in exactly one leaf around them", misplaced(barnes) as f64, 0.0),
    ]
}

/// The mean error that an opening angle may cause: that of a mass that is not where its bodies are falls
/// with the square of size over distance.
fn allowed(theta: f64) -> f64 {
    (0.05 * theta * theta).max(1e-12)
}

/// The mean over some bodies of how far their acceleration is from a sum over all bodies, as a part of it.
pub fn mean_error(barnes: &Barnes) -> f64 {
    let sampled = (0..barnes.n).step_by(barnes.n.div_ceil(SAMPLES));
    let errors: Vec<f64> = sampled
        .map(|body| {
            let mut sum = Attraction::default();
            for other in (0..barnes.n).filter(|other| *other != body) {
                sum.add(
                    barnes.vector(body, POSITION),
                    barnes.part(other, MASS),
                    barnes.vector(other, POSITION),
                );
            }
            let found = barnes.vector(body, ACCELERATION);
            (square(found, sum.acceleration) / square(sum.acceleration, [0.0; 3])).sqrt()
        })
        .collect();
    errors.iter().sum::<f64>() / errors.len() as f64
}

/// Bodies that do not lie in exactly one leaf, or in one that is not around them.
fn misplaced(barnes: &Barnes) -> usize {
    let side = barnes.tree.part(0, SIDE);
    let mut found = vec![0u32; barnes.n];
    count(barnes, 0, [-side / 2.0; 3], &mut found);
    found.iter().filter(|times| **times != 1).count()
}

/// Counts the bodies in the leaves of a cell whose lowest corner is given, where they are inside it.
fn count(barnes: &Barnes, cell: usize, corner: [f64; 3], found: &mut [u32]) {
    let side = barnes.tree.part(cell, SIDE);
    if barnes.tree.part(cell, IS_LEAF) > 0.0 {
        for slot in barnes.tree.slots(cell) {
            let body = barnes.tree.body(slot);
            let inside = |d: usize| {
                let from = barnes.vector(body, POSITION)[d] - corner[d];
                // Corners are sums of rounded sides.
                (-1e-9 * side..=side * (1.0 + 1e-9)).contains(&from)
            };
            found[body] += u32::from((0..3).all(inside));
        }
        return;
    }
    for octant in 0..8 {
        let child = barnes.tree.part(cell, CHILDREN + octant);
        if child != NONE {
            let upper = |d: usize| octant >> (2 - d) & 1 == 1;
            let inner = std::array::from_fn(|d| corner[d] + if upper(d) { side / 2.0 } else { 0.0 });
            count(barnes, child as usize, inner, found);
        }
    }
}

/// The square of the distance of two points.
pub fn square(a: [f64; 3], b: [f64; 3]) -> f64 {
    (0..3).map(|d| (a[d] - b[d]).powi(2)).sum()
}
