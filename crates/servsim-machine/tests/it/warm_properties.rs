//! Warm starts of machines drawn at random: a checkpoint starts the run that warmed by itself, is written the same
//! each time, and whatever it claims, with its checksum in order, is refused in a sentence or simulated.

use crate::support::whole_trace::whole_trace;

use servsim_core::RandomStream;
use servsim_machine::warm::{checkpoint, Amount};
use servsim_machine::{simulate, RunSpec, SimulateError, Start, Transactions};
use servsim_oracle::mutation::{number, Mutants};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};

/// Machines that are tried in `make test`.
const MACHINES: usize = 24;
/// Mutants of each of three checkpoints.
const MUTANTS: usize = 150;

/// Settings that shape what is warm, each with values to draw from; the first is drawn half of the time.
const SHAPES: [(&str, &[&str]); 17] = [
    ("processors", &["2", "1", "3", "4"]),
    ("cache.size", &["1 KiB", "512 B", "4 KiB"]),
    ("cache.associativity", &["2", "1", "4"]),
    ("cache.organisation", &["unified", "split"]),
    ("cache.replacement", &["lru", "fifo", "tree-plru", "random", "srrip"]),
    ("cache.write_miss", &["allocate", "around"]),
    ("l2.size", &["none", "32 KiB", "64 KiB"]),
    ("l2.associativity", &["8", "2"]),
    ("l2.replacement", &["lru", "srrip", "tree-plru", "random"]),
    ("l2.sharing", &["private", "shared"]),
    ("l2.inclusion", &["inclusive", "neither", "exclusive"]),
    ("protocol.name", &["mesi", "moesi", "mesif", "mosi", "amsd", "pscr"]),
    ("l3.size", &["none", "256 KiB"]),
    ("protocol.supplier", &["dirty-only", "any-copy"]),
    ("scheduler.policy", &["random", "affinity"]),
    ("classification.replacement", &["merged", "exact"]),
    ("processor.model", &["fixed", "ooo"]),
];

/// A text trace of three tasks that share some of what they touch.
fn write_trace(folder: &Path) -> PathBuf {
    let mut random = RandomStream::new(7, "trace");
    let line = |number: u64| {
        let task = number / 40 % 3;
        let place =
            if random.below(4) == 0 { random.below(2048) } else { 4096 * (1 + task) + random.below(6144) };
        format!("{task} {} {:x}\n", ["L", "S", "I"][random.below(3) as usize], place & !3)
    };
    let lines: String = (0..3000).map(line).collect::<Vec<_>>().concat();
    let path = folder.join("t.txt");
    std::fs::write(&path, lines).unwrap();
    path
}

fn drawn(random: &mut RandomStream) -> Vec<String> {
    let mut one = |(key, values): &(&str, &[&str])| {
        let value = if random.below(2) == 0 { 0 } else { random.below(values.len() as u64) as usize };
        format!("{key}={}", values[value])
    };
    SHAPES.iter().map(&mut one).collect()
}

fn spec(trace: &Path, overrides: &[String], start: Start) -> RunSpec {
    RunSpec {
        trace_hash: "sha256:0".into(),
        findings: None,
        overrides: overrides.to_vec(),
        functional: false,
        transactions: Transactions::All,
        start,
        ..whole_trace(trace, "[cache]\nline = \"64 B\"\n")
    }
}

fn run(spec: &RunSpec) -> Result<serde_json::Value, String> {
    simulate(spec, &mut |_| true).map_err(|error| match error {
        SimulateError::Usage(sentence) => sentence,
        other => panic!("{other}"),
    })
}

#[test]
fn a_checkpoint_of_any_machine_starts_the_run_that_warmed_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path());
    let mut random = RandomStream::new(1, "machines");
    let mut simulated = 0;
    for _ in 0..number(MACHINES) {
        let (machine, amount) = (drawn(&mut random), Amount::References(1 + random.below(2500)));
        let files = ["first.check", "second.check"].map(|name| folder.path().join(name));
        let warming = |file: &PathBuf| {
            run(&spec(&trace, &machine, Start::Functional { amount, save: Some(file.clone()) }))
        };
        // Some combinations are no machine, and the description says so.
        let Ok(own) = warming(&files[0]) else { continue };
        simulated += 1;
        let from = run(&spec(&trace, &machine, Start::Checkpoint(files[0].clone()))).unwrap();
        assert!(from == own, "{machine:?} after {amount}");
        warming(&files[1]).unwrap();
        let [first, second] = files.map(|file| std::fs::read(file).unwrap());
        assert!(first == second, "{machine:?} after {amount} is written in two ways");
    }
    assert!(simulated * 2 > number(MACHINES), "{simulated} of the machines drawn could be simulated");
}

/// The header and the unpacked body of a checkpoint.
fn opened(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let length = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
    let (header, body) = bytes[28..bytes.len() - 4].split_at(length(12));
    (header.to_vec(), zstd::stream::decode_all(body).unwrap())
}

/// The file of such a header and body, its lengths and its checksum in order.
fn closed(header: &[u8], body: &[u8]) -> Vec<u8> {
    let body = zstd::bulk::compress(body, 1).unwrap();
    let mut bytes = checkpoint::MAGIC.to_vec();
    bytes.extend(checkpoint::VERSION.to_le_bytes());
    bytes.extend((header.len() as u64).to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.extend(body);
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

#[test]
fn a_checkpoint_that_claims_nonsense_is_refused_or_simulated() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write_trace(folder.path());
    let file = folder.path().join("warm.check");
    let rich = ["cache.size=1 KiB", "l2.size=8 KiB", "l2.replacement=srrip", "protocol.name=moesi"];
    let rich = [&rich[..], &["scheduler.policy=affinity"]].concat();
    let machines: [Vec<&str>; 3] =
        [vec!["cache.size=1 KiB"], rich, vec!["cache.size=1 KiB", "protocol.name=pscr"]];
    let mut faults = Vec::new();
    for (which, machine) in machines.iter().enumerate() {
        let machine: Vec<String> = machine.iter().map(|&text| text.to_owned()).collect();
        let warm = Start::Functional { amount: Amount::References(1500), save: Some(file.clone()) };
        run(&spec(&trace, &machine, warm)).unwrap();
        let (header, body) = opened(&std::fs::read(&file).unwrap());
        let from = spec(&trace, &machine, Start::Checkpoint(file.clone()));
        std::fs::write(&file, closed(&header, &body)).unwrap();
        run(&from).expect("opening and closing changes nothing");
        let mut mutants = Mutants::new(which as u64);
        for mutant in 0..number(MUTANTS) {
            let (mut header, mut body) = (header.clone(), body.clone());
            if mutant % 4 == 0 {
                header = mutants.of(&header);
            } else {
                let length = body.len();
                body = mutants.of(&body);
                // Most keep the length that the header states, or all would be refused for that.
                body.resize(length, 0);
            }
            std::fs::write(&file, closed(&header, &body)).unwrap();
            let mut looks = 0;
            let mut proceed = |_| {
                looks += 1;
                looks < 500
            };
            match catch_unwind(AssertUnwindSafe(|| simulate(&from, &mut proceed))) {
                Ok(Ok(_)) => {}
                Ok(Err(SimulateError::Usage(sentence))) if !sentence.contains('\n') => {}
                Ok(Err(SimulateError::Interrupted)) => faults.push(format!("{which}/{mutant}: does not end")),
                Ok(Err(error)) => faults.push(format!("{which}/{mutant}: {error}")),
                Err(_) => faults.push(format!("{which}/{mutant}: a panic")),
            }
        }
    }
    assert!(faults.is_empty(), "{} mutants:\n{}", faults.len(), faults.join("\n"));
}
