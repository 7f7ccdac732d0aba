//! Every cycle of every processor is in exactly one category: over a whole run the categories sum to its
//! length to the cycle, whatever the processors are and whatever they wait for.

use crate::support::handlers::WithHandlers;
use crate::support::setup::setup;

use servsim_config::Machine;
use servsim_core::reference::{KERNEL, MISPREDICTED};
use servsim_core::{Batch, Event, Interrupt, LockClass, Op, RandomStream, Record};
use servsim_core::{TaskInfo, TaskKind, TaskSource};
use servsim_import::{Identity, InMemory};
use servsim_machine::result::ProcessorTimes;
use servsim_machine::storage::Plan;
use servsim_machine::timing::{run, Model};
use servsim_mem::{HierarchySpec, PrefetchSpec, TlbSpec};
use std::sync::atomic::{AtomicBool, AtomicU64};

const TASKS: u32 = 5;
const PROCESSORS: usize = 3;

/// Tasks that share lines, take locks of every kind, sleep, and wait for reads and for one another.
fn source() -> WithHandlers {
    let info = |kind| TaskInfo { name: "t".into(), pid: 0, kind, client: false };
    let mut infos = vec![info(TaskKind::User); TASKS as usize];
    let (mut streams, mut handlers) = (Vec::new(), Vec::new());
    for task in 0..TASKS {
        let mut random = RandomStream::new(u64::from(task), "accounting");
        let mut batch = Batch::default();
        for turn in 0..60_u64 {
            for _ in 0..40 {
                let mut record = Record::new(task, Op::Fetch, 0x1_0000 + random.below(1 << 13), 4);
                record.cpu = 1 + random.below(3) as u8;
                record.flags = [0, KERNEL, MISPREDICTED][random.below(3) as usize];
                batch.records.push(record);
                let op = if random.below(2) == 0 { Op::Load } else { Op::Store };
                let mut record = Record::new(task, op, 0x10_0000 + random.below(1 << 15), 8);
                record.cpu = 1;
                batch.records.push(record);
            }
            let class =
                [LockClass::KernelSpin, LockClass::UserSpin, LockClass::KernelSleep][turn as usize % 3];
            let word = 0x20_0000 + turn % 3 * 64;
            batch.push_event(task, Event::LockAcquire { class, word });
            for _ in 0..20 {
                let mut record = Record::new(task, Op::Fetch, 0x1_0000 + random.below(1 << 9), 4);
                record.cpu = 1;
                batch.records.push(record);
            }
            batch.push_event(task, Event::LockRelease { word });
            match random.below(8) {
                0 => batch.push_event(task, Event::Sleep { nanos: 1 + random.below(5000) }),
                1 => {
                    let request = u64::from(task) << 32 | turn;
                    let (wake, sector) = (request + 1_000_000, random.below(1 << 20));
                    let (device, bytes, write) = (0, 8192, random.below(2) == 0);
                    batch.push_event(task, Event::IoSubmit { request, device, sector, bytes, write });
                    batch.push_event(task, Event::Block { wake: Some(wake) });
                    let mut handler = Interrupt { requests: vec![request], ..Interrupt::default() };
                    let mut record = Record::new(TASKS, Op::Fetch, 0x3_0000, 4);
                    (record.cpu, record.flags) = (1, KERNEL);
                    handler.batch.records.extend([record; 30]);
                    handler.batch.push_event(TASKS, Event::Wake { wake });
                    handler.batch.pages = vec![0x30; handler.batch.records.len()];
                    handlers.push(handler);
                }
                _ => {}
            }
            batch.push_event(task, Event::TransactionEnd { kind: 0, user: 0 });
        }
        streams.push(batch);
    }
    infos.push(info(TaskKind::Interrupt));
    streams.push(Batch::default());
    WithHandlers { inner: InMemory::from_streams(infos, Vec::new(), streams), handlers }
}

/// The part of a run that is measured: so many transactions behind others; all of it without a number.
type Part = (Option<u64>, u64);

/// The length of the measured part of a run of `source`, and where the cycles of each processor went.
fn times(extra: &[&str], spec: HierarchySpec, (measured, warmup): Part) -> (u64, Vec<ProcessorTimes>) {
    let fixed = ["processors=3", "cache.size=8 KiB", "cache.line=64 B", "locks.arbitrated=all"];
    let more = ["scheduler.time_slice=300 references", "processor.branch_penalty=5 cycles"];
    let settings: Vec<String> = fixed.iter().chain(&more).chain(extra).map(|s| (*s).to_owned()).collect();
    let machine = Machine::from_toml("", "test", &settings).unwrap();
    let mut source: Box<dyn TaskSource> = Box::new(source());
    if spec.tlb.is_some() {
        source = Box::new(Identity(source));
    }
    let plan = Plan::of(&machine, source.as_ref()).unwrap();
    let model =
        Model::new(&machine, &setup(&machine), measured, warmup).with_hierarchy(spec).with_storage(plan);
    let result = run(source.as_ref(), &model, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
    let timing = result.timing.unwrap();
    (timing.cycles, timing.processors)
}

fn tlb() -> HierarchySpec {
    let tlb = TlbSpec { entries: 8, ways: 4, split: false, second: None, tagged: true, walk_entries: 2 };
    HierarchySpec { tlb: Some(tlb), ..HierarchySpec::default() }
}

fn prefetch() -> HierarchySpec {
    let prefetch = PrefetchSpec { policy: "next-line".into(), degree: 2, level: 1, entries: 16 };
    HierarchySpec { prefetch: Some(prefetch), ..HierarchySpec::default() }
}

#[test]
fn the_categories_of_every_processor_sum_to_the_length_of_the_run() {
    check((None, 0), true);
}

/// Whatever processors are in the middle of when the window begins and when it ends.
#[test]
fn the_categories_of_every_processor_sum_to_the_length_of_a_window_behind_a_warm_up() {
    check((Some(150), 60), false);
    for warmup in 0..40 {
        check((Some(1 + warmup % 7), 30 + warmup), false);
    }
}

/// Checks machines of all kinds; in a whole run everything that takes time does `occur`.
fn check(part_of_run: Part, occur: bool) {
    let parts: [(&str, &[&str], HierarchySpec); 5] = [
        ("plain", &[], HierarchySpec::default()),
        ("TLB", &["tlb.entries=8", "tlb.associativity=4", "tlb.plain_addresses=identity"], tlb()),
        ("prefetch", &["prefetch.policy=next-line"], prefetch()),
        (
            "disks",
            &["disk.count=2", "disk.read_time=20 us", "disk.write_time=9 us"],
            HierarchySpec::default(),
        ),
        ("network", &["write_buffer.entries=2", "interconnect.kind=network"], HierarchySpec::default()),
    ];
    for model in ["fixed", "inorder", "ooo"] {
        let model = format!("processor.model={model}");
        for (part, extra, spec) in &parts {
            let (cycles, processors) =
                times(&[extra, &[model.as_str()][..]].concat(), spec.clone(), part_of_run);
            assert_eq!(processors.len(), PROCESSORS);
            let mut sum = ProcessorTimes::default();
            for (cpu, t) in processors.iter().enumerate() {
                let stalls = t.memory_stall + t.bus_wait;
                let all = t.user + t.kernel + stalls + t.lock_spin + t.branch + t.idle;
                assert_eq!(all, cycles, "{model}, {part}, {part_of_run:?}, processor {cpu}: {t:?}");
                assert_eq!(
                    t.stalls.iter().sum::<u64>() + t.translation,
                    stalls,
                    "{model}, {part}, {cpu}: {t:?}"
                );
                assert!(t.dependence <= t.user + t.kernel, "{model}, {part}, {cpu}: {t:?}");
                sum.kernel += t.kernel;
                sum.lock_spin += t.lock_spin;
                sum.idle += t.idle;
                sum.bus_wait += t.bus_wait;
                sum.branch += t.branch;
                sum.translation += t.translation;
                sum.dependence += t.dependence;
            }
            // What is to be accounted for does occur.
            for (name, happens) in [
                ("kernel", sum.kernel > 0),
                ("spinning", sum.lock_spin > 0),
                ("idle", sum.idle > 0),
                ("waits for the bus", sum.bus_wait > 0),
                ("branches", (sum.branch > 0) == (model != "processor.model=fixed")),
                ("translation", (sum.translation > 0) == (*part == "TLB")),
            ] {
                assert!(happens || !occur, "{model}, {part}: {name} {sum:?}");
            }
        }
    }
}
