//! Forces: each thread walks the tree for the bodies of its stretch of the curve.

use super::tree::{CELL_MASS, CENTRE, CHILDREN, IS_LEAF, NONE, SIDE};
use super::{Barnes, ACCELERATION, BODY, COST, MASS, POSITION, POTENTIAL, SOFTENING, WORK};
use crate::team::Member;

/// Computes the accelerations of this thread's bodies; `then` is called for each.
pub fn all(barnes: &Barnes, me: &Member<'_>, then: impl Fn(usize)) {
    // Costs are whole numbers: their sums are exact.
    let total: f64 = barnes.tree.stretches().map(|(_, cost)| cost).sum();
    let bound = |thread: usize| (total * thread as f64 / me.threads() as f64).floor();
    let (from, to) = (bound(me.id), bound(me.id + 1));
    let mut before = 0.0;
    let mut stack = Vec::new();
    for (slots, cost) in barnes.tree.stretches() {
        let mut here = before;
        before += cost;
        if before <= from || here >= to {
            continue;
        }
        for slot in slots {
            if here >= from && here < to {
                one(barnes, slot, &mut stack);
                then(barnes.tree.body(slot));
            }
            here += barnes.part(barnes.tree.body(slot), COST);
        }
    }
}

/// Walks the tree for the body in a slot.
fn one(barnes: &Barnes, slot: usize, stack: &mut Vec<usize>) {
    let (tree, body) = (&barnes.tree, barnes.tree.body(slot));
    let position = barnes.vector(body, POSITION);
    let mut sum = Attraction::default();
    stack.push(0);
    while let Some(cell) = stack.pop() {
        let slots = tree.slots(cell);
        if tree.part(cell, IS_LEAF) > 0.0 {
            for other in slots.map(|slot| tree.body(slot)).filter(|other| *other != body) {
                sum.add(position, barnes.part(other, MASS), barnes.vector(other, POSITION));
            }
            continue;
        }
        let centre = std::array::from_fn(|d| tree.part(cell, CENTRE + d));
        let distance = super::checks::square(position, centre).sqrt();
        // A body's own cell is opened however large the angle: the body must not attract itself.
        if tree.part(cell, SIDE) < barnes.theta * distance && !slots.contains(&slot) {
            sum.add(position, tree.part(cell, CELL_MASS), centre);
            continue;
        }
        let children = (0..8).rev().map(|octant| tree.part(cell, CHILDREN + octant));
        stack.extend(children.filter(|child| *child != NONE).map(|child| child as usize));
    }
    barnes.set_vector(body, ACCELERATION, sum.acceleration);
    barnes.bodies.set(body * BODY + POTENTIAL, sum.potential);
    barnes.bodies.set(body * BODY + WORK, f64::from(sum.interactions.max(1)));
}

/// What acts on one body.
#[derive(Default)]
pub struct Attraction {
    pub acceleration: [f64; 3],
    pub potential: f64,
    pub interactions: u32,
}

impl Attraction {
    /// Adds a mass at `other` that acts on a body at `position` (Plummer's softening).
    pub fn add(&mut self, position: [f64; 3], mass: f64, other: [f64; 3]) {
        let square = super::checks::square(position, other) + SOFTENING * SOFTENING;
        let inverse = 1.0 / square.sqrt();
        self.potential -= mass * inverse;
        let factor = mass * inverse / square;
        for d in 0..3 {
            self.acceleration[d] += factor * (other[d] - position[d]);
        }
        self.interactions += 1;
    }
}
