//! Sets of drives: hand-computed times, conservation, and the single drive as the simplest set.

use servsim_disk::features::Command;
use servsim_disk::models::mechanical::Drive;
use servsim_disk::models::{DeviceModel, Model};
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::station::{Device, Started};
use servsim_disk::server::{Discipline, Server};
use servsim_disk::sets::array::Array;
use servsim_disk::sets::layout::{Layout, RaidLevel};
use servsim_disk::simulate::closed_set;
use servsim_oracle::drive::Words;

/// A drive that serves in order of arrival and takes 10 ns, and 1 ns a sector.
#[derive(Default)]
struct Clockwork {
    waiting: std::collections::VecDeque<(u64, u64, u32)>,
    free_ns: u64,
}

impl Device for Clockwork {
    fn submit(&mut self, id: u64, command: Command, now_ns: u64, started: &mut dyn FnMut(Started)) {
        self.advance(now_ns, started);
        self.waiting.push_back((id, now_ns, command.sectors));
    }

    fn advance(&mut self, now_ns: u64, started: &mut dyn FnMut(Started)) {
        while self.next_start_ns().is_some_and(|start| start < now_ns) {
            let start_ns = self.next_start_ns().unwrap();
            let (id, arrival_ns, sectors) = self.waiting.pop_front().unwrap();
            self.free_ns = start_ns + 10 + u64::from(sectors);
            started(Started { id, arrival_ns, start_ns, completion_ns: self.free_ns });
        }
    }

    fn next_start_ns(&self) -> Option<u64> {
        self.waiting.front().map(|&(_, arrival_ns, _)| arrival_ns.max(self.free_ns))
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

fn set(level: RaidLevel, members: usize) -> Array<Clockwork> {
    let layout = Layout { level, members, unit_sectors: 8 };
    Array::new(layout, (0..members).map(|_| Clockwork::default()).collect())
}

/// (start, completion) by request, of requests (time, lba, sectors, operation).
fn run(array: &mut Array<Clockwork>, requests: &[(u64, u64, u32, Op)]) -> Vec<(u64, u64)> {
    let mut seen = vec![(0, 0); requests.len()];
    let each = &mut |s: Started| seen[s.id as usize] = (s.start_ns, s.completion_ns);
    for (id, &(now_ns, lba, sectors, op)) in requests.iter().enumerate() {
        array.submit(id as u64, Command { lba, sectors, op }, now_ns, each);
    }
    array.advance(u64::MAX, each);
    assert_eq!(array.waiting(), 0);
    assert_eq!(array.next_start_ns(), None);
    seen
}

#[test]
fn a_striped_request_ends_with_its_slowest_piece() {
    let mut array = set(RaidLevel::Stripe, 3);
    // Sectors 4..36: 12 on the first drive, 12 on the second, 8 on the third.
    let seen = run(&mut array, &[(100, 4, 32, Op::Read), (100, 16, 8, Op::Read)]);
    assert_eq!(seen, [(100, 122), (118, 136)]);
}

#[test]
fn a_mirror_reads_from_the_drive_with_less_to_do_then_from_the_nearer() {
    let mut array = set(RaidLevel::Mirror, 2);
    let requests = [
        (0, 0, 8, Op::Read),    // first drive: 0 to 18
        (1, 800, 8, Op::Read),  // second drive: 1 to 19
        (2, 0, 8, Op::Read),    // equal; the first drive is nearer: 18 to 36
        (40, 816, 8, Op::Read), // both idle; the second is nearer
        (41, 0, 16, Op::Write), // both: 41 to 67, and 58 to 84
    ];
    let seen = run(&mut array, &requests);
    assert_eq!(seen, [(0, 18), (1, 19), (18, 36), (40, 58), (41, 84)]);
    assert_eq!(array.work().iter().map(|w| (w.reads, w.writes)).collect::<Vec<_>>(), [(2, 1), (2, 1)]);
}

#[test]
fn a_small_raid_5_write_reads_twice_then_writes_twice() {
    let mut array = set(RaidLevel::Parity, 3);
    // 4 sectors: reads 0 to 14, writes 14 to 28, on one data drive and the parity drive.
    let small = run(&mut array, &[(0, 0, 4, Op::Write)]);
    assert_eq!(small, [(0, 28)]);
    let work =
        |array: &Array<Clockwork>| array.work().iter().fold((0, 0), |t, w| (t.0 + w.reads, t.1 + w.writes));
    assert_eq!(work(&array), (2, 2));
    // A whole stripe of 16 sectors: three writes of 8, no read.
    let mut array = set(RaidLevel::Parity, 3);
    assert_eq!(run(&mut array, &[(0, 16, 16, Op::Write)]), [(0, 18)]);
    assert_eq!(work(&array), (0, 3));
}

#[test]
fn the_second_half_of_a_small_write_queues_behind_what_came_meanwhile() {
    let mut array = set(RaidLevel::Parity, 3);
    // Stripe 0: data on drives 0 and 1, parity on 2. The read of drive 0 arrives during the first half.
    let seen = run(&mut array, &[(0, 0, 4, Op::Write), (5, 0, 8, Op::Read)]);
    // Drive 0: read for the write 0..14, the read 14..32, the write 32..46.
    assert_eq!(seen, [(0, 46), (14, 32)]);
}

#[test]
fn nothing_is_lost_and_what_is_transferred_follows_from_the_level() {
    let model = DeviceModel {
        device: "hp97560".to_owned(),
        server: Server { discipline: Discipline::Sstf, ..Server::FCFS },
        inference: None,
        training: None,
        model: Model::Mechanical(Drive::hp97560()),
    };
    let mut words = Words(5);
    let mut now_ns = 0;
    let requests: Vec<Request> = (0..2000)
        .map(|_| {
            now_ns += words.below(30_000_000);
            Request {
                arrival_ns: now_ns,
                start_ns: NO_START,
                completion_ns: now_ns,
                lba: words.below(1_000_000),
                sectors: 1 + words.below(200) as u32,
                device: 0,
                op: if words.below(2) == 0 { Op::Read } else { Op::Write },
                by_tracer: false,
            }
        })
        .collect();
    let sum = |op: Op| requests.iter().filter(|r| r.op == op).map(|r| u64::from(r.sectors)).sum::<u64>();
    let mut means = Vec::new();
    for (level, members) in
        [(RaidLevel::Stripe, 1), (RaidLevel::Stripe, 4), (RaidLevel::Mirror, 2), (RaidLevel::Parity, 5)]
    {
        let layout = Layout { level, members, unit_sectors: 128 };
        let run = closed_set(&model, layout, &requests, 1.0, 3).unwrap();
        assert_eq!(run.services.len(), requests.len());
        for (service, request) in run.services.iter().zip(&requests) {
            assert_eq!(service.arrival_ns, request.arrival_ns);
            assert!(service.arrival_ns <= service.start_ns && service.start_ns < service.completion_ns);
        }
        let moved: u64 = run.members.iter().map(|work| work.sectors).sum();
        match level {
            RaidLevel::Stripe => assert_eq!(moved, sum(Op::Read) + sum(Op::Write)),
            RaidLevel::Mirror => assert_eq!(moved, sum(Op::Read) + 2 * sum(Op::Write)),
            // Old and new data and at least as much parity as the widest piece.
            RaidLevel::Parity => assert!(moved > sum(Op::Read) + 2 * sum(Op::Write)),
        }
        let total: u64 = run.services.iter().map(|s| s.completion_ns - s.arrival_ns).sum();
        means.push(total / requests.len() as u64);
        let again = closed_set(&model, layout, &requests, 1.0, 3).unwrap();
        assert_eq!(again.services, run.services);
    }
    // Four drives share what one did alone; parity costs more than the same number without.
    assert!(means[1] < means[0] && means[1] < means[3], "{means:?}");
}

#[test]
fn a_set_of_one_is_the_drive_itself() {
    let mut one = set(RaidLevel::Stripe, 1);
    let mut words = Words(3);
    let mut now_ns = 0;
    let requests: Vec<_> = (0..300)
        .map(|_| {
            now_ns += words.below(40);
            (now_ns, words.below(500), 1 + words.below(20) as u32, Op::Read)
        })
        .collect();
    let seen = run(&mut one, &requests);
    let mut drive = Clockwork::default();
    let mut alone = vec![(0, 0); requests.len()];
    let each = &mut |s: Started| alone[s.id as usize] = (s.start_ns, s.completion_ns);
    for (id, &(now_ns, lba, sectors, op)) in requests.iter().enumerate() {
        drive.submit(id as u64, Command { lba, sectors, op }, now_ns, each);
    }
    drive.advance(u64::MAX, each);
    assert_eq!(seen, alone);
}
