//! Processor cores in the timing engine, to the cycle. Lines of 128 bytes: a fetch from memory takes 80
//! cycles and occupies the bus for 24. Every stream begins with a fetch that misses, so that the first
//! instruction enters at 80 and, with width 1, the next thing happens at 81. A task ends when its last
//! instruction completes.
//!
//! Latencies as the tests set them: integer 1, multiply 5, divide 35, address 1, first-level hit 2 and
//! second-level hit 12 cycles more.

use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::code::{Class, Instruction, UNKNOWN_CODE};
use servsim_core::reference::MISPREDICTED;
use servsim_core::{Batch, Op, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::result::{ProcessorTimes, Replication};
use servsim_machine::timing::{run, Model};
use servsim_mem::{Geometry, HierarchySpec, Inclusion, LevelSpec};
use std::sync::atomic::{AtomicBool, AtomicU64};

fn simulate(streams: Vec<Vec<Record>>, extra: &[&str]) -> Replication {
    let streams = streams.into_iter().map(|records| Batch { records, ..Batch::default() }).collect();
    simulate_code(streams, Vec::new(), extra)
}

/// The private levels of a machine.
fn hierarchy(machine: &Machine) -> HierarchySpec {
    let level = |l: &servsim_config::OuterLevel| LevelSpec {
        geometry: Geometry { size: l.size.0, ways: l.associativity, line: machine.cache.line.0 },
        replacement: l.replacement.clone(),
        inclusion: Inclusion::Inclusive,
        write_around: false,
    };
    HierarchySpec { private: machine.levels.iter().map(level).collect(), ..HierarchySpec::default() }
}

fn simulate_code(streams: Vec<Batch>, code: Vec<Instruction>, extra: &[&str]) -> Replication {
    let mut overrides = vec!["perturbation.memory_delay=0 cycles".to_owned()];
    overrides
        .extend(["processors=1", "processor.width=1", "processor.branch_penalty=5 cycles"].map(Into::into));
    overrides.extend(["processor.multiply=5 cycles", "processor.divide=35 cycles"].map(Into::into));
    overrides.extend(extra.iter().map(|s| (*s).to_owned()));
    let machine = Machine::from_toml("", "test", &overrides).unwrap();
    let model = Model::new(&machine, &setup(&machine), None, 0).with_hierarchy(hierarchy(&machine));
    let info = TaskInfo { name: "t".into(), pid: 0, kind: TaskKind::User, client: false };
    let tasks = vec![info; streams.len()];
    let source = InMemory::from_streams(tasks, Vec::new(), streams).with_code(code);
    run(&source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap()
}

fn record(op: Op, address: u64) -> Record {
    let mut record = Record::new(0, op, address, 4);
    record.cpu = 1;
    record
}

/// An instruction, at an address that is always the same.
fn f() -> Record {
    record(Op::Fetch, 0)
}

/// A load of line `line`.
fn load(line: u64) -> Record {
    record(Op::Load, 4096 + line * 128)
}

fn store(line: u64) -> Record {
    record(Op::Store, 8192 + line * 128)
}

/// Cycles until everything is complete, and where the processor's went.
fn timed(records: &[Record], extra: &[&str]) -> (u64, ProcessorTimes) {
    let result = simulate(vec![records.to_vec()], extra);
    let timing = result.timing.unwrap();
    (timing.cycles, timing.processors[0])
}

const OOO: &str = "processor.model=ooo";
const IN_ORDER: &str = "processor.model=inorder";

/// An instruction and the references it makes beside its fetch.
type Coded = (Instruction, Vec<Record>);

fn instruction(class: Class, from: u32, to: u32) -> Instruction {
    Instruction { address: 0, reads: 1 << from, writes: 1 << to, class }
}

/// Reads register `from`, writes register `to`.
fn op(class: Class, from: u32, to: u32) -> Coded {
    (instruction(class, from, to), Vec::new())
}

/// Loads register `to` from line `line`; the address comes from register `from`.
fn ld(line: u64, from: u32, to: u32) -> Coded {
    (Instruction { address: 1 << from, ..instruction(Class::None, from, to) }, vec![load(line)])
}

/// Stores register 0 to line `line` of the loads.
fn st(line: u64) -> Coded {
    let store = record(Op::Store, 4096 + line * 128);
    (Instruction { writes: 0, ..instruction(Class::Integer, 0, 0) }, vec![store])
}

/// A mispredicted branch that reads register `from`, up to what comes behind it.
fn branch(from: u32) -> [Coded; 2] {
    [
        op(Class::Integer, from, 20),
        (instruction(Class::Integer, 0, 21), vec![Record { flags: MISPREDICTED, ..f() }]),
    ]
}

/// The same for instructions with their code.
fn timed_code(list: &[Coded], extra: &[&str]) -> (u64, ProcessorTimes) {
    let mut batch = Batch::default();
    for (index, (_, references)) in list.iter().enumerate() {
        let marked = references.first().filter(|r| r.op == Op::Fetch);
        batch.records.push(*marked.unwrap_or(&f()));
        batch.code.push(index as u32);
        for reference in references.iter().filter(|r| r.op != Op::Fetch) {
            batch.records.push(*reference);
            batch.code.push(UNKNOWN_CODE);
        }
    }
    let code = list.iter().map(|(instruction, _)| *instruction).collect();
    let timing = simulate_code(vec![batch], code, extra).timing.unwrap();
    (timing.cycles, timing.processors[0])
}

#[test]
fn independent_misses_overlap_and_dependent_ones_do_not() {
    // The first load asks at 81 and has its data at 161. The second asks at 82: the bus is free at 105,
    // its data come at 185. If its address comes from the first, it asks at 162, one cycle after the
    // address registers are there: 242.
    assert_eq!(timed_code(&[ld(0, 0, 1), ld(1, 0, 2)], &[OOO]).0, 185);
    assert_eq!(timed_code(&[ld(0, 0, 1), ld(1, 1, 2)], &[OOO]).0, 242);
    assert_eq!(timed(&[f(), load(0), f(), load(1)], &[OOO]).0, 185, "nothing is known of unknown code");
    let far = [ld(0, 0, 1), ld(1, 0, 2), ld(2, 1, 3)];
    assert_eq!(timed_code(&far, &[OOO]).0, 242, "the third depends on the first and asks when that is back");
}

#[test]
fn a_chain_of_multiplies_takes_its_length_times_their_latency() {
    // Five enter from 80 to 84. In a chain the first is complete at 85 and the last at 105; otherwise
    // the last is complete at 84 + 5. Four enter per cycle if the width is 4: at 80 and 81.
    let chain = vec![op(Class::Multiply, 1, 1); 5];
    let independent: Vec<Coded> = (1..6).map(|register| op(Class::Multiply, 0, register)).collect();
    let (cycles, times) = timed_code(&chain, &[OOO]);
    assert_eq!((cycles, times.dependence, times.user), (105, 20, 25));
    assert_eq!(timed_code(&independent, &[OOO]).0, 89);
    assert_eq!(timed_code(&chain, &[OOO, "processor.width=4"]).0, 105);
    assert_eq!(timed_code(&independent, &[OOO, "processor.width=4"]).0, 86);
    let (cycles, _) = timed_code(&chain, &[OOO, "processor.multiply=7 cycles"]);
    assert_eq!(cycles, 80 + 5 * 7);
}

#[test]
fn a_quotient_is_waited_for_by_its_use_and_by_all_that_follows_in_order() {
    // The divide enters at 80 and is complete at 115, its use at 116. Out of order the third enters at
    // 82; in order the use enters at 115 and the third at 116, to be complete at 117.
    let list = [op(Class::Divide, 0, 1), op(Class::Integer, 1, 2), op(Class::Integer, 0, 3)];
    assert_eq!(timed_code(&list, &[OOO]).0, 116);
    let (cycles, times) = timed_code(&list, &[IN_ORDER]);
    assert_eq!((cycles, times.dependence), (117, 115 - 81));
    // A window of two: the third enters when the divide has left, at 115.
    assert_eq!(timed_code(&list, &[OOO, "processor.window=2 instructions"]).0, 116);
    let longer = [list.to_vec(), vec![op(Class::Integer, 0, 4); 2]].concat();
    // The use leaves at 116; the third, at 115, and the fourth, at 116, before the fifth at 117.
    assert_eq!(timed_code(&longer, &[OOO, "processor.window=2 instructions"]).0, 118);
}

/// A first level of one line for data, so that lines 1, 3 and 5 meet there, and a second level.
const TINY: [&str; 6] = [
    OOO,
    "cache.size=256 B",
    "cache.associativity=1",
    "l2.size=4 KiB",
    "l2.associativity=8",
    "l2.latency=12 cycles",
];

/// Brings lines 1, 3 and 5 to the second level one after the other and waits: each asks a cycle after
/// the one before is back, at 81, 162 and 243; the branch that needs the last executes at 323 and is
/// complete at 324, and what comes behind it enters at 329, the next thing at 330.
fn brought() -> Vec<Coded> {
    let mut list = vec![ld(1, 0, 1), ld(3, 1, 1), ld(5, 1, 1)];
    list.extend(branch(1));
    list
}

#[test]
fn hits_in_the_second_level_overlap_unless_they_depend_on_one_another() {
    // The first enters at 330 and has its data 2 + 12 cycles later, at 344; the other enters at 331: 345,
    // or, if its address comes from the first, 344 + 14.
    let with = |more: [Coded; 2]| [brought(), more.to_vec()].concat();
    assert_eq!(timed_code(&with([ld(1, 0, 2), ld(3, 0, 3)]), &TINY).0, 345);
    assert_eq!(timed_code(&with([ld(1, 0, 2), ld(3, 2, 3)]), &TINY).0, 358);
    // One place for loads under way: the second starts when the first is back.
    let one = [&TINY[..], &["processor.outstanding_misses=1"]].concat();
    assert_eq!(timed_code(&with([ld(1, 0, 2), ld(3, 0, 3)]), &one).0, 358);
    // The first use of the data stops an in-order core from 332 to 344; it is complete at 345.
    let mut in_order = TINY;
    in_order[0] = IN_ORDER;
    let (cycles, times) = timed_code(&with([ld(1, 0, 2), op(Class::Integer, 2, 3)]), &in_order);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (345, 3 * 80 + (344 - 331)));
}

#[test]
fn a_second_level_hit_whose_address_comes_from_a_miss_waits_for_it() {
    // The third miss is back at 323. Both loads then have their addresses: 323 + 14.
    let list = [ld(1, 0, 1), ld(3, 1, 1), ld(5, 1, 1), ld(1, 1, 2), ld(3, 1, 3)];
    assert_eq!(timed_code(&list, &TINY).0, 337);
    let chain = [ld(1, 0, 1), ld(3, 1, 1), ld(5, 1, 1), ld(1, 1, 2), ld(3, 2, 3)];
    assert_eq!(timed_code(&chain, &TINY).0, 337 + 14);
}

#[test]
fn stores_that_hit_in_the_second_level_wait_in_the_store_buffer() {
    // The stores are ready at 331, 332 and 333. The first takes until 343, the second from then to 355;
    // the third finds the buffer of two full until 343 and takes from 355 to 367.
    let list = [brought(), vec![st(1), st(3), st(5)]].concat();
    let (cycles, times) = timed_code(&list, &TINY);
    assert_eq!((cycles, times.stalls[Op::Store as usize]), (367, 343 - 333));
}

#[test]
fn a_branch_that_waits_for_a_load_is_mispredicted_when_that_is_back() {
    // The load is back at 161, the branch complete at 162; the next enters 5 cycles later.
    let list = [vec![ld(0, 0, 1)], branch(1).to_vec()].concat();
    let (cycles, times) = timed_code(&list, &[OOO]);
    assert_eq!((cycles, times.branch, times.stalls[Op::Load as usize]), (168, 6, 161 - 82));
}

#[test]
fn a_full_window_stops_the_core_until_the_oldest_load_is_back() {
    // Of eleven instructions the load is the first. Three more fit the window: the core stops at 84;
    // the other seven enter from 161 on.
    let mut records = vec![f(), load(0)];
    records.extend(vec![f(); 10]);
    let (cycles, times) = timed(&records, &[OOO, "processor.window=4 instructions"]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (168, 77));
    let (cycles, times) = timed(&records, &[OOO]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (161, 161 - 91), "all enter by 91");
}

#[test]
fn an_in_order_core_stops_at_the_first_use() {
    // The third instruction after the load uses it: two enter, the core stops at 83; then two more.
    let mut list = vec![ld(0, 0, 1), op(Class::Integer, 0, 2), op(Class::Integer, 0, 3)];
    list.extend([op(Class::Integer, 1, 4), op(Class::Integer, 0, 5)]);
    let (cycles, times) = timed_code(&list, &[IN_ORDER]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (163, 78));
    let unknown = [f(), load(0), f(), f(), f(), f()];
    assert_eq!(timed(&unknown, &[IN_ORDER]).0, 165, "an unknown use is the next instruction");
}

#[test]
fn as_many_loads_ask_as_can_and_the_next_waits_for_one_to_return() {
    let records = [f(), load(0), f(), load(1), f()];
    let (cycles, times) = timed(&records, &[OOO, "processor.outstanding_misses=1"]);
    // The last enters at 161; the task ends when the second load is back.
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (241, (161 - 82) + (241 - 162)));
}

#[test]
fn loads_of_one_line_make_one_transaction() {
    let records = [f(), load(0), f(), load(0), f(), load(0)];
    let result = simulate(vec![records.to_vec()], &[OOO]);
    assert_eq!(result.counters.total_misses(), 2, "the code and one line of data");
    assert_eq!(result.timing.unwrap().cycles, 161);
}

#[test]
fn a_full_store_buffer_stops_the_core_until_the_oldest_store_is_performed() {
    // Stores at 81 and 82 fill the buffer; the third waits from 83 to 161.
    let records = [f(), store(0), f(), store(1), f(), store(2), f()];
    let (_, times) = timed(&records, &[OOO]);
    assert_eq!(times.stalls, [80, 0, 161 - 83]);
}

#[test]
fn a_mispredicted_branch_costs_its_penalty_once() {
    let records = [f(), Record { flags: MISPREDICTED, ..f() }, f()];
    let (cycles, times) = timed(&records, &[OOO]);
    assert_eq!((cycles, times.branch, times.user), (80 + 3 + 5, 5, 3));
}

#[test]
fn width_instructions_enter_per_cycle() {
    let records = vec![f(); 9];
    let (cycles, times) = timed(&records, &[OOO, "processor.width=4"]);
    assert_eq!((cycles, times.user), (82, 2), "nine instructions are two full cycles and one slot");
}

#[test]
fn wider_windows_never_take_longer_and_every_cycle_is_accounted_for() {
    let stream = |task: u32| -> Vec<Record> {
        let mut random = RandomStream::new(u64::from(task), "cores");
        let mut records = Vec::new();
        for _ in 0..4000 {
            let own = (u64::from(task) + 1) << 20;
            records.push(Record { task, ..record(Op::Fetch, own + random.below(1 << 11)) });
            let address = own + (1 << 18) + random.below(1 << 15);
            match random.below(3) {
                0 => records.push(Record { task, ..record(Op::Load, address) }),
                1 => records.push(Record { task, ..record(Op::Store, address) }),
                _ => {}
            }
        }
        records
    };
    let mut last = u64::MAX;
    for window in [1, 8, 64] {
        let window = format!("processor.window={window} instructions");
        let extra =
            [OOO, "processors=2", "cache.size=16 KiB", "scheduler.time_slice=500 references", &window];
        let result = simulate((0..3).map(stream).collect(), &extra);
        let timing = result.timing.as_ref().unwrap();
        for t in &timing.processors {
            let sum = t.user + t.kernel + t.memory_stall + t.bus_wait + t.branch + t.idle;
            assert!(timing.cycles.abs_diff(sum) <= 200, "{sum} of {}", timing.cycles);
            assert_eq!(t.stalls.iter().sum::<u64>(), t.memory_stall + t.bus_wait);
        }
        assert!(timing.cycles < last, "{} with {window}, {last} with less", timing.cycles);
        last = timing.cycles;
        let sum: u64 = result.counters.references.iter().flatten().sum();
        assert_eq!(sum, (0..3).map(|task| stream(task).len() as u64).sum::<u64>());
    }
}
