//! Every molecule against the half of all others that follow it, in a circle.
//!
//! Each thread takes its molecules' pairs and gathers forces in a private array of all molecules, as
//! such programs do to spare locks; then each sums its molecules' forces over the arrays of all
//! threads. So positions are read by all, and private arrays by everybody once a step.

use super::{Pairs, System, Water, NUMBERS};
use crate::array::{Array, Structures};
use crate::kernel::{RunOptions, Spec};
use crate::team::Member;
use crate::Result;

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "water-nsquared",
    summary: "molecular dynamics of water, all pairs",
    size: "molecules, the cube of a number from 4",
    default_size: "512",
    paper: Some(("9261", 5)),
    iterations: 3,
    settings: &[],
    make: |request, structures| Ok(Box::new(make(request, structures)?)),
};

struct AllPairs {
    /// By thread, molecule, site and direction.
    private: Array<i64>,
}

fn make(request: &RunOptions, structures: &mut Structures) -> Result<Water<AllPairs>> {
    let system = System::new(SPEC.name, request, structures)?;
    let elements = (system.molecules as u64 * NUMBERS as u64).saturating_mul(request.threads as u64);
    let private = structures.array("water-nsquared.private_forces", elements)?;
    Ok(Water::new(system, AllPairs { private }))
}

/// The half of all others that a molecule meets: those that follow it in the circle. With an even number, the
/// opposite one would be met from both ends.
fn partners(molecule: usize, n: usize) -> impl Iterator<Item = usize> {
    let last = if 2 * (n / 2) == n && molecule >= n / 2 { n / 2 - 1 } else { n / 2 };
    (1..=last).map(move |step| (molecule + step) % n)
}

impl Pairs for AllPairs {
    fn init(&self, system: &System, me: &Member<'_>) {
        let each = system.molecules * NUMBERS;
        for thread in me.init_share(me.threads()) {
            self.private.fill(thread * each..(thread + 1) * each, 0);
        }
    }

    fn add_forces(&self, system: &System, me: &Member<'_>) -> i64 {
        let n = system.molecules;
        let own = me.id * n * NUMBERS;
        self.private.fill(own..own + n * NUMBERS, 0);
        let mut energy = 0;
        for molecule in me.share(n) {
            let sites = system.sites(molecule);
            for other in partners(molecule, n) {
                let places = [molecule, other].map(|which| own + which * NUMBERS);
                energy += system.interaction.between(&sites, &system.sites(other), |which, number, force| {
                    let at = places[which] + number;
                    self.private.set(at, self.private.get(at) + force);
                });
            }
        }
        me.barrier();
        for molecule in me.share(n) {
            for at in molecule * NUMBERS..(molecule + 1) * NUMBERS {
                let sum: i64 =
                    (0..me.threads()).map(|thread| self.private.get(thread * n * NUMBERS + at)).sum();
                system.forces.set(at, system.forces.get(at) + sum);
            }
        }
        energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_molecules_meets_once() {
        for n in [64, 125, 2, 3] {
            let met =
                (0..n).flat_map(|one| partners(one, n).map(move |other| (one.min(other), one.max(other))));
            let mut met: Vec<_> = met.collect();
            met.sort_unstable();
            let expected: Vec<_> =
                (0..n).flat_map(|one| (one + 1..n).map(move |other| (one, other))).collect();
            assert_eq!(met, expected, "{n} molecules");
        }
    }
}
