//! Multigrid for Poisson's equation in a square, zero at the wall.
//!
//! Points lie in the middle of cells, so that every coarser grid lines up with the wall (Wesseling
//! 1992). V-cycles of red-black Gauss-Seidel: points of one colour depend on the other colour alone, so
//! that the result does not depend on who computes them in which order. Restriction is the mean of four cells,
//! prolongation bilinear. Each thread owns a band of rows on every level; on coarse levels some own
//! none.

use crate::array::{Array, Structures};
use crate::kernel::largest;
use crate::reduction::Largest;
use crate::team::Member;
use crate::Result;

/// Points along a side of the coarsest level.
const COARSEST: u64 = 4;
/// Sweeps before and after the coarser level, and on the coarsest one.
const SWEEPS: usize = 2;
const COARSEST_SWEEPS: usize = 16;
/// A solution is good when its residual is this small, relative to the largest right-hand side.
pub const TOLERANCE: f64 = 1e-8;
/// Cycles after which the solver gives up; it needs about ten.
const MOST_CYCLES: u32 = 100;

/// One level: `n` by `n` points and a border, which stays zero.
pub struct Grid {
    pub n: usize,
    pub solution: Array<f64>,
    pub right_hand_side: Array<f64>,
    residual: Array<f64>,
}

impl Grid {
    pub fn at(&self, row: usize, column: usize) -> usize {
        row * (self.n + 2) + column
    }

    pub fn spacing(&self) -> f64 {
        1.0 / self.n as f64
    }

    /// The coordinate of a row or column, from 1.
    pub fn place(&self, index: usize) -> f64 {
        (index as f64 - 0.5) * self.spacing()
    }

    /// The value at a neighbour of a point. Beyond the wall it is the negative of its mirror image, which makes it
    /// zero at the wall.
    pub fn mirrored(&self, array: &Array<f64>, row: usize, column: usize, down: isize, right: isize) -> f64 {
        let fold = |index: usize| match index {
            0 => (1, -1.0),
            _ if index > self.n => (self.n, -1.0),
            _ => (index, 1.0),
        };
        let (row, vertical) = fold(row.wrapping_add_signed(down));
        let (column, horizontal) = fold(column.wrapping_add_signed(right));
        vertical * horizontal * array.get(self.at(row, column))
    }

    /// Neighbours' sum (the border counts nothing), and what the point itself counts: 4, and one more for each wall.
    fn stencil(&self, row: usize, column: usize) -> (f64, f64) {
        let (at, width) = (self.at(row, column), self.n + 2);
        let u = &self.solution;
        let sum = u.get(at - 1) + u.get(at + 1) + u.get(at - width) + u.get(at + width);
        let walls = [row == 1, row == self.n, column == 1, column == self.n];
        (sum, 4.0 + walls.iter().filter(|wall| **wall).count() as f64)
    }

    fn residual_at(&self, row: usize, column: usize) -> f64 {
        let (sum, weight) = self.stencil(row, column);
        let at = self.at(row, column);
        self.right_hand_side.get(at) - (sum - weight * self.solution.get(at)) / self.spacing().powi(2)
    }

    fn rows(&self, me: &Member<'_>) -> std::ops::RangeInclusive<usize> {
        let share = me.share(self.n);
        share.start + 1..=share.end
    }

    /// One sweep over both colours; ends with a barrier.
    fn smooth(&self, me: &Member<'_>) {
        let square = self.spacing().powi(2);
        for colour in 0..2 {
            for row in self.rows(me) {
                for column in (1 + (row + colour) % 2..=self.n).step_by(2) {
                    let (sum, weight) = self.stencil(row, column);
                    let at = self.at(row, column);
                    self.solution.set(at, (sum - square * self.right_hand_side.get(at)) / weight);
                }
            }
            me.barrier();
        }
    }

    /// Fills the residuals of this thread's rows; returns the largest.
    fn compute_residuals(&self, me: &Member<'_>) -> f64 {
        let points = self.rows(me).flat_map(|row| (1..=self.n).map(move |column| (row, column)));
        largest(points.map(|(row, column)| {
            let residual = self.residual_at(row, column);
            self.residual.set(self.at(row, column), residual);
            residual.abs()
        }))
    }
}

/// All levels, the finest first.
pub struct Multigrid {
    pub levels: Vec<Grid>,
    largest: Largest,
}

impl Multigrid {
    pub fn new(n: u64, threads: usize, structures: &mut Structures) -> Result<Self> {
        let mut levels = Vec::new();
        let sizes = std::iter::successors(Some(n), |n| (*n > COARSEST).then_some(n / 2));
        for (level, n) in sizes.enumerate() {
            let names = match level {
                0 => ["ocean.stream_function", "ocean.vorticity", "ocean.residual"].map(str::to_owned),
                _ => ["correction", "defect", "residual"].map(|name| format!("ocean.{name}_{level}")),
            };
            let cells = (n + 2).saturating_mul(n + 2);
            levels.push(Grid {
                n: n as usize,
                solution: structures.array(&names[0], cells)?,
                right_hand_side: structures.array(&names[1], cells)?,
                residual: structures.array(&names[2], cells)?,
            });
        }
        Ok(Multigrid { levels, largest: Largest::new("ocean.largest", threads, structures)? })
    }

    /// First touch: all zero.
    pub fn init(&self, me: &Member<'_>) {
        for grid in &self.levels {
            for row in me.init_share(grid.n + 2) {
                for array in [&grid.solution, &grid.right_hand_side, &grid.residual] {
                    array.fill(grid.at(row, 0)..grid.at(row + 1, 0), 0.0);
                }
            }
        }
        self.largest.init(me);
    }

    /// Cycles until the solution is good, from the one there is; returns their number and the relative
    /// residual. Begins behind and ends with a barrier.
    pub fn solve(&self, me: &Member<'_>) -> (u32, f64) {
        let finest = &self.levels[0];
        let own = finest.rows(me).flat_map(|row| (1..=finest.n).map(move |column| finest.at(row, column)));
        let scale = self.largest.of(me, largest(own.map(|at| finest.right_hand_side.get(at).abs())));
        for cycles in 0.. {
            let relative = self.largest.of(me, finest.compute_residuals(me)) / scale.max(f64::MIN_POSITIVE);
            // Not "until it is smaller": what is not a number must end, too.
            if relative <= TOLERANCE || relative.is_nan() || cycles == MOST_CYCLES {
                return (cycles, relative);
            }
            self.cycle(me, 0);
        }
        unreachable!("the loop ends after {MOST_CYCLES} cycles")
    }

    fn cycle(&self, me: &Member<'_>, level: usize) {
        let grid = &self.levels[level];
        let Some(coarse) = self.levels.get(level + 1) else {
            (0..COARSEST_SWEEPS).for_each(|_| grid.smooth(me));
            return;
        };
        (0..SWEEPS).for_each(|_| grid.smooth(me));
        grid.compute_residuals(me);
        me.barrier();
        for row in coarse.rows(me) {
            for column in 1..=coarse.n {
                let corner = grid.at(2 * row - 1, 2 * column - 1);
                let four = [corner, corner + 1, corner + grid.n + 2, corner + grid.n + 3];
                let mean = four.iter().map(|at| grid.residual.get(*at)).sum::<f64>() / 4.0;
                coarse.right_hand_side.set(coarse.at(row, column), mean);
                coarse.solution.set(coarse.at(row, column), 0.0);
            }
        }
        me.barrier();
        self.cycle(me, level + 1);
        for row in grid.rows(me) {
            for column in 1..=grid.n {
                let at = grid.at(row, column);
                grid.solution.set(at, grid.solution.get(at) + interpolate(coarse, row, column));
            }
        }
        me.barrier();
        (0..SWEEPS).for_each(|_| grid.smooth(me));
    }
}

/// The coarse solution at a point of the finer grid, which lies a quarter of a cell from its cell's middle.
fn interpolate(coarse: &Grid, row: usize, column: usize) -> f64 {
    let (cell_row, cell_column) = (row.div_ceil(2), column.div_ceil(2));
    let towards = |index: usize| if index % 2 == 1 { -1 } else { 1 };
    let (down, right) = (towards(row), towards(column));
    let value = |down, right| coarse.mirrored(&coarse.solution, cell_row, cell_column, down, right);
    (9.0 * value(0, 0) + 3.0 * (value(down, 0) + value(0, right)) + value(down, right)) / 16.0
}
