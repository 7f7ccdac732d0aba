//! The size of the database, and everything that must shrink with it.
//!
//! TPC-C fixes 10 districts, 3000 customers and 100,000 items per warehouse; a smaller database
//! keeps its character only if the dependent constants shrink too: as many initial orders as
//! customers, 70 % of them delivered (2100 of 3000), three customers per last name, and the
//! constants A of `NURand`, or the skew is lost.

use crate::rng::{Purpose, Stream};
use crate::{Error, Result};

/// The specification's customers per district (clause 1.2.1).
const SPEC_CUSTOMERS: i32 = 3000;
/// The specification's items (clause 1.2.1).
const SPEC_ITEMS: i32 = 100_000;
/// The specification's last names: 10 x 10 x 10 syllables (clause 4.3.2.3).
const SPEC_NAMES: i32 = 1000;

/// The four sizes that are chosen; everything else follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Scale {
    /// Warehouses.
    pub warehouses: i32,
    /// Districts per warehouse, at most 10 (a stock row has ten district texts).
    pub districts: i32,
    /// Customers per district, a multiple of 3.
    pub customers: i32,
    /// Items.
    pub items: i32,
}

/// A named scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Preset {
    /// The specification's 10 districts, 3000 customers, 100,000 items.
    Spec,
    /// Alameldeen et al. 2003: 4000 warehouses of 3 districts, 30 customers, 100 items.
    Paper,
    /// The paper's variant with 200 warehouses.
    Small,
}

impl Preset {
    /// The scale; `warehouses` replaces the preset's number.
    pub fn scale(self, warehouses: Option<i32>) -> Scale {
        let (standard, districts, customers, items) = match self {
            Preset::Spec => (1, 10, SPEC_CUSTOMERS, SPEC_ITEMS),
            Preset::Paper => (4000, 3, 30, 100),
            Preset::Small => (200, 3, 30, 100),
        };
        Scale { warehouses: warehouses.unwrap_or(standard), districts, customers, items }
    }
}

impl Scale {
    /// Checks the ranges, reporting every problem at once.
    ///
    /// # Errors
    /// [`Error::Usage`] naming each impossible value and what is accepted.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut expect = |ok: bool, text: &str| {
            if !ok {
                problems.push(text.to_owned());
            }
        };
        expect((1..=100_000).contains(&self.warehouses), "warehouses must be 1 to 100000");
        expect((1..=10).contains(&self.districts), "districts must be 1 to 10");
        expect(
            (3..=30_000).contains(&self.customers) && self.customers % 3 == 0,
            "customers must be a multiple of 3 from 3 to 30000",
        );
        expect((15..=1_000_000).contains(&self.items), "items must be 15 to 1000000");
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::Usage(format!("impossible scale: {}", problems.join("; "))))
        }
    }

    /// Initial orders per district: one per customer (clause 4.3.3.1).
    pub fn orders(&self) -> i32 {
        self.customers
    }

    /// Initial orders already delivered: 2100 of 3000.
    pub fn delivered(&self) -> i32 {
        self.customers * 7 / 10
    }

    /// Distinct last names: a third of the customers, at most the specification's 1000.
    pub fn names(&self) -> i32 {
        (self.customers / 3).min(SPEC_NAMES)
    }

    /// Districts in all warehouses.
    pub fn all_districts(&self) -> i64 {
        i64::from(self.warehouses) * i64::from(self.districts)
    }

    /// The constants A of `NURand` for this scale.
    pub fn a(&self) -> Constants {
        Constants {
            item: scaled_a(8191, SPEC_ITEMS, self.items),
            customer: scaled_a(1023, SPEC_CUSTOMERS, self.customers),
            last_name: scaled_a(255, SPEC_NAMES, self.names()),
        }
    }

    /// The constants C drawn from a seed while loading.
    pub fn c_load(&self, seed: u64) -> Constants {
        let mut stream = Stream::new(seed, Purpose::Constants, 0);
        let a = self.a();
        let mut draw = |a| stream.between(0, a);
        Constants { item: draw(a.item), customer: draw(a.customer), last_name: draw(a.last_name) }
    }

    /// The constants C of a run: the one of the last name keeps its prescribed distance from the
    /// constant of the load (clause 2.1.6.1).
    pub fn c_run(&self, load: Constants, seed: u64) -> Constants {
        let mut stream = Stream::new(seed, Purpose::Constants, 1);
        let a = self.a();
        let item = stream.between(0, a.item);
        let customer = stream.between(0, a.customer);
        let allowed: Vec<i32> =
            (0..=a.last_name).filter(|c| allowed_delta((c - load.last_name).abs(), a.last_name)).collect();
        // Every constant of the load has a partner for A of 3 and more; A of 1 or 0 may have none.
        let last_name = if allowed.is_empty() {
            load.last_name
        } else {
            allowed[stream.below(allowed.len() as u64) as usize]
        };
        Constants { item, customer, last_name }
    }
}

impl std::fmt::Display for Scale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}x{}", self.warehouses, self.districts, self.customers, self.items)
    }
}

/// One constant for each of the three non-uniform fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Constants {
    /// For item numbers.
    pub item: i32,
    /// For customer numbers.
    pub customer: i32,
    /// For last names.
    pub last_name: i32,
}

/// The value 2^k - 1 nearest to the specification's constant in proportion, on a logarithmic scale.
fn scaled_a(spec_a: i32, spec_range: i32, range: i32) -> i32 {
    let wanted = f64::from(spec_a) * f64::from(range) / f64::from(spec_range);
    let distance = |power: u32| (f64::from((1 << power) - 1) / wanted).ln().abs();
    let nearest =
        (1..24).min_by(|&a, &b| distance(a).total_cmp(&distance(b))).expect("the range is not empty");
    (1 << nearest) - 1
}

/// Whether `delta` may separate the last-name constants of load and run: 65 to 119 except 96 and
/// 112 for A = 255 (clause 2.1.6.1), in proportion for smaller A.
fn allowed_delta(delta: i32, a: i32) -> bool {
    if a == 255 {
        return (65..=119).contains(&delta) && delta != 96 && delta != 112;
    }
    let scaled = |of_spec: f64| (of_spec * f64::from(a + 1) / 256.0).round() as i32;
    (scaled(65.0)..=scaled(119.0)).contains(&delta)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_specification_keeps_its_own_constants() {
        let scale = Preset::Spec.scale(Some(2));
        assert_eq!(scale.a(), Constants { item: 8191, customer: 1023, last_name: 255 });
        assert_eq!((scale.orders(), scale.delivered(), scale.names()), (3000, 2100, 1000));
    }

    #[test]
    fn the_paper_variant_scales_every_dependent_constant() {
        let scale = Preset::Paper.scale(None);
        assert_eq!(scale.a(), Constants { item: 7, customer: 7, last_name: 3 });
        assert_eq!((scale.orders(), scale.delivered(), scale.names()), (30, 21, 10));
        assert_eq!(scale.to_string(), "4000x3x30x100");
    }

    #[test]
    fn constants_stay_in_range_and_keep_the_prescribed_distance() {
        for scale in [Preset::Spec.scale(None), Preset::Paper.scale(None)] {
            let a = scale.a();
            for seed in 0..500 {
                let load = scale.c_load(seed);
                let run = scale.c_run(load, seed ^ 0xabcd);
                for (c, a) in [(load.item, a.item), (run.customer, a.customer), (run.last_name, a.last_name)]
                {
                    assert!((0..=a).contains(&c));
                }
                let delta = (run.last_name - load.last_name).abs();
                assert!(allowed_delta(delta, a.last_name), "distance {delta} with A {}", a.last_name);
            }
        }
    }

    #[test]
    fn impossible_scales_are_reported_all_at_once() {
        let error = Scale { warehouses: 0, districts: 11, customers: 31, items: 5 }.validate().unwrap_err();
        let text = error.to_string();
        for word in ["warehouses", "districts", "customers", "items"] {
            assert!(text.contains(word), "{text}");
        }
        assert_eq!(error.exit_code(), 2);
    }
}
