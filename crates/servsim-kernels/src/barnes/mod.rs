//! Barnes-Hut: gravity among bodies in three dimensions, distant groups taken as one (Barnes and Hut
//! 1986).
//!
//! Each step sorts the bodies along Morton's curve, builds an octree over them ([`tree`]) and walks it
//! for every body ([`force`]); threads take stretches of the curve that cost the same in the step before.
//! The tree is a function of the positions alone, and a body's force is summed by one thread in the
//! order of the tree. Bodies begin as a Plummer sphere in equilibrium (Aarseth, Henon and Wielen 1974), in
//! units of total mass, gravity and -4 times the energy; they move by leapfrog.

mod checks;
mod force;
mod tree;

use serde_json::json;
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::kernel::{Check, Kernel, Outcome, RunOptions, Setting, Spec};
use crate::team::{Member, Team};
use crate::Result;
use tree::Tree;

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "barnes",
    summary: "gravity among bodies by an octree (Barnes-Hut)",
    size: "bodies, at least 64",
    default_size: "4096",
    paper: Some(("131072", 4)),
    iterations: 3,
    settings: &[Setting {
        name: "theta",
        default: "0.7",
        help: "Largest side of a cell that counts as one body, as a part of its distance; 0 sums all",
    }],
    make: |request, structures| Ok(Box::new(Barnes::new(request, structures)?)),
};

/// Of fewer, single close encounters decide the energy.
const LEAST: u64 = 64;
/// Time step.
const STEP: f64 = 0.025;
/// Length below which gravity is softened.
const SOFTENING: f64 = 0.05;
/// Bodies further out than this are drawn again: the sphere has no edge.
const EDGE: f64 = 9.0;
/// The unit of length of a Plummer sphere with an energy of -1/4.
const SCALE: f64 = 3.0 * std::f64::consts::PI / 16.0;

/// Elements of a body's record, and where its parts stand.
const BODY: usize = 16;
const MASS: usize = 0;
const POSITION: usize = 1;
const VELOCITY: usize = 4;
const ACCELERATION: usize = 7;
const POTENTIAL: usize = 10;
/// Interactions that the last force took, and those of the step before, by which work is divided.
const WORK: usize = 11;
const COST: usize = 12;

struct Barnes {
    n: usize,
    seed: u64,
    theta: f64,
    bodies: Array<f64>,
    tree: Tree,
    /// The energy before the first step.
    energy: Array<f64>,
}

impl Barnes {
    fn new(request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let n = request.count("bodies")?;
        if n < LEAST {
            return Err(crate::Error::Usage(format!(
                "barnes needs at least {LEAST} bodies as --size, not {n}"
            )));
        }
        request.at_most_threads(n, "bodies")?;
        Ok(Barnes {
            n: n as usize,
            seed: request.seed,
            theta: request.setting("theta", 0.0, 1.5)?,
            bodies: structures.array("barnes.bodies", n.saturating_mul(BODY as u64))?,
            tree: Tree::new(n, request.threads, structures)?,
            energy: structures.array("barnes.energy", 1)?,
        })
    }

    fn part(&self, body: usize, part: usize) -> f64 {
        self.bodies.get(body * BODY + part)
    }

    fn vector(&self, body: usize, part: usize) -> [f64; 3] {
        std::array::from_fn(|direction| self.part(body, part + direction))
    }

    fn set_vector(&self, body: usize, part: usize, value: [f64; 3]) {
        for (direction, component) in value.into_iter().enumerate() {
            self.bodies.set(body * BODY + part + direction, component);
        }
    }

    fn place(&self, body: usize) {
        let mut stream = Stream::new(self.seed, Purpose::Load, body as u64);
        let radius = loop {
            let radius = (stream.unit().powf(-2.0 / 3.0) - 1.0).max(0.0).powf(-0.5);
            if radius < EDGE {
                break radius;
            }
        };
        // Speed as a part of that of escape: density q^2 (1 - q^2)^(7/2), drawn by rejection below its height.
        let part = loop {
            let (q, height) = (stream.unit(), 0.1 * stream.unit());
            if height < q * q * (1.0 - q * q).powf(3.5) {
                break q;
            }
        };
        let speed = part * std::f64::consts::SQRT_2 * (1.0 + radius * radius).powf(-0.25);
        self.bodies.fill(body * BODY..(body + 1) * BODY, 0.0);
        self.bodies.set(body * BODY + MASS, 1.0 / self.n as f64);
        self.bodies.set(body * BODY + WORK, 1.0);
        self.set_vector(body, POSITION, direction(&mut stream).map(|c| c * radius * SCALE));
        self.set_vector(body, VELOCITY, direction(&mut stream).map(|c| c * speed / SCALE.sqrt()));
    }

    /// Half a step of a body's velocity.
    fn kick(&self, body: usize) {
        let (velocity, acceleration) = (self.vector(body, VELOCITY), self.vector(body, ACCELERATION));
        self.set_vector(body, VELOCITY, std::array::from_fn(|d| velocity[d] + 0.5 * STEP * acceleration[d]));
    }

    /// Kinetic and potential energy, from the potentials of the last forces.
    fn total_energy(&self) -> f64 {
        let of = |body: usize| {
            let speed: f64 = self.vector(body, VELOCITY).iter().map(|v| v * v).sum();
            0.5 * self.part(body, MASS) * (speed + self.part(body, POTENTIAL))
        };
        (0..self.n).map(of).sum()
    }
}

/// A direction, uniform over the sphere.
fn direction(stream: &mut Stream) -> [f64; 3] {
    let height = 2.0 * stream.unit() - 1.0;
    let (sine, cosine) = (std::f64::consts::TAU * stream.unit()).sin_cos();
    let radius = (1.0 - height * height).max(0.0).sqrt();
    [radius * cosine, radius * sine, height]
}

impl Kernel for Barnes {
    fn init(&self, me: &Member<'_>) {
        me.init_share(self.n).for_each(|body| self.place(body));
        self.tree.init(self.n, me);
    }

    fn begin(&self, me: &Member<'_>) {
        self.tree.build(self, me);
        force::all(self, me, |_| ());
        me.barrier();
        if me.id == 0 {
            self.energy.set(0, self.total_energy());
        }
    }

    fn iterate(&self, me: &Member<'_>) {
        for slot in me.share(self.n) {
            let body = self.tree.body(slot);
            self.kick(body);
            let (position, velocity) = (self.vector(body, POSITION), self.vector(body, VELOCITY));
            self.set_vector(body, POSITION, std::array::from_fn(|d| position[d] + STEP * velocity[d]));
        }
        me.barrier();
        self.tree.build(self, me);
        force::all(self, me, |body| self.kick(body));
    }

    fn outcome(&self) -> Outcome {
        let interactions: f64 = (0..self.n).map(|body| self.part(body, WORK)).sum();
        Outcome {
            figures: json!({
                "energy": self.total_energy(),
                "interactions_per_body": interactions / self.n as f64,
                "cells": self.tree.cells_used(),
            }),
            digest: self.bodies.digest(),
        }
    }

    fn check(&self, _team: &Team, _iterations: u64) -> Result<Vec<Check>> {
        Ok(checks::all(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failures, request, run};

    #[test]
    fn checks_notice_a_lost_body_and_a_wrong_acceleration() {
        let (request, mut structures) = request(&SPEC, "200");
        let barnes = Barnes::new(&request, &mut structures).unwrap();
        let team = run(&barnes);
        assert_eq!(failures(&barnes, &team), Vec::<&str>::new());

        let acceleration = barnes.part(0, ACCELERATION);
        barnes.bodies.set(ACCELERATION, acceleration + 100.0);
        assert_eq!(failures(&barnes, &team), ["mean error of forces against direct sums"]);
        barnes.bodies.set(ACCELERATION, acceleration);

        let velocity = barnes.part(0, VELOCITY);
        barnes.bodies.set(VELOCITY, velocity + 10.0);
        assert_eq!(failures(&barnes, &team), ["change of the energy"]);
        barnes.bodies.set(VELOCITY, velocity);

        let first = barnes.tree.body(0);
        barnes.tree.replace(0, barnes.tree.body(1));
        assert_eq!(failures(&barnes, &team), ["bodies that are not in exactly one leaf around them"]);
        barnes.tree.replace(0, first);
    }

    #[test]
    fn every_body_is_the_work_of_one_thread() {
        use std::sync::atomic::{AtomicU32, Ordering};
        // Before the first step all bodies cost the same, so that bounds between threads fall on bodies exactly.
        for threads in [1, 2, 4, 5] {
            let (mut request, mut structures) = request(&SPEC, "200");
            request.threads = threads;
            let barnes = Barnes::new(&request, &mut structures).unwrap();
            let times: Vec<AtomicU32> = (0..200).map(|_| AtomicU32::new(0)).collect();
            let team = Team::new(threads, crate::team::Init::Parallel, 10);
            team.run(|me| {
                barnes.init(&me);
                me.barrier();
                barnes.tree.build(&barnes, &me);
                force::all(&barnes, &me, |body| {
                    times[body].fetch_add(1, Ordering::Relaxed);
                });
            })
            .unwrap();
            assert!(times.iter().all(|times| times.load(Ordering::Relaxed) == 1), "{threads} threads");
        }
    }

    #[test]
    fn an_opening_angle_of_zero_sums_over_all_bodies() {
        let (mut request, mut structures) = request(&SPEC, "100");
        request.settings.insert("theta", "0".to_owned());
        let barnes = Barnes::new(&request, &mut structures).unwrap();
        run(&barnes);
        assert!((0..100).all(|body| barnes.part(body, WORK) >= 99.0));
        assert!(checks::mean_error(&barnes) < 1e-13);
    }
}
