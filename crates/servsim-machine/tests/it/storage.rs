//! Disks and I/O buses in the timing engine: waits of tasks to the cycle, results, drive models.

use crate::support::handlers::WithHandlers;
use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::{Batch, Event, Interrupt, Op, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::result::Replication;
use servsim_machine::storage::Plan;
use servsim_machine::timing::{run, Model};
use servsim_machine::SimulateError;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// One byte a cycle on the bus, commands of 1000 cycles.
const BUS: [&str; 3] = ["io.buses=1", "io.rate=1000000 kB/s", "io.overhead=1 us"];

fn machine(extra: &[&str]) -> Machine {
    let fixed = ["perturbation.memory_delay=0 cycles", "processors=1", "disk.read_time=1 ms"];
    let settings = fixed.iter().chain(extra).map(|s| (*s).to_owned()).collect::<Vec<_>>();
    Machine::from_toml("", "test", &settings).unwrap()
}

fn task(name: &str, kind: TaskKind) -> TaskInfo {
    TaskInfo { name: name.into(), pid: 0, kind, client: false }
}

fn fetch(task: u32, address: u64) -> Record {
    let mut record = Record::new(task, Op::Fetch, address, 4);
    record.cpu = 1;
    record
}

/// `sectors.len()` tasks that each read 8 KiB at a sector and go on when a handler wakes them.
fn readers(sectors: &[u64], write: bool) -> WithHandlers {
    let mut infos = Vec::new();
    let (mut streams, mut handlers) = (Vec::new(), Vec::new());
    let interrupts = sectors.len() as u32;
    for (number, &sector) in sectors.iter().enumerate() {
        let mut batch = Batch::default();
        let request = number as u64 + 1;
        let (device, wake) = (0, request);
        batch.push_event(number as u32, Event::IoSubmit { request, device, sector, bytes: 8192, write });
        batch.push_event(number as u32, Event::Block { wake: Some(wake) });
        batch.records.push(fetch(number as u32, 0));
        let mut handler = Interrupt { requests: vec![request], ..Interrupt::default() };
        handler.batch.records.push(fetch(interrupts, 4096));
        handler.batch.push_event(interrupts, Event::Wake { wake });
        infos.push(task("reader", TaskKind::User));
        streams.push(batch);
        handlers.push(handler);
    }
    infos.push(task("interrupts", TaskKind::Interrupt));
    streams.push(Batch::default());
    WithHandlers { inner: InMemory::from_streams(infos, Vec::new(), streams), handlers }
}

fn simulate(source: &WithHandlers, machine: &Machine, seed: u64) -> Result<Replication, SimulateError> {
    let plan = Plan::of(machine, source)?;
    let model = Model::new(machine, &setup(machine), None, 0).with_storage(plan);
    run(source, &model, seed, &AtomicBool::new(false), &AtomicU64::new(0))
}

fn cycles(replication: &Replication) -> u64 {
    replication.timing.as_ref().unwrap().cycles
}

#[test]
fn a_task_waits_for_command_mechanism_and_data_of_its_read() {
    let one = [&BUS[..], &["disk.count=1"]].concat();
    let result = simulate(&readers(&[0], false), &machine(&one), 1).unwrap();
    // A miss of the handler and one of the task take 80 + 2 cycles each.
    assert_eq!(cycles(&result), 1000 + 1_000_000 + 8192 + 82 + 82);
    let timing = result.timing.as_ref().unwrap();
    let storage = timing.storage.as_ref().unwrap();
    assert_eq!((storage.counts.disks[0].reads, timing.system.disk_reads), (1, 1));
    assert_eq!(storage.counts.disks[0].response, 1000 + 1_000_000 + 8192);
    assert_eq!(storage.counts.buses[0].busy, 1000 + 8192);
    assert_eq!(timing.detail.as_ref().unwrap().activity_log.disk.len(), 1);
    // The task was ready for 82 cycles and away for the rest.
    assert_eq!(timing.task_levels[1].cycles, 82);
    assert_eq!(timing.task_levels[1].departures, 2, "to wait, and at its end");
}

#[test]
fn who_waits_for_a_task_at_the_disk_is_behind_it_there() {
    // The first reads and then wakes the second, which has waited for nothing else.
    let end = Event::TransactionEnd { kind: 0, user: 0 };
    let mut source = readers(&[0], false);
    let (mut first, mut second) = (Batch::default(), Batch::default());
    first.push_event(0, Event::IoSubmit { request: 1, device: 0, sector: 0, bytes: 8192, write: false });
    first.push_event(0, Event::Block { wake: Some(1) });
    first.records.push(fetch(0, 0));
    first.push_event(0, Event::Wake { wake: 2 });
    first.push_event(0, end);
    second.push_event(1, Event::Block { wake: Some(2) });
    second.records.push(fetch(1, 0));
    second.push_event(1, end);
    let infos = vec![
        task("first", TaskKind::User),
        task("second", TaskKind::User),
        task("interrupts", TaskKind::Interrupt),
    ];
    for record in &mut source.handlers[0].batch.records {
        record.task = 2;
    }
    source.inner = InMemory::from_streams(infos, Vec::new(), vec![first, second, Batch::default()]);
    let one = [&BUS[..], &["disk.count=1"]].concat();
    let result = simulate(&source, &machine(&one), 1).unwrap();
    let whole = cycles(&result);
    // Command, mechanism, data, and the handler's miss; then the first task's miss; then the second runs.
    let (read, awake) = (1000 + 1_000_000 + 8192 + 82, 82);
    let last = whole - read - awake;
    assert!(last > 0);
    let (count, times) = result.timing.as_ref().unwrap().users;
    assert_eq!(count, 2);
    assert_eq!(times, [awake + last, read, awake, read, 0, last]);
}

#[test]
fn reads_of_two_disks_overlap_and_writes_that_hold_the_bus_do_not() {
    let two = [&BUS[..], &["disk.count=2", "placement.stripe=8 KiB"]].concat();
    // Striped by 16 sectors: one read on each disk. The second command waits 1000 cycles for the bus,
    // its data for what is left of the first transfer.
    let result = simulate(&readers(&[0, 16], false), &machine(&two), 1).unwrap();
    let storage = result.timing.as_ref().unwrap().storage.clone().unwrap();
    assert_eq!([storage.counts.disks[0].response, storage.counts.disks[1].response], [1_009_192, 1_017_384]);
    let same = simulate(&readers(&[0, 32], false), &machine(&two), 1).unwrap();
    let storage = same.timing.as_ref().unwrap().storage.clone().unwrap();
    assert_eq!((storage.counts.disks[0].reads, storage.counts.disks[1].reads), (2, 0));
    let held = [&two[..], &["disk.write_time=1 ms"]].concat();
    let result = simulate(&readers(&[0, 16], true), &machine(&held), 1).unwrap();
    let storage = result.timing.as_ref().unwrap().storage.clone().unwrap();
    let one = 1000 + 8192 + 1_000_000;
    assert_eq!([storage.counts.disks[0].response, storage.counts.disks[1].response], [one, 2 * one]);
}

#[test]
fn the_pool_of_disks_is_as_it_was_and_says_nothing_of_single_disks() {
    let source = readers(&[0, 16], false);
    let result = simulate(&source, &machine(&[]), 1).unwrap();
    // Both served at once; the second task's handler comes after the first task has run.
    let timing = result.timing.as_ref().unwrap();
    assert!(timing.storage.is_none() && timing.profiles.is_empty() && timing.task_levels.is_empty());
    assert_eq!(timing.system.disk_reads, 2);
}

#[test]
fn a_known_drive_repeats_by_seed_and_a_model_file_that_is_none_is_refused() {
    let known = ["disk.count=2", "disk.model=hp97560", "placement.stripe=8 KiB"];
    let sectors: Vec<u64> = (0..40).map(|i| i * 77_777 % 2_000_000).collect();
    let a = simulate(&readers(&sectors, false), &machine(&known), 3).unwrap();
    let b = simulate(&readers(&sectors, false), &machine(&known), 3).unwrap();
    assert_eq!(a, b);
    let disks = a.timing.as_ref().unwrap().storage.clone().unwrap().counts.disks;
    let (n, mechanism): (u64, u64) = disks.iter().fold((0, 0), |s, d| (s.0 + d.reads, s.1 + d.mechanism));
    let mean_ms = mechanism as f64 / n as f64 / 1e6;
    assert!(
        n >= 40 && (8.0..40.0).contains(&mean_ms),
        "{n} reads of {mean_ms} ms: overhead, seek, half a turn"
    );
    let error =
        simulate(&readers(&[0], false), &machine(&["disk.count=1", "disk.model=no.sdm"]), 1).unwrap_err();
    let SimulateError::Usage(message) = error else { panic!("{error:?}") };
    assert!(message.contains("disk.model: `no.sdm` is neither fixed"), "{message}");
    let placed = machine(&["disk.count=1", "placement.relations=1: stock", "placement.sectors=1: sda 0-7"]);
    let SimulateError::Usage(message) = simulate(&readers(&[0], false), &placed, 1).unwrap_err() else {
        panic!()
    };
    assert!(
        message.contains("does not tell where its relations lie") && message.contains("its disks"),
        "{message}"
    );
}
