//! Dinero IV's extended lines, `TYPE ADDRESS SIZE`, which it reads as format D.

use super::{hexadecimal, Holds, Reference, Writer};
use servsim_core::Op;

/// What din holds.
pub const HOLDS: Holds = Holds::REFERENCES;

/// Writes din.
pub struct Din;

impl Writer for Din {
    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        out.push(match reference.op {
            Op::Fetch => b'i',
            Op::Store => b'w',
            Op::Load | Op::Event => b'r',
        });
        out.push(b' ');
        hexadecimal(out, reference.address, 1);
        out.push(b' ');
        hexadecimal(out, reference.size, 1);
        out.push(b'\n');
    }
}
