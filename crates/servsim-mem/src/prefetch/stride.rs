//! Stride prefetch with a reference prediction table (Chen & Baer, IEEE Transactions on Computers 44(5),
//! 1995): per instruction its last address, stride and a state of four. Every state but `NoPrediction`
//! prefetches `degree` strides ahead. The table is direct-mapped by the low bits of the instruction.

use super::{Policy, PrefetchSpec, Reference};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Initial,
    Transient,
    Steady,
    NoPrediction,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    instruction: u64,
    address: u64,
    stride: u64,
    state: State,
}

#[derive(Debug)]
struct Stride {
    table: Vec<Option<Entry>>,
    degree: u64,
}

pub(super) fn make(spec: &PrefetchSpec) -> Box<dyn Policy> {
    Box::new(Stride { table: vec![None; spec.entries], degree: spec.degree })
}

impl Policy for Stride {
    fn referenced(&mut self, reference: &Reference, addresses: &mut Vec<u64>) {
        let Reference { instruction, address } = *reference;
        let place = (instruction % self.table.len() as u64) as usize;
        let known = self.table[place].filter(|entry| entry.instruction == instruction);
        let Some(entry) = known else {
            self.table[place] = Some(Entry { instruction, address, stride: 0, state: State::Initial });
            return;
        };
        let seen = address.wrapping_sub(entry.address);
        let right = seen == entry.stride;
        let state = match (entry.state, right) {
            (State::Initial | State::Transient | State::Steady, true) => State::Steady,
            (State::NoPrediction, true) | (State::Initial, false) => State::Transient,
            (State::Steady, false) => State::Initial,
            (State::Transient | State::NoPrediction, false) => State::NoPrediction,
        };
        // A steady stride survives one wrong guess.
        let stride = if right || entry.state == State::Steady { entry.stride } else { seen };
        self.table[place] = Some(Entry { instruction, address, stride, state });
        if state != State::NoPrediction && stride != 0 {
            let ahead = |times: u64| address.wrapping_add(stride.wrapping_mul(times));
            addresses.extend((1..=self.degree).map(ahead));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_follow_the_published_diagram() {
        let spec = PrefetchSpec { policy: "stride".into(), degree: 2, level: 1, entries: 4 };
        let mut table = make(&spec);
        let mut next = |address: u64| {
            let mut found = Vec::new();
            table.referenced(&Reference { instruction: 9, address }, &mut found);
            found
        };
        // Initial; transient with stride 8; steady; one wrong guess: initial with stride 8; steady again.
        assert_eq!(next(0), []);
        assert_eq!(next(8), [16, 24]);
        assert_eq!(next(16), [24, 32]);
        assert_eq!(next(100), [108, 116]);
        assert_eq!(next(108), [116, 124]);
        // Two wrong ones: initial, transient with another stride; a third: no prediction, until two
        // strides are the same.
        assert_eq!(next(200), [208, 216]);
        assert_eq!(next(201), [202, 203]);
        assert_eq!(next(300), []);
        assert_eq!(next(310), []);
        assert_eq!(next(320), [330, 340]);
    }

    #[test]
    fn instructions_that_share_a_place_forget_one_another() {
        let spec = PrefetchSpec { policy: "stride".into(), degree: 1, level: 1, entries: 4 };
        let mut table = make(&spec);
        let mut found = Vec::new();
        for (instruction, address) in [(1, 0), (5, 0), (1, 8), (5, 8)] {
            table.referenced(&Reference { instruction, address }, &mut found);
        }
        assert_eq!(found, []);
    }
}
