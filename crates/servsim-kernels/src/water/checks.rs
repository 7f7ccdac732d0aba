//! Checks of the molecular dynamics, of the state after the last step.

use super::model::{self, Vector, SITES};
use super::{System, NUMBERS};
use crate::kernel::{largest, Check};

/// Change of the total energy that velocity Verlet with this step may show, as a part of the kinetic
/// energy: the bonds' own vibration, whose energy the scheme keeps to (2 pi / 40)^2 / 8 of it.
const DRIFT: f64 = 5e-3;
/// Molecules whose forces are compared with sums over all others.
const SAMPLES: usize = 200;
/// Molecules whose forces are compared with slopes of the energy, and the step of those, in angstroms.
const SLOPES: usize = 5;
const SLOPE_STEP: f64 = 1e-4;

/// All checks; `history` holds potential and kinetic energy of each step.
pub fn all(system: &System, history: &[(f64, f64)]) -> Vec<Check> {
    let start = history[0].0 + history[0].1;
    let drift =
        largest(history.iter().map(|(potential, kinetic)| (potential + kinetic - start).abs() / kinetic));
    let net =
        (0..3).map(|d| (d..system.forces.len()).step_by(3).map(|at| system.forces.get(at)).sum::<i64>());
    let every = system.molecules.div_ceil(SAMPLES);
    let sampled = (0..system.molecules).step_by(every);
    let wrong =
        sampled.filter(|molecule| directly(system, *molecule) != forces_of(system, *molecule)).count();
    let slopes = (0..SLOPES).map(|k| slope_error(system, k * (system.molecules - 1) / SLOPES));
    vec![
        Check::at_most("change of the total energy, as a part of the kinetic", drift, DRIFT),
        Check::at_most("sum of all forces", net.map(|sum| sum as f64).fold(0.0, |a, b| a + b.abs()), 0.0),
        Check::at_most("molecules whose forces differ from a sum over all others", wrong as f64, 0.0),
        Check::at_most("forces against slopes of the energy", largest(slopes), 1e-5),
    ]
}

fn forces_of(system: &System, molecule: usize) -> [i64; NUMBERS] {
    std::array::from_fn(|number| system.forces.get(molecule * NUMBERS + number))
}

/// The forces on one molecule, from it and every other one.
fn directly(system: &System, molecule: usize) -> [i64; NUMBERS] {
    let (mut forces, sites) = ([0; NUMBERS], system.sites(molecule));
    model::inner(&sites, |number, force| forces[number] += force);
    for other in (0..system.molecules).filter(|other| *other != molecule) {
        system.interaction.between(&sites, &system.sites(other), |which, number, force| {
            forces[number] += if which == 0 { force } else { 0 };
        });
    }
    forces
}

/// Energy of a molecule at some places of its sites among all others.
fn energy_at(system: &System, molecule: usize, sites: &[Vector; SITES]) -> f64 {
    let others = (0..system.molecules).filter(|other| *other != molecule);
    let outer: i64 =
        others.map(|other| system.interaction.between(sites, &system.sites(other), |_, _, _| ())).sum();
    model::energy(outer + model::inner(sites, |_, _| ()))
}

/// Largest difference between a molecule's forces and the slopes of its energy, relative to the largest
/// force on it.
fn slope_error(system: &System, molecule: usize) -> f64 {
    let sites = system.sites(molecule);
    let forces = forces_of(system, molecule).map(model::force);
    let scale = largest(forces.iter().map(|force| force.abs()));
    let errors = (0..NUMBERS).map(|number| {
        let moved = |step: f64| {
            let mut moved = sites;
            moved[number / 3][number % 3] += step;
            energy_at(system, molecule, &moved)
        };
        (forces[number] + (moved(SLOPE_STEP) - moved(-SLOPE_STEP)) / (2.0 * SLOPE_STEP)).abs()
    });
    largest(errors) / scale
}
