//! ChampSim's instruction traces: 64-byte little-endian records, usually compressed with xz or
//! gzip. Per record: `u64` address of the instruction; two bytes, whether it is a branch and whether
//! it was taken; two output and four input registers; two `u64` addresses written; four `u64`
//! addresses read. An address of 0 means none.
//!
//! One instruction becomes its fetch, its loads, then its stores. No access has a size. One task,
//! user mode. Format: ChampSim, `trace_instruction.h` (`input_instr`). Traces of its 88-byte
//! CloudSuite variant are refused where a record cannot be one of these.

use crate::foreign::{single, Foreign, Pass};
use crate::input::{Input, Records};
use servsim_core::{Batch, Op, SourceError};
use std::path::Path;

/// Bytes per instruction.
pub const RECORD: usize = 64;
/// Where the addresses written and read begin and end in a record.
pub const STORES: std::ops::Range<usize> = 16..32;
/// See [`STORES`].
pub const LOADS: std::ops::Range<usize> = 32..64;
/// Instructions read at a time.
const BATCH: usize = 4096;

/// What the format is, holds and lacks.
pub const ABOUT: [&str; 3] = [
    "ChampSim, 64-byte instruction records",
    "fetches, loads, stores",
    "sizes, tasks, processors, kernel mode; more than 4 loads or 2 stores per instruction",
];

/// Surveys the trace at `path`.
///
/// # Errors
/// When it cannot be read, is truncated, or is not a ChampSim trace.
pub fn survey(path: &Path) -> Result<Foreign, SourceError> {
    let owned = path.to_owned();
    Foreign::open(&path.display().to_string(), move |_| {
        Ok(Box::new(ChampSim { records: Records::new(Input::open(&owned)?) }))
    })
}

struct ChampSim {
    records: Records<RECORD>,
}

impl Pass for ChampSim {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let out = &mut batch.records;
        for count in 0..BATCH {
            let Some(bytes) = self.records.record()? else { return Ok(count > 0) };
            if bytes[8] > 1 || bytes[9] > 1 {
                return Err(self.records.fault(
                    "the branch fields are neither 0 nor 1; is this a ChampSim trace with 64-byte records?",
                ));
            }
            out.push(single(Op::Fetch, word(&bytes[..8])));
            let accesses = |range: std::ops::Range<usize>, op| {
                let addresses = bytes[range].chunks_exact(8).map(word).filter(|&address| address != 0);
                addresses.map(move |address| single(op, address))
            };
            out.extend(accesses(LOADS, Op::Load));
            out.extend(accesses(STORES, Op::Store));
        }
        Ok(true)
    }
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}
