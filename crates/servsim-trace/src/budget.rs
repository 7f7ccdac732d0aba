//! How much memory one file may take while it is read. Compressed data can be a thousand times larger than the file
//! that holds it, by mistake or by intent: whatever is allocated because a file says so is taken from its budget
//! first, and a file that asks for more is refused.
//!
//! The budget is [`DEFAULT_BYTES`] for each file; the environment variable `SERVSIM_FILE_MEMORY` sets another one
//! (`SERVSIM_FILE_MEMORY="16 GiB"`).

use servsim_units::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Bytes that one file may take without the variable: a hundred times what the largest genuine trace took.
pub const DEFAULT_BYTES: u64 = 4 << 30;
/// The variable that sets another budget.
pub const VARIABLE: &str = "SERVSIM_FILE_MEMORY";

/// The budget of one file, and how much of it is taken.
#[derive(Debug)]
pub struct Budget {
    bytes: u64,
    taken: AtomicU64,
}

/// Memory taken from a budget, given back when this is dropped.
#[derive(Debug)]
pub struct Claim {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// Of so many bytes.
    pub fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Budget { bytes, taken: AtomicU64::new(0) })
    }

    /// As the environment says, or else the default.
    ///
    /// # Errors
    /// One sentence when the variable holds no amount of memory.
    pub fn of_environment() -> Result<Arc<Self>, String> {
        let Ok(text) = std::env::var(VARIABLE) else { return Ok(Budget::new(DEFAULT_BYTES)) };
        let Bytes(bytes) = text
            .parse()
            .map_err(|error| format!("{VARIABLE}={text}: {error}; write for example \"8 GiB\""))?;
        Ok(Budget::new(bytes))
    }

    /// The bytes of the whole budget.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes `bytes`.
    ///
    /// # Errors
    /// One clause when that is more than is left.
    pub fn claim(self: &Arc<Self>, bytes: u64) -> Result<Claim, String> {
        let mut claim = Claim { budget: self.clone(), bytes: 0 };
        claim.grow_to(bytes)?;
        Ok(claim)
    }
}

impl Claim {
    /// Takes as much more as makes `bytes` in all; never gives back.
    ///
    /// # Errors
    /// As [`Budget::claim`].
    pub fn grow_to(&mut self, bytes: u64) -> Result<(), String> {
        let more = bytes.saturating_sub(self.bytes);
        let budget = &self.budget;
        let fits = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= budget.bytes);
        match budget.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes += more;
                Ok(())
            }
            Err(_) => Err(format!(
                "reading it takes more than {} MiB of memory; if the file is genuine, raise {VARIABLE}",
                budget.bytes >> 20
            )),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_is_given_back() {
        let budget = Budget::new(100);
        let first = budget.claim(60).unwrap();
        let refused = budget.claim(50).unwrap_err();
        assert!(refused.contains("memory") && refused.contains(VARIABLE), "{refused}");
        let mut second = budget.claim(10).unwrap();
        assert!(second.grow_to(41).is_err());
        second.grow_to(40).unwrap();
        drop(first);
        second.grow_to(100).unwrap();
        assert!(budget.claim(u64::MAX).is_err());
    }
}
