//! 3-D FFT: heat spreading in a periodic cube, stepped in the frequency domain.
//!
//! Each iteration transforms the field forward, damps every frequency k by exp(-D |k|^2), and
//! transforms back. Slabs of planes belong to threads; transforms along x and y stay inside a slab, the
//! one along z follows a transposition of the whole cube, in which every thread reads from all others.
//! Lines are transformed by radix 2, in place, in a scratch line of the thread (Cooley and Tukey 1965).

mod checks;
mod line;

use serde_json::json;
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::kernel::{Check, Kernel, Outcome, RunOptions, Spec};
use crate::team::{Member, Team};
use crate::{Error, Result};
use line::{Direction, Lines};

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "fft",
    summary: "3-D FFT: heat spreading in a periodic cube",
    size: "points along each side of the cube, a power of two",
    default_size: "64",
    paper: Some(("128", 1)),
    iterations: 2,
    settings: &[],
    make: |request, structures| Ok(Box::new(Fft::new(request, structures)?)),
};

/// How fast heat spreads: what D |k|^2 is for the lowest frequency.
const DIFFUSION: f64 = 0.01;

/// The kernel; complex numbers are two neighbouring elements.
struct Fft {
    n: usize,
    seed: u64,
    /// By z, y, x.
    field: Array<f64>,
    /// By x, y, z.
    spectrum: Array<f64>,
    lines: Lines,
}

impl Fft {
    fn new(request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let n = request.count("points per side")?;
        if !n.is_power_of_two() || n < 2 {
            let lower = n.checked_ilog2().map_or(2, |log| 1u64 << log).max(2);
            return Err(Error::Usage(format!(
                "fft needs a power of two from 2 as --size, not {n}: give {lower} or {}",
                lower.saturating_mul(2)
            )));
        }
        request.at_most_threads(n, "planes of the cube")?;
        let elements = n.checked_pow(3).and_then(|cells| cells.checked_mul(2)).unwrap_or(u64::MAX);
        Ok(Fft {
            n: n as usize,
            seed: request.seed,
            field: structures.array("fft.field", elements)?,
            spectrum: structures.array("fft.spectrum", elements)?,
            lines: Lines::new(n, request.threads as u64, structures)?,
        })
    }

    /// Index of the real part of a point in an array ordered by `a`, `b`, `c`.
    fn at(&self, a: usize, b: usize, c: usize) -> usize {
        2 * ((a * self.n + b) * self.n + c)
    }

    /// The initial field of one plane, point by point.
    fn plane(&self, z: usize) -> impl Iterator<Item = (f64, f64)> {
        let mut stream = Stream::new(self.seed, Purpose::Load, z as u64);
        (0..self.n * self.n).map(move |_| (2.0 * stream.unit() - 1.0, 2.0 * stream.unit() - 1.0))
    }

    /// Transforms the lines along x and y of this thread's planes of the field.
    fn transform_planes(&self, me: &Member<'_>, direction: Direction) {
        let n = self.n;
        for z in me.share(n) {
            for y in 0..n {
                self.lines.transform(me.id, &self.field, self.at(z, y, 0), 2, direction);
            }
            for x in 0..n {
                self.lines.transform(me.id, &self.field, self.at(z, 0, x), 2 * n, direction);
            }
        }
    }

    /// Transforms the lines along z of this thread's planes of the spectrum.
    fn transform_depth(&self, me: &Member<'_>, direction: Direction) {
        for x in me.share(self.n) {
            for y in 0..self.n {
                self.lines.transform(me.id, &self.spectrum, self.at(x, y, 0), 2, direction);
            }
        }
    }

    /// Writes this thread's planes of `to` from all planes of `from`, with the first and third index
    /// exchanged.
    fn transpose(&self, me: &Member<'_>, from: &Array<f64>, to: &Array<f64>) {
        for a in me.share(self.n) {
            for b in 0..self.n {
                for c in 0..self.n {
                    let (source, target) = (self.at(c, b, a), self.at(a, b, c));
                    to.set(target, from.get(source));
                    to.set(target + 1, from.get(source + 1));
                }
            }
        }
    }

    /// The field's spectrum; ends with a barrier.
    fn forward(&self, me: &Member<'_>) {
        self.transform_planes(me, Direction::Forward);
        me.barrier();
        self.transpose(me, &self.field, &self.spectrum);
        self.transform_depth(me, Direction::Forward);
        me.barrier();
    }

    /// The field of the spectrum, scaled so that it undoes [`Fft::forward`]; ends with a barrier.
    fn inverse(&self, me: &Member<'_>) {
        self.transform_depth(me, Direction::Inverse);
        me.barrier();
        self.transpose(me, &self.spectrum, &self.field);
        self.transform_planes(me, Direction::Inverse);
        me.barrier();
    }

    /// By how much one iteration damps a frequency.
    fn damping(&self, x: usize, y: usize, z: usize) -> f64 {
        // Frequencies beyond the half are negative ones.
        let wave = |index: usize| index.min(self.n - index) as f64;
        (-DIFFUSION * (wave(x).powi(2) + wave(y).powi(2) + wave(z).powi(2))).exp()
    }

    fn damp(&self, me: &Member<'_>) {
        for x in me.share(self.n) {
            for y in 0..self.n {
                for z in 0..self.n {
                    let (at, factor) = (self.at(x, y, z), self.damping(x, y, z));
                    self.spectrum.set(at, factor * self.spectrum.get(at));
                    self.spectrum.set(at + 1, factor * self.spectrum.get(at + 1));
                }
            }
        }
    }
}

impl Kernel for Fft {
    fn init(&self, me: &Member<'_>) {
        for z in me.init_share(self.n) {
            for (point, (real, imaginary)) in self.plane(z).enumerate() {
                let at = self.at(z, 0, point);
                self.field.set(at, real);
                self.field.set(at + 1, imaginary);
            }
            self.spectrum.fill(self.at(z, 0, 0)..self.at(z + 1, 0, 0), 0.0);
        }
        self.lines.init(me);
    }

    fn iterate(&self, me: &Member<'_>) {
        self.forward(me);
        self.damp(me);
        self.inverse(me);
    }

    fn outcome(&self) -> Outcome {
        let sum = |part: usize| (part..self.field.len()).step_by(2).map(|at| self.field.get(at)).sum::<f64>();
        let energy: f64 = (0..self.field.len()).map(|at| self.field.get(at).powi(2)).sum();
        let points = self.n.pow(3) as f64;
        Outcome {
            figures: json!({
                "mean_real": sum(0) / points,
                "mean_imaginary": sum(1) / points,
                "mean_square": energy / points,
            }),
            digest: self.field.digest(),
        }
    }

    fn check(&self, team: &Team, iterations: u64) -> Result<Vec<Check>> {
        checks::all(self, team, iterations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failures, request, run};

    #[test]
    fn checks_notice_a_wrong_field_and_a_wrong_root() {
        let (request, mut structures) = request(&SPEC, "8");
        let fft = Fft::new(&request, &mut structures).unwrap();
        let team = run(&fft);
        assert_eq!(failures(&fft, &team), Vec::<&str>::new());

        let team = run(&fft);
        fft.field.set(0, fft.field.get(0) + 1e-6);
        assert_eq!(failures(&fft, &team), ["the stepped field against sums of damped frequencies"]);

        for (iterations, right) in [(2, true), (3, false)] {
            let team = run(&fft);
            let checks = fft.check(&team, iterations).unwrap();
            assert_eq!(checks.iter().all(|check| check.passed), right);
        }
    }

    #[test]
    fn a_transform_of_one_line_is_the_sum_of_its_definition() {
        use std::f64::consts::TAU;
        let n = 16;
        let mut structures = Structures::within(servsim_units::Bytes(1 << 20));
        let lines = Lines::new(n as u64, 1, &mut structures).unwrap();
        let line = structures.array::<f64>("test.line", 2 * n as u64).unwrap();
        let value = |k: usize| ((k * k % 7) as f64, (k % 5) as f64 - 2.0);
        let team = Team::new(1, crate::team::Init::Serial, 0);
        team.run(|me| {
            lines.init(&me);
            for k in 0..n {
                line.set(2 * k, value(k).0);
                line.set(2 * k + 1, value(k).1);
            }
            lines.transform(0, &line, 0, 2, Direction::Forward);
        })
        .unwrap();
        for frequency in 0..n {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for k in 0..n {
                let (sine, cosine) = (-TAU * (frequency * k) as f64 / n as f64).sin_cos();
                real += value(k).0 * cosine - value(k).1 * sine;
                imaginary += value(k).0 * sine + value(k).1 * cosine;
            }
            assert!((line.get(2 * frequency) - real).abs() < 1e-11);
            assert!((line.get(2 * frequency + 1) - imaginary).abs() < 1e-11);
        }
    }
}
