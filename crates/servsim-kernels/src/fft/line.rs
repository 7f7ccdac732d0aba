//! The transform of one line of a cube.

use std::f64::consts::TAU;

use crate::array::{Array, Structures};
use crate::team::Member;
use crate::Result;

/// Which way a transform goes; the inverse one divides by the length, so that it undoes the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Forward,
    Inverse,
}

/// Roots of unity that all threads read, and a scratch line for each.
pub struct Lines {
    n: usize,
    /// exp(-2 pi i k / n) for k below n / 2.
    roots: Array<f64>,
    scratch: Array<f64>,
    /// Elements from one thread's scratch line to the next: whole pages, so that each can lie at home.
    stride: usize,
}

/// Elements of a page.
const PAGE: u64 = 512;

impl Lines {
    pub fn new(n: u64, threads: u64, structures: &mut Structures) -> Result<Self> {
        let stride = (2 * n).next_multiple_of(PAGE);
        Ok(Lines {
            n: n as usize,
            roots: structures.array("fft.roots", n)?,
            scratch: structures.array("fft.scratch", stride * threads)?,
            stride: stride as usize,
        })
    }

    pub fn init(&self, me: &Member<'_>) {
        for k in me.init_share(self.n / 2) {
            let (sine, cosine) = (-TAU * k as f64 / self.n as f64).sin_cos();
            self.roots.set(2 * k, cosine);
            self.roots.set(2 * k + 1, sine);
        }
        for thread in me.init_share(me.threads()) {
            self.scratch.fill(thread * self.stride..(thread + 1) * self.stride, 0.0);
        }
    }

    /// Transforms the line of `array` whose real parts stand at `start`, `start + step`, ...
    pub fn transform(&self, thread: usize, array: &Array<f64>, start: usize, step: usize, way: Direction) {
        let base = thread * self.stride;
        let bits = self.n.trailing_zeros();
        for index in 0..self.n {
            let target = base + 2 * (index.reverse_bits() >> (usize::BITS - bits));
            self.scratch.set(target, array.get(start + index * step));
            self.scratch.set(target + 1, array.get(start + index * step + 1));
        }
        let mut half = 1;
        while half < self.n {
            self.combine(base, half, way);
            half *= 2;
        }
        let scale = if way == Direction::Inverse { 1.0 / self.n as f64 } else { 1.0 };
        for index in 0..self.n {
            array.set(start + index * step, scale * self.scratch.get(base + 2 * index));
            array.set(start + index * step + 1, scale * self.scratch.get(base + 2 * index + 1));
        }
    }

    /// Makes transforms of `2 * half` points of neighbouring ones of `half`.
    fn combine(&self, base: usize, half: usize, way: Direction) {
        let sign = if way == Direction::Inverse { -1.0 } else { 1.0 };
        for group in (0..self.n).step_by(2 * half) {
            for k in 0..half {
                let root = 2 * (k * (self.n / (2 * half)));
                let (cosine, sine) = (self.roots.get(root), sign * self.roots.get(root + 1));
                let (low, high) = (base + 2 * (group + k), base + 2 * (group + k + half));
                let (a, b) = (self.scratch.get(high), self.scratch.get(high + 1));
                let (real, imaginary) = (a * cosine - b * sine, a * sine + b * cosine);
                let (c, d) = (self.scratch.get(low), self.scratch.get(low + 1));
                self.scratch.set(low, c + real);
                self.scratch.set(low + 1, d + imaginary);
                self.scratch.set(high, c - real);
                self.scratch.set(high + 1, d - imaginary);
            }
        }
    }
}
