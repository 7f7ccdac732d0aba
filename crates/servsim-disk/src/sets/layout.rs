//! Which member of a set holds which sector, and what a request becomes there.
//!
//! Striping is round robin by stripe units; RAID 5 has the left-symmetric layout that Linux md takes by
//! default (Massiglia, ed., *The RAID Book*, 6th edition, 1997): parity walks from the last member
//! down, data begins after it. Neighbouring pieces of a request on one member are one operation.
//!
//! A write to part of a RAID 5 stripe reads the old data and the old parity, then writes both: four
//! operations for a small write (Patterson, Gibson & Katz, SIGMOD 1988). A whole stripe is written
//! without reading. Left out: reconstruction from the untouched members (which saves reads when most of
//! a stripe is written), a controller's own cache, failed members.

use crate::features::Command;
use crate::request::Op;
use std::ops::Range;

/// How members share the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaidLevel {
    /// RAID 0: data in stripe units, round robin.
    Stripe,
    /// RAID 1: every member holds everything.
    Mirror,
    /// RAID 5: stripe units with one rotating parity unit a stripe.
    Parity,
}

/// Members and how they share the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// How.
    pub level: RaidLevel,
    /// Number of drives.
    pub members: usize,
    /// Sectors of a stripe unit; unused by a mirror.
    pub unit_sectors: u64,
}

/// One operation of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The drive; [`ANY_MEMBER`] leaves the choice to the policy of a mirror.
    pub member: usize,
    /// First sector on that drive.
    pub lba: u64,
    /// Sectors.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
}

/// Stands for the member that the policy of a mirror prefers.
pub const ANY_MEMBER: usize = usize::MAX;

impl Operation {
    /// What the member is asked to do.
    pub fn command(&self) -> Command {
        Command { lba: self.lba, sectors: self.sectors, op: self.op }
    }
}

/// Operations that start together, and those that wait until all of the first have completed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Done at once.
    pub first: Vec<Operation>,
    /// Done when all of `first` are.
    pub then: Vec<Operation>,
}

impl Layout {
    /// Members that hold data in one stripe.
    fn data_units(&self) -> u64 {
        match self.level {
            RaidLevel::Stripe => self.members as u64,
            RaidLevel::Mirror => 1,
            RaidLevel::Parity => self.members as u64 - 1,
        }
    }

    /// What `command` becomes: independent steps, all of which must complete.
    pub fn plan(&self, command: &Command) -> Vec<Step> {
        match (self.level, command.op) {
            (RaidLevel::Mirror, op) => {
                let on = |member| Operation { member, lba: command.lba, sectors: command.sectors, op };
                let first = match op {
                    Op::Read => vec![on(ANY_MEMBER)],
                    Op::Write => (0..self.members).map(on).collect(),
                };
                vec![Step { first, then: Vec::new() }]
            }
            (RaidLevel::Parity, Op::Write) => {
                self.rows(command).map(|row| self.write_row(command, row)).collect()
            }
            (_, op) => {
                let pieces = self.rows(command).flat_map(|row| self.pieces(command, row));
                vec![Step { first: merged(pieces, op), then: Vec::new() }]
            }
        }
    }

    /// Stripes that `command` touches.
    fn rows(&self, command: &Command) -> Range<u64> {
        let row = self.unit_sectors * self.data_units();
        let last = command.lba + u64::from(command.sectors.max(1)) - 1;
        command.lba / row..last / row + 1
    }

    /// Member and place within the unit of the data of `command` in one stripe, in order.
    fn pieces(&self, command: &Command, row: u64) -> Vec<(usize, Range<u64>)> {
        let unit = self.unit_sectors;
        let end = command.lba + u64::from(command.sectors);
        let base = row * self.data_units();
        (0..self.data_units())
            .filter_map(|k| {
                let start = (base + k) * unit;
                let (from, to) = (command.lba.max(start), end.min(start + unit));
                (from < to).then(|| (self.member(row, k), row * unit + from - start..row * unit + to - start))
            })
            .collect()
    }

    /// The member of data unit `k` of stripe `row`.
    fn member(&self, row: u64, k: u64) -> usize {
        match self.level {
            RaidLevel::Parity => (self.parity(row) + 1 + k as usize) % self.members,
            _ => k as usize,
        }
    }

    /// The member of the parity of stripe `row`.
    fn parity(&self, row: u64) -> usize {
        self.members - 1 - (row % self.members as u64) as usize
    }

    fn write_row(&self, command: &Command, row: u64) -> Step {
        let pieces = self.pieces(command, row);
        let written: u64 = pieces.iter().map(|(_, place)| place.end - place.start).sum();
        let from = pieces.iter().map(|(_, place)| place.start).min().unwrap_or(0);
        let to = pieces.iter().map(|(_, place)| place.end).max().unwrap_or(0);
        let whole = written == self.unit_sectors * self.data_units();
        let touched: Vec<_> = pieces.into_iter().chain([(self.parity(row), from..to)]).collect();
        let each = |op| touched.iter().map(|(member, place)| operation(*member, place, op)).collect();
        if whole {
            Step { first: each(Op::Write), then: Vec::new() }
        } else {
            Step { first: each(Op::Read), then: each(Op::Write) }
        }
    }
}

fn operation(member: usize, place: &Range<u64>, op: Op) -> Operation {
    Operation { member, lba: place.start, sectors: (place.end - place.start) as u32, op }
}

/// Pieces as operations, those that continue one another on a member joined.
fn merged(pieces: impl Iterator<Item = (usize, Range<u64>)>, op: Op) -> Vec<Operation> {
    let mut operations: Vec<Operation> = Vec::new();
    for (member, place) in pieces {
        let same = operations.iter_mut().rfind(|o| o.member == member);
        match same {
            Some(last) if last.lba + u64::from(last.sectors) == place.start => {
                last.sectors += (place.end - place.start) as u32;
            }
            _ => operations.push(operation(member, &place, op)),
        }
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(lba: u64, sectors: u32, op: Op) -> Command {
        Command { lba, sectors, op }
    }

    fn of(level: RaidLevel, members: usize) -> Layout {
        Layout { level, members, unit_sectors: 8 }
    }

    fn flat(operations: &[Operation]) -> Vec<(usize, u64, u32)> {
        operations.iter().map(|o| (o.member, o.lba, o.sectors)).collect()
    }

    #[test]
    fn a_stripe_goes_round_the_members_and_joins_what_lies_together() {
        // Units of 8 over 3 members: sectors 4..36 are units 0 (half), 1, 2, 3, 4 (half).
        let plan = of(RaidLevel::Stripe, 3).plan(&command(4, 32, Op::Read));
        assert_eq!(plan.len(), 1);
        assert_eq!(flat(&plan[0].first), [(0, 4, 12), (1, 0, 12), (2, 0, 8)]);
    }

    #[test]
    fn a_mirror_reads_once_and_writes_everywhere() {
        let mirror = of(RaidLevel::Mirror, 2);
        assert_eq!(flat(&mirror.plan(&command(40, 8, Op::Read))[0].first), [(ANY_MEMBER, 40, 8)]);
        assert_eq!(flat(&mirror.plan(&command(40, 8, Op::Write))[0].first), [(0, 40, 8), (1, 40, 8)]);
    }

    #[test]
    fn parity_is_left_symmetric() {
        // Five members as in md: data units by stripe, parity on 4, 3, 2, ...
        let raid = of(RaidLevel::Parity, 5);
        let place = |unit: u64| {
            let step = raid.plan(&command(unit * 8, 8, Op::Read)).remove(0);
            (step.first[0].member, step.first[0].lba / 8)
        };
        let units: Vec<_> = (0..12).map(place).collect();
        let first = [(0, 0), (1, 0), (2, 0), (3, 0)];
        let second = [(4, 1), (0, 1), (1, 1), (2, 1)];
        let third = [(3, 2), (4, 2), (0, 2), (1, 2)];
        assert_eq!(units, [first, second, third].concat());
    }

    #[test]
    fn a_small_write_is_two_reads_then_two_writes_and_a_whole_stripe_only_writes() {
        let raid = of(RaidLevel::Parity, 5);
        let small = raid.plan(&command(18, 4, Op::Write)).remove(0);
        assert_eq!(flat(&small.first), [(2, 2, 4), (4, 2, 4)]);
        assert!(small.first.iter().all(|o| o.op == Op::Read) && small.then.iter().all(|o| o.op == Op::Write));
        assert_eq!(flat(&small.first), flat(&small.then));
        let whole = raid.plan(&command(32, 32, Op::Write)).remove(0);
        assert_eq!(flat(&whole.first), [(4, 8, 8), (0, 8, 8), (1, 8, 8), (2, 8, 8), (3, 8, 8)]);
        assert!(whole.then.is_empty() && whole.first.iter().all(|o| o.op == Op::Write));
    }

    #[test]
    fn a_write_over_two_stripes_is_a_whole_one_and_a_part() {
        let raid = of(RaidLevel::Parity, 3);
        // A stripe has 16 sectors of data.
        let plan = raid.plan(&command(16, 20, Op::Write));
        assert_eq!(plan.len(), 2);
        assert!(plan[0].then.is_empty() && plan[0].first.len() == 3);
        assert_eq!((plan[1].first.len(), plan[1].then.len()), (2, 2));
    }

    #[test]
    fn every_sector_of_a_request_is_transferred_once_and_places_never_collide() {
        for (level, members) in [(RaidLevel::Stripe, 4), (RaidLevel::Parity, 4), (RaidLevel::Parity, 3)] {
            let layout = of(level, members);
            let mut seen = std::collections::HashSet::new();
            for lba in 0..600 {
                let step = layout.plan(&command(lba, 1, Op::Read)).remove(0);
                assert!(seen.insert((step.first[0].member, step.first[0].lba)), "{level:?} {lba}");
                if level == RaidLevel::Parity {
                    let row = lba / (8 * (members as u64 - 1));
                    assert_ne!(step.first[0].member, layout.parity(row));
                }
            }
            for (lba, sectors) in [(0, 64), (5, 1), (7, 90), (13, 33)] {
                let read = &layout.plan(&command(lba, sectors, Op::Read))[0].first;
                assert_eq!(read.iter().map(|o| o.sectors).sum::<u32>(), sectors);
            }
        }
    }
}
