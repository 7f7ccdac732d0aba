//! Molecular dynamics of liquid water, in two programs that differ in how they find pairs: every
//! molecule against half of all others ([`nsquared`]), or against those of neighbouring cells
//! ([`spatial`]).
//!
//! Flexible three-site water in a periodic cube at the density of the liquid, stepped by velocity Verlet.
//! Left out: long-range electrostatics, thermostats. Forces are summed as whole numbers of
//! 2^-32 amu A/ps^2, so that their sum depends neither on order nor on threads, and the two programs
//! agree to the bit.

mod checks;
mod model;
pub mod nsquared;
pub mod spatial;

use std::sync::Mutex;

use serde_json::json;
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::kernel::{Check, Kernel, Outcome, RunOptions};
use crate::reduction::PAGE;
use crate::team::{Member, Team};
use crate::{Error, Result};
use model::{Interaction, Vector, BOLTZMANN, MASSES, SITES};

/// Time of a step in picoseconds: a fortieth of the fastest vibration.
const STEP: f64 = 0.00025;
/// Temperature of the initial velocities, in kelvins.
const TEMPERATURE: f64 = 298.0;
/// Distance of neighbours on the initial lattice, in angstroms: 0.0334 molecules per cubic angstrom.
const SPACING: f64 = 3.105;
/// Molecules along a side of the smallest box that holds the interaction.
const LEAST_SIDE: u64 = 4;
/// Numbers of a molecule in positions, velocities and forces.
const NUMBERS: usize = 3 * SITES;

/// Molecules and what acts on them.
pub struct System {
    molecules: usize,
    seed: u64,
    side: usize,
    interaction: Interaction,
    positions: Array<f64>,
    velocities: Array<f64>,
    /// In fixed point; by molecule, site and direction.
    forces: Array<i64>,
    /// Potential and kinetic energy in fixed point, of each thread's part.
    energies: Array<i64>,
}

/// How pairs are found, and where their forces are gathered.
pub trait Pairs: Send + Sync {
    /// First touch of the structures.
    fn init(&self, system: &System, me: &Member<'_>);
    /// Adds the forces between molecules to the system's, which are zero before; returns this thread's part
    /// of the potential energy. Begins and ends behind and before a barrier.
    fn add_forces(&self, system: &System, me: &Member<'_>) -> i64;
}

/// The kernel, for both programs.
pub struct Water<P> {
    system: System,
    pairs: P,
    /// Potential and kinetic energy at the begin and after every iteration.
    history: Mutex<Vec<(f64, f64)>>,
}

impl System {
    fn new(name: &str, request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let molecules = request.count("molecules")?;
        let side = (molecules as f64).cbrt().round() as u64;
        if side.checked_pow(3) != Some(molecules) || side < LEAST_SIDE {
            let lower = ((molecules as f64).cbrt().floor() as u64).max(LEAST_SIDE);
            let cube = |side: u64| side.saturating_pow(3);
            let remedy = if molecules < cube(LEAST_SIDE) {
                format!("give {}", cube(LEAST_SIDE))
            } else {
                format!("give {} or {}", cube(lower), cube(lower + 1))
            };
            return Err(Error::Usage(format!(
                "{name} needs the cube of a number from {LEAST_SIDE} as --size, because molecules begin on a lattice, \
                 not {molecules}: {remedy}"
            )));
        }
        request.at_most_threads(molecules, "molecules")?;
        let numbers = molecules.saturating_mul(NUMBERS as u64);
        Ok(System {
            molecules: molecules as usize,
            seed: request.seed,
            side: side as usize,
            interaction: Interaction::in_box(side as f64 * SPACING),
            positions: structures.array(&format!("{name}.positions"), numbers)?,
            velocities: structures.array(&format!("{name}.velocities"), numbers)?,
            forces: structures.array(&format!("{name}.forces"), numbers)?,
            energies: structures.array(&format!("{name}.energies"), (request.threads * PAGE) as u64)?,
        })
    }

    /// Position of a site.
    fn site(&self, molecule: usize, site: usize) -> Vector {
        let at = molecule * NUMBERS + 3 * site;
        [self.positions.get(at), self.positions.get(at + 1), self.positions.get(at + 2)]
    }

    fn sites(&self, molecule: usize) -> [Vector; SITES] {
        std::array::from_fn(|site| self.site(molecule, site))
    }

    /// Puts a molecule at its place on the lattice, with thermal velocities of its sites.
    fn place(&self, molecule: usize) {
        let mut stream = Stream::new(self.seed, Purpose::Load, molecule as u64);
        let cell =
            [molecule / (self.side * self.side), molecule / self.side % self.side, molecule % self.side];
        for (site, offset) in model::GEOMETRY.iter().enumerate() {
            for direction in 0..3 {
                let at = molecule * NUMBERS + 3 * site + direction;
                self.positions.set(at, (cell[direction] as f64 + 0.5) * SPACING + offset[direction]);
                let spread = (BOLTZMANN * TEMPERATURE / MASSES[site]).sqrt();
                self.velocities.set(at, spread * normal(&mut stream));
                self.forces.set(at, 0);
            }
        }
    }

    /// Half a step of the velocities of this thread's molecules.
    fn kick(&self, me: &Member<'_>) {
        for molecule in me.share(self.molecules) {
            for number in 0..NUMBERS {
                let at = molecule * NUMBERS + number;
                let acceleration = model::force(self.forces.get(at)) / MASSES[number / 3];
                self.velocities.set(at, self.velocities.get(at) + 0.5 * STEP * acceleration);
            }
        }
    }

    /// A step of the positions of this thread's molecules, whose forces end.
    fn drift(&self, me: &Member<'_>) {
        for molecule in me.share(self.molecules) {
            for at in molecule * NUMBERS..(molecule + 1) * NUMBERS {
                self.positions.set(at, self.positions.get(at) + STEP * self.velocities.get(at));
                self.forces.set(at, 0);
            }
        }
    }

    /// Adds the forces within this thread's molecules; returns their potential energy.
    fn add_inner_forces(&self, me: &Member<'_>) -> i64 {
        let mut energy = 0;
        for molecule in me.share(self.molecules) {
            let sites = self.sites(molecule);
            energy +=
                model::inner(&sites, |number, force| self.forces.add(molecule * NUMBERS + number, force));
        }
        energy
    }

    fn kinetic(&self, me: &Member<'_>) -> i64 {
        let of = |at: usize| 0.5 * MASSES[at % NUMBERS / 3] * self.velocities.get(at).powi(2);
        let share = me.share(self.molecules);
        (share.start * NUMBERS..share.end * NUMBERS).map(|at| model::fixed_energy(of(at))).sum()
    }
}

/// A standard normal number (Box and Muller 1958).
fn normal(stream: &mut Stream) -> f64 {
    let radius = (-2.0 * stream.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * stream.unit()).cos()
}

impl<P: Pairs> Water<P> {
    fn new(system: System, pairs: P) -> Self {
        Water { system, pairs, history: Mutex::new(Vec::new()) }
    }

    /// All forces at the present positions, for forces that are zero; ends with a barrier.
    fn compute_forces(&self, me: &Member<'_>) {
        me.barrier();
        let inner = self.system.add_inner_forces(me);
        let outer = self.pairs.add_forces(&self.system, me);
        self.system.energies.set(me.id * PAGE, inner + outer);
        me.barrier();
    }

    /// Sums the energies of all parts.
    fn record(&self, me: &Member<'_>) {
        let energies = &self.system.energies;
        energies.set(me.id * PAGE + 1, self.system.kinetic(me));
        me.barrier();
        if me.id == 0 {
            let sum =
                |which: usize| (0..me.threads()).map(|thread| energies.get(thread * PAGE + which)).sum();
            let pair = (model::energy(sum(0)), model::energy(sum(1)));
            self.history.lock().expect("one thread records").push(pair);
        }
    }
}

impl<P: Pairs> Kernel for Water<P> {
    fn init(&self, me: &Member<'_>) {
        me.init_share(self.system.molecules).for_each(|molecule| self.system.place(molecule));
        for thread in me.init_share(me.threads()) {
            self.system.energies.fill(thread * PAGE..(thread + 1) * PAGE, 0);
        }
        self.pairs.init(&self.system, me);
    }

    fn begin(&self, me: &Member<'_>) {
        self.compute_forces(me);
        self.record(me);
    }

    fn iterate(&self, me: &Member<'_>) {
        self.system.kick(me);
        self.system.drift(me);
        self.compute_forces(me);
        self.system.kick(me);
        self.record(me);
    }

    fn outcome(&self) -> Outcome {
        let history = self.history.lock().expect("threads have ended");
        let (potential, kinetic) = history[history.len() - 1];
        let molecules = self.system.molecules as f64;
        let degrees = molecules * NUMBERS as f64;
        Outcome {
            figures: json!({
                "potential_kj_per_mol": potential / molecules * model::KILOJOULES,
                "kinetic_kj_per_mol": kinetic / molecules * model::KILOJOULES,
                "temperature_kelvin": 2.0 * kinetic / degrees / BOLTZMANN,
                "cutoff_angstrom": self.system.interaction.cutoff,
            }),
            digest: self.system.positions.digest() ^ self.system.velocities.digest().rotate_left(32),
        }
    }

    fn check(&self, _team: &Team, _iterations: u64) -> Result<Vec<Check>> {
        Ok(checks::all(&self.system, &self.history.lock().expect("threads have ended")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failures, request, run};

    #[test]
    fn checks_notice_a_wrong_force_and_a_wrong_energy() {
        let (request, mut structures) = request(&spatial::SPEC, "125");
        let water = spatial::make(&request, &mut structures).unwrap();
        let team = run(&water);
        assert_eq!(failures(&water, &team), Vec::<&str>::new());

        water.history.lock().unwrap()[1].0 *= 1.1;
        assert_eq!(failures(&water, &team), ["change of the total energy, as a part of the kinetic"]);
        water.history.lock().unwrap()[1].0 /= 1.1;

        // The least there is: 2^-32 of the unit.
        water.system.forces.add(0, 1);
        let wrong = ["sum of all forces", "molecules whose forces differ from a sum over all others"];
        assert_eq!(failures(&water, &team), wrong);
        water.system.forces.add(0, -1);

        // The same in both sums, but not the slope of any energy.
        water.system.forces.add(4, 1 << 42);
        water.system.forces.add(7, -(1 << 42));
        assert_eq!(failures(&water, &team)[1..], ["forces against slopes of the energy"]);
    }
}
