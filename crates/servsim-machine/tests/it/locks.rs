//! Locks in the timing engine: waits to the cycle, spinning and sleeping, interrupts and time slices
//! held off, seeds that differ in who comes first, and traces whose lock events do not match.
//!
//! Over 400 lines: every way in which a hold or a wait ends is tried on the same few streams.

use crate::support::handlers::WithHandlers;
use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::{Batch, Event, Interrupt, LockClass, Op, RandomStream, Record};
use servsim_core::{TaskInfo, TaskKind, TaskSource};
use servsim_import::InMemory;
use servsim_machine::result::{LockResult, Replication};
use servsim_machine::timing::{run, Model};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Where the lock's word is: a line of its own.
const LOCK: u64 = 0x10_0000;

fn simulate_source(source: &dyn TaskSource, seed: u64, extra: &[&str]) -> Replication {
    let mut overrides = vec!["perturbation.memory_delay=0 cycles".to_owned()];
    if !extra.iter().any(|setting| setting.starts_with("locks.arbitrated")) {
        overrides.push("locks.arbitrated=all".to_owned());
    }
    overrides.extend(extra.iter().map(|s| (*s).to_owned()));
    let machine = Machine::from_toml("", "test", &overrides).unwrap();
    let model = Model::new(&machine, &setup(&machine), None, 0);
    run(source, &model, seed, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap()
}

fn task(kind: TaskKind) -> TaskInfo {
    TaskInfo { name: "t".into(), pid: 0, kind, client: false }
}

fn cycles_of(result: &Replication) -> u64 {
    result.timing.as_ref().unwrap().cycles
}

fn source(streams: Vec<Batch>) -> InMemory {
    InMemory::from_streams(vec![task(TaskKind::User); streams.len()], Vec::new(), streams)
}

fn simulate(streams: Vec<Batch>, seed: u64, extra: &[&str]) -> Replication {
    simulate_source(&source(streams), seed, extra)
}

/// Appends `count` fetches of one line that only this task touches: 2 cycles each once it is there.
fn work(batch: &mut Batch, task: u32, count: u32) {
    for _ in 0..count {
        let mut record = Record::new(task, Op::Fetch, 0x1000 * (u64::from(task) + 1), 4);
        record.cpu = 1;
        batch.records.push(record);
    }
}

fn touch(batch: &mut Batch, task: u32, op: Op) {
    let mut record = Record::new(task, op, LOCK, 4);
    record.cpu = 1;
    batch.records.push(record);
}

fn acquire(batch: &mut Batch, task: u32, class: LockClass) {
    batch.push_event(task, Event::LockAcquire { class, word: LOCK });
}

fn release(batch: &mut Batch, task: u32) {
    batch.push_event(task, Event::LockRelease { word: LOCK });
}

fn locks(replication: &Replication) -> LockResult {
    replication.timing.as_ref().unwrap().locks.unwrap()
}

#[test]
fn a_spinning_processor_loads_the_lock_at_its_interval_until_the_holder_releases() {
    // Task 0 takes the lock at 82 (a miss of 80, a hit of 2) and holds it for 500 fetches: until
    // 1082. Task 1 does 200 fetches first. Both miss together, so the second waits 24 cycles for the
    // bus; whichever it is, it asks for the lock at 80 + 24 + 400 or 80 + 400.
    let mut holder = Batch::default();
    work(&mut holder, 0, 1);
    acquire(&mut holder, 0, LockClass::KernelSpin);
    work(&mut holder, 0, 500);
    release(&mut holder, 0);
    let mut waiter = Batch::default();
    work(&mut waiter, 1, 200);
    acquire(&mut waiter, 1, LockClass::KernelSpin);
    release(&mut waiter, 1);
    let result = simulate(vec![holder, waiter], 1, &["processors=2"]);
    let timing = result.timing.as_ref().unwrap();
    let first_waits = timing.processors[0].bus_wait == 24;
    let first_holds = timing.processors[0].user == 1002;
    let (held_until, asked) = if first_waits == first_holds { (1106, 480) } else { (1082, 504) };
    let counts = locks(&result).counts.classes[LockClass::KernelSpin as usize];
    assert_eq!((counts.acquisitions, counts.contended), (2, 1));
    // The first load misses: 20 + 80 cycles; the others hit, 20 each; the first look at or after the
    // release finds the lock handed over.
    let looks = (held_until - asked - 100_u64).div_ceil(20) + 1;
    assert_eq!(counts.spin_references, looks);
    assert_eq!(counts.wait_cycles, 80 + looks * 20);
    let spun: u64 = timing.processors.iter().map(|p| p.lock_spin).sum();
    assert_eq!(spun, looks * 20);
    assert_eq!(result.counters.total_references(), 701 + looks);
}

#[test]
fn the_holders_store_takes_the_lock_word_from_the_spinner() {
    let run = |stores: u32| {
        let mut holder = Batch::default();
        acquire(&mut holder, 0, LockClass::KernelSpin);
        touch(&mut holder, 0, Op::Store);
        for _ in 0..stores {
            work(&mut holder, 0, 400);
            touch(&mut holder, 0, Op::Store);
        }
        release(&mut holder, 0);
        let mut waiter = Batch::default();
        work(&mut waiter, 1, 100);
        acquire(&mut waiter, 1, LockClass::KernelSpin);
        release(&mut waiter, 1);
        simulate(vec![holder, waiter], 1, &["processors=2"]).counters.total_misses()
    };
    assert_eq!(run(8) - run(4), 4, "one miss of the spinner per store of the holder");
}

#[test]
fn a_task_that_sleeps_for_a_lock_leaves_its_processor_and_goes_on_after_the_release() {
    // One processor. The holder sleeps 10 us with the lock; the other task then tries, and both are
    // asleep until the holder's sleep is over.
    let stream = |task: u32, sleeps: bool| {
        let mut batch = Batch::default();
        if !sleeps {
            work(&mut batch, task, 50);
        }
        acquire(&mut batch, task, LockClass::LightweightExclusive);
        if sleeps {
            batch.push_event(task, Event::Sleep { nanos: 10_000 });
        }
        work(&mut batch, task, 50);
        release(&mut batch, task);
        batch
    };
    let result = simulate(vec![stream(0, true), stream(1, false)], 1, &["processors=1"]);
    let timing = result.timing.as_ref().unwrap();
    let counts = locks(&result).counts.classes[LockClass::LightweightExclusive as usize];
    assert_eq!((counts.acquisitions, counts.contended, counts.spin_references), (2, 1, 0));
    // Task 1 works 80 + 100 cycles and asks at 180; task 0 wakes at 10,000, works 180 cycles and ends.
    assert_eq!(counts.wait_cycles, 10_180 - 180);
    assert_eq!(timing.processors[0].idle, 10_000 - 180);
    assert_eq!(timing.cycles, 10_180 + 100);
    let off = simulate(vec![stream(0, true), stream(1, false)], 1, &["processors=1", "locks.arbitrated=off"]);
    let timing = off.timing.unwrap();
    assert_eq!((timing.cycles, timing.locks), (10_180, None), "without locks nobody waits");
    let spinlocks = ["processors=1", "locks.arbitrated=spinlocks"];
    let spinning = simulate(vec![stream(0, true), stream(1, false)], 1, &spinlocks);
    assert_eq!(cycles_of(&spinning), 10_180, "nobody sleeps for a lock either");
    assert_eq!(locks(&spinning).counts, servsim_os::LockCounts::default(), "releases are left out too");
}

#[test]
fn a_lock_whose_holder_blocks_for_the_rest_of_the_trace_ends_there() {
    // Of three tasks one is cut by the end of the trace while it waits with the lock, and one sleeps for long.
    let mut cut = Batch::default();
    acquire(&mut cut, 0, LockClass::LightweightExclusive);
    work(&mut cut, 0, 50);
    cut.push_event(0, Event::Block { wake: None });
    let mut waiter = Batch::default();
    work(&mut waiter, 1, 10);
    acquire(&mut waiter, 1, LockClass::LightweightExclusive);
    release(&mut waiter, 1);
    let mut sleeper = Batch::default();
    sleeper.push_event(2, Event::Sleep { nanos: 1_000_000 });
    let result = simulate(vec![cut, waiter, sleeper], 1, &["processors=4"]);
    let counts = locks(&result).counts;
    assert_eq!((counts.cut_holds, counts.forced_handovers), (1, 0));
    let waited = counts.classes[LockClass::LightweightExclusive as usize].wait_cycles;
    assert_eq!(waited, 180 - 124, "to the holder's last work, not until nothing else is left to happen");
}

#[test]
fn the_end_of_a_time_slice_waits_for_the_release_of_a_kernel_spinlock() {
    let switches = |class| {
        let stream = |task| {
            let mut batch = Batch::default();
            acquire(&mut batch, task, class);
            work(&mut batch, task, 1000);
            release(&mut batch, task);
            batch
        };
        let extra = ["processors=1", "scheduler.time_slice=100 references"];
        let result = simulate(vec![stream(0), stream(1)], 1, &extra);
        assert_eq!(result.counters.total_references(), 2000);
        result.timing.unwrap().system.context_switches
    };
    assert_eq!(switches(LockClass::KernelSpin), 1, "each runs through");
    assert!(switches(LockClass::LightweightShared) > 2, "others do not hold off the scheduler");
}

#[test]
fn an_interrupt_waits_for_the_release_of_a_kernel_spinlock_that_its_handler_takes() {
    let mut batch = Batch::default();
    let submit = Event::IoSubmit { request: 1, device: 0, sector: 0, bytes: 512, write: false };
    batch.push_event(0, submit);
    acquire(&mut batch, 0, LockClass::KernelSpin);
    work(&mut batch, 0, 2000);
    release(&mut batch, 0);
    work(&mut batch, 0, 2000);
    let mut handler = Interrupt { requests: vec![1], ..Interrupt::default() };
    acquire(&mut handler.batch, 1, LockClass::KernelSpin);
    work(&mut handler.batch, 1, 10);
    release(&mut handler.batch, 1);
    let tasks = vec![task(TaskKind::User), task(TaskKind::Interrupt)];
    let inner = InMemory::from_streams(tasks, Vec::new(), vec![batch, Batch::default()]);
    let source = WithHandlers { inner, handlers: vec![handler] };
    let result = simulate_source(&source, 1, &["processors=1", "disk.read_time=1 us"]);
    let counts = locks(&result).counts;
    let class = counts.classes[LockClass::KernelSpin as usize];
    assert_eq!((class.acquisitions, class.contended), (2, 0), "nobody spins for its own processor");
    assert_eq!((counts.forced_releases, counts.forced_handovers), (0, 0));
    assert_eq!(result.counters.total_references(), 4010);
}

/// Tasks that take a few locks in the order of their numbers, hold them for a while and sleep.
fn orderly(tasks: u32, rounds: u64) -> Vec<Batch> {
    let stream = |task: u32| {
        let mut random = RandomStream::new(u64::from(task), "locks");
        let mut batch = Batch::default();
        for _ in 0..rounds {
            let pair = random.below(LockClass::ALL.len() as u64);
            let class = LockClass::ALL[pair as usize];
            let words = [LOCK + pair * 256, LOCK + pair * 256 + 128];
            for word in words {
                batch.push_event(task, Event::LockAcquire { class, word });
                work(&mut batch, task, 5 + random.below(40) as u32);
                touch(&mut batch, task, Op::Store);
            }
            for word in words {
                batch.push_event(task, Event::LockRelease { word });
                work(&mut batch, task, random.below(20) as u32);
            }
        }
        batch
    };
    (0..tasks).map(stream).collect()
}

#[test]
fn two_seeds_take_locks_in_another_order_and_run_tasks_elsewhere_and_one_seed_repeats() {
    let source = source(orderly(6, 60));
    let extra = ["processors=4", "perturbation.memory_delay=8 cycles", "scheduler.time_slice=300 references"];
    let run = |seed| simulate_source(&source, seed, &extra);
    let (one, again, two) = (run(1), run(1), run(2));
    assert_eq!(one, again);
    assert_ne!(locks(&one).order_digest, locks(&two).order_digest);
    let place = |result: &Replication| result.timing.as_ref().unwrap().placement_digest;
    assert_ne!(place(&one), place(&two));
    for result in [&one, &two] {
        let counts = locks(result).counts;
        let sum = |f: fn(&servsim_os::locks::ClassCounts) -> u64| counts.classes.iter().map(f).sum::<u64>();
        assert_eq!(sum(|c| c.acquisitions), 6 * 60 * 2);
        assert!(sum(|c| c.contended) > 50, "{counts:?}");
        assert_eq!((counts.forced_releases, counts.forced_handovers, counts.unmatched_releases), (0, 0, 0));
    }
}

#[test]
fn lock_events_that_do_not_match_never_stop_a_run() {
    for seed in 0..24 {
        let mut random = RandomStream::new(seed, "hostile locks");
        let stream = |task: u32| {
            let mut batch = Batch::default();
            for _ in 0..120 {
                let word = LOCK + random.below(3) * 128;
                let class = LockClass::ALL[random.below(LockClass::ALL.len() as u64) as usize];
                match random.below(8) {
                    0..=2 => batch.push_event(task, Event::LockAcquire { class, word }),
                    3..=5 => batch.push_event(task, Event::LockRelease { word }),
                    6 if random.below(4) == 0 => batch.push_event(task, Event::Sleep { nanos: 3000 }),
                    _ => work(&mut batch, task, 1 + random.below(30) as u32),
                }
            }
            work(&mut batch, task, 1);
            batch
        };
        let streams: Vec<Batch> = (0..6).map(stream).collect();
        let is_reference = |record: &&Record| record.op != Op::Event;
        let expected: usize = streams.iter().map(|s| s.records.iter().filter(is_reference).count()).sum();
        let processors = format!("processors={}", 1 + seed % 4);
        let result = simulate(streams, seed, &[&processors, "scheduler.time_slice=100 references"]);
        let counts = locks(&result).counts;
        let spins: u64 = counts.classes.iter().map(|c| c.spin_references).sum();
        assert_eq!(result.counters.total_references(), expected as u64 + spins, "seed {seed}");
        assert!(counts.unmatched_releases > 0);
    }
}

/// Task 0 takes the lock and sleeps until task 1 wakes it; task 1 asks for the lock before it does.
fn holder_asleep(wait: Event) -> Vec<Batch> {
    let mut holder = Batch::default();
    work(&mut holder, 0, 1);
    acquire(&mut holder, 0, LockClass::LightweightExclusive);
    holder.push_event(0, wait);
    work(&mut holder, 0, 10);
    release(&mut holder, 0);
    let mut waker = Batch::default();
    work(&mut waker, 1, 500);
    acquire(&mut waker, 1, LockClass::LightweightExclusive);
    work(&mut waker, 1, 10);
    waker.push_event(1, Event::Wake { wake: 1 });
    release(&mut waker, 1);
    // Somebody runs for long: the machine as a whole is never stuck.
    let mut third = Batch::default();
    work(&mut third, 2, 50_000);
    vec![holder, waker, third]
}

#[test]
fn a_holder_whose_waker_wants_its_lock_does_not_stall_both() {
    let streams = holder_asleep(Event::Block { wake: Some(1) });
    let result = simulate(streams, 1, &["processors=3"]);
    assert_eq!(locks(&result).counts.forced_handovers, 1);
    let waits = locks(&result).counts.classes[LockClass::LightweightExclusive as usize].wait_cycles;
    assert_eq!(waits, 0, "the lock is handed over where it is asked for");
}

#[test]
fn a_recorded_wait_for_a_lock_is_not_repeated_where_that_lock_is_taken_again() {
    let wait = Event::LockWait { wake: 1, class: LockClass::LightweightExclusive };
    let taken_again = simulate(holder_asleep(wait), 1, &["processors=3"]);
    assert_eq!(locks(&taken_again).counts.forced_handovers, 0);
    // As recorded: task 0 sleeps until task 1 has done 510 of its fetches.
    let extra = ["processors=3", "locks.arbitrated=spinlocks"];
    let recorded = simulate(holder_asleep(wait), 1, &extra);
    let sleep = simulate(holder_asleep(Event::Block { wake: Some(1) }), 1, &extra);
    assert_eq!(cycles_of(&recorded), cycles_of(&sleep));
    let counts =
        |result: &Replication| locks(result).counts.classes[LockClass::LightweightExclusive as usize];
    assert_eq!((counts(&taken_again).acquisitions, counts(&recorded).acquisitions), (2, 0));
}

/// Task 0 holds the lock and waits for a disk request that task 1 submits, which task 2 wakes, which wants the
/// lock first. Task 3 runs for long.
fn holder_awaits_a_request() -> WithHandlers {
    let mut streams = holder_asleep(Event::Block { wake: Some(9) });
    let mut worker = Batch::default();
    worker.push_event(1, Event::Block { wake: Some(1) });
    let flush = Event::IoSubmit { request: 5, device: 0, sector: 0, bytes: 0, write: true };
    worker.push_event(1, flush);
    let waker = std::mem::replace(&mut streams[1], worker);
    let moved = |batch: &Batch, task: u32| {
        let mut batch = batch.clone();
        batch.records.iter_mut().for_each(|record| record.task = task);
        batch
    };
    streams.insert(2, moved(&waker, 2));
    streams[3] = moved(&streams[3], 3);
    let mut infos = vec![task(TaskKind::User); streams.len()];
    infos.push(task(TaskKind::Interrupt));
    let mut handler = Interrupt { requests: vec![5], ..Interrupt::default() };
    handler.batch.push_event(streams.len() as u32, Event::Wake { wake: 9 });
    streams.push(Batch::default());
    WithHandlers { inner: InMemory::from_streams(infos, Vec::new(), streams), handlers: vec![handler] }
}

#[test]
fn a_holder_that_awaits_a_request_which_its_lock_keeps_from_the_disk_stalls_nobody() {
    let result = simulate_source(&holder_awaits_a_request(), 1, &["processors=4"]);
    assert_eq!(locks(&result).counts.forced_handovers, 1);
    let waits = locks(&result).counts.classes[LockClass::LightweightExclusive as usize].wait_cycles;
    assert_eq!(waits, 0, "the lock is handed over where it is asked for");
}

/// Tasks that begin at these times, take the lock of the log, flush the disk and give the lock up.
fn commits(class: LockClass, begins: &[u64]) -> WithHandlers {
    let tasks = begins.len() as u32;
    let mut streams: Vec<Batch> = Vec::new();
    let mut handlers = Vec::new();
    for (number, &nanos) in (0..tasks).zip(begins) {
        let request = u64::from(number);
        let mut batch = Batch::default();
        batch.push_event(number, Event::Sleep { nanos });
        acquire(&mut batch, number, class);
        let flush = Event::IoSubmit { request, device: 0, sector: 0, bytes: 0, write: true };
        batch.push_event(number, flush);
        batch.push_event(number, Event::Block { wake: Some(request) });
        release(&mut batch, number);
        streams.push(batch);
        let mut handler = Interrupt { requests: vec![request], ..Interrupt::default() };
        handler.batch.push_event(tasks, Event::Wake { wake: request });
        handlers.push(handler);
    }
    let mut infos = vec![task(TaskKind::User); begins.len()];
    infos.push(task(TaskKind::Interrupt));
    streams.push(Batch::default());
    WithHandlers { inner: InMemory::from_streams(infos, Vec::new(), streams), handlers }
}

#[test]
fn commits_that_wait_for_a_flush_share_the_next_one() {
    let begins = [1_000, 2_000, 3_000, 7_000];
    let run = |class, extra: &[&str]| {
        let settings = [&["processors=2", "disk.write_time=5 us", "disk.parallel=1"], extra].concat();
        simulate_source(&commits(class, &begins), 1, &settings)
    };
    let group = run(LockClass::LightweightOrWait, &["disk.flushes=shared"]);
    // The first flush lasts from 1,000 to 6,000; the next one, for two, to 11,000; the last to 16,000.
    assert_eq!(cycles_of(&group), 16_000);
    let counts = locks(&group).counts;
    let class = counts.classes[LockClass::LightweightOrWait as usize];
    assert_eq!((class.acquisitions, class.contended), (4, 3));
    assert_eq!(class.wait_cycles, (6_000 - 2_000) + (6_000 - 3_000) + (11_000 - 7_000));
    assert_eq!((counts.unmatched_releases, counts.forced_handovers, counts.cut_holds), (0, 0, 0));
    // One after the other: because the lock lets one in, or because the disk serves one.
    assert_eq!(cycles_of(&run(LockClass::LightweightExclusive, &["disk.flushes=shared"])), 21_000);
    assert_eq!(cycles_of(&run(LockClass::LightweightOrWait, &[])), 21_000);
}

/// Appends so many records of 250 such fetches.
fn long_work(batch: &mut Batch, task: u32, count: u32) {
    work(batch, task, count);
    let first = batch.records.len() - count as usize;
    batch.records[first..].iter_mut().for_each(|record| record.cpu = 250);
}

#[test]
fn skipped_turns_of_a_spinner_change_neither_when_it_goes_on_nor_how_long_it_spun() {
    let contended = |task: u32| {
        let mut random = RandomStream::new(u64::from(task), "locks");
        let mut batch = Batch::default();
        for _ in 0..200 {
            work(&mut batch, task, 1 + random.below(300) as u32);
            acquire(&mut batch, task, LockClass::KernelSpin);
            work(&mut batch, task, 1 + random.below(300) as u32);
            release(&mut batch, task);
        }
        batch
    };
    // Held for longer than any true hold: the waiter takes it by force, since its release is not in the trace.
    let endless = |task: u32| {
        let mut batch = Batch::default();
        acquire(&mut batch, task, LockClass::KernelSpin);
        long_work(&mut batch, task, 45_000);
        batch
    };
    let machine = Machine::from_toml(
        "",
        "test",
        &["processors=4", "perturbation.memory_delay=0 cycles"].map(String::from),
    );
    let machine = machine.unwrap();
    let model = Model::new(&machine, &setup(&machine), None, 0);
    for (streams, holds_by_force) in
        [((0..4).map(contended).collect(), 0), ((0..2).map(endless).collect(), 2)]
    {
        let source = source(streams);
        let of = |model: &Model| run(&source, model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
        let (each, skipped) = (of(&model), of(&model.coarse(2, 2.0)));
        let spun = |result: &Replication| -> u64 {
            result.timing.as_ref().unwrap().processors.iter().map(|p| p.lock_spin).sum()
        };
        let near = |a: u64, b: u64| a.abs_diff(b) * 200 <= a;
        assert!(spun(&each) > 10_000, "{}", spun(&each));
        assert!(near(spun(&each), spun(&skipped)), "{} {}", spun(&each), spun(&skipped));
        assert!(near(cycles_of(&each), cycles_of(&skipped)), "{} {}", cycles_of(&each), cycles_of(&skipped));
        let loads = |result: &Replication| {
            locks(result).counts.classes[LockClass::KernelSpin as usize].spin_references
        };
        assert!(loads(&skipped) * 5 < loads(&each), "{} {}", loads(&skipped), loads(&each));
        let forced = [&each, &skipped].map(|result| locks(result).counts.forced_releases);
        assert_eq!(forced, [holds_by_force; 2]);
    }
}

#[test]
fn a_handler_whose_request_never_comes_runs_when_the_last_processor_has_come_to_rest() {
    let run = |rest: u32| {
        let (mut sleeper, mut busy) = (Batch::default(), Batch::default());
        work(&mut sleeper, 0, 1);
        sleeper.push_event(0, Event::Block { wake: Some(9) });
        work(&mut sleeper, 0, rest);
        work(&mut busy, 1, 1000);
        let mut handler = Interrupt { requests: vec![5], ..Interrupt::default() };
        handler.batch.push_event(2, Event::Wake { wake: 9 });
        let infos = [TaskKind::User, TaskKind::User, TaskKind::Interrupt].map(task).into();
        let inner = InMemory::from_streams(infos, Vec::new(), vec![sleeper, busy, Batch::default()]);
        cycles_of(&simulate_source(&WithHandlers { inner, handlers: vec![handler] }, 1, &["processors=2"]))
    };
    // The one that is busy works 2000 cycles in one turn; what the other then does comes behind all of it.
    let (none, some) = (run(1), run(101));
    assert!(none >= 2000, "{none}");
    assert_eq!(some, none + 200);
}

#[test]
fn a_lock_is_given_up_for_the_waker_when_its_holder_sleeps_however_long_its_turn_was() {
    // The holder takes the lock at 0, works for 1000 fetches after a miss of 80, all of them in one turn, and sleeps until the
    // one wakes it that waits for the lock since 1000.
    let (mut holder, mut waker) = (Batch::default(), Batch::default());
    acquire(&mut holder, 0, LockClass::KernelSleep);
    work(&mut holder, 0, 1000);
    holder.push_event(0, Event::Block { wake: Some(9) });
    work(&mut holder, 0, 10);
    waker.push_event(1, Event::Sleep { nanos: 1000 });
    acquire(&mut waker, 1, LockClass::KernelSleep);
    waker.push_event(1, Event::Wake { wake: 9 });
    let result = simulate(vec![holder, waker], 1, &["processors=2"]);
    let waited = locks(&result).counts.classes[LockClass::KernelSleep as usize].wait_cycles;
    assert_eq!(waited, (80 + 2000) - 1000);
}
