//! Anderson's acceleration of fixed-point iterations (J. ACM 12(4), 1965; Walker and Ni, SIAM Journal on Numerical
//! Analysis 49(4), 2011): the next point is the combination of the last ones that would have moved least. Nothing but
//! the way to the fixed point changes: who iterates stops by the same residual as before.

use crate::fit::linear;
use std::collections::VecDeque;

/// Steps that are remembered.
const DEPTH: usize = 6;
/// Numbers that all remembered steps may have together.
const MOST_NUMBERS: usize = 8_000_000;
/// Growth of the residual at which what is remembered is of no use any more.
const ASTRAY: f64 = 4.0;

/// The steps of an iteration so far.
#[derive(Default)]
pub(crate) struct Anderson {
    /// Residual and image of the last point.
    last: Option<(Vec<f64>, Vec<f64>)>,
    /// Differences of residuals and of images between points that followed one another.
    steps: VecDeque<(Vec<f64>, Vec<f64>)>,
    /// Products of the residuals' differences with one another, kept from round to round: they are most of the work.
    products: VecDeque<VecDeque<f64>>,
    /// Smallest squared residual so far.
    least: f64,
}

/// Eight sums side by side: in one, each addition would wait for the last.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let mut sums = [0.0; 8];
    for (x, y) in a.iter().zip(b) {
        for lane in 0..8 {
            sums[lane] += x[lane] * y[lane];
        }
    }
    a_rest.iter().zip(b_rest).map(|(x, y)| x * y).chain(sums).sum()
}

impl Anderson {
    /// Where to go on from `point`, whose image is `image`. May leave the numbers that mean something: the caller looks.
    pub fn next(&mut self, point: &[f64], image: &[f64]) -> Vec<f64> {
        let residual: Vec<f64> = image.iter().zip(point).map(|(g, x)| g - x).collect();
        let size = dot(&residual, &residual);
        if self.last.is_none() {
            self.least = size;
        }
        let depth = DEPTH.min(MOST_NUMBERS / (2 * point.len().max(1)));
        if let Some((before, image_before)) = self.last.take() {
            let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x - y).collect::<Vec<f64>>();
            self.remember(minus(&residual, &before), minus(image, &image_before));
        }
        if size > ASTRAY * ASTRAY * self.least {
            self.forget(self.steps.len());
        }
        self.forget(self.steps.len().saturating_sub(depth));
        self.least = self.least.min(size);
        let mut next = image.to_vec();
        if let Some(shares) = self.shares(&residual) {
            for (share, (_, step)) in shares.iter().zip(&self.steps) {
                next.iter_mut().zip(step).for_each(|(x, s)| *x -= share * s);
            }
        }
        self.last = Some((residual, image.to_vec()));
        next
    }

    fn remember(&mut self, residual: Vec<f64>, image: Vec<f64>) {
        let mut last: VecDeque<f64> = self.steps.iter().map(|(other, _)| dot(other, &residual)).collect();
        self.products.iter_mut().zip(&last).for_each(|(row, product)| row.push_back(*product));
        last.push_back(dot(&residual, &residual));
        self.products.push_back(last);
        self.steps.push_back((residual, image));
    }

    /// Forgets the oldest steps.
    fn forget(&mut self, count: usize) {
        self.steps.drain(..count);
        self.products.drain(..count);
        self.products.iter_mut().for_each(|row| drop(row.drain(..count)));
    }

    /// Least squares of the residual over the remembered differences; `None` where these say nothing.
    fn shares(&mut self, residual: &[f64]) -> Option<Vec<f64>> {
        while !self.steps.is_empty() {
            let mut damped: Vec<Vec<f64>> =
                self.products.iter().map(|row| row.iter().copied().collect()).collect();
            let right: Vec<f64> = self.steps.iter().map(|(a, _)| dot(a, residual)).collect();
            (0..damped.len()).for_each(|i| damped[i][i] *= 1.0 + 1e-12);
            match linear::solve(&damped, &right) {
                Some(shares) if shares.iter().all(|s| s.is_finite() && s.abs() < 1e4) => return Some(shares),
                _ => self.forget(1),
            }
        }
        None
    }
}
