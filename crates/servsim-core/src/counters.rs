//! Counters, each declared once: where it stands in results, what it counts, and how readings combine.
//!
//! [`counters!`](crate::counters!) makes a struct of plain integers and, from the same lines, the list that
//! results, windows, summaries, reports and documentation are written from. A further counter is a further line
//! in such a declaration, and the place that counts it. Declared by the crate that counts; written by whoever
//! assembles a machine.

/// How the values of a counter are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Each part in user and in kernel mode.
    Modes,
    /// The same, and all parts together under `total`.
    ModesAndTotal,
    /// Each part, modes added.
    Parts,
    /// Not at all: what only the simulator reads, or what is written in another form.
    Hidden,
}

/// How two readings combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// They are added; a window's value is the difference of the readings at its ends.
    Sum,
    /// The larger holds; a window's value is the reading at its end.
    Most,
}

impl Rule {
    /// Adds `other` to `value`.
    pub fn add(self, value: &mut u64, other: u64) {
        match self {
            Self::Sum => *value += other,
            Self::Most => *value = (*value).max(other),
        }
    }

    /// Leaves in `value` what it has grown by since `earlier`.
    pub fn since(self, value: &mut u64, earlier: u64) {
        match self {
            Self::Sum => *value -= earlier,
            Self::Most => {}
        }
    }
}

/// What is known of a counter beside its values.
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// Its dotted place in a replication of a result.
    pub path: &'static str,
    /// Names of its parts; none when it is one number, or one in each mode.
    pub parts: &'static [&'static str],
    /// What it counts, in the plural, or `cycles`.
    pub unit: &'static str,
    /// What it is, in one sentence without a full stop.
    pub meaning: &'static str,
    /// How it is written.
    pub layout: Layout,
    /// How readings combine.
    pub rule: Rule,
    /// Whether summaries describe it, modes added.
    pub summarised: bool,
    /// Whether it is read in every window of a run, modes added.
    pub windowed: bool,
}

impl Counter {
    /// Number of values of the modes added: one per part.
    pub const fn width(&self) -> usize {
        if self.parts.is_empty() {
            1
        } else {
            self.parts.len()
        }
    }

    /// Full names of its parts, or its own.
    pub fn names(&self) -> Vec<String> {
        if self.parts.is_empty() {
            return vec![self.path.to_owned()];
        }
        self.parts.iter().map(|part| format!("{}.{part}", self.path)).collect()
    }

    /// The value of each part, modes added, of all its values as they lie in memory: modes first.
    pub fn both_modes(&self, values: &[u64]) -> Vec<u64> {
        let width = self.width();
        (0..width).map(|part| values.iter().skip(part).step_by(width).sum()).collect()
    }
}

/// Numbers of a counter: one, one per mode or part, or one per mode and part.
pub trait Values {
    /// As they lie in memory.
    fn values(&self) -> &[u64];
    /// The same, to be changed.
    fn values_mut(&mut self) -> &mut [u64];
}

impl Values for u64 {
    fn values(&self) -> &[u64] {
        std::slice::from_ref(self)
    }
    fn values_mut(&mut self) -> &mut [u64] {
        std::slice::from_mut(self)
    }
}

impl<const N: usize> Values for [u64; N] {
    fn values(&self) -> &[u64] {
        self
    }
    fn values_mut(&mut self) -> &mut [u64] {
        self
    }
}

impl<const N: usize, const M: usize> Values for [[u64; N]; M] {
    fn values(&self) -> &[u64] {
        self.as_flattened()
    }
    fn values_mut(&mut self) -> &mut [u64] {
        self.as_flattened_mut()
    }
}

/// Number of values that windows keep of `counters`.
pub const fn windowed(counters: &[Counter]) -> usize {
    let (mut index, mut sum) = (0, 0);
    while index < counters.len() {
        if counters[index].windowed {
            sum += counters[index].width();
        }
        index += 1;
    }
    sum
}

/// Declares a set of counters.
///
/// Each line is `field: type = "path" [parts], unit, Layout, uses, "meaning";` where uses are any of `summary`
/// (summaries describe it), `windows` (read in every window of a run) and `most` (readings combine by the larger),
/// in brackets. The meaning is the field's documentation too.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* pub struct $set:ident {
        $($field:ident: $kind:ty = $path:literal $parts:expr, $unit:literal, $layout:ident, [$($use:ident)*], $meaning:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct $set {
            $(#[doc = $meaning] pub $field: $kind,)+
        }

        impl $set {
            /// What is known of each counter, in the order of the fields.
            pub const REGISTRY: &'static [$crate::counters::Counter] = &[$($crate::counters::Counter {
                path: $path,
                parts: &$parts,
                unit: $unit,
                meaning: $meaning,
                layout: $crate::counters::Layout::$layout,
                rule: $crate::counters::rule(&[$(stringify!($use)),*]),
                summarised: $crate::counters::has(&[$(stringify!($use)),*], "summary"),
                windowed: $crate::counters::has(&[$(stringify!($use)),*], "windows"),
            },)+];

            /// Every counter with its values, modes first.
            pub fn registered(&self) -> Vec<(&'static $crate::counters::Counter, &[u64])> {
                use $crate::counters::Values;
                Self::REGISTRY.iter().zip([$(self.$field.values()),+]).collect()
            }

            /// Adds another set of counters.
            pub fn add(&mut self, other: &Self) {
                use $crate::counters::Values;
                $(for (value, more) in self.$field.values_mut().iter_mut().zip(other.$field.values()) {
                    $crate::counters::rule(&[$(stringify!($use)),*]).add(value, *more);
                })+
            }

            /// What was counted since an earlier reading.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                use $crate::counters::Values;
                let mut result = *self;
                $(for (value, less) in result.$field.values_mut().iter_mut().zip(earlier.$field.values()) {
                    $crate::counters::rule(&[$(stringify!($use)),*]).since(value, *less);
                })+
                result
            }
        }
    };
}

/// Whether `name` is among `uses`.
pub const fn has(uses: &[&str], name: &str) -> bool {
    let mut index = 0;
    while index < uses.len() {
        if same(uses[index].as_bytes(), name.as_bytes()) {
            return true;
        }
        index += 1;
    }
    false
}

/// The rule that a declaration's uses ask for.
pub const fn rule(uses: &[&str]) -> Rule {
    if has(uses, "most") {
        Rule::Most
    } else {
        Rule::Sum
    }
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::counters! {
        /// Counters of a test.
        pub struct Shop {
            visits: [[u64; 3]; 2] = "visits" ["morning", "noon", "evening"], "visits", ModesAndTotal,
                [summary windows], "Visits of the shop";
            rain: [u64; 2] = "weather.rain" [], "drops", Modes, [], "Drops of rain";
            queue: u64 = "queue" [], "people", Parts, [most], "Longest queue";
        }
    }

    #[test]
    fn a_declaration_makes_the_registry_and_the_rules() {
        let mut shop = Shop { visits: [[1, 2, 3], [10, 20, 30]], rain: [4, 5], queue: 7 };
        let earlier = Shop { visits: [[1, 1, 1], [1, 1, 1]], rain: [1, 2], queue: 6 };
        assert_eq!(shop.since(&earlier), Shop { visits: [[0, 1, 2], [9, 19, 29]], rain: [3, 3], queue: 7 });
        shop.add(&Shop { queue: 2, rain: [1, 1], ..earlier });
        assert_eq!(shop, Shop { visits: [[2, 3, 4], [11, 21, 31]], rain: [5, 6], queue: 7 });
        let registered = shop.registered();
        let (visits, values) = registered[0];
        assert_eq!(visits.both_modes(values), [13, 24, 35]);
        assert_eq!(visits.names(), ["visits.morning", "visits.noon", "visits.evening"]);
        let (rain, values) = registered[1];
        assert_eq!((rain.both_modes(values), rain.names()), (vec![11], vec!["weather.rain".to_owned()]));
        assert_eq!(registered[2].0.rule, Rule::Most);
        assert!(visits.summarised && !rain.summarised && windowed(Shop::REGISTRY) == 3);
    }
}
