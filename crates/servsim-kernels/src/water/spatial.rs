//! Molecules against those of neighbouring cells only.
//!
//! The box is cut into cells no smaller than the interaction reaches; each holds a linked list of its
//! molecules, made anew every step by the thread that owns the cell. Owners take the pairs within a
//! cell and with the neighbours of higher number, and add forces to molecules of others by a locked
//! instruction. Cells and molecules are numbered in the same order, so an owner's molecules mostly lie
//! in its own cells.

use super::model::{Vector, SITES};
use super::{Pairs, System, Water, NUMBERS};
use crate::array::{Array, Structures};
use crate::kernel::{RunOptions, Spec};
use crate::team::Member;
use crate::Result;

/// The registry's entry.
pub static SPEC: Spec = Spec {
    name: "water-spatial",
    summary: "molecular dynamics of water, pairs of neighbouring cells",
    size: "molecules, the cube of a number from 4",
    default_size: "512",
    paper: Some(("32768", 5)),
    iterations: 3,
    settings: &[],
    make: |request, structures| Ok(Box::new(make(request, structures)?)),
};

/// The end of a list.
const NONE: u64 = u64::MAX;

pub(super) struct Cells {
    /// Cells along a side of the box.
    side: usize,
    /// The cell of each molecule.
    cell_of: Array<u64>,
    /// The first molecule of each cell, and the next one of each molecule.
    first: Array<u64>,
    next: Array<u64>,
}

pub(super) fn make(request: &RunOptions, structures: &mut Structures) -> Result<Water<Cells>> {
    let system = System::new(SPEC.name, request, structures)?;
    let side = (system.interaction.side / system.interaction.reach()).floor().max(1.0) as usize;
    let molecules = system.molecules as u64;
    let cells = Cells {
        side,
        cell_of: structures.array("water-spatial.cell_of_molecule", molecules)?,
        first: structures.array("water-spatial.first_molecule", side.pow(3) as u64)?,
        next: structures.array("water-spatial.next_molecule", molecules)?,
    };
    Ok(Water::new(system, cells))
}

impl Cells {
    fn count(&self) -> usize {
        self.side.pow(3)
    }

    /// The cell of a molecule's oxygen.
    fn locate(&self, system: &System, molecule: usize) -> usize {
        let side = system.interaction.side;
        system.site(molecule, 0).iter().fold(0, |cell, coordinate| {
            let within = (coordinate / side).rem_euclid(1.0);
            cell * self.side + ((within * self.side as f64) as usize).min(self.side - 1)
        })
    }

    /// Lists the molecules of this thread's cells; ends with a barrier.
    fn sort(&self, system: &System, me: &Member<'_>) {
        for molecule in me.share(system.molecules) {
            self.cell_of.set(molecule, self.locate(system, molecule) as u64);
        }
        me.barrier();
        let own = me.share(self.count());
        self.first.fill(own.clone(), NONE);
        for molecule in (0..system.molecules).rev() {
            let cell = self.cell_of.get(molecule) as usize;
            if own.contains(&cell) {
                self.next.set(molecule, self.first.get(cell));
                self.first.set(cell, molecule as u64);
            }
        }
        me.barrier();
    }

    /// The cells around one that have a higher number, each once: in a box of two cells a side, several
    /// ways lead to the same one.
    fn higher_neighbours(&self, cell: usize) -> Vec<usize> {
        let around = |coordinate: usize| [self.side - 1, 0, 1].map(|step| (coordinate + step) % self.side);
        let (x, y, z) = (cell / (self.side * self.side), cell / self.side % self.side, cell % self.side);
        let mut found = Vec::new();
        for a in around(x) {
            for b in around(y) {
                found.extend(around(z).map(|c| (a * self.side + b) * self.side + c));
            }
        }
        found.retain(|other| *other > cell);
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The molecules of a list from a link on.
    fn listed(&self, link: u64) -> impl Iterator<Item = usize> + '_ {
        let molecule = |link: u64| (link != NONE).then_some(link as usize);
        std::iter::successors(molecule(link), move |last| molecule(self.next.get(*last)))
    }

    /// Adds the forces of a pair: those on the other one at once, those on the first to `own`.
    fn add_pair(system: &System, sites: &[Vector; SITES], other: usize, own: &mut [i64; NUMBERS]) -> i64 {
        let mut forces = [0; NUMBERS];
        let energy = system.interaction.between(sites, &system.sites(other), |which, number, force| {
            if which == 0 {
                own[number] += force;
            } else {
                forces[number] += force;
            }
        });
        Self::add(system, other, forces);
        energy
    }

    /// Adds forces to a molecule that other threads may add to as well.
    fn add(system: &System, molecule: usize, forces: [i64; NUMBERS]) {
        for (number, force) in forces.into_iter().enumerate().filter(|(_, force)| *force != 0) {
            system.forces.add(molecule * NUMBERS + number, force);
        }
    }
}

impl Pairs for Cells {
    fn init(&self, system: &System, me: &Member<'_>) {
        let molecules = me.init_share(system.molecules);
        self.cell_of.fill(molecules.clone(), 0);
        self.next.fill(molecules, NONE);
        self.first.fill(me.init_share(self.count()), NONE);
    }

    fn add_forces(&self, system: &System, me: &Member<'_>) -> i64 {
        self.sort(system, me);
        let mut energy = 0;
        for cell in me.share(self.count()) {
            let neighbours = self.higher_neighbours(cell);
            for molecule in self.listed(self.first.get(cell)) {
                let (sites, mut own) = (system.sites(molecule), [0; NUMBERS]);
                for other in self.listed(self.next.get(molecule)) {
                    energy += Self::add_pair(system, &sites, other, &mut own);
                }
                for neighbour in &neighbours {
                    for other in self.listed(self.first.get(*neighbour)) {
                        energy += Self::add_pair(system, &sites, other, &mut own);
                    }
                }
                Self::add(system, molecule, own);
            }
        }
        energy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_units::Bytes;

    #[test]
    fn every_pair_of_cells_that_touch_is_taken_once() {
        for side in 1..6usize {
            let mut structures = Structures::within(Bytes(1 << 20));
            let mut array = |name: &str| structures.array(name, 1).unwrap();
            let cells = Cells { side, cell_of: array("t.a"), first: array("t.b"), next: array("t.c") };
            let mut pairs = Vec::new();
            for cell in 0..cells.count() {
                pairs.extend(cells.higher_neighbours(cell).into_iter().map(|other| (cell, other)));
            }
            let unique: std::collections::BTreeSet<_> = pairs.iter().collect();
            assert_eq!(unique.len(), pairs.len());
            let distance = |a: usize, b: usize| {
                let apart = a.abs_diff(b);
                apart.min(side - apart)
            };
            let touch = |a: usize, b: usize| {
                let coordinates = |cell: usize| [cell / (side * side), cell / side % side, cell % side];
                let (a, b) = (coordinates(a), coordinates(b));
                (0..3).all(|d| distance(a[d], b[d]) <= 1)
            };
            let n = cells.count();
            let expected =
                (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b))).filter(|(a, b)| touch(*a, *b));
            assert_eq!(pairs, expected.collect::<Vec<_>>());
        }
    }
}
