//! Sizes of the files of a set: so many files, and together so many bytes.
//!
//! The published tail has an infinite variance, so a set drawn at random is anything from half to
//! three times as large as another. Here the largest file is a fixed share of the set, the split between
//! body and tail follows from the bytes asked for, and each law is drawn evenly: one file from each of n
//! equal parts of 0..1.

use servsim_driver::rng::{Purpose, Stream};

use super::laws::Law;
use super::FileSize;
use crate::{Error, Result};

/// The largest file, as a share of the set's bytes: 10 MB of 500 MB.
const LARGEST: f64 = 0.02;
/// The largest file of a small set is this many times the smallest of the tail.
const LEAST_TAIL: f64 = 2.0;
/// Random streams of the sizes and of their order in the set.
const BODY: u64 = 0;
const TAIL: u64 = 1;
const ORDER: u64 = 2;

/// What a set is asked to be.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetSpec {
    /// Number of files.
    pub files: u32,
    /// Bytes of all files together, to 5 %.
    pub total_bytes: u64,
    /// Seed of sizes, contents and the order of requests.
    pub seed: u64,
}

impl SetSpec {
    /// A set of so many files and so many MB (10^6 bytes).
    ///
    /// # Errors
    /// [`Error::Usage`] where either cannot be.
    pub fn of(files: u32, megabytes: f64, seed: u64) -> Result<Self> {
        if !(0.0..1e6).contains(&megabytes) {
            return Err(Error::Usage("--megabytes must be from 0 to 1000000".to_owned()));
        }
        if files > 99_999 {
            return Err(Error::Usage("--files must be at most 99999".to_owned()));
        }
        Ok(SetSpec { files, total_bytes: (megabytes * 1e6) as u64, seed })
    }
}

/// The split between body and tail that has the mean that is wanted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Files of the tail; all others are the body.
    pub tail_files: u32,
    /// Largest size of a file in bytes.
    pub largest: f64,
}

/// The split for a set.
///
/// # Errors
/// [`Error::Usage`] when no split of the laws has the mean that is wanted.
pub fn split(law: FileSize, wanted: SetSpec) -> Result<Split> {
    let SetSpec { files, total_bytes, .. } = wanted;
    let largest = (LARGEST * total_bytes as f64).max(LEAST_TAIL * law.tail_from);
    let (body, tail) = (law.body().mean(), law.tail(largest).mean());
    let mean = total_bytes as f64 / f64::from(files.max(1));
    let share = (mean - body) / (tail - body);
    let tail_files = (share * f64::from(files)).round();
    if files < 100 || tail_files < 0.0 || share > 0.5 {
        return Err(Error::Usage(format!(
            "{files} files cannot hold {total_bytes} bytes with the published sizes: give at least 100 files, and \
             between {:.0} and {:.0} bytes for each of them",
            body.ceil(),
            f64::midpoint(body, tail).floor()
        )));
    }
    Ok(Split { tail_files: tail_files as u32, largest })
}

/// The size of each file, in the order of their numbers.
///
/// # Errors
/// As [`split`].
pub fn sizes(law: FileSize, wanted: SetSpec) -> Result<Vec<u64>> {
    let Split { tail_files, largest } = split(law, wanted)?;
    let mut sizes =
        evenly(law.body(), wanted.files - tail_files, Stream::new(wanted.seed, Purpose::Load, BODY));
    sizes.extend(evenly(law.tail(largest), tail_files, Stream::new(wanted.seed, Purpose::Load, TAIL)));
    Stream::new(wanted.seed, Purpose::Load, ORDER).shuffle(&mut sizes);
    Ok(sizes)
}

/// One size from each of `count` equal parts of 0..1.
fn evenly(law: Law, count: u32, mut stream: Stream) -> Vec<u64> {
    let part = |index: u32, within: f64| (f64::from(index) + within) / f64::from(count);
    (0..count).map(|index| law.quantile(part(index, 1.0 - stream.unit())).round().max(1.0) as u64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::Model;

    #[test]
    fn the_paper_s_set_has_one_file_in_a_hundred_in_its_tail() {
        let law = Model::published().file_size;
        let wanted = SetSpec { files: 20_000, total_bytes: 500_000_000, seed: 42 };
        let found = split(law, wanted).unwrap();
        assert!((150..=250).contains(&found.tail_files), "{found:?}");
        let sizes = sizes(law, wanted).unwrap();
        assert_eq!(sizes.len(), 20_000);
        assert_eq!(sizes.iter().filter(|&&size| size > 133_000).count() as u32, found.tail_files);
        assert!(*sizes.iter().max().unwrap() <= 10_000_000);
    }

    #[test]
    fn any_seed_and_size_has_the_bytes_that_are_wanted() {
        let law = Model::published().file_size;
        for (files, total_bytes) in
            [(200, 5_000_000), (1000, 25_000_000), (20_000, 500_000_000), (5000, 200_000_000)]
        {
            for seed in 0..5 {
                let sum: u64 = sizes(law, SetSpec { files, total_bytes, seed }).unwrap().iter().sum();
                let off = sum as f64 / total_bytes as f64 - 1.0;
                assert!(off.abs() < 0.05, "{files} files, seed {seed}: {off}");
            }
        }
    }

    #[test]
    fn sets_that_the_laws_cannot_make_are_refused() {
        let law = Model::published().file_size;
        for (files, total_bytes) in [(0, 1), (99, 2_500_000), (1000, 1_000_000), (1000, 900_000_000)] {
            let refused = sizes(law, SetSpec { files, total_bytes, seed: 1 }).unwrap_err();
            assert_eq!(refused.exit_code(), 2, "{refused}");
        }
    }
}
