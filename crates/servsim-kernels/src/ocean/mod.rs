//! Ocean: the wind-driven circulation of a square basin, one layer deep.
//!
//! Vorticity z is carried by the flow, turned by the planet, driven by wind and damped:
//! dz/dt = -R J(psi, z) - dpsi/dx - E z + A lap z - pi sin(pi y), with lap psi = z and both zero at the
//! coast (Stommel 1948 with inertia). The advection is Arakawa's (1966), the step Adams and
//! Bashforth's second; each step ends by solving for the stream function with multigrid
//! ([`multigrid`]). Threads own bands of rows and share their edges, as in the programs that it stands
//! for; their several layers and eddies are left out.

mod checks;
mod multigrid;

use std::f64::consts::PI;
use std::sync::Mutex;

use serde_json::json;
use servsim_driver::rng::{Purpose, Stream};

use crate::array::{Array, Structures};
use crate::kernel::{Check, Kernel, Outcome, RunOptions, Spec};
use crate::team::{Member, Team};
use crate::{Error, Result};
use multigrid::{Grid, Multigrid};

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "ocean",
    summary: "circulation of an ocean basin: stencils and red-black multigrid",
    size: "grid points along each side, a power of two and two for the border",
    default_size: "130",
    paper: Some(("514", 5)),
    iterations: 5,
    settings: &[],
    make: |request, structures| Ok(Box::new(Ocean::new(request, structures)?)),
};

/// Least grid points along a side, without the border.
const LEAST: u64 = 8;
/// R: how much the flow carries itself, as a part of how much the planet turns it.
const INERTIA: f64 = 1e-4;
/// E: friction at the bottom.
const FRICTION: f64 = 0.05;
/// A: friction between neighbours.
const VISCOSITY: f64 = 1e-6;
/// Time step, in the time in which a wave of the planet crosses the basin.
const STEP: f64 = 0.1;
/// Waves along each side in the initial vorticity.
const MODES: usize = 3;

struct Ocean {
    seed: u64,
    /// The vorticity is the right-hand side of the finest level, the stream function its solution.
    multigrid: Multigrid,
    tendency: Array<f64>,
    old_tendency: Array<f64>,
    /// Cycles and largest residual, relative to the largest vorticity, of each step.
    solved: Mutex<Vec<(u32, f64)>>,
}

impl Ocean {
    fn new(request: &RunOptions, structures: &mut Structures) -> Result<Self> {
        let size = request.count("grid points per side")?;
        let n = size.saturating_sub(2);
        if !n.is_power_of_two() || n < LEAST {
            let lower = n.checked_ilog2().map_or(LEAST, |log| 1 << log).max(LEAST);
            let remedy = if n < LEAST {
                format!("give {}", LEAST + 2)
            } else {
                format!("give {} or {}", lower + 2, lower.saturating_mul(2).saturating_add(2))
            };
            return Err(Error::Usage(format!(
                "ocean needs a power of two from {LEAST}, and two for the border, as --size, not {size}: {remedy}"
            )));
        }
        request.at_most_threads(n, "rows of the grid")?;
        let cells = size.saturating_mul(size);
        Ok(Ocean {
            seed: request.seed,
            multigrid: Multigrid::new(n, request.threads, structures)?,
            tendency: structures.array("ocean.tendency", cells)?,
            old_tendency: structures.array("ocean.old_tendency", cells)?,
            solved: Mutex::new(Vec::new()),
        })
    }

    fn finest(&self) -> &Grid {
        &self.multigrid.levels[0]
    }

    /// The initial vorticity: a few waves with random heights.
    fn initial(&self) -> impl Fn(f64, f64) -> f64 {
        let mut stream = Stream::new(self.seed, Purpose::Load, 0);
        let heights: [[f64; MODES]; MODES] =
            std::array::from_fn(|_| std::array::from_fn(|_| 2.0 * stream.unit() - 1.0));
        move |x, y| {
            let wave = |k: usize, place: f64| (PI * (k + 1) as f64 * place).sin();
            let modes = (0..MODES * MODES).map(|mode| (mode / MODES, mode % MODES));
            modes.map(|(a, b)| heights[a][b] * wave(a, x) * wave(b, y)).sum()
        }
    }

    /// The rate at which vorticity changes at a point.
    fn rate(&self, row: usize, column: usize) -> f64 {
        let grid = self.finest();
        let psi = |down: isize, right: isize| grid.mirrored(&grid.solution, row, column, down, right);
        let zeta = |down: isize, right: isize| grid.mirrored(&grid.right_hand_side, row, column, down, right);
        let h = grid.spacing();
        let turned = (psi(0, 1) - psi(0, -1)) / (2.0 * h);
        let around = zeta(0, 1) + zeta(0, -1) + zeta(1, 0) + zeta(-1, 0);
        let spread = (around - 4.0 * zeta(0, 0)) / (h * h);
        let wind = -PI * (PI * grid.place(row)).sin();
        wind - turned - FRICTION * zeta(0, 0) + VISCOSITY * spread
            - INERTIA * jacobian(psi, zeta) / (12.0 * h * h)
    }

    fn cells<'t>(&self, me: &Member<'t>) -> impl Iterator<Item = (usize, usize)> + 't {
        let n = self.finest().n;
        me.share(n).flat_map(move |row| (1..=n).map(move |column| (row + 1, column)))
    }

    /// Solves for the stream function of the present vorticity; ends with a barrier.
    fn solve(&self, me: &Member<'_>) {
        let outcome = self.multigrid.solve(me);
        if me.id == 0 {
            self.solved.lock().expect("one thread records").push(outcome);
        }
    }
}

/// Arakawa's Jacobian, without its factor 1 / 12 h^2: the form that keeps the energy and the square of the
/// vorticity.
fn jacobian(p: impl Fn(isize, isize) -> f64, z: impl Fn(isize, isize) -> f64) -> f64 {
    let plus = (p(0, 1) - p(0, -1)) * (z(1, 0) - z(-1, 0)) - (p(1, 0) - p(-1, 0)) * (z(0, 1) - z(0, -1));
    let flux =
        p(0, 1) * (z(1, 1) - z(-1, 1)) - p(0, -1) * (z(1, -1) - z(-1, -1)) - p(1, 0) * (z(1, 1) - z(1, -1))
            + p(-1, 0) * (z(-1, 1) - z(-1, -1));
    let cross =
        z(1, 0) * (p(1, 1) - p(1, -1)) - z(-1, 0) * (p(-1, 1) - p(-1, -1)) - z(0, 1) * (p(1, 1) - p(-1, 1))
            + z(0, -1) * (p(1, -1) - p(-1, -1));
    plus + flux + cross
}

impl Kernel for Ocean {
    fn init(&self, me: &Member<'_>) {
        self.multigrid.init(me);
        let (grid, initial) = (self.finest(), self.initial());
        for row in me.init_share(grid.n + 2) {
            for array in [&self.tendency, &self.old_tendency] {
                array.fill(grid.at(row, 0)..grid.at(row + 1, 0), 0.0);
            }
        }
        me.barrier();
        for row in me.init_share(grid.n) {
            for column in 1..=grid.n {
                let value = initial(grid.place(column), grid.place(row + 1));
                grid.right_hand_side.set(grid.at(row + 1, column), value);
            }
        }
    }

    fn begin(&self, me: &Member<'_>) {
        self.solve(me);
        for (row, column) in self.cells(me) {
            self.old_tendency.set(self.finest().at(row, column), self.rate(row, column));
        }
    }

    fn iterate(&self, me: &Member<'_>) {
        let grid = self.finest();
        for (row, column) in self.cells(me) {
            self.tendency.set(grid.at(row, column), self.rate(row, column));
        }
        me.barrier();
        for (row, column) in self.cells(me) {
            let at = grid.at(row, column);
            let (now, before) = (self.tendency.get(at), self.old_tendency.get(at));
            let vorticity = grid.right_hand_side.get(at) + STEP * (1.5 * now - 0.5 * before);
            grid.right_hand_side.set(at, vorticity);
            self.old_tendency.set(at, now);
        }
        me.barrier();
        self.solve(me);
    }

    fn outcome(&self) -> Outcome {
        let grid = self.finest();
        let area = grid.spacing().powi(2);
        let sum =
            |a: &Array<f64>, b: &Array<f64>| (0..a.len()).map(|at| a.get(at) * b.get(at)).sum::<f64>() * area;
        let cycles: u32 =
            self.solved.lock().expect("threads have ended").iter().map(|(cycles, _)| cycles).sum();
        Outcome {
            figures: json!({
                "kinetic_energy": -0.5 * sum(&grid.solution, &grid.right_hand_side),
                "enstrophy": 0.5 * sum(&grid.right_hand_side, &grid.right_hand_side),
                "multigrid_cycles": cycles,
            }),
            digest: grid.solution.digest() ^ grid.right_hand_side.digest().rotate_left(32),
        }
    }

    fn check(&self, team: &Team, _iterations: u64) -> Result<Vec<Check>> {
        checks::all(self, team)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failures, request, run};

    fn ocean(size: &str) -> Ocean {
        let (request, mut structures) = request(&SPEC, size);
        Ocean::new(&request, &mut structures).unwrap()
    }

    #[test]
    fn checks_notice_a_wrong_stream_function_and_a_wrong_residual() {
        let ocean = ocean("18");
        let team = run(&ocean);
        assert_eq!(failures(&ocean, &team), Vec::<&str>::new());

        let team = run(&ocean);
        let at = ocean.finest().at(3, 4);
        ocean.finest().solution.set(at, ocean.finest().solution.get(at) + 1e-6);
        assert_eq!(failures(&ocean, &team), ["residual of the stream function after the last step"]);

        let team = run(&ocean);
        ocean.solved.lock().unwrap()[0].1 = 1e-3;
        assert_eq!(failures(&ocean, &team), ["largest residual that a step was left with"]);
    }

    #[test]
    fn the_error_of_the_solver_falls_with_the_square_of_the_spacing() {
        let errors: Vec<f64> = ["18", "34", "66"]
            .iter()
            .map(|size| {
                let ocean = ocean(size);
                let team = run(&ocean);
                checks::error_of_known_solution(&ocean, &team).unwrap()
            })
            .collect();
        for pair in errors.windows(2) {
            assert!((3.5..4.5).contains(&(pair[0] / pair[1])), "{errors:?}");
        }
    }

    #[test]
    fn the_jacobian_of_linear_fields_is_that_of_calculus() {
        // p = 2 x + 3 y, z = 5 x - y, with x to the right and y down: p_x z_y - p_y z_x = -2 - 15.
        let p = |down: isize, right: isize| 2.0 * right as f64 + 3.0 * down as f64;
        let z = |down: isize, right: isize| 5.0 * right as f64 - down as f64;
        assert!((jacobian(p, z) / 12.0 + 17.0).abs() < 1e-12);
    }
}
