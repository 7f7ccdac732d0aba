//! The state of a memory system as bytes, so that a run can begin where another one stopped.
//!
//! Every structure writes what its future depends on and nothing else: no counters, no hints for
//! look-ups, no history for fault reports. Each does so by taking itself apart by name, without `..`:
//! a new field does not compile until it is decided whether it is part of the state.
//!
//! Stamps of last use become ranks within their set: only their order matters, and it compresses.
//! Reading checks all lengths and ranges; damaged bytes give [`Damaged`], never a panic.

use crate::words::WordMask;

/// Bytes that are no state of this memory system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged(pub &'static str);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for Damaged {}

/// Appends values to bytes: whole numbers as LEB128, so that small ones take one byte.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Appends a whole number.
    pub fn put(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    /// Appends how many values follow, and the values.
    pub fn list(&mut self, values: impl ExactSizeIterator<Item = u64>) {
        self.put(values.len() as u64);
        values.for_each(|value| self.put(value));
    }

    /// Appends a set of words.
    pub(crate) fn words<W: WordMask>(&mut self, words: W) {
        words.parts().into_iter().for_each(|part| self.put(part));
    }
}

/// Reads what a [`Writer`] wrote.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// At the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next whole number.
    ///
    /// # Errors
    /// When the bytes end, or hold more than 64 bits.
    pub fn take(&mut self) -> Result<u64, Damaged> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let (&byte, rest) = self.rest.split_first().ok_or(Damaged("it ends too soon"))?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7F);
            if shift > 63 || bits << shift >> shift != bits {
                return Err(Damaged("a number in it has more than 64 bits"));
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
            shift += 7;
        }
    }

    /// The next whole number, which must be below `bound`.
    ///
    /// # Errors
    /// When it is not, or the bytes end.
    pub fn below(&mut self, bound: u64) -> Result<u64, Damaged> {
        let value = self.take()?;
        if value < bound {
            Ok(value)
        } else {
            Err(Damaged("a number in it is out of range"))
        }
    }

    /// The next whole number in 32 bits.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn short(&mut self) -> Result<u32, Damaged> {
        Ok(self.below(1 << 32)? as u32)
    }

    /// A list's length: no more values than bytes are left.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn length(&mut self) -> Result<usize, Damaged> {
        Ok(self.below(self.rest.len() as u64 + 1)? as usize)
    }

    /// A list of whole numbers.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn list(&mut self) -> Result<Vec<u64>, Damaged> {
        let length = self.length()?;
        (0..length).map(|_| self.take()).collect()
    }

    /// A length that must be `wanted`.
    ///
    /// # Errors
    /// When it is another.
    pub(crate) fn exactly(&mut self, wanted: usize) -> Result<(), Damaged> {
        if self.take()? == wanted as u64 {
            Ok(())
        } else {
            Err(Damaged("a cache in it has another shape"))
        }
    }

    /// A set of words.
    pub(crate) fn words<W: WordMask>(&mut self) -> Result<W, Damaged> {
        let mut parts = W::default().parts();
        for part in &mut parts {
            *part = self.take()?;
        }
        W::of_parts(&parts).ok_or(Damaged("a set of words in it is wider than a line"))
    }

    /// Nothing may be left.
    ///
    /// # Errors
    /// When something is.
    pub fn end(&self) -> Result<(), Damaged> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Damaged("something follows its end"))
        }
    }
}

/// Ranks of the stamps of one set: 0 for a frame never used, then 1, 2, ... in order of last use.
#[allow(clippy::needless_pass_by_value)] // an iterator is what callers make
pub(crate) fn ranks(stamps: impl Iterator<Item = u64> + Clone) -> Vec<u64> {
    let rank = |stamp: u64| match stamp {
        0 => 0,
        stamp => 1 + stamps.clone().filter(|&other| other != 0 && other < stamp).count() as u64,
    };
    stamps.clone().map(rank).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length_come_back() {
        let values = [0, 1, 127, 128, 16_384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        let mut writer = Writer::default();
        writer.list(values.into_iter());
        let bytes = writer.into_bytes();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.list().unwrap(), values);
        assert_eq!(reader.end(), Ok(()));
        assert!(reader.take().is_err());
        for short in 0..bytes.len() {
            assert!(Reader::new(&bytes[..short]).list().is_err(), "{short} bytes");
        }
        assert!(Reader::new(&[0xFF; 11]).take().is_err());
        assert!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 2]).take().is_err());
    }

    #[test]
    fn ranks_keep_the_order_and_leave_out_what_was_never_used() {
        assert_eq!(ranks([70, 0, 5, 900].into_iter()), [2, 0, 1, 3]);
    }
}
