//! The model of water: SPC/Fw, three charged sites with harmonic bonds and angle (Wu, Tepper and Voth
//! 2006), cut off by shifting forces so that forces and energies end at zero.
//!
//! Units: angstrom, picosecond, atomic mass unit, elementary charge; energies are amu A^2/ps^2.

/// A position, displacement or force.
pub type Vector = [f64; 3];

/// Sites of a molecule: oxygen and two hydrogens.
pub const SITES: usize = 3;
/// Masses of the sites.
pub const MASSES: [f64; SITES] = [15.9994, 1.008, 1.008];
const CHARGES: [f64; SITES] = [-0.82, 0.41, 0.41];
/// An energy unit in kilojoules per mole.
pub const KILOJOULES: f64 = 0.01;
/// A kilocalorie per mole in our units.
const KILOCALORIE: f64 = 418.4;
/// Boltzmann's constant per kelvin (0.008314463 kJ/mol).
pub const BOLTZMANN: f64 = 0.831_446_3;
/// Coulomb's constant (332.06371 kcal A / mol e^2).
const COULOMB: f64 = 332.063_71 * KILOCALORIE;
const SIGMA: f64 = 3.165_492;
const EPSILON: f64 = 0.155_425_3 * KILOCALORIE;
const BOND: f64 = 1.012;
const BOND_STIFFNESS: f64 = 1059.162 * KILOCALORIE;
const ANGLE: f64 = 113.24 * std::f64::consts::PI / 180.0;
const ANGLE_STIFFNESS: f64 = 75.90 * KILOCALORIE;

/// The sites of a molecule at rest, from its oxygen.
pub static GEOMETRY: std::sync::LazyLock<[Vector; SITES]> = std::sync::LazyLock::new(|| {
    let (sine, cosine) = (ANGLE / 2.0).sin_cos();
    [[0.0; 3], [BOND * sine, BOND * cosine, 0.0], [-BOND * sine, BOND * cosine, 0.0]]
});

/// Furthest that a hydrogen swings from its oxygen: bonds beyond would be broken.
const REACH: f64 = 1.3;
/// The usual cutoff between sites, in angstroms.
const CUTOFF: f64 = 9.0;

const FORCE_SCALE: f64 = 4_294_967_296.0;
const ENERGY_SCALE: f64 = 16_777_216.0;

/// A force from fixed point.
pub fn force(fixed: i64) -> f64 {
    fixed as f64 / FORCE_SCALE
}

fn fixed_force(force: f64) -> i64 {
    nearest(force * FORCE_SCALE)
}

/// The nearest whole number, halves away from zero; that of the library is a call on plain x86-64.
fn nearest(value: f64) -> i64 {
    (value + 0.5f64.copysign(value)) as i64
}

/// An energy from fixed point.
pub fn energy(fixed: i64) -> f64 {
    fixed as f64 / ENERGY_SCALE
}

/// An energy in fixed point.
pub fn fixed_energy(energy: f64) -> i64 {
    nearest(energy * ENERGY_SCALE)
}

/// The interaction of two molecules in a periodic box.
pub struct Interaction {
    /// Side of the box.
    pub side: f64,
    /// Distance at which sites no longer act on one another.
    pub cutoff: f64,
    /// Value and slope of the Lennard-Jones potential at the cutoff.
    edge: (f64, f64),
}

impl Interaction {
    /// The interaction in a box: its cutoff is the usual one, or less so that no molecule meets two images
    /// of another.
    pub fn in_box(side: f64) -> Self {
        let cutoff = CUTOFF.min(side / 2.0 - 2.0 * REACH);
        Interaction { side, cutoff, edge: lennard_jones(cutoff) }
    }

    /// Distance of two oxygens beyond which no sites of their molecules are within the cutoff.
    pub fn reach(&self) -> f64 {
        self.cutoff + 2.0 * REACH
    }

    /// The forces of two molecules on one another, told to `add` (which of the two, number of the site's
    /// direction, force in fixed point); returns their potential energy in fixed point.
    pub fn between(
        &self,
        a: &[Vector; SITES],
        b: &[Vector; SITES],
        mut add: impl FnMut(usize, usize, i64),
    ) -> i64 {
        // One image for the whole molecule, so that a molecule is never torn apart.
        let image: Vector =
            std::array::from_fn(|d| self.side * nearest((a[0][d] - b[0][d]) / self.side) as f64);
        let oxygens: Vector = std::array::from_fn(|d| a[0][d] - b[0][d] - image[d]);
        if square(oxygens) >= self.reach().powi(2) {
            return 0;
        }
        let mut total = 0;
        for (i, place) in a.iter().enumerate() {
            for (j, other) in b.iter().enumerate() {
                let apart: Vector = std::array::from_fn(|d| place[d] - other[d] - image[d]);
                let distance = square(apart).sqrt();
                if distance >= self.cutoff {
                    continue;
                }
                let (energy, slope) = self.potential(i, j, distance);
                total += fixed_energy(energy);
                for (direction, component) in apart.iter().enumerate() {
                    let force = fixed_force(-slope * component / distance);
                    add(0, 3 * i + direction, force);
                    add(1, 3 * j + direction, -force);
                }
            }
        }
        total
    }

    /// Potential of two sites at a distance, and its derivative; both end at zero at the cutoff.
    fn potential(&self, i: usize, j: usize, r: f64) -> (f64, f64) {
        let (charge, cutoff) = (COULOMB * CHARGES[i] * CHARGES[j], self.cutoff);
        let mut energy = charge * (1.0 / r - 1.0 / cutoff + (r - cutoff) / (cutoff * cutoff));
        let mut slope = charge * (1.0 / (cutoff * cutoff) - 1.0 / (r * r));
        if i == 0 && j == 0 {
            let (value, derivative) = lennard_jones(r);
            energy += value - self.edge.0 - (r - cutoff) * self.edge.1;
            slope += derivative - self.edge.1;
        }
        (energy, slope)
    }
}

fn lennard_jones(r: f64) -> (f64, f64) {
    let sixth = (SIGMA / r).powi(6);
    (4.0 * EPSILON * (sixth * sixth - sixth), 24.0 * EPSILON * (sixth - 2.0 * sixth * sixth) / r)
}

/// The forces within a molecule, told to `add`; returns their potential energy in fixed point.
pub fn inner(sites: &[Vector; SITES], mut add: impl FnMut(usize, i64)) -> i64 {
    let arms: [Vector; 2] = std::array::from_fn(|h| std::array::from_fn(|d| sites[h + 1][d] - sites[0][d]));
    let lengths = arms.map(|arm| square(arm).sqrt());
    let cosine = (0..3).map(|d| arms[0][d] * arms[1][d]).sum::<f64>() / (lengths[0] * lengths[1]);
    let angle = cosine.clamp(-1.0, 1.0).acos();
    let bend = angle - ANGLE;
    // d(angle)/d(cosine) = -1 / sine.
    let torque = ANGLE_STIFFNESS * bend / (1.0 - cosine * cosine).sqrt();
    for h in 0..2 {
        let other = 1 - h;
        for (d, (arm, beside)) in arms[h].iter().zip(arms[other]).enumerate() {
            let stretch = -BOND_STIFFNESS * (lengths[h] - BOND) * arm / lengths[h];
            let along = beside / lengths[other] - cosine * arm / lengths[h];
            let force = fixed_force(stretch + torque * along / lengths[h]);
            add(3 * (h + 1) + d, force);
            add(d, -force);
        }
    }
    let stretches: f64 = lengths.iter().map(|length| 0.5 * BOND_STIFFNESS * (length - BOND).powi(2)).sum();
    fixed_energy(stretches + 0.5 * ANGLE_STIFFNESS * bend * bend)
}

fn square(v: Vector) -> f64 {
    v[0] * v[0] + v[1] * v[1] + v[2] * v[2]
}
