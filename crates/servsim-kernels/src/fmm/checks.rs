//! Checks of the fast multipole method, of the state after the last step.

use super::complex::Complex;
use super::{Fmm, CHARGE, FIELD, POSITION, POTENTIAL};
use crate::kernel::{largest, Check};

/// Particles that are compared with sums over all.
const SAMPLES: usize = 100;
/// By how much the error of fields falls with a term: a charge in the corner of a box, .71 of its side from the
/// centre, acts on a corner of one two sides away, .71 off as well.
const RATIO: f64 = 0.547;

pub fn all(fmm: &Fmm) -> Vec<Check> {
    let (potentials, fields) = largest_errors(fmm);
    let allowed = RATIO.powi(fmm.expansions.terms() as i32) + 1e-12;
    vec![
        Check::at_most("largest error of fields against direct sums", fields, allowed),
        Check::at_most("largest error of potentials against direct sums", potentials, allowed),
        Check::at_most("particles that are not in exactly one box, around them", misplaced(fmm) as f64, 0.0),
    ]
}

/// The largest errors of potential and field over some particles, as parts of the mean magnitudes.
pub fn largest_errors(fmm: &Fmm) -> (f64, f64) {
    let sampled: Vec<usize> = (0..fmm.n).step_by(fmm.n.div_ceil(SAMPLES)).collect();
    let sums: Vec<(f64, Complex)> = sampled.iter().map(|particle| direct(fmm, *particle)).collect();
    let count = sums.len() as f64;
    let potential = sums.iter().map(|(potential, _)| potential.abs()).sum::<f64>() / count;
    let field = sums.iter().map(|(_, field)| field.magnitude()).sum::<f64>() / count;
    let both = || sampled.iter().zip(&sums);
    let potentials = both().map(|(particle, sum)| (fmm.part(*particle, POTENTIAL) - sum.0).abs());
    let fields = both().map(|(particle, sum)| (fmm.complex(*particle, FIELD) - sum.1).magnitude());
    (largest(potentials) / potential, largest(fields) / field)
}

fn direct(fmm: &Fmm, particle: usize) -> (f64, Complex) {
    let (mut potential, mut field) = (0.0, Complex::ZERO);
    for other in (0..fmm.n).filter(|other| *other != particle) {
        let apart = fmm.complex(particle, POSITION) - fmm.complex(other, POSITION);
        potential += fmm.part(other, CHARGE) * apart.magnitude().ln();
        field = field + apart.inverse() * fmm.part(other, CHARGE);
    }
    (potential, field)
}

fn misplaced(fmm: &Fmm) -> usize {
    let mut found = vec![0u32; fmm.n];
    for number in 0..fmm.side * fmm.side {
        for particle in fmm.particles_of(number) {
            found[particle] += u32::from(fmm.box_of(particle) == number);
        }
    }
    found.iter().filter(|times| **times != 1).count()
}
