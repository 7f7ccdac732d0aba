//! Mutants of files: bytes, numbers and pieces changed, for tests that feed them to whatever reads such files.
//!
//! The same seed gives the same mutants. `SERVSIM_MUTANTS` sets how many of each file a test tries,
//! `SERVSIM_MUTANTS_SEED` adds to its seed, and those on which it fails are written to `SERVSIM_MUTANTS_KEEP`: the
//! place to take them from for the `tests/corpus` of its crate, which every later run tries first.

use servsim_core::RandomStream;
use std::collections::VecDeque;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// Numbers at which arithmetic goes wrong, as text.
const NUMBERS: [&str; 12] = [
    "0",
    "-1",
    "1e308",
    "-1e308",
    "nan",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "4294967295",
    "9007199254740993",
    "0.0000000001",
    "99999999999999999999999",
];

/// How many mutants of each file to try: `quick` of them, or as many as `SERVSIM_MUTANTS` says.
pub fn number(quick: usize) -> usize {
    std::env::var("SERVSIM_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(quick)
}

/// What is added to the seeds of mutants: other ones in each run of the long tests.
fn further() -> u64 {
    std::env::var("SERVSIM_MUTANTS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// One file to try. Dropped by a test that fails, it is written to the folder `SERVSIM_MUTANTS_KEEP`.
#[derive(Debug)]
pub struct Trial {
    bytes: Vec<u8>,
    name: String,
}

impl Deref for Trial {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        eprintln!("the test failed on {}", self.name);
        if let Some(folder) = std::env::var_os("SERVSIM_MUTANTS_KEEP") {
            let _ = std::fs::write(Path::new(&folder).join(self.name.replace('/', "-")), &self.bytes);
        }
    }
}

/// The files kept in `folder` because a reader once failed on them, in the order of their names; none where it is
/// missing.
///
/// # Panics
/// When one cannot be read.
fn kept(folder: &Path) -> Vec<Trial> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().map(|f| f.unwrap().path()).collect();
    files.sort();
    let trial =
        |path: &PathBuf| Trial { bytes: std::fs::read(path).unwrap(), name: path.display().to_string() };
    files.iter().map(trial).collect()
}

/// Makes mutants, each another.
#[derive(Debug)]
pub struct Mutants(RandomStream);

impl Mutants {
    /// Those of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(RandomStream::new(seed.wrapping_add(further()), "mutants"))
    }

    /// What a reader of files of one kind is tried on: those kept in `tests/corpus/KIND` of the crate in the folder
    /// `manifest`, then mutants of a good file, `quick` of them or as many as `SERVSIM_MUTANTS` says.
    pub fn trials<'a>(
        &'a mut self,
        manifest: &str,
        kind: &'a str,
        good: &'a [u8],
        quick: usize,
    ) -> impl Iterator<Item = Trial> + 'a {
        let mut kept = VecDeque::from(kept(&Path::new(manifest).join("tests/corpus").join(kind)));
        let mut left = number(quick);
        std::iter::from_fn(move || {
            if let Some(trial) = kept.pop_front() {
                return Some(trial);
            }
            left = left.checked_sub(1)?;
            Some(Trial { bytes: self.of(good), name: format!("{kind}-{left}") })
        })
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// The file with one to three changes.
    pub fn of(&mut self, file: &[u8]) -> Vec<u8> {
        let mut bytes = file.to_vec();
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return bytes;
            }
            self.change(&mut bytes);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(9) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'\n', b',', b'-'][self.below(7)],
            2 => bytes.truncate(at),
            3 => {
                let end = (at + 1 + self.below(39)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            4 => {
                let edges = [0, u64::MAX, i64::MAX as u64, 1 << 63, u64::from(u32::MAX), 1 << 54];
                let word = edges[self.below(6)];
                for (byte, new) in bytes[at..].iter_mut().zip(word.to_le_bytes()) {
                    *byte = new;
                }
            }
            // A word of a text stands where another was.
            5 | 6 => {
                let from = self.below(bytes.len());
                let (Some(old), Some(new)) = (word(bytes, at), word(bytes, from)) else { return };
                let new = bytes[new].to_vec();
                bytes.splice(old, new);
            }
            // A whole number of a text becomes another.
            _ => {
                let digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
                if let Some(begin) = bytes[at..].iter().position(digit).map(|offset| at + offset) {
                    let length = bytes[begin..].iter().take_while(|byte| digit(byte)).count();
                    bytes.splice(begin..begin + length, NUMBERS[self.below(12)].bytes());
                }
            }
        }
    }
}

/// The first word that begins at `from` or after it.
fn word(bytes: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let begin = from + bytes[from..].iter().position(part)?;
    Some(begin..begin + bytes[begin..].iter().take_while(|byte| part(byte)).count())
}
