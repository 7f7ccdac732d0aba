//! Tables as bytes: whole numbers in LEB128; keys in ascending order, each as the difference from the one before. So the
//! same table is always the same bytes, and those compress well.
//!
//! Reading gives `None` for bytes that are no such table, never a panic, and never reserves what the bytes only claim.

/// Appends a whole number.
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a table: how many entries, and each key with what `put_value` appends for it.
pub fn put_table<V>(
    out: &mut Vec<u8>,
    entries: impl Iterator<Item = (u64, V)>,
    mut put_value: impl FnMut(&mut Vec<u8>, V),
) {
    let mut entries: Vec<(u64, V)> = entries.collect();
    entries.sort_by_key(|(key, _)| *key);
    put(out, entries.len() as u64);
    let mut before = 0;
    for (key, value) in entries {
        put(out, key - before);
        before = key;
        put_value(out, value);
    }
}

/// Bytes being read.
pub struct Packed<'a> {
    rest: &'a [u8],
}

impl<'a> Packed<'a> {
    /// At the beginning of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether all has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next whole number.
    pub fn number(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7F);
            if shift > 63 || bits << shift >> shift != bits {
                return None;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Some(value);
            }
            shift += 7;
        }
    }

    /// The next whole number, of a narrower type.
    pub fn narrow<T: TryFrom<u64>>(&mut self) -> Option<T> {
        T::try_from(self.number()?).ok()
    }

    /// As many values as the next number says; each takes a byte at least.
    pub fn list<T>(&mut self, mut value: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count: usize = self.narrow()?;
        if count > self.rest.len() {
            return None;
        }
        (0..count).map(|_| value(self)).collect()
    }

    /// The entries of a table.
    pub fn table<V>(&mut self, mut value: impl FnMut(&mut Self) -> Option<V>) -> Option<Vec<(u64, V)>> {
        let mut key = 0_u64;
        self.list(|packed| {
            key = key.checked_add(packed.number()?)?;
            Some((key, value(packed)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_comes_back_in_the_order_of_its_keys() {
        let mut bytes = Vec::new();
        put_table(&mut bytes, [(u64::MAX, 7), (3, 0), (200, u64::MAX)].into_iter(), put);
        let mut packed = Packed::new(&bytes);
        assert_eq!(packed.table(Packed::number), Some(vec![(3, 0), (200, u64::MAX), (u64::MAX, 7)]));
        assert!(packed.is_empty());
        for end in 0..bytes.len() {
            assert_eq!(Packed::new(&bytes[..end]).table(Packed::number), None);
        }
    }

    #[test]
    fn what_is_too_long_too_many_or_too_wide_is_refused() {
        assert_eq!(Packed::new(&[0xFF; 11]).number(), None);
        assert_eq!(Packed::new(&[9, 1, 1]).list(Packed::number), None);
        assert_eq!(Packed::new(&[0x80, 2]).narrow::<u8>(), None);
    }
}
