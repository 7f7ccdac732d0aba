//! Named arrays that all threads share, each in a mapping of its own.
//!
//! A study of placement asks whose memory a reference touches, so every data structure is one
//! mapping with a name: told to the kernel where it takes names (`[anon:...]` in `/proc/PID/maps`),
//! and listed with its addresses in the report. A fresh mapping has no pages: who writes a page first
//! places it.
//!
//! Elements are relaxed atomic words. A load or store of one is the same instruction as that of a
//! plain word, and no partition of the work, right or wrong, is a data race; barriers order phases.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use servsim_units::Bytes;

use crate::{Error, Result};

/// What an element can be: anything that fits 64 bits.
pub trait Word: Copy {
    /// The element as bits.
    fn to_word(self) -> u64;
    /// The element that these bits are.
    fn from_word(bits: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }
    fn from_word(bits: u64) -> Self {
        bits
    }
}

impl Word for i64 {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(bits: u64) -> Self {
        bits as i64
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }
    fn from_word(bits: u64) -> Self {
        f64::from_bits(bits)
    }
}

/// One named data structure, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Structure {
    /// `kernel.structure`.
    pub name: String,
    /// First address.
    pub start: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// Allocates structures within a budget, and knows them all.
#[derive(Debug)]
pub struct Structures {
    budget: Bytes,
    taken: u64,
    list: Vec<Structure>,
}

impl Structures {
    /// None yet; all together may take `budget`.
    pub fn within(budget: Bytes) -> Self {
        Structures { budget, taken: 0, list: Vec::new() }
    }

    /// Those allocated so far, in order.
    pub fn list(&self) -> &[Structure] {
        &self.list
    }

    /// Allocates an array of `elements` zeros; no page of it exists until it is written.
    ///
    /// # Errors
    /// [`Error::Usage`] when the budget does not hold it, [`Error::Environment`] when the host refuses.
    pub fn array<T: Word>(&mut self, name: &str, elements: u64) -> Result<Array<T>> {
        let total = elements.checked_mul(8).and_then(|bytes| bytes.checked_add(self.taken));
        let Some(total) = total.filter(|total| *total <= self.budget.0) else {
            return Err(Error::Usage(format!(
                "the structures of this size do not fit {:.1} GiB of memory (already {name} of {elements} elements \
                 does not): give a smaller --size, or a larger --memory",
                self.budget.0 as f64 / Bytes::UNITS[3].1
            )));
        };
        let array = Array::map(name, elements as usize)?;
        self.list.push(Structure { name: name.to_owned(), start: array.start as u64, bytes: elements * 8 });
        self.taken = total;
        Ok(array)
    }
}

/// A named array; see the module.
#[derive(Debug)]
pub struct Array<T> {
    start: *const AtomicU64,
    len: usize,
    element: PhantomData<T>,
}

// SAFETY: the mapping is reached through atomic words only, and lives as long as the array.
unsafe impl<T> Send for Array<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Array<T> {}

impl<T: Word> Array<T> {
    fn map(name: &str, len: usize) -> Result<Self> {
        let bytes = (len * 8).max(1);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(Error::Environment(format!(
                "the host does not give {bytes} bytes for {name} ({}): free memory or give a smaller --size",
                std::io::Error::last_os_error()
            )));
        }
        tell_name(start, bytes, name);
        Ok(Array { start: start.cast(), len, element: PhantomData })
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping holds `len` words, zeroed, aligned to a page, until it is dropped.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    /// The element at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> T {
        T::from_word(self.words()[index].load(Ordering::Relaxed))
    }

    /// Stores an element.
    #[inline]
    pub fn set(&self, index: usize, value: T) {
        self.words()[index].store(value.to_word(), Ordering::Relaxed);
    }

    /// Stores `value` in a range: the first touch of its pages.
    pub fn fill(&self, range: std::ops::Range<usize>, value: T) {
        for word in &self.words()[range] {
            word.store(value.to_word(), Ordering::Relaxed);
        }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A digest of all bits, for comparing the results of two runs (FNV-1a over words).
    pub fn digest(&self) -> u64 {
        self.words().iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
            (hash ^ word.load(Ordering::Relaxed)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

impl Array<i64> {
    /// Adds to an element, whoever else does so at the same time: a locked instruction.
    #[inline]
    pub fn add(&self, index: usize, value: i64) {
        self.words()[index].fetch_add(value as u64, Ordering::Relaxed);
    }
}

impl<T> Drop for Array<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `map` with this size, and nothing borrows from it any more.
        unsafe { libc::munmap(self.start.cast_mut().cast(), (self.len * 8).max(1)) };
    }
}

/// Names a mapping in `/proc/PID/maps`; kernels without that facility refuse, which is no harm.
fn tell_name(start: *mut libc::c_void, bytes: usize, name: &str) {
    let Ok(name) = std::ffi::CString::new(name) else { return };
    // SAFETY: the call reads the name, and changes no memory.
    unsafe {
        libc::prctl(libc::PR_SET_VMA, libc::PR_SET_VMA_ANON_NAME, start as usize, bytes, name.as_ptr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_no_page_before_it_is_written_and_holds_what_was_stored() {
        let mut structures = Structures::within(Bytes(1 << 30));
        let array = structures.array::<f64>("test.big", 1 << 26).unwrap();
        assert_eq!(resident(&array), 0);
        array.set(1 << 20, -1.5);
        assert_eq!((array.get(1 << 20), array.get(0).to_bits()), (-1.5, 0));
        assert!(resident(&array) <= 513, "a page of the array, or one huge page and one of zeros");
        assert_eq!(structures.list()[0].start % 4096, 0);
        assert_eq!(structures.list()[0].bytes, 1 << 29);
    }

    fn resident(array: &Array<f64>) -> usize {
        let bytes = array.len() * 8;
        let mut pages = vec![0u8; bytes / 4096];
        // SAFETY: the mapping has this many pages, and the vector a byte for each.
        let failed = unsafe { libc::mincore(array.start.cast_mut().cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(failed, 0);
        pages.iter().filter(|page| **page & 1 == 1).count()
    }

    #[test]
    fn what_the_budget_does_not_hold_is_refused_before_it_is_mapped() {
        let mut structures = Structures::within(Bytes(8192));
        structures.array::<u64>("test.first", 1000).unwrap();
        for elements in [25, u64::MAX / 8, u64::MAX] {
            let error = structures.array::<u64>("test.second", elements).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("test.second"), "{error}");
        }
        assert_eq!(structures.list().len(), 1);
    }

    #[test]
    fn one_bit_changes_the_digest() {
        let mut structures = Structures::within(Bytes(8192));
        let array = structures.array::<f64>("test.bits", 16).unwrap();
        let before = array.digest();
        array.set(7, -0.0);
        assert_ne!(array.digest(), before);
    }
}
