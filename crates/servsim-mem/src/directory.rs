//! Which caches hold which line: one record of three bit masks per distinct line, found by hash.
//!
//! A bus machine has no directory; this is the simulator's short cut, so that a transaction visits
//! the caches that hold the block instead of all of them, and an upgrade costs the same with 64
//! processors as with 4. It is consulted on misses and upgrades only (1-3 % of references).

/// What is known of one line.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineRecord {
    /// Caches with a valid copy.
    pub valid: u64,
    /// Caches whose frame still has the tag, without a valid copy.
    pub stale: u64,
    /// Caches that ever held the line.
    pub seen: u64,
}

/// Line number to record.
#[derive(Debug)]
pub struct Directory {
    slots: Vec<(u64, u32)>,
    records: Vec<LineRecord>,
    mask: usize,
}

const FREE: u64 = u64::MAX;

impl Default for Directory {
    fn default() -> Self {
        let slots = 1 << 14;
        Self { slots: vec![(FREE, 0); slots], records: Vec::new(), mask: slots - 1 }
    }
}

impl Directory {
    fn slot_of(line: u64, mask: usize) -> usize {
        // Fibonacci hashing; the middle bits of the product are the best mixed that are cheap.
        (line.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20) as usize & mask
    }

    /// Index of the record of `line`, made if it is new. Constant time on average.
    pub fn id(&mut self, line: u64) -> u32 {
        let mut slot = Self::slot_of(line, self.mask);
        loop {
            let (key, id) = self.slots[slot];
            if key == line {
                return id;
            }
            if key == FREE {
                return self.insert(slot, line);
            }
            slot = (slot + 1) & self.mask;
        }
    }

    fn insert(&mut self, slot: usize, line: u64) -> u32 {
        let id = u32::try_from(self.records.len()).expect("fewer than 2^32 distinct lines");
        self.slots[slot] = (line, id);
        self.records.push(LineRecord::default());
        if self.records.len() * 2 > self.slots.len() {
            self.grow();
        }
        id
    }

    fn grow(&mut self) {
        let mask = self.slots.len() * 2 - 1;
        let mut slots = vec![(FREE, 0); mask + 1];
        for &(line, id) in self.slots.iter().filter(|(line, _)| *line != FREE) {
            let mut slot = Self::slot_of(line, mask);
            while slots[slot].0 != FREE {
                slot = (slot + 1) & mask;
            }
            slots[slot] = (line, id);
        }
        self.slots = slots;
        self.mask = mask;
    }

    /// The record with index `id`.
    #[inline]
    pub fn record(&mut self, id: u32) -> &mut LineRecord {
        &mut self.records[id as usize]
    }

    /// Distinct lines so far.
    pub fn lines(&self) -> usize {
        self.records.len()
    }
}
