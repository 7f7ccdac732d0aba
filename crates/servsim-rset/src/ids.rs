//! Sets of processor and of node numbers, as the kernel numbers them. Their text is the kernel's: `0-3,8`.
//!
//! The two are different types, so that a node is never taken for a processor.

use crate::error::RsetError;
use std::collections::BTreeSet;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// What the numbers of an [`Ids`] are.
pub trait Kind: Clone + Ord + fmt::Debug {
    /// One of them, in messages.
    const NAME: &'static str;
}

/// Processors, as in `/sys/devices/system/cpu`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Processor {}
/// Memory nodes, as in `/sys/devices/system/node`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MemoryNode {}

impl Kind for Processor {
    const NAME: &'static str = "processor";
}
impl Kind for MemoryNode {
    const NAME: &'static str = "node";
}

/// A set of processors.
pub type Processors = Ids<Processor>;
/// A set of memory nodes.
pub type Nodes = Ids<MemoryNode>;

/// The largest number taken: far above any kernel's limit, and small enough that a range of them is no attack.
const LARGEST: u32 = 65_535;

/// A set of numbers of one kind, in rising order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ids<K: Kind> {
    numbers: BTreeSet<u32>,
    kind: PhantomData<K>,
}

impl<K: Kind> Default for Ids<K> {
    fn default() -> Self {
        Self { numbers: BTreeSet::new(), kind: PhantomData }
    }
}

impl<K: Kind> FromIterator<u32> for Ids<K> {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        Self { numbers: numbers.into_iter().collect(), kind: PhantomData }
    }
}

impl<K: Kind> Ids<K> {
    /// The set of one number.
    pub fn one(number: u32) -> Self {
        [number].into_iter().collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Whether `number` is one of them.
    pub fn contains(&self, number: u32) -> bool {
        self.numbers.contains(&number)
    }

    /// The numbers, rising.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.numbers.iter().copied()
    }

    /// The lowest.
    pub fn first(&self) -> Option<u32> {
        self.numbers.first().copied()
    }

    /// Those in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        self.numbers.union(&other.numbers).copied().collect()
    }

    /// Those in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.numbers.intersection(&other.numbers).copied().collect()
    }

    /// Those of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.numbers.difference(&other.numbers).copied().collect()
    }

    /// Whether all of these are in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.numbers.is_subset(&other.numbers)
    }

    /// The first one after `number`, or the lowest when none is higher.
    pub fn after(&self, number: u32) -> Option<u32> {
        self.numbers.range(number.saturating_add(1)..).next().copied().or_else(|| self.first())
    }

    /// A bit for each, lowest first, in words of the kernel's size.
    pub fn mask(&self) -> Vec<libc::c_ulong> {
        let bits = libc::c_ulong::BITS;
        let words = self.numbers.last().map_or(1, |last| last / bits + 1);
        let mut mask = vec![0; words as usize];
        for number in self.iter() {
            mask[(number / bits) as usize] |= 1 << (number % bits);
        }
        mask
    }

    /// The numbers whose bits are set.
    pub fn from_mask(mask: &[libc::c_ulong]) -> Self {
        let bits = libc::c_ulong::BITS;
        (0u32..)
            .zip(mask)
            .flat_map(|(word, &held)| {
                (0..bits).filter(move |bit| held >> bit & 1 == 1).map(move |bit| word * bits + bit)
            })
            .collect()
    }
}

impl<K: Kind> fmt::Display for Ids<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in self.iter() {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                _ => ranges.push((number, number)),
            }
        }
        let text: Vec<String> = ranges
            .iter()
            .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
            .collect();
        out.write_str(&text.join(","))
    }
}

impl<K: Kind> FromStr for Ids<K> {
    type Err = RsetError;

    /// Reads `0-3,8`; the empty text is the empty set.
    fn from_str(text: &str) -> Result<Self, RsetError> {
        let fault = || RsetError::Unreadable {
            what: format!("list of {}s: write numbers and ranges such as 0-3,8", K::NAME),
            text: text.trim().to_owned(),
        };
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|&n| n <= LARGEST).ok_or_else(fault);
        let mut numbers = BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(fault());
            }
            numbers.extend(first..=last);
        }
        Ok(Self { numbers, kind: PhantomData })
    }
}
