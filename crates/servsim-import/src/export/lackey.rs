//! Lackey's lines; a load and a store of the same bytes stay two lines, which mean the same.

use super::{decimal, hexadecimal, Holds, Reference, Writer};
use servsim_core::Op;

/// What lackey holds.
pub const HOLDS: Holds = Holds::REFERENCES;

/// Writes lackey.
pub struct Lackey;

impl Writer for Lackey {
    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        out.extend(match reference.op {
            Op::Fetch => b"I  ",
            Op::Store => b" S ",
            Op::Load | Op::Event => b" L ",
        });
        hexadecimal(out, reference.address, 8);
        out.push(b',');
        decimal(out, reference.size);
        out.push(b'\n');
    }
}
