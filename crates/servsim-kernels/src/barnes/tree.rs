//! The octree, built by all threads: bodies are put into 512 buckets, the cubes of the third level; each
//! thread sorts and builds the subtrees of its buckets, the first one joins them.

use std::ops::Range;

use super::{Barnes, BODY, COST, MASS, POSITION, WORK};
use crate::array::{Array, Structures};
use crate::buckets::Buckets;
use crate::reduction::Largest;
use crate::team::Member;
use crate::Result;

/// Bodies of a leaf, except on the last level.
const LEAF: usize = 8;
/// Levels below the root that a key of 63 bits tells apart.
const LEVELS: u32 = 21;
/// The level whose cubes are the buckets, its cubes, and the cells above it.
const BUCKET_LEVEL: u32 = 3;
const BUCKETS: usize = 512;
const TOP: usize = 1 + 8 + 64;

/// Elements of a cell's record, and where its parts stand.
pub const CELL: usize = 16;
pub const CELL_MASS: usize = 0;
pub const CENTRE: usize = 1;
pub const SIDE: usize = 4;
/// Its bodies: slots of the order, from and to.
pub const BEGIN: usize = 5;
pub const END: usize = 6;
pub const IS_LEAF: usize = 7;
/// Eight children; [`NONE`] where there are no bodies.
pub const CHILDREN: usize = 8;
/// No child.
pub const NONE: f64 = -1.0;

pub struct Tree {
    keys: Array<u64>,
    /// The bodies along the curve.
    order: Array<u64>,
    buckets: Buckets,
    /// Of each bucket: its first cell (before: how many it has), and the cost of its bodies.
    bucket_cells: Array<u64>,
    bucket_costs: Array<f64>,
    pub cells: Array<f64>,
    used: Array<u64>,
    largest: Largest,
}

impl Tree {
    pub fn new(n: u64, threads: usize, structures: &mut Structures) -> Result<Self> {
        // A cell that is no leaf has more than LEAF bodies, so a level has fewer than n / LEAF of them; and there
        // are no more leaves than bodies.
        let most =
            (n / LEAF as u64).saturating_mul(u64::from(LEVELS)).saturating_add(n).saturating_add(TOP as u64);
        Ok(Tree {
            keys: structures.array("barnes.keys", n)?,
            order: structures.array("barnes.order", n)?,
            buckets: Buckets::new("barnes", BUCKETS, threads, structures)?,
            bucket_cells: structures.array("barnes.bucket_cells", BUCKETS as u64)?,
            bucket_costs: structures.array("barnes.bucket_costs", BUCKETS as u64)?,
            cells: structures.array("barnes.cells", most.saturating_mul(CELL as u64))?,
            used: structures.array("barnes.cells_used", 1)?,
            largest: Largest::new("barnes.largest", threads, structures)?,
        })
    }

    /// First touch; of cells, as many as there are bodies: others are hardly ever reached.
    pub fn init(&self, n: usize, me: &Member<'_>) {
        for body in me.init_share(n) {
            self.keys.set(body, 0);
            self.order.set(body, body as u64);
            self.cells.fill(body * CELL..(body + 1) * CELL, 0.0);
        }
        self.bucket_cells.fill(me.init_share(BUCKETS), 0);
        self.bucket_costs.fill(me.init_share(BUCKETS), 0.0);
        self.buckets.init(me);
        self.largest.init(me);
    }

    /// The body in a slot of the order.
    pub fn body(&self, slot: usize) -> usize {
        self.order.get(slot) as usize
    }

    #[cfg(test)]
    pub fn replace(&self, slot: usize, body: usize) {
        self.order.set(slot, body as u64);
    }

    pub fn cells_used(&self) -> u64 {
        self.used.get(0)
    }

    pub fn part(&self, cell: usize, part: usize) -> f64 {
        self.cells.get(cell * CELL + part)
    }

    pub fn slots(&self, cell: usize) -> Range<usize> {
        self.part(cell, BEGIN) as usize..self.part(cell, END) as usize
    }

    /// Buckets in the order of the curve: their slots, and what their bodies cost.
    pub fn stretches(&self) -> impl Iterator<Item = (Range<usize>, f64)> + '_ {
        (0..BUCKETS).map(|bucket| (self.buckets.range(bucket), self.bucket_costs.get(bucket)))
    }

    /// Builds the tree of the present positions; ends with a barrier.
    pub fn build(&self, barnes: &Barnes, me: &Member<'_>) {
        let own = me.share(barnes.n);
        let coordinates = own.clone().flat_map(|body| barnes.vector(body, POSITION));
        let half = self.largest.of(me, crate::kernel::largest(coordinates.map(f64::abs)));
        let side = 2.0 * half;
        for body in own {
            self.keys.set(body, key(barnes.vector(body, POSITION), half));
        }
        let bucket_of = |body: usize| (self.keys.get(body) >> (3 * (LEVELS - BUCKET_LEVEL))) as usize;
        self.buckets.sort(me, barnes.n, bucket_of, |body, slot| self.order.set(slot, body as u64));
        for bucket in me.share(BUCKETS) {
            self.prepare(barnes, bucket);
        }
        me.barrier();
        if me.id == 0 {
            self.number_cells();
        }
        me.barrier();
        for bucket in me.share(BUCKETS) {
            let mut next = self.bucket_cells.get(bucket) as usize;
            let slots = self.buckets.range(bucket);
            if !slots.is_empty() {
                self.build_cell(barnes, slots, BUCKET_LEVEL, side, &mut next);
            }
        }
        me.barrier();
        if me.id == 0 {
            self.join(side);
        }
        me.barrier();
    }

    /// Sorts the bodies of a bucket, counts its cells, and sums the cost of its bodies.
    fn prepare(&self, barnes: &Barnes, bucket: usize) {
        let slots = self.buckets.range(bucket);
        let mut bodies: Vec<u64> = slots.clone().map(|slot| self.order.get(slot)).collect();
        bodies.sort_unstable_by_key(|body| (self.keys.get(*body as usize), *body));
        let mut cost = 0.0;
        for (slot, body) in slots.clone().zip(bodies) {
            self.order.set(slot, body);
            let work = barnes.part(body as usize, WORK);
            barnes.bodies.set(body as usize * BODY + COST, work);
            cost += work;
        }
        self.bucket_costs.set(bucket, cost);
        self.bucket_cells.set(bucket, self.count_cells(slots, BUCKET_LEVEL));
    }

    fn count_cells(&self, slots: Range<usize>, level: u32) -> u64 {
        if slots.is_empty() {
            return 0;
        }
        if is_leaf(&slots, level) {
            return 1;
        }
        1 + self
            .octants(slots, level)
            .map(|octant| self.count_cells(octant, level + 1))
            .into_iter()
            .sum::<u64>()
    }

    /// The slots of the eight cubes within a cell; bodies are sorted.
    fn octants(&self, slots: Range<usize>, level: u32) -> [Range<usize>; 8] {
        let octant = |slot: usize| self.keys.get(self.body(slot)) >> (3 * (LEVELS - 1 - level)) & 7;
        let mut from = slots.start;
        std::array::from_fn(|number| {
            let begin = from;
            while from < slots.end && octant(from) == number as u64 {
                from += 1;
            }
            begin..from
        })
    }

    /// Turns counts of cells into the first cell of each bucket.
    fn number_cells(&self) {
        let mut next = TOP as u64;
        for bucket in 0..BUCKETS {
            let count = self.bucket_cells.get(bucket);
            self.bucket_cells.set(bucket, next);
            next += count;
        }
        self.used.set(0, next);
    }

    /// Builds the cell of some bodies and all below; returns its number.
    fn build_cell(
        &self,
        barnes: &Barnes,
        slots: Range<usize>,
        level: u32,
        side: f64,
        next: &mut usize,
    ) -> usize {
        let cell = *next;
        *next += 1;
        let leaf = is_leaf(&slots, level);
        let mut children = [NONE; 8];
        let mut sum = Sum::default();
        if leaf {
            for slot in slots.clone() {
                let body = self.body(slot);
                sum.add(barnes.part(body, MASS), barnes.vector(body, POSITION));
            }
        } else {
            for (number, octant) in self.octants(slots.clone(), level).into_iter().enumerate() {
                if !octant.is_empty() {
                    let child = self.build_cell(barnes, octant, level + 1, side, next);
                    children[number] = child as f64;
                    sum.add_cell(self, child);
                }
            }
        }
        self.write(cell, &sum, side / f64::from(1u32 << level), slots, leaf, children);
        cell
    }

    /// Fills the cells above the buckets, the lowest first.
    fn join(&self, side: f64) {
        for level in (0..BUCKET_LEVEL).rev() {
            let cubes = 1 << (3 * level);
            let below = BUCKETS / cubes;
            for cube in 0..cubes {
                let mut sum = Sum::default();
                let children = std::array::from_fn(|octant| {
                    let inner = cube * 8 + octant;
                    let child = if level + 1 == BUCKET_LEVEL {
                        self.bucket_cells.get(inner) as usize
                    } else {
                        top(level + 1) + inner
                    };
                    if self.slots_of_cube(inner, below / 8).is_empty() {
                        return NONE;
                    }
                    sum.add_cell(self, child);
                    child as f64
                });
                let slots = self.slots_of_cube(cube, below);
                self.write(top(level) + cube, &sum, side / f64::from(1u32 << level), slots, false, children);
            }
        }
    }

    /// The slots of a cube that holds so many buckets.
    fn slots_of_cube(&self, cube: usize, buckets: usize) -> Range<usize> {
        self.buckets.range(cube * buckets).start..self.buckets.range((cube + 1) * buckets - 1).end
    }

    fn write(&self, cell: usize, sum: &Sum, side: f64, slots: Range<usize>, leaf: bool, children: [f64; 8]) {
        let centre = sum.weighted.map(|component| component / sum.mass.max(f64::MIN_POSITIVE));
        let head = [
            sum.mass,
            centre[0],
            centre[1],
            centre[2],
            side,
            slots.start as f64,
            slots.end as f64,
            f64::from(u8::from(leaf)),
        ];
        for (part, value) in head.into_iter().chain(children).enumerate() {
            self.cells.set(cell * CELL + part, value);
        }
    }
}

/// The first cell of a level above the buckets.
fn top(level: u32) -> usize {
    ((1 << (3 * level)) - 1) / 7
}

fn is_leaf(slots: &Range<usize>, level: u32) -> bool {
    slots.len() <= LEAF || level == LEVELS
}

/// A mass and its moment.
#[derive(Default)]
struct Sum {
    mass: f64,
    weighted: [f64; 3],
}

impl Sum {
    fn add(&mut self, mass: f64, at: [f64; 3]) {
        self.mass += mass;
        for (sum, coordinate) in self.weighted.iter_mut().zip(at) {
            *sum += mass * coordinate;
        }
    }

    fn add_cell(&mut self, tree: &Tree, cell: usize) {
        self.add(tree.part(cell, CELL_MASS), std::array::from_fn(|d| tree.part(cell, CENTRE + d)));
    }
}

/// The place of a position along Morton's curve through the cube from `-half` to `half`.
fn key(position: [f64; 3], half: f64) -> u64 {
    let cells = f64::from(1u32 << LEVELS);
    position.into_iter().enumerate().fold(0, |key, (direction, coordinate)| {
        let part = f64::midpoint(coordinate / half, 1.0);
        // The furthest body lies on the wall of the cube.
        let index = ((part * cells) as u64).min((1 << LEVELS) - 1);
        key | spread(index) << (2 - direction)
    })
}

/// Puts two zeros before every bit of a number of 21 bits.
fn spread(index: u64) -> u64 {
    (0..LEVELS).fold(0, |spread, bit| spread | (index >> bit & 1) << (3 * bit))
}
