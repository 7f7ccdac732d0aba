//! What address translation counted: plain integers, split by the mode of the reference.

/// What translation counted; the index is the mode of the reference, 0 user, 1 kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TlbCounters {
    /// Look-ups of instruction pages that the first level answered.
    pub fetch_hits: [u64; 2],
    /// Those that it did not.
    pub fetch_misses: [u64; 2],
    /// Look-ups of data pages that the first level answered.
    pub data_hits: [u64; 2],
    /// Those that it did not.
    pub data_misses: [u64; 2],
    /// First-level misses that the second level answered.
    pub second_hits: [u64; 2],
    /// Page walks.
    pub walks: [u64; 2],
    /// References of walks to table entries.
    pub walk_references: [u64; 2],
    /// Those that were not in the processor's caches.
    pub walk_misses: [u64; 2],
    /// Switches of address space that emptied the buffers, in the second place.
    pub flushes: [u64; 2],
}

impl TlbCounters {
    /// Names in results, in the order of [`TlbCounters::table`].
    pub const NAMES: [&'static str; 9] = [
        "fetch_hits",
        "fetch_misses",
        "data_hits",
        "data_misses",
        "second_hits",
        "walks",
        "walk_references",
        "walk_misses",
        "flushes",
    ];

    fn fields(&mut self) -> [&mut [u64; 2]; 9] {
        [
            &mut self.fetch_hits,
            &mut self.fetch_misses,
            &mut self.data_hits,
            &mut self.data_misses,
            &mut self.second_hits,
            &mut self.walks,
            &mut self.walk_references,
            &mut self.walk_misses,
            &mut self.flushes,
        ]
    }

    /// Every counter, in the order of the names.
    pub fn table(mut self) -> [[u64; 2]; 9] {
        self.fields().map(|field| *field)
    }

    /// Adds another set of counters.
    pub fn add(&mut self, other: &Self) {
        for (field, more) in self.fields().into_iter().zip(other.table()) {
            (0..2).for_each(|mode| field[mode] += more[mode]);
        }
    }

    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(mut self, earlier: &Self) -> Self {
        for (field, less) in self.fields().into_iter().zip(earlier.table()) {
            (0..2).for_each(|mode| field[mode] -= less[mode]);
        }
        self
    }

    /// Look-ups that the first level did not answer.
    pub fn misses(&self) -> u64 {
        self.fetch_misses.iter().chain(&self.data_misses).sum()
    }
}
