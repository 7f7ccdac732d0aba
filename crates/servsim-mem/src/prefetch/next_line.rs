//! Tagged sequential prefetch (Smith, Computing Surveys 1982, section 2.1): a miss, and the first use of a
//! prefetched line, fetch the next `degree` lines.

use super::{Policy, PrefetchSpec};
use servsim_core::LineAddr;

#[derive(Debug)]
struct NextLine {
    degree: u64,
}

pub(super) fn make(spec: &PrefetchSpec) -> Box<dyn Policy> {
    Box::new(NextLine { degree: spec.degree })
}

impl Policy for NextLine {
    fn triggered(&mut self, line: LineAddr, lines: &mut Vec<LineAddr>) {
        lines.extend((1..=self.degree).map(|ahead| LineAddr(line.0.wrapping_add(ahead))));
    }
}
