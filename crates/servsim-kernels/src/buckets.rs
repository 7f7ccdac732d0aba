//! Sorting into buckets by all threads together, into an order that does not depend on them: by bucket,
//! then by number.

use std::ops::Range;

use crate::array::{Array, Structures};
use crate::team::Member;
use crate::Result;

/// Counts of a fixed number of buckets.
#[derive(Debug)]
pub struct Buckets {
    count: usize,
    /// By thread and bucket: how many it has, then where its next one goes.
    places: Array<u64>,
    /// Where each bucket begins, and the end of the last.
    starts: Array<u64>,
}

impl Buckets {
    /// So many buckets, as structures of the kernel `name`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(name: &str, count: usize, threads: usize, structures: &mut Structures) -> Result<Self> {
        let places = (count as u64).saturating_mul(threads as u64);
        Ok(Buckets {
            count,
            places: structures.array(&format!("{name}.bucket_places"), places)?,
            starts: structures.array(&format!("{name}.bucket_starts"), count as u64 + 1)?,
        })
    }

    /// First touch.
    pub fn init(&self, me: &Member<'_>) {
        for thread in me.init_share(me.threads()) {
            self.places.fill(thread * self.count..(thread + 1) * self.count, 0);
        }
        self.starts.fill(me.init_share(self.count), 0);
    }

    /// Buckets.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Slots of a bucket.
    pub fn range(&self, bucket: usize) -> Range<usize> {
        self.starts.get(bucket) as usize..self.starts.get(bucket + 1) as usize
    }

    /// Gives every item from 0 a slot; `place` is told (item, slot) of this thread's share of items. Begins
    /// behind a barrier, as far as `bucket_of` reads what others wrote, and ends with one.
    pub fn sort(
        &self,
        me: &Member<'_>,
        items: usize,
        bucket_of: impl Fn(usize) -> usize,
        mut place: impl FnMut(usize, usize),
    ) {
        let own = me.id * self.count;
        self.places.fill(own..own + self.count, 0);
        for item in me.share(items) {
            let at = own + bucket_of(item);
            self.places.set(at, self.places.get(at) + 1);
        }
        me.barrier();
        if me.id == 0 {
            self.number_slots(me.threads());
        }
        me.barrier();
        for item in me.share(items) {
            let at = own + bucket_of(item);
            let slot = self.places.get(at);
            self.places.set(at, slot + 1);
            place(item, slot as usize);
        }
        me.barrier();
    }

    fn number_slots(&self, threads: usize) {
        let mut slot = 0;
        for bucket in 0..self.count {
            self.starts.set(bucket, slot);
            for thread in 0..threads {
                let at = thread * self.count + bucket;
                let items = self.places.get(at);
                self.places.set(at, slot);
                slot += items;
            }
        }
        self.starts.set(self.count, slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::team::{Init, Team};
    use servsim_units::Bytes;

    #[test]
    fn items_are_ordered_by_bucket_and_number_whatever_the_threads() {
        let bucket_of = |item: usize| item * item % 7;
        let mut expected: Vec<usize> = (0..100).collect();
        expected.sort_by_key(|item| bucket_of(*item));
        for threads in [1, 2, 5] {
            let mut structures = Structures::within(Bytes(1 << 20));
            let buckets = Buckets::new("test", 7, threads, &mut structures).unwrap();
            let order = structures.array::<u64>("test.order", 100).unwrap();
            let team = Team::new(threads, Init::Parallel, 10);
            team.run(|me| {
                buckets.init(&me);
                me.barrier();
                buckets.sort(&me, 100, bucket_of, |item, slot| order.set(slot, item as u64));
            })
            .unwrap();
            let found: Vec<usize> = (0..100).map(|slot| order.get(slot) as usize).collect();
            assert_eq!(found, expected);
            for bucket in 0..7 {
                assert!(buckets.range(bucket).all(|slot| bucket_of(found[slot]) == bucket));
            }
        }
    }
}
