//! The functional engine agrees to the unit with the oracle on random small traces. A disagreement
//! is shrunk and printed as a plain-text trace. `SERVSIM_DIFFERENTIAL_CASES` sets the number of
//! traces per protocol; the default keeps the test short.

use servsim_core::{Op, Privacy, RandomStream, Record, TaskInfo, TaskKind};
use servsim_import::ListSource;
use servsim_machine::{functional, Setup};
use servsim_mem::protocol::{by_name, Options};
use servsim_mem::{CoherenceClass, Counters, Geometry, MissClass};
use servsim_oracle::{Counts, Oracle, Protocol, Shape};

#[derive(Debug, Clone)]
struct Case {
    processors: usize,
    shape: Shape,
    records: Vec<Record>,
}

/// Few lines, packed for false sharing and mapped to conflict; tiny caches; some accesses cross
/// lines; tasks migrate; P is stated at random.
fn random_case(seed: u64) -> Case {
    let mut r = RandomStream::new(seed, "case");
    let line = [32, 64, 128, 256, 1024][r.below(5) as usize];
    let ways = [1, 2, 4][r.below(3) as usize];
    let sets = [1, 2, 4][r.below(3) as usize];
    let processors = 2 + r.below(3) as usize;
    let lines = 2 + r.below(10);
    let length = 4 + r.below(160);
    let records = (0..length).map(|_| random_record(&mut r, processors, line, lines)).collect();
    Case { processors, shape: Shape { size: line * ways * sets, ways: ways as usize, line }, records }
}

fn random_record(r: &mut RandomStream, processors: usize, line: u64, lines: u64) -> Record {
    let op = [Op::Fetch, Op::Load, Op::Load, Op::Store, Op::Store][r.below(5) as usize];
    let word = r.below(4) * 4 + if r.below(8) == 0 { line - 8 } else { 0 };
    let size = [1, 4, 8, 16, 64][r.below(5) as usize];
    let address = 0x1000 + r.below(lines) * line + word;
    let mut record = Record::new(r.below(3) as u32, op, address, size);
    record.cpu = r.below(processors as u64) as u8;
    record.flags = [0, 1][r.below(2) as usize] | [2, 4][usize::from(r.below(4) != 0)];
    record
}

fn oracle_counts(case: &Case, protocol: Protocol) -> Counts {
    let mut oracle = Oracle::new(case.processors, case.shape, protocol);
    for record in &case.records {
        oracle.reference(usize::from(record.cpu), record, record.flags & 2 != 0);
    }
    oracle.finish()
}

fn engine_counts(case: &Case, protocol: &str) -> Counts {
    let tasks = (0..3).map(|task| TaskInfo {
        name: task.to_string(),
        pid: task,
        kind: TaskKind::User,
        client: false,
    });
    let items = case.records.iter().map(|r| (*r, None)).collect();
    let mut source = ListSource::new(tasks.collect(), Vec::new(), Privacy::default(), items);
    let setup = Setup {
        processors: case.processors,
        geometry: Geometry { size: case.shape.size, ways: case.shape.ways as u32, line: case.shape.line },
        protocol: by_name(protocol, &Options::default()).unwrap(),
        shadow: true,
    };
    let counted = functional::run(&mut source, &setup, &mut |_| true).unwrap();
    by_oracle_names(&counted.total())
}

fn by_oracle_names(c: &Counters) -> Counts {
    let mut counts = Counts::new();
    let mut put = |name: String, values: [u64; 2]| {
        if values != [0, 0] {
            counts.insert(name, values);
        }
    };
    let pick = |table: &dyn Fn(usize) -> u64| [table(0), table(1)];
    for (i, name) in ["fetch", "load", "store"].iter().enumerate() {
        put(format!("references.{name}"), pick(&|m| c.references[m][i]));
    }
    for (i, name) in MissClass::NAMES.iter().enumerate() {
        put(format!("misses.{name}"), pick(&|m| c.misses[m][i]));
    }
    for (i, name) in CoherenceClass::NAMES.iter().enumerate() {
        put(format!("coherence.{name}"), pick(&|m| c.coherence[m][i]));
    }
    for (i, name) in ["read", "read_exclusive", "invalidate", "write", "update"].iter().enumerate() {
        put(format!("bus.{name}"), pick(&|m| c.bus[m][i]));
    }
    put("bus.cache_to_cache".into(), pick(&|m| c.cache_to_cache[m][0]));
    put("misses.true_by_self".into(), pick(&|m| c.true_by_self[m][0]));
    put("removed.copies".into(), pick(&|m| c.removed[m][0]));
    put("removed.misses".into(), pick(&|m| c.removed[m][1]));
    counts
}

fn disagrees(case: &Case, name: &str, protocol: Protocol) -> bool {
    oracle_counts(case, protocol) != engine_counts(case, name)
}

/// Removes references one at a time as long as the disagreement stays.
fn shrink(mut case: Case, name: &str, protocol: Protocol) -> Case {
    let mut index = 0;
    while index < case.records.len() {
        let mut smaller = case.clone();
        smaller.records.remove(index);
        if disagrees(&smaller, name, protocol) {
            case = smaller;
            index = 0;
        } else {
            index += 1;
        }
    }
    case
}

fn plain_text(case: &Case) -> String {
    let line = |r: &Record| {
        let op = ["I", "L", "S"][r.op as usize];
        let p = if r.flags & 2 != 0 { "p" } else { "s" };
        let mode = if r.is_kernel() { "k" } else { "u" };
        format!("{} {op} {:x} {} {p} {mode} # processor {}\n", r.task, r.address, r.size, r.cpu)
    };
    case.records.iter().map(line).collect()
}

#[test]
fn the_functional_engine_agrees_with_the_oracle_to_the_unit() {
    let cases =
        std::env::var("SERVSIM_DIFFERENTIAL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    for (name, protocol) in Protocol::ALL {
        for seed in 0..cases {
            let case = random_case(seed);
            if disagrees(&case, name, protocol) {
                let case = shrink(case, name, protocol);
                panic!(
                    "{name}, seed {seed}, {} processors, {:?}:\n{}oracle {:#?}\nengine {:#?}",
                    case.processors,
                    case.shape,
                    plain_text(&case),
                    oracle_counts(&case, protocol),
                    engine_counts(&case, name)
                );
            }
        }
    }
}
