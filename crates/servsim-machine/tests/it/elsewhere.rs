//! Clients on a machine of their own: hand-computed runs to the cycle, and what of them is counted here.

use crate::support::setup::setup;
use servsim_config::Machine;
use servsim_core::{Batch, Event, Op, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::result::Replication;
use servsim_machine::timing::{run, Model};
use servsim_machine::{simulate, RunSpec};
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::support::whole_trace::whole_trace;

/// One step of a stream.
enum Step {
    /// So many loads of the task's own line.
    Loads(u32),
    Does(Event),
}
use Step::{Does, Loads};

fn stream(task: u32, steps: &[Step]) -> Batch {
    let mut batch = Batch::default();
    for step in steps {
        match step {
            Loads(count) => {
                let mut record = Record::new(task, Op::Load, u64::from(task + 1) << 16, 4);
                record.cpu = 1;
                batch.records.extend((0..*count).map(|_| record));
            }
            Does(event) => batch.push_event(task, *event),
        }
    }
    batch
}

/// A server and its clients, on a machine of one processor at 1 GHz and one where a reference takes 5 cycles, with
/// wake-ups `latency` long; measured until the first transaction ends.
fn with_latency(latency: &str, server: &[Step], clients: &[&[Step]]) -> Replication {
    let place = ["clients.place=elsewhere", "clients.cycles_per_reference=5 cycles"];
    let latency = format!("clients.latency={latency}");
    let settings = ["perturbation.memory_delay=0 cycles", "processors=1", "clock=1 GHz", &latency];
    let overrides: Vec<String> = settings.iter().chain(&place).map(|&s| s.to_owned()).collect();
    let machine = Machine::from_toml("", "test", &overrides).unwrap();
    let task = |name: &str, client| TaskInfo { name: name.into(), pid: 0, kind: TaskKind::User, client };
    let mut tasks = vec![task("server", false)];
    let mut streams = vec![stream(0, server)];
    for (number, steps) in (1..).zip(clients) {
        tasks.push(task("client", true));
        streams.push(stream(number, steps));
    }
    let source = InMemory::from_streams(tasks, vec!["tx".into()], streams);
    let model = Model::new(&machine, &setup(&machine), Some(1), 0);
    run(&source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap()
}

fn cycles(replication: &Replication) -> u64 {
    replication.timing.as_ref().unwrap().cycles
}

fn end() -> Step {
    Does(Event::TransactionEnd { kind: 0, user: 0 })
}

/// What three loads take here, the first of which misses.
fn work() -> u64 {
    cycles(&with_latency("0 us", &[Loads(3), end()], &[]))
}

#[test]
fn a_request_and_its_answer_cross_the_network_once_each() {
    let server = [Does(Event::Block { wake: Some(1) }), Loads(3), Does(Event::Wake { wake: 2 })];
    let client =
        [Loads(10), Does(Event::Wake { wake: 1 }), Does(Event::Block { wake: Some(2) }), Loads(4), end()];
    for (latency, cycles_once) in [("0 us", 0), ("1 us", 1000), ("50 us", 50_000)] {
        let found = with_latency(latency, &server, &[&client]);
        assert_eq!(cycles(&found), 10 * 5 + cycles_once + work() + cycles_once + 4 * 5, "{latency}");
    }
}

#[test]
fn who_comes_after_the_answer_goes_on_at_once_and_who_comes_before_it_arrives_waits() {
    let server = [Loads(3), Does(Event::Wake { wake: 2 })];
    let client = [Loads(2000), Does(Event::Block { wake: Some(2) }), end()];
    assert_eq!(cycles(&with_latency("1 us", &server, &[&client])), 2000 * 5, "it was there before");
    assert_eq!(cycles(&with_latency("20 us", &server, &[&client])), work() + 20_000, "it was on its way");
}

#[test]
fn clients_wake_one_another_without_the_network() {
    let first = [Loads(10), Does(Event::Wake { wake: 3 })];
    let second = [Does(Event::Block { wake: Some(3) }), Loads(2), end()];
    assert_eq!(cycles(&with_latency("50 us", &[Loads(3)], &[&first, &second])), 10 * 5 + 2 * 5);
}

#[test]
fn a_client_sleeps_by_the_clock() {
    let client = [Loads(1), Does(Event::Sleep { nanos: 700 }), Loads(2), end()];
    assert_eq!(cycles(&with_latency("50 us", &[Loads(3)], &[&client])), 5 + 700 + 2 * 5);
}

#[test]
fn nothing_of_a_client_is_counted_here() {
    let client = [Loads(100), Does(Event::Wake { wake: 1 }), Does(Event::Block { wake: Some(2) }), end()];
    let server = [Does(Event::Block { wake: Some(1) }), Loads(3), Does(Event::Wake { wake: 2 })];
    let found = with_latency("1 us", &server, &[&client]);
    let of = |references: &[[u64; 3]; 2]| references.iter().flatten().sum::<u64>();
    assert_eq!(of(&found.counters.references), 3);
    assert_eq!(found.counters.total_misses(), 1, "the client's line is not in these caches");
    let timing = found.timing.as_ref().unwrap();
    assert_eq!((timing.system.dispatches, timing.most_ready), (1, 1), "no processor here is for the client");
}

#[test]
fn an_engine_without_time_and_times_without_a_network_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, "0 L 0\n").unwrap();
    let machine = "[clients]\nplace = \"elsewhere\"\n".to_owned();
    let request = RunSpec { functional: true, ..whole_trace(path, machine) };
    let refused = simulate(&request, &mut |_| true).unwrap_err().to_string();
    assert!(refused.contains("leave out clients.place"), "{refused}");
    let text = "[clients]\nlatency = \"1 us\"\n";
    let refused = Machine::from_toml(text, "m.toml", &[]).unwrap_err().to_string();
    assert!(refused.contains("clients.latency") && refused.contains("elsewhere"), "{refused}");
}
