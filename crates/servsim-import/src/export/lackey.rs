//! Lackey's lines; a load and a store of the same bytes stay two lines, which mean the same.

use super::{Holds, Reference, Writer};
use servsim_core::Op;
use std::io::{self, Write};

/// What lackey holds.
pub const HOLDS: Holds = Holds {
    size: Some(u64::MAX),
    tasks: false,
    processors: false,
    kernel: false,
    private: false,
    transactions: false,
    single: true,
};

/// Writes lackey.
pub struct Lackey;

impl Writer for Lackey {
    fn reference(&mut self, reference: &Reference, out: &mut dyn Write) -> io::Result<()> {
        let kind = match reference.op {
            Op::Fetch => "I ",
            Op::Store => " S",
            Op::Load | Op::Event => " L",
        };
        writeln!(out, "{kind} {:08x},{}", reference.address, reference.size)
    }
}
