//! Misses of a task that comes back to a processor where nobody was meanwhile are context-switch misses,
//! in both engines; the expected number is told from where the task ran and what it used there.

use crate::support::one_run::one_run;
use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::{Batch, Event, Op, Record, TaskInfo, TaskKind};
use servsim_import::InMemory;
use servsim_machine::timing::{run, Model};
use servsim_mem::SwitchCause;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// 128 bytes a line and 2 MiB of cache: no line makes room for another.
const LINE: u64 = 128;

/// Of visits to processors, each with its lines: the misses on lines used before the visit, by a task that
/// has come from elsewhere. Caches never lose a line, so a processor misses what it has not used.
fn expected(visits: &[(u64, Vec<u64>)]) -> u64 {
    let (mut used, mut here, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (processor, lines) in visits {
        let before = used.clone();
        for &line in lines {
            count += u64::from(here.insert((*processor, line)) && before.contains(&line));
            used.insert(line);
        }
    }
    count
}

#[test]
fn a_task_that_returns_to_a_processor_nobody_used_counts_its_misses() {
    let visits = [(0, vec![0]), (1, vec![1]), (0, vec![1])];
    let mut trace = String::new();
    for (processor, lines) in &visits {
        lines.iter().for_each(|line| writeln!(trace, "0 L {:x} 4 @{processor}", line * LINE).unwrap());
    }
    assert_eq!(expected(&visits), 1);
    assert_eq!(one_run(&trace, 2, "", true)["context_switch_misses"]["migrated"]["user"], 1);
}

/// One task that sleeps between its visits goes where it is put; the schedule of the result says where.
#[test]
fn a_task_alone_in_a_timed_machine_counts_the_misses_of_its_returns() {
    const VISITS: u64 = 60;
    let lines = |visit: u64| (0..4).map(move |k| visit * 2 + k);
    let mut batch = Batch::default();
    for visit in 0..VISITS {
        let load = |line| Record { cpu: 1, ..Record::new(0, Op::Load, line * LINE, 4) };
        batch.records.extend(lines(visit).map(load));
        batch.push_event(0, Event::Sleep { nanos: 10_000 });
    }
    let task = TaskInfo { name: "alone".into(), pid: 0, kind: TaskKind::User, client: false };
    let source = InMemory::from_streams(vec![task], Vec::new(), vec![batch]);
    let overrides = ["processors=3", "scheduler.policy=random"].map(str::to_owned);
    let machine = Machine::from_toml("", "test", &overrides).unwrap();
    let model = Model::new(&machine, &setup(&machine), None, 0);
    let result = run(&source, &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();

    let schedule = &result.timing.as_ref().unwrap().detail.as_ref().unwrap().activity_log.schedule;
    let visits: Vec<(u64, Vec<u64>)> = schedule
        .iter()
        .zip(0..)
        .map(|(span, visit)| (span.processor.0 as u64, lines(visit).collect()))
        .collect();
    assert_eq!(visits.len() as u64, VISITS);
    let returns = visits.windows(3).filter(|w| w[0].0 == w[2].0 && w[0].0 != w[1].0).count();
    assert!(returns > 3, "{returns} returns");
    let counted = result.counters.context_switch[0][SwitchCause::Migrated as usize];
    assert_eq!(counted, expected(&visits));
}
