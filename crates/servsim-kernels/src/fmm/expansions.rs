//! Multipole and local expansions of all boxes of a uniform quadtree, and the ways between them.
//!
//! A multipole expansion about c is `a_0` log(z - c) + sum of `a_k` / (z - c)^k; a local one is the sum of
//! `b_k` (z - c)^k. Formulas are lemmas 2.3 to 2.5 of Greengard and Rokhlin (1987). Only real parts of
//! logarithms are used, so their branch does not matter.

use super::complex::Complex;
use crate::array::{Array, Structures};
use crate::team::Member;
use crate::Result;

pub struct Expansions {
    levels: u32,
    terms: usize,
    /// By box of all levels, the root first, then row by row; coefficient; part.
    multipoles: Array<f64>,
    locals: Array<f64>,
    /// Binomial coefficients, by upper and lower index.
    binomials: Array<f64>,
}

/// The boxes that touch one in a square of `side` by `side` boxes, itself among them, in the order of their numbers.
pub fn neighbours(side: usize, number: usize) -> impl Iterator<Item = usize> {
    let (row, column) = (number / side, number % side);
    let around = move |index: usize| index.saturating_sub(1)..(index + 2).min(side);
    around(row).flat_map(move |row| around(column).map(move |column| row * side + column))
}

impl Expansions {
    pub fn new(levels: u32, terms: usize, structures: &mut Structures) -> Result<Self> {
        let boxes = first_of(levels + 1) as u64;
        let numbers = boxes * 2 * (terms as u64 + 1);
        let width = 2 * terms as u64 + 1;
        Ok(Expansions {
            levels,
            terms,
            multipoles: structures.array("fmm.multipoles", numbers)?,
            locals: structures.array("fmm.locals", numbers)?,
            binomials: structures.array("fmm.binomials", width * width)?,
        })
    }

    /// Terms of an expansion beside the first.
    pub fn terms(&self) -> usize {
        self.terms
    }

    pub fn init(&self, me: &Member<'_>) {
        let each = 2 * (self.terms + 1);
        for level in 0..=self.levels {
            for number in me.init_share(1 << (2 * level)) {
                let at = (first_of(level) + number) * each;
                self.multipoles.fill(at..at + each, 0.0);
                self.locals.fill(at..at + each, 0.0);
            }
        }
        let width = 2 * self.terms + 1;
        for upper in me.init_share(width) {
            // Row by row would need the row before, which may be another thread's: by factors instead.
            let mut value = 1.0;
            for lower in 0..=upper {
                self.binomials.set(upper * width + lower, value);
                value = value * (upper - lower) as f64 / (lower + 1) as f64;
            }
        }
    }

    fn binomial(&self, upper: usize, lower: usize) -> f64 {
        self.binomials.get(upper * (2 * self.terms + 1) + lower)
    }

    fn read(&self, array: &Array<f64>, level: u32, number: usize) -> Vec<Complex> {
        let at = (first_of(level) + number) * 2 * (self.terms + 1);
        let term = |k: usize| Complex { re: array.get(at + 2 * k), im: array.get(at + 2 * k + 1) };
        (0..=self.terms).map(term).collect()
    }

    fn write(&self, array: &Array<f64>, level: u32, number: usize, terms: &[Complex]) {
        let at = (first_of(level) + number) * 2 * (self.terms + 1);
        for (k, term) in terms.iter().enumerate() {
            array.set(at + 2 * k, term.re);
            array.set(at + 2 * k + 1, term.im);
        }
    }

    /// Computes all expansions. `charges` tells the charges of a finest box, (place, charge), to what it is
    /// given. Begins behind a barrier; every thread ends with all boxes it owns done.
    pub fn gather(&self, me: &Member<'_>, charges: impl Fn(usize, &mut dyn FnMut(Complex, f64))) {
        for number in me.share(1 << (2 * self.levels)) {
            let terms = self.of_charges(centre(self.levels, number), |add| charges(number, add));
            self.write(&self.multipoles, self.levels, number, &terms);
        }
        me.barrier();
        for level in (2..self.levels).rev() {
            for number in me.share(1 << (2 * level)) {
                self.merge_children(level, number);
            }
            me.barrier();
        }
        // Boxes of the first level touch all others: nothing comes from above the second.
        for level in 2..=self.levels {
            for number in me.share(1 << (2 * level)) {
                self.collect(level, number);
            }
            me.barrier();
        }
    }

    /// The multipole expansion of charges.
    fn of_charges(&self, about: Complex, charges: impl FnOnce(&mut dyn FnMut(Complex, f64))) -> Vec<Complex> {
        let mut terms = vec![Complex::ZERO; self.terms + 1];
        charges(&mut |place, charge| {
            terms[0].re += charge;
            let apart = place - about;
            let mut power = Complex::ONE;
            for (k, term) in terms.iter_mut().enumerate().skip(1) {
                power = power * apart;
                *term = *term + power * (-charge / k as f64);
            }
        });
        terms
    }

    /// The multipole expansion of a box from those of its four children.
    fn merge_children(&self, level: u32, number: usize) {
        let mut sum = vec![Complex::ZERO; self.terms + 1];
        for child in children(level, number) {
            let a = self.read(&self.multipoles, level + 1, child);
            let powers = self.powers(centre(level + 1, child) - centre(level, number));
            sum[0] = sum[0] + a[0];
            for l in 1..=self.terms {
                sum[l] = sum[l] - a[0] * powers[l] * (1.0 / l as f64);
                for k in 1..=l {
                    sum[l] = sum[l] + a[k] * powers[l - k] * self.binomial(l - 1, k - 1);
                }
            }
        }
        self.write(&self.multipoles, level, number, &sum);
    }

    /// The local expansion of a box: what its parent has, and all that is well separated from it but not
    /// from its parent.
    fn collect(&self, level: u32, number: usize) {
        let side = 1 << level;
        let mut sum = vec![Complex::ZERO; self.terms + 1];
        if level > 2 {
            self.inherit(level, number, &mut sum);
        }
        let near: Vec<usize> = neighbours(side, number).collect();
        for above in neighbours(side / 2, parent(side, number)) {
            for other in children(level - 1, above).filter(|other| !near.contains(other)) {
                self.add_distant(level, number, other, &mut sum);
            }
        }
        self.write(&self.locals, level, number, &sum);
    }

    /// Adds the multipole expansion of one box to the local one of another.
    fn add_distant(&self, level: u32, number: usize, other: usize, sum: &mut [Complex]) {
        let a = self.read(&self.multipoles, level, other);
        let apart = centre(level, other) - centre(level, number);
        let inverse = self.powers(apart.inverse());
        // (-1)^k a_k / apart^k
        let mut scaled: Vec<Complex> = (0..=self.terms).map(|k| a[k] * inverse[k]).collect();
        scaled.iter_mut().skip(1).step_by(2).for_each(|term| *term = *term * -1.0);
        sum[0] = sum[0] + a[0] * apart.magnitude().ln();
        for term in &scaled[1..] {
            sum[0] = sum[0] + *term;
        }
        for l in 1..=self.terms {
            let mut coefficient = a[0] * (-1.0 / l as f64);
            for (k, term) in scaled[1..].iter().enumerate() {
                coefficient = coefficient + *term * self.binomial(l + k, k);
            }
            sum[l] = sum[l] + coefficient * inverse[l];
        }
    }

    /// Adds the local expansion of the parent, moved to the child.
    fn inherit(&self, level: u32, number: usize, sum: &mut [Complex]) {
        let above = parent(1 << level, number);
        let b = self.read(&self.locals, level - 1, above);
        let powers = self.powers(centre(level, number) - centre(level - 1, above));
        for l in 0..=self.terms {
            for k in l..=self.terms {
                sum[l] = sum[l] + b[k] * powers[k - l] * self.binomial(k, l);
            }
        }
    }

    /// Potential and field (its derivative) of all distant charges at a place in a finest box.
    pub fn evaluate(&self, number: usize, place: Complex) -> (f64, Complex) {
        let b = self.read(&self.locals, self.levels, number);
        let apart = place - centre(self.levels, number);
        let (mut potential, mut field) = (Complex::ZERO, Complex::ZERO);
        for k in (0..=self.terms).rev() {
            field = field * apart + potential;
            potential = potential * apart + b[k];
        }
        (potential.re, field)
    }

    fn powers(&self, base: Complex) -> Vec<Complex> {
        std::iter::successors(Some(Complex::ONE), |power| Some(*power * base)).take(self.terms + 1).collect()
    }
}

/// Boxes of all levels above one.
fn first_of(level: u32) -> usize {
    ((1 << (2 * level)) - 1) / 3
}

fn centre(level: u32, number: usize) -> Complex {
    let side = 1usize << level;
    let middle = |index: usize| (index as f64 + 0.5) / side as f64;
    Complex { re: middle(number % side), im: middle(number / side) }
}

fn parent(side: usize, number: usize) -> usize {
    number / side / 2 * (side / 2) + number % side / 2
}

/// The four boxes within a box, on the next level.
fn children(level: u32, number: usize) -> impl Iterator<Item = usize> {
    let side = 1usize << level;
    let corner = 2 * (number / side) * (2 * side) + 2 * (number % side);
    [corner, corner + 1, corner + 2 * side, corner + 2 * side + 1].into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_box_is_a_child_of_its_parent_and_lies_in_it() {
        for level in 1..5u32 {
            for number in 0..1usize << (2 * level) {
                let above = parent(1 << level, number);
                assert!(children(level - 1, above).any(|child| child == number));
                let apart = centre(level, number) - centre(level - 1, above);
                let quarter = 0.25 / f64::from(1u32 << (level - 1));
                assert!((apart.re.abs() - quarter).abs() < 1e-15 && (apart.im.abs() - quarter).abs() < 1e-15);
            }
        }
    }

    #[test]
    fn neighbours_are_the_boxes_that_touch() {
        let touching = |side: usize, a: usize, b: usize| {
            (a / side).abs_diff(b / side) <= 1 && (a % side).abs_diff(b % side) <= 1
        };
        for side in [1, 2, 4, 8] {
            for number in 0..side * side {
                let expected: Vec<usize> = (0..side * side).filter(|b| touching(side, number, *b)).collect();
                assert_eq!(neighbours(side, number).collect::<Vec<_>>(), expected);
            }
        }
    }
}
