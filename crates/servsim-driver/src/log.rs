//! What a user has asked for, as one number: equal requests in equal order give equal numbers.

use std::hash::Hasher;

/// Hash of a user's requests: FNV-1a, 64 bits, over what describes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log(pub u64);

impl Default for Log {
    fn default() -> Self {
        Log(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Log {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
