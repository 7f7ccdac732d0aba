//! Checks of the 3-D FFT: against sums of the definition, Parseval's theorem, and there and back.
//!
//! The initial field is made again from the seed, so nothing of what is compared with has been through
//! the transform that is checked.

use std::f64::consts::TAU;

use super::Fft;
use crate::kernel::{largest, Check, Kernel};
use crate::team::Team;
use crate::Result;

/// Frequencies and points that are compared with sums over the whole cube.
const SAMPLES: usize = 4;
/// Largest error allowed, relative to the root mean square of what is compared.
const LIMIT: f64 = 1e-9;

type Complex = (f64, f64);

pub fn all(fft: &Fft, team: &Team, iterations: u64) -> Result<Vec<Check>> {
    let samples = samples(fft.n);
    let stepped: Vec<Complex> = samples.iter().map(|&[z, y, x]| pair(&fft.field, fft.at(z, y, x))).collect();
    team.run(|me| {
        fft.init(&me);
        me.barrier();
        fft.forward(&me);
    })?;
    let points = fft.n.pow(3) as f64;
    let square =
        |array: &crate::array::Array<f64>| (0..array.len()).map(|at| array.get(at).powi(2)).sum::<f64>();
    let initial: f64 = (0..fft.n).flat_map(|z| fft.plane(z)).map(|(a, b)| a * a + b * b).sum();
    let size = (initial / points).sqrt();
    let parseval = (square(&fft.spectrum) / points / initial - 1.0).abs();

    let from_definition = samples
        .iter()
        .map(|&[x, y, z]| distance(pair(&fft.spectrum, fft.at(x, y, z)), forward_sum(fft, x, y, z)));
    // A coefficient is a sum of n^3 terms of random sign: of the size of sqrt(n^3) of them.
    let from_definition = largest(from_definition) / (size * points.sqrt());
    let stepping = samples
        .iter()
        .zip(stepped)
        .map(|(&[z, y, x], found)| distance(found, stepped_sum(fft, z, y, x, iterations as f64)));
    let stepping = largest(stepping) / size;

    team.run(|me| fft.inverse(&me))?;
    let back = (0..fft.n).flat_map(|z| {
        fft.plane(z)
            .enumerate()
            .map(move |(point, initial)| distance(pair(&fft.field, fft.at(z, 0, point)), initial))
    });
    Ok(vec![
        Check::at_most("coefficients against sums of the definition", from_definition, LIMIT),
        Check::at_most("Parseval's theorem", parseval, LIMIT),
        Check::at_most("forward and inverse restore the field", largest(back) / size, LIMIT),
        Check::at_most("the stepped field against sums of damped frequencies", stepping, LIMIT),
    ])
}

/// The coefficient of one frequency by its definition.
fn forward_sum(fft: &Fft, kx: usize, ky: usize, kz: usize) -> Complex {
    let n = fft.n;
    let mut sum = (0.0, 0.0);
    for z in 0..n {
        for (point, value) in fft.plane(z).enumerate() {
            let (y, x) = (point / n, point % n);
            add_turned(&mut sum, value, -turn(n, kx * x + ky * y + kz * z), 1.0);
        }
    }
    sum
}

/// The field at one point after some iterations, from the spectrum of the initial field.
fn stepped_sum(fft: &Fft, z: usize, y: usize, x: usize, iterations: f64) -> Complex {
    let n = fft.n;
    let mut sum = (0.0, 0.0);
    for kx in 0..n {
        for ky in 0..n {
            for kz in 0..n {
                let coefficient = pair(&fft.spectrum, fft.at(kx, ky, kz));
                let factor = fft.damping(kx, ky, kz).powf(iterations) / n.pow(3) as f64;
                add_turned(&mut sum, coefficient, turn(n, kx * x + ky * y + kz * z), factor);
            }
        }
    }
    sum
}

/// The angle of `steps` times an n-th of a turn.
fn turn(n: usize, steps: usize) -> f64 {
    TAU * (steps % n) as f64 / n as f64
}

fn add_turned(sum: &mut Complex, value: Complex, angle: f64, factor: f64) {
    let (sine, cosine) = angle.sin_cos();
    sum.0 += factor * (value.0 * cosine - value.1 * sine);
    sum.1 += factor * (value.0 * sine + value.1 * cosine);
}

fn pair(array: &crate::array::Array<f64>, at: usize) -> Complex {
    (array.get(at), array.get(at + 1))
}

fn distance(a: Complex, b: Complex) -> f64 {
    (a.0 - b.0).hypot(a.1 - b.1)
}

/// Index triples spread over the cube, the lowest and the highest among them.
fn samples(n: usize) -> Vec<[usize; 3]> {
    let corner = [[0, 0, 0], [n - 1, n - 1, n - 1]];
    let others = (1..).map(|k| [k * 7 % n, k * 11 % n, k * 5 % n]);
    corner.into_iter().chain(others).take(SAMPLES).collect()
}
