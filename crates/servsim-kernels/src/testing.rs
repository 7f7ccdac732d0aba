//! For the unit tests of kernels: a kernel run without its program, so that a test can spoil what it
//! computed and see which checks notice.

use crate::array::Structures;
use crate::kernel::{Kernel, RunOptions, Spec};
use crate::team::{Init, Team};
use servsim_units::Bytes;

/// A request for a small run on two threads.
pub fn request(spec: &Spec, size: &str) -> (RunOptions, Structures) {
    let settings = spec.settings.iter().map(|setting| (setting.name, setting.default.to_owned())).collect();
    let request = RunOptions { threads: 2, size: size.to_owned(), seed: 5, settings };
    (request, Structures::within(Bytes(1 << 28)))
}

/// Runs a kernel for two iterations.
pub fn run(kernel: &dyn Kernel) -> Team {
    let team = Team::new(2, Init::Parallel, 10);
    team.run(|me| {
        kernel.init(&me);
        me.barrier();
        kernel.begin(&me);
        for _ in 0..2 {
            me.barrier();
            kernel.iterate(&me);
        }
    })
    .unwrap();
    team
}

/// The checks that fail, after two iterations.
pub fn failures(kernel: &dyn Kernel, team: &Team) -> Vec<&'static str> {
    let checks = kernel.check(team, 2).unwrap();
    checks.into_iter().filter(|check| !check.passed).map(|check| check.check).collect()
}
