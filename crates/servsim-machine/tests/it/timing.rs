//! The timing engine: hand-computed runs to the cycle, hand-over litmus, conservation,
//! determinism, wake-ups, disks.

use crate::support::handlers::WithHandlers;
use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::{
    Batch, CacheId, Cycles, Event, Interrupt, LineAddr, Op, Record, TaskInfo, TaskKind, TaskSource,
};
use servsim_import::InMemory;
use servsim_machine::result::Replication;
use servsim_machine::timing::{run, Model};
use servsim_machine::SimulateError;
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::Geometry;
use std::sync::atomic::{AtomicBool, AtomicU64};

fn task(name: &str) -> TaskInfo {
    TaskInfo { name: name.into(), pid: 0, kind: TaskKind::User, client: false }
}

fn machine(extra: &[&str]) -> Machine {
    let mut overrides: Vec<String> =
        ["perturbation.memory_delay=0 cycles", "processors=1"].iter().map(|s| (*s).to_owned()).collect();
    overrides.extend(extra.iter().map(|s| (*s).to_owned()));
    Machine::from_toml("", "test", &overrides).unwrap()
}

fn simulate_with(
    source: &dyn TaskSource,
    machine: &Machine,
    seed: u64,
    transactions: Option<u64>,
    warmup: u64,
) -> Result<Replication, SimulateError> {
    let model = Model::new(machine, &setup(machine), transactions, warmup);
    run(source, &model, seed, &AtomicBool::new(false), &AtomicU64::new(0))
}

fn simulate(streams: Vec<Batch>, extra: &[&str]) -> Replication {
    let tasks = (0..streams.len()).map(|i| task(&format!("t{i}"))).collect();
    let source = InMemory::from_streams(tasks, vec!["tx".into()], streams);
    simulate_with(&source, &machine(extra), 1, None, 0).unwrap()
}

fn reference(task: u32, op: Op, address: u64) -> Record {
    let mut record = Record::new(task, op, address, 4);
    record.cpu = 1;
    record
}

fn stream(records: &[Record]) -> Batch {
    Batch { records: records.to_vec(), ..Batch::default() }
}

fn cycles(replication: &Replication) -> u64 {
    replication.timing.as_ref().unwrap().cycles
}

#[test]
fn a_load_miss_takes_the_memory_latency_and_a_hit_two_cycles() {
    let loads = [reference(0, Op::Load, 0), reference(0, Op::Load, 8)];
    let result = simulate(vec![stream(&loads)], &[]);
    let times = result.timing.as_ref().unwrap().processors[0];
    assert_eq!((times.user, times.memory_stall, times.bus_wait, times.idle), (4, 80, 0, 0));
    assert_eq!(cycles(&result), 84);
}

#[test]
fn stores_wait_in_the_buffer_and_the_third_stalls() {
    // Three store misses to three lines: two fit the buffer; the third waits for the first.
    let stores: Vec<Record> = (0..3).map(|i| reference(0, Op::Store, i * 128)).collect();
    let result = simulate(vec![stream(&stores)], &[]);
    let times = result.timing.as_ref().unwrap().processors[0];
    assert_eq!(times.memory_stall, 80 - 4, "from cycle 4 to the first store's data at 80");
    let result = simulate(vec![stream(&stores)], &["processor.store_buffer=4 words"]);
    assert_eq!(result.timing.as_ref().unwrap().processors[0].memory_stall, 0);
}

#[test]
fn a_load_takes_words_from_the_store_buffer_and_waits_for_the_rest_of_the_line() {
    let same = [reference(0, Op::Store, 0), reference(0, Op::Load, 0)];
    let stall =
        |records: &[Record]| simulate(vec![stream(records)], &[]).timing.unwrap().processors[0].memory_stall;
    assert_eq!(stall(&same), 0);
    let other = [reference(0, Op::Store, 0), reference(0, Op::Load, 8)];
    assert_eq!(stall(&other), 80 - 2);
}

#[test]
fn two_processors_that_miss_together_share_the_bus() {
    // Both ask at 0; the bus is occupied 8 + 128/8 = 24 cycles by the first address and data phase.
    let streams = (0..2).map(|t| stream(&[reference(t, Op::Load, u64::from(t) * 4096)])).collect();
    let result = simulate(streams, &["processors=2"]);
    let timing = result.timing.as_ref().unwrap();
    let waits: Vec<u64> = timing.processors.iter().map(|p| p.bus_wait).collect();
    assert_eq!(waits.iter().sum::<u64>(), 24);
    assert_eq!(timing.bus_busy, 48);
}

/// Bus cycles per iteration of a pattern in steady state, by running n and 2n iterations with the
/// processors taking strict turns through wake-ups.
fn bus_cycles_per_iteration(
    turns: &[(usize, Vec<(Op, u64)>)],
    page: &str,
    protocol: &str,
    any_copy: bool,
) -> u64 {
    let processors = turns.iter().map(|(cpu, _)| cpu + 1).max().unwrap();
    let busy = |iterations: usize| {
        let mut system = servsim_mem::CoherentSystem::<u32>::new(
            processors,
            Geometry { size: 1 << 20, ways: 2, line: 128 },
            by_name(protocol, &Options { any_copy_supplies: any_copy, ..Options::default() }).unwrap(),
            false,
        );
        let times = servsim_mem::BusTimes {
            invalidate: Cycles(5),
            write: Cycles(5),
            memory_read: Cycles(64),
            cache_read: Cycles(8),
            write_back: Cycles(4),
            transfer: Cycles(16),
            memory_hold: Cycles(56),
        };
        let mut total = 0;
        for _ in 0..iterations {
            for (cpu, accesses) in turns {
                for (op, address) in accesses {
                    let access = servsim_mem::Access {
                        at: CacheId(*cpu),
                        line: LineAddr(address / 128),
                        words: 1_u32 << (address % 128 / 4),
                        write: *op == Op::Store,
                        kernel: false,
                        task: 0,
                        slot: 1,
                    };
                    loop {
                        let outcome = system.transact(&access, page == "private");
                        total += outcome.op.map_or(0, |op| times.of(op, outcome.from_cache).0 .0);
                        if outcome.done {
                            break;
                        }
                    }
                }
            }
        }
        total
    };
    // Whole rotations of the processors, so that the start-up cancels exactly.
    let n = processors * 10;
    (busy(2 * n) - busy(n)) / n as u64
}

type Pattern = Vec<(usize, Vec<(Op, u64)>)>;
/// Name, turns, page, turns in one iteration, cycles of each protocol with either supplier.
type Litmus = (&'static str, Pattern, &'static str, u64, [u64; 3], [u64; 3]);

#[test]
fn the_hand_over_litmus_costs_what_the_tables_say_to_the_cycle() {
    let (r, w) = (Op::Load, Op::Store);
    // One iteration of a hand-over is one processor's turn; the pattern holds two turns.
    let migratory = vec![(0, vec![(r, 0), (w, 0)]), (1, vec![(r, 0), (w, 0)])];
    let one_writer_three_readers =
        vec![(0, vec![(w, 0)]), (1, vec![(r, 0)]), (2, vec![(r, 0)]), (3, vec![(r, 0)])];
    let eight_writes = vec![(0, vec![(w, 0); 8]), (1, vec![(r, 0)])];
    let mut private_turn = vec![(r, 0)];
    private_turn.extend([(w, 0); 8]);
    let private = vec![(0, private_turn.clone()), (1, private_turn)];
    let ping_pong = vec![(0, vec![(w, 0)]), (1, vec![(w, 0)])];
    // The last column: the same when any holder supplies a block (decision D1).
    let rows: [Litmus; 5] = [
        ("migratory", migratory, "shared", 2, [29, 24, 5], [29, 24, 5]),
        ("1 writer, 3 readers", one_writer_three_readers, "shared", 1, [189, 189, 5], [77, 77, 5]),
        ("8 writes, 1 reader", eight_writes, "shared", 1, [29, 29, 40], [29, 29, 40]),
        ("private block migrating", private, "private", 2, [29, 24, 24], [29, 24, 24]),
        ("write-miss ping-pong", ping_pong, "shared", 2, [24, 24, 5], [24, 24, 5]),
    ];
    for (name, turns, page, turns_each, dirty_only, any_copy) in rows {
        for (supplier, expected) in [(false, dirty_only), (true, any_copy)] {
            for (protocol, expected) in ["mesi", "amsd", "pscr"].into_iter().zip(expected) {
                let cost = bus_cycles_per_iteration(&turns, page, protocol, supplier) / turns_each;
                assert_eq!(cost, expected, "{name}, {protocol}, any copy supplies: {supplier}");
            }
        }
    }
}

/// A pseudo-random workload of several tasks that share a few pages.
fn busy_streams(tasks: u32, length: u64) -> Vec<Batch> {
    (0..tasks)
        .map(|task| {
            let mut random = servsim_core::RandomStream::new(u64::from(task), "workload");
            let mut batch = Batch::default();
            for i in 0..length {
                let op = [Op::Fetch, Op::Fetch, Op::Load, Op::Store][random.below(4) as usize];
                let own = 0x10_0000 * (u64::from(task) + 1) + random.below(1 << 14);
                let shared = random.below(1 << 10);
                let address = if random.below(10) == 0 && op != Op::Fetch { shared } else { own };
                let mut record = reference(task, op, address);
                record.flags = u8::from(random.below(3) == 0);
                batch.records.push(record);
                if i % 500 == 499 {
                    batch.push_event(task, Event::TransactionEnd { kind: 0, user: 0 });
                }
            }
            batch
        })
        .collect()
}

const SMALL: &[&str] =
    &["processors=3", "cache.size=8 KiB", "cache.line=64 B", "scheduler.time_slice=300 references"];

#[test]
fn every_cycle_of_every_processor_is_accounted_for() {
    for protocol in ["mesi", "moesi", "mesif", "mosi", "amsd", "pscr"] {
        for asynchronous in ["all", "writes"] {
            let name = format!("protocol.name={protocol}");
            let rule = format!("protocol.asynchronous={asynchronous}");
            let mut extra = SMALL.to_vec();
            extra.extend([name.as_str(), rule.as_str()]);
            let result = simulate(busy_streams(5, 4000), &extra);
            let timing = result.timing.as_ref().unwrap();
            for times in &timing.processors {
                let sum = times.user + times.kernel + times.memory_stall + times.bus_wait + times.idle;
                let slack = timing.cycles.abs_diff(sum);
                assert!(slack <= 100, "{protocol}: {sum} of {} cycles", timing.cycles);
            }
            assert!(timing.bus_busy <= timing.cycles, "{protocol}");
            let c = &result.counters;
            assert_eq!(c.misses.iter().flatten().sum::<u64>(), c.total_misses(), "{protocol}");
            assert_eq!(c.total_references(), 20_000, "{protocol}: none lost, none twice");
            assert_eq!(result.transactions(), 40);
        }
    }
}

#[test]
fn a_response_time_lasts_from_the_same_users_previous_reply() {
    // One client task serves users 7 and 8 in turn, a reply after every ten hits of two cycles.
    let mut batch = Batch::default();
    batch.records.push(reference(0, Op::Load, 0));
    for turn in 0..6 {
        (0..10).for_each(|_| batch.records.push(reference(0, Op::Load, 0)));
        batch.push_event(0, Event::TransactionEnd { kind: 0, user: 7 + turn % 2 });
    }
    let result = simulate(vec![batch], &[]);
    let kind = &result.kinds[0];
    // The first reply of each user has none; the other four come two turns of 20 cycles later.
    assert_eq!((kind.count, kind.responses.as_slice()), (6, [40; 4].as_slice()));
}

#[test]
fn the_same_seed_repeats_and_another_seed_differs() {
    let tasks: Vec<TaskInfo> = (0..5).map(|i| task(&format!("t{i}"))).collect();
    let source = InMemory::from_streams(tasks, vec!["tx".into()], busy_streams(5, 4000));
    let mut extra = SMALL.to_vec();
    extra.push("perturbation.memory_delay=4 cycles");
    let run = |seed| simulate_with(&source, &machine(&extra), seed, Some(20), 5).unwrap();
    assert_eq!(run(1), run(1));
    assert_ne!(cycles(&run(1)), cycles(&run(2)));
    assert_eq!(run(1).transactions(), 20);
}

#[test]
fn random_delays_leave_the_mean_latency_as_it_is() {
    // Loads that all miss, one processor: the stall per miss averages 80 cycles.
    let loads: Vec<Record> = (0..20_000).map(|i| reference(0, Op::Load, i * 128)).collect();
    let extra = ["perturbation.memory_delay=8 cycles"];
    let result = simulate(vec![stream(&loads)], &extra);
    let stall = result.timing.as_ref().unwrap().processors[0].memory_stall;
    let mean = stall as f64 / 20_000.0;
    // Uniform on 76..=84: standard deviation 2.58, of the mean of 20,000 0.018; five of them.
    assert!((mean - 80.0).abs() < 0.092, "{mean}");
    assert_ne!(stall, 1_600_000, "the delays are random");
}

#[test]
fn a_wake_up_is_a_dependence_whether_early_or_late() {
    for early in [true, false] {
        let work = |task, n| (0..n).map(move |i| reference(task, Op::Fetch, i * 4));
        let mut waker = Batch::default();
        waker.records.extend(work(0, if early { 1 } else { 2000 }));
        waker.push_event(0, Event::Wake { wake: 7 });
        let mut sleeper = Batch::default();
        sleeper.records.extend(work(1, if early { 2000 } else { 1 }));
        sleeper.push_event(1, Event::Block { wake: Some(7) });
        sleeper.records.extend(work(1, 10));
        let result = simulate(vec![waker, sleeper], &["processors=2"]);
        assert_eq!(result.counters.total_references(), 2011);
        let idle: u64 = result.timing.as_ref().unwrap().processors.iter().map(|p| p.idle).sum();
        assert!(idle > 3000, "one processor waits for the other: {idle}");
    }
}

#[test]
fn a_wait_that_the_trace_never_ends_is_the_traces_fault_and_names_the_task() {
    let mut batch = Batch::default();
    batch.push_event(0, Event::Block { wake: Some(99) });
    batch.records.push(reference(0, Op::Fetch, 0));
    let source = InMemory::from_streams(vec![task("sleeper")], Vec::new(), vec![batch]);
    let error = simulate_with(&source, &machine(&[]), 1, None, 0).unwrap_err();
    let SimulateError::Usage(message) = error else { panic!("{error:?}") };
    assert!(message.contains("never wakes sleeper (pid"), "{message}");
}

#[test]
fn waits_that_no_wake_up_can_end_are_the_traces_fault_even_where_the_trace_holds_the_wake_up() {
    let block = |wake| Event::Block { wake: Some(wake) };
    let blamed = |tasks: &[&[Event]], handlers: Vec<Interrupt>| {
        let streams = tasks.iter().enumerate().map(|(number, events)| {
            let mut batch = Batch::default();
            events.iter().for_each(|&event| batch.push_event(number as u32, event));
            batch.records.push(reference(number as u32, Op::Fetch, 0));
            batch
        });
        let mut streams: Vec<Batch> = streams.collect();
        streams.resize(2, Batch::default());
        let inner = InMemory::from_streams(["a", "b"].map(task).to_vec(), Vec::new(), streams);
        let error = simulate_with(&WithHandlers { inner, handlers }, &machine(&[]), 1, None, 0).unwrap_err();
        let SimulateError::Usage(message) = error else { panic!("{error:?}") };
        message
    };
    let circle =
        blamed(&[&[block(1), Event::Wake { wake: 2 }], &[block(2), Event::Wake { wake: 1 }]], Vec::new());
    assert!(circle.contains("wait for one another: a (pid") && circle.contains("b (pid"), "{circle}");
    let twice = blamed(&[&[block(1), block(1)], &[Event::Wake { wake: 1 }]], Vec::new());
    assert!(twice.contains("wait twice for a wake-up that comes once: a (pid"), "{twice}");
    // The same where an interrupt handler causes it.
    let mut handler = Interrupt { requests: vec![5], ..Interrupt::default() };
    handler.batch.push_event(1, Event::Wake { wake: 1 });
    let request = Event::IoSubmit { request: 5, device: 0, sector: 0, bytes: 512, write: false };
    let twice = blamed(&[&[request, block(1), block(1)]], vec![handler]);
    assert!(twice.contains("wait twice for a wake-up that comes once: a (pid"), "{twice}");
    // Behind one that is never woken only that one is to blame.
    let behind = blamed(&[&[block(1)], &[block(9), Event::Wake { wake: 1 }]], Vec::new());
    assert!(behind.contains("never wakes b (pid") && !behind.contains("a (pid"), "{behind}");
}

#[test]
fn a_sleep_lasts_its_recorded_time() {
    let mut batch = Batch::default();
    batch.push_event(0, Event::Sleep { nanos: 5000 });
    batch.records.push(reference(0, Op::Fetch, 0));
    let result = simulate(vec![batch], &[]);
    assert_eq!(cycles(&result), 5000 + 80 + 2, "at 1 GHz a nanosecond is a cycle");
}

#[test]
fn a_task_that_waits_for_a_disk_goes_on_after_the_service_time_and_the_handler() {
    let mut batch = Batch::default();
    let submit = Event::IoSubmit { request: 1, device: 0, sector: 0, bytes: 8192, write: false };
    batch.push_event(0, submit);
    batch.push_event(0, Event::Block { wake: Some(3) });
    batch.records.push(reference(0, Op::Fetch, 0));
    let mut handler = Interrupt { requests: vec![1], ..Interrupt::default() };
    handler.batch.records.push(reference(1, Op::Fetch, 4096));
    handler.batch.push_event(1, Event::Wake { wake: 3 });
    let interrupt = TaskInfo { kind: TaskKind::Interrupt, ..task("interrupts") };
    let inner = InMemory::from_streams(vec![task("t"), interrupt], Vec::new(), vec![batch, Batch::default()]);
    let source = WithHandlers { inner, handlers: vec![handler] };
    let result = simulate_with(&source, &machine(&["disk.read_time=1 ms"]), 1, None, 0).unwrap();
    assert_eq!(cycles(&result), 1_000_000 + 82 + 82);
    assert_eq!(result.timing.as_ref().unwrap().system.disk_reads, 1);
}

#[test]
fn the_functional_and_the_timing_engine_agree_on_one_processor() {
    // Without competition the order is that of the trace, so every count is the same.
    let streams = busy_streams(1, 20_000);
    let records: Vec<Record> = streams[0].records.iter().copied().filter(|r| r.op != Op::Event).collect();
    let items = records.iter().map(|r| (Record { cpu: 0, ..*r }, None)).collect();
    let source = InMemory::from_streams(vec![task("t")], Vec::new(), vec![stream(&records)]);
    let machine = machine(&["cache.size=4 KiB", "processor.store_buffer=1 words"]);
    let timed = simulate_with(&source, &machine, 1, None, 0).unwrap();
    let mut list =
        servsim_import::ListSource::new(vec![task("t")], Vec::new(), source.privacy().clone(), items);
    let counted = servsim_machine::functional::run(&mut list, &setup(&machine), &mut |_| true).unwrap();
    let (a, b) = (timed.counters, counted.total());
    assert_eq!(a.references, b.references);
    // Loads that take a word from the store buffer do not touch the cache, which may change the
    // replacement order slightly; cold misses cannot change.
    assert_eq!(a.misses[0][0] + a.misses[1][0], b.misses[0][0] + b.misses[1][0]);
}
