//! Tables of what few of all keys have: open addressing, an entry's key beside its value, so that a
//! look-up touches one line of the host's caches. What a miss of the simulated caches looks up lies nearly always in places
//! that the host's caches have lost; [`Table::prefetch`] lets such waits overlap.

/// One entry of a [`Table`].
pub trait Entry: Copy {
    /// What it is found by.
    type Key: Copy + Ord;
    /// An entry without a key.
    const FREE: Self;
    /// A new entry of `key`.
    fn new(key: Self::Key) -> Self;
    /// Whether it is of `key`; not called on free ones.
    fn is(&self, key: Self::Key) -> bool;
    /// Whether it has no key.
    fn is_free(&self) -> bool;
    /// Its key; not called on free ones.
    fn key(&self) -> Self::Key;
    /// A number that differs between most keys.
    fn number(key: Self::Key) -> u64;
}

/// Entries of an empty table.
const FIRST: usize = 1 << 10;

/// Entries by their keys.
#[derive(Debug)]
pub struct Table<E> {
    entries: Vec<E>,
    used: usize,
}

impl<E: Entry> Default for Table<E> {
    fn default() -> Self {
        Self { entries: vec![E::FREE; FIRST], used: 0 }
    }
}

impl<E: Entry> Table<E> {
    /// Empty, as large as it would grow by so many entries.
    pub fn with_room_for(entries: usize) -> Self {
        let mut length = FIRST;
        while entries * 4 > length * 3 {
            length *= 2;
        }
        Self { entries: vec![E::FREE; length], used: 0 }
    }

    /// Where the search for `key` begins: Fibonacci hashing, by the product's best mixed bits.
    #[inline]
    fn start(&self, key: E::Key) -> usize {
        let number = E::number(key);
        let product = (number ^ number >> 29).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product >> 32) as usize & (self.entries.len() - 1)
    }

    /// The place of `key`, or the free one where it belongs.
    #[inline]
    fn place(&self, key: E::Key) -> usize {
        let mut place = self.start(key);
        while !self.entries[place].is_free() && !self.entries[place].is(key) {
            place = (place + 1) & (self.entries.len() - 1);
        }
        place
    }

    /// Brings the place of `key` nearer, if the host can.
    #[inline]
    pub fn prefetch(&self, key: E::Key) {
        crate::host::prefetch(&self.entries, self.start(key));
    }

    /// The entry of `key`, if it was ever made.
    #[inline]
    pub fn get(&self, key: E::Key) -> Option<&E> {
        self.find(key).map(|place| self.entry(place))
    }

    /// The entry of `key`, made if it is new.
    #[inline]
    pub fn at(&mut self, key: E::Key) -> &mut E {
        let place = self.place_of(key);
        &mut self.entries[place]
    }

    /// Where the entry of `key` is, made if it is new. It stays there until another is made.
    #[inline]
    pub fn place_of(&mut self, key: E::Key) -> usize {
        let mut place = self.place(key);
        if self.entries[place].is_free() {
            // At most three quarters are in use: with more, searches for what is not there get long.
            if (self.used + 1) * 4 > self.entries.len() * 3 {
                self.grow();
                place = self.place(key);
            }
            self.used += 1;
            self.entries[place] = E::new(key);
        }
        place
    }

    /// Where the entry of `key` is, if it was ever made.
    #[inline]
    pub fn find(&self, key: E::Key) -> Option<usize> {
        let place = self.place(key);
        (!self.entries[place].is_free()).then_some(place)
    }

    /// The entry at a place where one is.
    #[inline]
    pub fn entry(&self, place: usize) -> &E {
        &self.entries[place]
    }

    /// Takes the entry of `key` away, if there is one. Others change places then.
    pub fn remove(&mut self, key: E::Key) {
        let last = self.entries.len() - 1;
        let mut hole = self.place(key);
        if self.entries[hole].is_free() {
            return;
        }
        let mut place = hole;
        // What a search comes to behind the hole only by way of it moves there.
        loop {
            place = (place + 1) & last;
            let entry = self.entries[place];
            if entry.is_free() {
                break;
            }
            let passed = place.wrapping_sub(self.start(entry.key())) & last;
            if passed >= place.wrapping_sub(hole) & last {
                self.entries[hole] = entry;
                hole = place;
            }
        }
        self.entries[hole] = E::FREE;
        self.used -= 1;
    }

    #[cold]
    fn grow(&mut self) {
        let larger = vec![E::FREE; self.entries.len() * 2];
        for entry in std::mem::replace(&mut self.entries, larger) {
            if !entry.is_free() {
                let place = self.place(entry.key());
                self.entries[place] = entry;
            }
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.used
    }

    /// All entries in the order of their keys, which does not depend on how they came.
    pub fn sorted(&self) -> Vec<E> {
        let mut all: Vec<E> = self.entries.iter().copied().filter(|entry| !entry.is_free()).collect();
        all.sort_unstable_by_key(Entry::key);
        all
    }

    /// Host memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<E>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::RandomStream;
    use std::collections::HashMap;

    #[derive(Clone, Copy)]
    struct Plain(u64, u64);

    impl Entry for Plain {
        type Key = u64;
        const FREE: Self = Self(u64::MAX, 0);
        fn new(key: u64) -> Self {
            Self(key, 0)
        }
        fn is(&self, key: u64) -> bool {
            self.0 == key
        }
        fn is_free(&self) -> bool {
            self.0 == u64::MAX
        }
        fn key(&self) -> u64 {
            self.0
        }
        fn number(key: u64) -> u64 {
            key
        }
    }

    #[test]
    fn it_agrees_with_a_plain_map() {
        let (mut table, mut plain) = (Table::<Plain>::default(), HashMap::new());
        let mut random = RandomStream::new(1, "sparse");
        for _ in 0..50_000 {
            let key = random.below(2000) * 64 + random.below(9);
            assert_eq!(table.get(key).map(|entry| entry.1), plain.get(&key).copied());
            if random.below(2) == 0 {
                let value = random.next_u64();
                table.at(key).1 = value;
                plain.insert(key, value);
                let roomy = Table::<Plain>::with_room_for(table.len());
                assert!(roomy.entries.len() <= table.entries.len(), "{} entries", table.len());
            } else if random.below(4) == 0 {
                table.remove(key);
                plain.remove(&key);
            }
        }
        assert!(table.entries.len() > FIRST, "it has grown");
        assert_eq!(table.len(), plain.len());
    }
}
