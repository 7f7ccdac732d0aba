//! Numbers that must not be mixed: processors, caches, nodes and lines each have a type, so that one cannot be
//! given where another is meant. They are plain numbers to the machine; lists are indexed by them directly.
//! A point in simulated time is a `u64`, cycles of the clock since the beginning; a span of it, such as a latency, is
//! [`Cycles`](crate::Cycles) wherever it crosses between crates; spans in other units have other types.

use std::fmt;
use std::ops::{Index, IndexMut};

/// A type for the numbers of things that lie in lists.
macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name(pub usize);

        impl $name {
            /// The first `count` of them, in order.
            pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator + Clone {
                (0..count).map(Self)
            }
        }

        impl<T> Index<$name> for [T] {
            type Output = T;
            #[inline]
            fn index(&self, id: $name) -> &T {
                &self[id.0]
            }
        }

        impl<T> IndexMut<$name> for [T] {
            #[inline]
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.0]
            }
        }

        impl<T> Index<$name> for Vec<T> {
            type Output = T;
            #[inline]
            fn index(&self, id: $name) -> &T {
                &self[id.0]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            #[inline]
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.0]
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A processor of the simulated machine, from 0.
    CpuId
);
id!(
    /// A coherent cache, from 0. It has the number of its processor only where each processor has one.
    CacheId
);
id!(
    /// A node of a machine that has several: processors, memory, or both; from 0.
    NodeId
);

/// A line of memory: a byte address divided by the line size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct LineAddr(pub u64);

impl LineAddr {
    /// The line of a byte `address`, where lines have `1 << shift` bytes.
    #[inline]
    pub fn of(address: u64, shift: u32) -> Self {
        Self(address >> shift)
    }

    /// Its first byte.
    #[inline]
    pub fn address(self, shift: u32) -> u64 {
        self.0 << shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_holds_its_first_and_its_last_byte_and_no_more() {
        let line = LineAddr::of(0x27F, 6);
        assert_eq!((line, line.address(6)), (LineAddr(9), 0x240));
        assert_eq!(LineAddr::of(line.address(6), 6), line);
        assert_eq!(LineAddr::of(0x280, 6), LineAddr(10));
    }

    #[test]
    fn lists_are_indexed_by_what_they_are_lists_of() {
        let mut busy = [1, 2, 3];
        busy[CpuId(2)] += 4;
        assert_eq!(CpuId::all(3).map(|cpu| busy[cpu]).collect::<Vec<_>>(), [1, 2, 7]);
        assert_eq!(busy[..2][CacheId(1)], 2);
        assert_eq!(format!("{:>3}|{}", CpuId(5), CacheId(6)), "  5|6");
    }
}
