//! Tagged sequential prefetch (Smith, Computing Surveys 1982, section 2.1): a miss, and the first use of a
//! prefetched line, fetch the next `degree` lines.

use super::{Policy, PrefetchSpec};

#[derive(Debug)]
struct NextLine {
    degree: u64,
}

pub(super) fn make(spec: &PrefetchSpec) -> Box<dyn Policy> {
    Box::new(NextLine { degree: spec.degree })
}

impl Policy for NextLine {
    fn triggered(&mut self, line: u64, lines: &mut Vec<u64>) {
        lines.extend((1..=self.degree).map(|ahead| line.wrapping_add(ahead)));
    }
}
