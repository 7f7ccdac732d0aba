//! A protocol table as transactions look it up: what each of its cells comes to for every answer of the bus, worked out once
//! when a machine is built. The table stays the only place where a protocol is written down.

use super::table::MAX_STATES;
use super::{BusOp, Lines, OnAccess, OnEvict, OnSnoop, Snoop, State, Table, INVALID};

/// Answers of the bus: sets of four lines.
const ANSWERS: usize = 16;

/// A transaction that an access makes.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The transaction.
    pub op: BusOp,
    /// Whether the access is then applied again in the new state.
    pub again: bool,
    /// By P bit and answer.
    next: [[State; ANSWERS]; 2],
}

impl Request {
    /// The state after an answer for a requester with P bit `private`.
    #[inline]
    pub fn next(&self, lines: Lines, private: bool) -> State {
        self.next[usize::from(private)][usize::from(lines.0) % ANSWERS]
    }
}

/// What a copy does when it is snooped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaction {
    /// Lines raised.
    pub raise: Lines,
    /// Whether this cache supplies the block.
    pub supply: bool,
    /// Whether memory takes the block at the same time.
    pub memory: bool,
    /// Next state.
    pub next: State,
}

/// The cells.
#[derive(Debug)]
pub struct Cells {
    /// By state, of loads and of stores; none where an access is local.
    requests: [[Option<Request>; 2]; MAX_STATES],
    /// By column and state; none where it is impossible.
    reactions: [[Option<Reaction>; MAX_STATES]; Snoop::ALL.len()],
    /// By column: what two copies or more raise, where that is all that they do.
    raised_by_several: [Option<Lines>; Snoop::ALL.len()],
    evictions: [OnEvict; MAX_STATES],
    /// One bit per state.
    exclusive: u16,
    /// The same.
    pub dirty: u16,
}

impl Cells {
    /// Those of `table`.
    pub fn of(table: &Table) -> Self {
        let mut cells = Self {
            requests: [[None; 2]; MAX_STATES],
            reactions: [[None; MAX_STATES]; Snoop::ALL.len()],
            raised_by_several: [None; Snoop::ALL.len()],
            evictions: [OnEvict::Impossible; MAX_STATES],
            exclusive: 0,
            dirty: 0,
        };
        for (state, row) in table.rows.iter().enumerate() {
            cells.requests[state] = [&row.read, &row.write].map(request);
            for (reactions, &cell) in cells.reactions.iter_mut().zip(&row.snoop) {
                reactions[state] = reaction(cell);
            }
            cells.evictions[state] = row.evict;
            cells.exclusive |= u16::from(row.info.exclusive) << state;
            cells.dirty |= u16::from(row.info.dirty) << state;
        }
        for column in Snoop::ALL {
            cells.raised_by_several[column as usize] = raised_by_several(table, column);
        }
        cells
    }

    /// The transaction that an access makes in `state`, if it is not local.
    #[inline]
    pub fn request(&self, state: State, write: bool) -> Option<&Request> {
        self.requests[usize::from(state) % MAX_STATES][usize::from(write)].as_ref()
    }

    /// What a copy in `state` does, if that can be.
    #[inline]
    pub fn reaction(&self, column: Snoop, state: State) -> Option<Reaction> {
        self.reactions[column as usize][usize::from(state) % MAX_STATES]
    }

    /// What two copies or more raise, where that is all that they do, whoever has them: an exclusive copy is alone, so the
    /// states that are not exclusive have to agree, and to stay as they are.
    #[inline]
    pub fn raised_by_several(&self, column: Snoop) -> Option<Lines> {
        self.raised_by_several[column as usize]
    }

    /// What the eviction of a copy in `state` does.
    #[inline]
    pub fn eviction(&self, state: State) -> OnEvict {
        self.evictions[usize::from(state) % MAX_STATES]
    }

    /// Whether a copy in `state` is the only one.
    #[inline]
    pub fn is_exclusive(&self, state: State) -> bool {
        self.exclusive >> (usize::from(state) % MAX_STATES) & 1 != 0
    }

    /// Whether memory may lack a copy in `state`.
    #[inline]
    pub fn is_dirty(&self, state: State) -> bool {
        self.dirty >> (usize::from(state) % MAX_STATES) & 1 != 0
    }
}

fn request(access: &OnAccess) -> Option<Request> {
    let OnAccess::Bus { op, branches, again } = access else { return None };
    let next = [false, true]
        .map(|private| std::array::from_fn(|lines| Table::resolve(branches, Lines(lines as u8), private)));
    Some(Request { op: *op, again: *again, next })
}

fn reaction(cell: OnSnoop) -> Option<Reaction> {
    match cell {
        OnSnoop::Act { raise, supply, memory, update: _, next } => {
            Some(Reaction { raise, supply, memory, next })
        }
        OnSnoop::Impossible => None,
    }
}

fn raised_by_several(table: &Table, column: Snoop) -> Option<Lines> {
    let shared = (0..).zip(&table.rows).filter(|&(state, row)| state != INVALID && !row.info.exclusive);
    let mut raised = shared.map(|(state, row)| match reaction(row.snoop[column as usize])? {
        Reaction { raise, supply: false, memory: false, next } if next == state => Some(raise),
        _ => None,
    });
    let first = raised.next()??;
    raised.all(|raise| raise == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{by_name, Options, PROTOCOLS};

    /// Every cell of every protocol comes to what the table says, for every answer.
    #[test]
    fn cells_say_what_tables_say() {
        for (name, _) in PROTOCOLS {
            let table = by_name(name, &Options::default()).expect("registered");
            let cells = Cells::of(&table);
            for (state, row) in (0..).zip(&table.rows) {
                for (write, access) in [(false, &row.read), (true, &row.write)] {
                    let OnAccess::Bus { op, branches, again } = access else {
                        assert!(cells.request(state, write).is_none(), "{name} {state}");
                        continue;
                    };
                    let request = cells.request(state, write).expect("it makes a transaction");
                    assert_eq!((request.op, request.again), (*op, *again), "{name} {state}");
                    for (lines, private) in
                        (0..16).flat_map(|lines| [(Lines(lines), false), (Lines(lines), true)])
                    {
                        let next = Table::resolve(branches, lines, private);
                        assert_eq!(request.next(lines, private), next, "{name} {state} {lines}");
                    }
                }
                for column in Snoop::ALL {
                    match (row.snoop[column as usize], cells.reaction(column, state)) {
                        (OnSnoop::Impossible, None) => {}
                        (OnSnoop::Act { raise, supply, memory, next, .. }, Some(reaction)) => {
                            assert_eq!(reaction, Reaction { raise, supply, memory, next }, "{name} {state}");
                        }
                        other => panic!("{name} {state}: {other:?}"),
                    }
                }
                assert_eq!(cells.eviction(state), row.evict, "{name} {state}");
                assert_eq!(cells.is_exclusive(state), row.info.exclusive, "{name} {state}");
                assert_eq!(cells.is_dirty(state), row.info.dirty, "{name} {state}");
            }
        }
    }

    #[test]
    fn several_copies_answer_as_one_where_they_agree() {
        let several = |name: &str, column| {
            let table = by_name(name, &Options::default()).expect("registered");
            Cells::of(&table).raised_by_several(column)
        };
        assert_eq!(several("mesi", Snoop::Read), Some(Lines::SHARED));
        assert_eq!(several("mesi", Snoop::ReadExclusive), None, "they go");
        assert_eq!(several("moesi", Snoop::Read), None, "an owner supplies the block, a sharer does not");
    }
}
