//! Fast multipole method: charges in the unit square that act on one another by the logarithm of their
//! distance (Greengard and Rokhlin 1987).
//!
//! Each step sorts the particles into the boxes of a uniform quadtree, sums multipole expansions up
//! the tree, turns those of well-separated boxes into local expansions, hands these down, and adds
//! neighbours directly; then particles move a little, and rebound from the walls. Every box gathers
//! what it needs in a fixed order. Threads own bands of boxes on each level. The adaptive tree of the
//! programs that it stands for is left out: particles are spread evenly.

mod checks;
mod complex;
mod expansions;

use serde_json::json;
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::buckets::Buckets;
use crate::kernel::{Check, Kernel, Outcome, RunOptions, Setting, Spec};
use crate::team::{Member, Team};
use crate::{Error, Result};
use complex::Complex;
use expansions::Expansions;

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "fmm",
    summary: "charges in a plane by the fast multipole method",
    size: "particles, at least 64",
    default_size: "4096",
    paper: Some(("65536", 10)),
    iterations: 3,
    settings: &[Setting {
        name: "terms",
        default: "20",
        help: "Terms of the expansions: the error falls by .55 with each",
    }],
    make: |request, structures| Ok(Box::new(Fmm::new(request, structures)?)),
};

/// Fewer have no boxes that are well separated.
const LEAST: u64 = 64;
/// Particles of a box of the finest level, about.
const CROWD: f64 = 16.0;
/// The least and the most levels below the root.
const LEVELS: std::ops::RangeInclusive<u32> = 2..=12;
/// Time step.
const STEP: f64 = 1e-4;

/// Elements of a particle's record, one line of 64 bytes, and where its parts stand.
const PARTICLE: usize = 8;
const POSITION: usize = 0;
const VELOCITY: usize = 2;
const FIELD: usize = 4;
const POTENTIAL: usize = 6;
const CHARGE: usize = 7;

struct Fmm {
    n: usize,
    seed: u64,
    /// Boxes along a side of the finest level.
    side: usize,
    particles: Array<f64>,
    /// Particles by box.
    order: Array<u64>,
    boxes: Buckets,
    expansions: Expansions,
}

impl Fmm {
    fn new(request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let n = request.count("particles")?;
        if n < LEAST {
            return Err(Error::Usage(format!("fmm needs at least {LEAST} particles as --size, not {n}")));
        }
        request.at_most_threads(n, "particles")?;
        let terms = request.setting("terms", 1, 60)?;
        let levels = (n as f64 / CROWD).log(4.0).round() as u32;
        let levels = levels.clamp(*LEVELS.start(), *LEVELS.end());
        let side = 1 << levels;
        Ok(Fmm {
            n: n as usize,
            seed: request.seed,
            side,
            particles: structures.array("fmm.particles", n.saturating_mul(PARTICLE as u64))?,
            order: structures.array("fmm.order", n)?,
            boxes: Buckets::new("fmm", side * side, request.threads, structures)?,
            expansions: Expansions::new(levels, terms, structures)?,
        })
    }

    fn part(&self, particle: usize, part: usize) -> f64 {
        self.particles.get(particle * PARTICLE + part)
    }

    fn complex(&self, particle: usize, part: usize) -> Complex {
        Complex { re: self.part(particle, part), im: self.part(particle, part + 1) }
    }

    fn set_complex(&self, particle: usize, part: usize, value: Complex) {
        self.particles.set(particle * PARTICLE + part, value.re);
        self.particles.set(particle * PARTICLE + part + 1, value.im);
    }

    fn place(&self, particle: usize) {
        let mut stream = Stream::new(self.seed, Purpose::Load, particle as u64);
        let mut uniform = || Complex { re: stream.unit(), im: stream.unit() };
        let (position, velocity) = (uniform(), uniform());
        let charge = uniform().re - 0.5;
        self.particles.fill(particle * PARTICLE..(particle + 1) * PARTICLE, 0.0);
        self.set_complex(particle, POSITION, position);
        self.set_complex(particle, VELOCITY, velocity - Complex { re: 0.5, im: 0.5 });
        self.particles.set(particle * PARTICLE + CHARGE, charge / self.n as f64);
    }

    /// The box of the finest level around a particle: row by row.
    fn box_of(&self, particle: usize) -> usize {
        let index = |part| ((self.part(particle, part) * self.side as f64) as usize).min(self.side - 1);
        index(POSITION + 1) * self.side + index(POSITION)
    }

    /// The particles of a box, in the order of their numbers.
    fn particles_of(&self, number: usize) -> impl Iterator<Item = usize> + '_ {
        self.boxes.range(number).map(|slot| self.order.get(slot) as usize)
    }

    /// Fields and potentials of all particles; ends with a barrier.
    fn forces(&self, me: &Member<'_>) {
        self.boxes.sort(
            me,
            self.n,
            |particle| self.box_of(particle),
            |particle, slot| {
                self.order.set(slot, particle as u64);
            },
        );
        self.expansions.gather(me, |number, add| {
            for particle in self.particles_of(number) {
                add(self.complex(particle, POSITION), self.part(particle, CHARGE));
            }
        });
        for number in me.share(self.side * self.side) {
            for particle in self.particles_of(number) {
                let position = self.complex(particle, POSITION);
                let (mut potential, mut field) = self.expansions.evaluate(number, position);
                for near in expansions::neighbours(self.side, number) {
                    for other in self.particles_of(near).filter(|other| *other != particle) {
                        let apart = position - self.complex(other, POSITION);
                        let charge = self.part(other, CHARGE);
                        potential += charge * apart.magnitude().ln();
                        field = field + apart.inverse() * charge;
                    }
                }
                self.set_complex(particle, FIELD, field);
                self.particles.set(particle * PARTICLE + POTENTIAL, potential);
            }
        }
        me.barrier();
    }
}

/// A coordinate and its velocity after a time, between walls at 0 and 1.
fn rebound(place: f64, velocity: f64) -> (f64, f64) {
    let moved = place + STEP * velocity;
    if moved < 0.0 {
        (-moved, -velocity)
    } else if moved > 1.0 {
        (2.0 - moved, -velocity)
    } else {
        (moved, velocity)
    }
}

impl Kernel for Fmm {
    fn init(&self, me: &Member<'_>) {
        for particle in me.init_share(self.n) {
            self.place(particle);
            self.order.set(particle, 0);
        }
        self.boxes.init(me);
        self.expansions.init(me);
    }

    fn begin(&self, me: &Member<'_>) {
        self.forces(me);
    }

    fn iterate(&self, me: &Member<'_>) {
        for number in me.share(self.side * self.side) {
            for particle in self.particles_of(number) {
                // The force is the conjugate of the field; like charges repel, and masses are those of all.
                let (field, charge) = (self.complex(particle, FIELD), self.part(particle, CHARGE));
                let push = STEP * charge * self.n as f64;
                let velocity =
                    self.complex(particle, VELOCITY) + Complex { re: field.re, im: -field.im } * push;
                let position = self.complex(particle, POSITION);
                let across = rebound(position.re, velocity.re);
                let along = rebound(position.im, velocity.im);
                self.set_complex(particle, POSITION, Complex { re: across.0, im: along.0 });
                self.set_complex(particle, VELOCITY, Complex { re: across.1, im: along.1 });
            }
        }
        me.barrier();
        self.forces(me);
    }

    fn outcome(&self) -> Outcome {
        let energy = |particle| 0.5 * self.part(particle, CHARGE) * self.part(particle, POTENTIAL);
        let largest = (0..self.side * self.side).map(|number| self.boxes.range(number).len()).max();
        Outcome {
            figures: json!({
                "potential_energy": -(0..self.n).map(energy).sum::<f64>(),
                "boxes": self.side * self.side,
                "most_particles_of_a_box": largest,
            }),
            digest: self.particles.digest(),
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

    fn fmm(size: &str, terms: &str) -> Fmm {
        let (mut request, mut structures) = request(&SPEC, size);
        request.settings.insert("terms", terms.to_owned());
        let fmm = Fmm::new(&request, &mut structures).unwrap();
        run(&fmm);
        fmm
    }

    #[test]
    fn checks_notice_a_wrong_field_and_a_particle_in_a_wrong_box() {
        let fmm = fmm("1000", "20");
        let team = Team::new(1, crate::team::Init::Serial, 0);
        assert_eq!(failures(&fmm, &team), Vec::<&str>::new());

        let field = fmm.part(0, FIELD);
        fmm.particles.set(FIELD, field + 1e-3);
        assert_eq!(failures(&fmm, &team), ["largest error of fields against direct sums"]);
        fmm.particles.set(FIELD, field);

        let potential = fmm.part(0, POTENTIAL);
        fmm.particles.set(POTENTIAL, potential + 1e-3);
        assert_eq!(failures(&fmm, &team), ["largest error of potentials against direct sums"]);
        fmm.particles.set(POTENTIAL, potential);

        fmm.order.set(0, fmm.order.get(999));
        assert_eq!(failures(&fmm, &team), ["particles that are not in exactly one box, around them"]);
    }

    #[test]
    fn the_error_falls_as_terms_are_added() {
        let errors = ["4", "8", "16", "32"].map(|terms| checks::largest_errors(&fmm("1000", terms)).1);
        for pair in errors.windows(2) {
            assert!(pair[1] < 0.15 * pair[0], "{errors:?}");
        }
        assert!(errors[3] < 1e-10, "{errors:?}");
    }
}
