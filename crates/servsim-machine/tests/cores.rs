//! Processor cores in the timing engine, to the cycle. Lines of 128 bytes: a fetch from memory takes 80
//! cycles and occupies the bus for 24. Every stream begins with a fetch that misses, so that the first
//! instruction enters at 80 and, with width 1, the next thing happens at 81.

#[path = "support/setup.rs"]
mod setup;

use servsim_config::Machine;
use servsim_core::reference::MISPREDICTED;
use servsim_core::{Batch, Op, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::result::{ProcessorTimes, Replication};
use servsim_machine::timing::{run, Model};
use setup::setup;
use std::sync::atomic::{AtomicBool, AtomicU64};

fn simulate(streams: Vec<Vec<Record>>, extra: &[&str]) -> Replication {
    let mut overrides = vec!["perturbation.memory_delay=0 cycles".to_owned()];
    overrides
        .extend(["processors=1", "processor.width=1", "processor.branch_penalty=5 cycles"].map(Into::into));
    overrides.extend(extra.iter().map(|s| (*s).to_owned()));
    let machine = Machine::from_toml("", "test", &overrides).unwrap();
    let model = Model::new(&machine, &setup(&machine), None, 0);
    let info = TaskInfo { name: "t".into(), pid: 0, kind: TaskKind::User, client: false };
    let tasks = vec![info; streams.len()];
    let streams = streams.into_iter().map(|records| Batch { records, ..Batch::default() }).collect();
    let source = InMemory::from_streams(tasks, Vec::new(), streams);
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

/// A load of line `line`; `distance` as the processor model takes it.
fn load(line: u64, distance: u8) -> Record {
    Record { cpu: 1 + distance, ..record(Op::Load, 4096 + line * 128) }
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

#[test]
fn independent_misses_overlap_and_dependent_ones_do_not() {
    // The first load asks at 81 and has its data at 161. The second asks at 82: the bus is free at 105,
    // its data come at 185; if its address comes from the first, it asks at 161: 241.
    let pair = |distance| [f(), load(0, 0), f(), load(1, distance)];
    assert_eq!(timed(&pair(0), &[OOO]).0, 185);
    assert_eq!(timed(&pair(1), &[OOO]).0, 241);
    let far = [f(), load(0, 0), f(), load(1, 0), f(), load(2, 2)];
    assert_eq!(timed(&far, &[OOO]).0, 241, "the third depends on the first and asks when that is back");
}

#[test]
fn a_full_window_stops_the_core_until_the_oldest_load_is_back() {
    // Of eleven instructions the load is the first. Three more fit the window: the core stops at 84;
    // the other seven enter from 161 on.
    let mut records = vec![f(), load(0, 0)];
    records.extend(vec![f(); 10]);
    let (cycles, times) = timed(&records, &[OOO, "processor.window=4 instructions"]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (168, 77));
    let (cycles, times) = timed(&records, &[OOO]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (161, 0), "all enter by 91");
}

#[test]
fn an_in_order_core_stops_at_the_first_use() {
    // The third instruction after the load uses it: two enter, the core stops at 83; then two more.
    let records = [f(), load(0, 3), f(), f(), f(), f()];
    let (cycles, times) = timed(&records, &[IN_ORDER]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (163, 78));
    let unknown = [f(), load(0, 0), f(), f(), f(), f()];
    assert_eq!(timed(&unknown, &[IN_ORDER]), timed(&unknown, &[IN_ORDER]));
    assert_eq!(timed(&unknown, &[IN_ORDER]).0, 165, "an unknown use is the next instruction");
}

#[test]
fn as_many_loads_ask_as_can_and_the_next_waits_for_one_to_return() {
    let records = [f(), load(0, 0), f(), load(1, 0), f()];
    let (cycles, times) = timed(&records, &[OOO, "processor.outstanding_misses=1"]);
    assert_eq!((cycles, times.stalls[Op::Load as usize]), (241, 161 - 82));
}

#[test]
fn loads_of_one_line_make_one_transaction() {
    let records = [f(), load(0, 0), f(), load(0, 0), f(), load(0, 0)];
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
            let distance = random.below(4) as u8;
            match random.below(3) {
                0 => records.push(Record { task, cpu: 1 + distance, ..record(Op::Load, address) }),
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
