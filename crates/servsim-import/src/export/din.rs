//! Dinero IV's extended lines, `TYPE ADDRESS SIZE`, which it reads as format D.

use super::{Holds, Reference, Writer};
use servsim_core::Op;
use std::io::{self, Write};

/// What din holds.
pub const HOLDS: Holds = Holds {
    size: Some(u64::MAX),
    tasks: false,
    processors: false,
    kernel: false,
    private: false,
    transactions: false,
    single: true,
};

/// Writes din.
pub struct Din;

impl Writer for Din {
    fn reference(&mut self, reference: &Reference, out: &mut dyn Write) -> io::Result<()> {
        let kind = match reference.op {
            Op::Fetch => 'i',
            Op::Store => 'w',
            Op::Load | Op::Event => 'r',
        };
        writeln!(out, "{kind} {:x} {:x}", reference.address, reference.size)
    }
}
