//! Placement files on machines with nodes: which memory serves which page, and where tasks run.

use crate::support::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::{simulate, NodeOptions, RunSpec, SimulateError, TextFile, Transactions};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const MACHINE: &str =
    "processors = 4\n[perturbation]\nmemory_delay = \"0 cycles\"\n[cache]\nsize = \"4 KiB\"\n\
     associativity = 2\nline = \"64 B\"\n[interconnect]\nkind = \"network\"\n[node]\ncount = 4\n";

/// Four tasks that read 16 pages each, page 0x100 * task on, one after the other.
fn pages() -> String {
    let mut text = String::new();
    for step in 0..16 * 64 {
        for task in 0..4_u64 {
            let _ = writeln!(text, "{task} L {:x} 4 p", 0x10_0000 * (task + 1) + step * 64);
        }
    }
    text
}

fn spec(trace: &Path, machine: &str, placement: &str) -> RunSpec {
    let file = TextFile { name: "p.toml".into(), text: placement.into() };
    let nodes = NodeOptions { placement: Some(file), ..NodeOptions::default() };
    RunSpec { functional: false, nodes, ..whole_trace(trace, machine) }
}

fn run_text(machine: &str, placement: &str) -> Result<Value, SimulateError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.txt");
    std::fs::write(&path, pages()).unwrap();
    simulate(&spec(&path, machine, placement), &mut |_| true)
}

/// Lines read from the memory of each of four nodes.
fn reads(document: &Value) -> [u64; 4] {
    let mut reads = [0; 4];
    for pair in document["replications"][0]["nodes"]["pairs"].as_array().unwrap() {
        reads[pair["to"].as_u64().unwrap() as usize - 1] += pair["memory_reads"].as_u64().unwrap();
    }
    reads
}

fn refusal(machine: &str, placement: &str) -> String {
    match run_text(machine, placement) {
        Err(SimulateError::Usage(text)) => text,
        other => panic!("{placement}: {other:?}"),
    }
}

/// The shipped trace, told that all user data of its database server is `stock` but for a range that is `item`, and
/// all the kernel's static data one symbol.
fn named_trace(folder: &Path) -> PathBuf {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/servsim/data/quickstart.svt");
    let path = folder.join("named.svt");
    std::fs::copy(shipped, &path).unwrap();
    servsim_trace::annotate(&path, |meta| {
        meta.shared_data = "program postgres\n1000 100000000 item\n200000000 7fff00000000 stock\n".into();
        meta.kernel_symbols = "ffffffff80000000 D low\nfffffffffff00000 D high\n".into();
    })
    .unwrap();
    path
}

#[test]
fn pages_lie_where_the_narrowest_rule_says() {
    // Pages of a task: 16 of 64 lines. The first eight of task 0 lie in node 4; those of task 1 in stripes of two
    // over nodes 3 and 1; all others in node 2.
    let file = "node = 2\n[[page]]\naddresses = \"0x100000..0x108000\"\nnode = 4\n\
                [[page]]\naddresses = \"0x200000..0x210000\"\nnodes = \"3 1\"\npolicy = \"striped\"\nstride = 2\n";
    let document = run_text(MACHINE, file).unwrap();
    assert_eq!(reads(&document), [8 * 64, (8 + 32) * 64, 8 * 64, 8 * 64]);
    assert_eq!(document["options"]["placement"]["pages"], serde_json::json!([8, 16]));
    assert_eq!(document["options"]["placement"]["text"], file);
    let again = run_text(MACHINE, file).unwrap();
    assert_eq!(document.to_string(), again.to_string(), "the same seed gives the same bytes");
}

#[test]
fn a_range_that_ends_within_a_page_shares_it_by_bytes() {
    let file = "node = 1\n[[page]]\naddresses = \"0x100000..0x100400\"\nnode = 2\n\
                [[page]]\naddresses = \"0x100400..0x102000\"\nnode = 3\n";
    assert_eq!(reads(&run_text(MACHINE, file).unwrap()), [62 * 64, 0, 2 * 64, 0]);
}

#[test]
fn what_a_trace_or_machine_does_not_have_is_refused_by_name() {
    let overlap = "[[page]]\naddresses = \"0x100000..0x102000\"\nnode = 1\n[[page]]\naddresses = \"0x101000..0x103000\"\nnode = 2\n";
    assert_eq!(
        refusal(MACHINE, overlap),
        "p.toml, line 2 and p.toml, line 5: both rules are for the same data of page 0x101000; take them apart, or \
         leave one out"
    );
    for (file, part) in [
        ("[[page]]\naddresses = \"0x900000..0x901000\"\nnode = 1\n", "touches no page at these addresses"),
        ("[[page]]\nrelation = \"item\"\nnode = 1\n", "only captured traces tell"),
        ("[[thread]]\ntask = \"postgres\"\nnode = 1\n", "the trace has no task `postgres`"),
        ("[[page]]\naddresses = \"0..1\"\nnode = 5\n", "node: there is no 5; this machine has 1 to 4"),
    ] {
        assert!(refusal(MACHINE, file).contains(part), "{}", refusal(MACHINE, file));
    }
    assert!(refusal("processors = 4\n", "node = 1\n").contains("describe some with node.count"));
    let pool = MACHINE.replace("count = 4\n", "count = 4\nprocessors = \"2, 2, 0, 0\"\n");
    let bound = refusal(&pool, "[[thread]]\ntask = 1\nnode = 3\n");
    assert!(bound.contains("node 3 has no processors"), "{bound}");
}

/// Lines that processors of each node fetched.
fn asked(document: &Value) -> [u64; 4] {
    let mut asked = [0; 4];
    for pair in document["replications"][0]["nodes"]["pairs"].as_array().unwrap() {
        let fetched = pair["memory_reads"].as_u64().unwrap() + pair["cache_reads"].as_u64().unwrap();
        asked[pair["from"].as_u64().unwrap() as usize - 1] += fetched;
    }
    asked
}

#[test]
fn tasks_run_where_they_are_dealt_or_bound() {
    let two = MACHINE.replace("count = 4\n", "count = 4\nprocessors = \"2, 2, 0, 0\"\n");
    let of_task = 16 * 64;
    // Under the policy `random` and short slices tasks wander, unless they are kept.
    let slices = format!("{two}[scheduler]\ntime_slice = \"100 references\"\n");
    assert_eq!(
        asked(&run_text(&slices, "[threads]\norder = \"fill\"\n").unwrap()),
        [2 * of_task, 2 * of_task, 0, 0]
    );
    let file = "[[thread]]\ntask = 0\nnode = 2\n[[thread]]\ntask = 1\nnode = 2\n[[thread]]\ntask = 2\nprocessor = 3\n\
                [threads]\norder = \"round-robin\"\n";
    let document = run_text(&slices, file).unwrap();
    assert_eq!(asked(&document), [of_task, 3 * of_task, 0, 0], "the fourth is dealt to node 1");
    let own = format!("{slices}[node]\n").replace("count = 4\n", "count = 4\nthreads = \"fill\"\n");
    let described = run_text(own.trim_end_matches("[node]\n"), "policy = \"first-touch\"\n").unwrap();
    assert_eq!(asked(&described), [2 * of_task, 2 * of_task, 0, 0]);
    let pairs = described["replications"][0]["nodes"]["pairs"].as_array().unwrap();
    let remote: u64 =
        pairs.iter().filter(|p| p["from"] != p["to"]).map(|p| p["memory_reads"].as_u64().unwrap()).sum();
    assert_eq!(remote, 0, "what keeps to its node touches its own pages first there");
}

#[test]
fn a_captured_trace_is_placed_by_relation_symbol_area_and_process() {
    let machine = MACHINE.replace("processors = 4\n", "processors = 4\nname = \"four\"\n");
    let folder = tempfile::tempdir().unwrap();
    let trace = named_trace(folder.path());
    let one = |spec: RunSpec| RunSpec { transactions: Transactions::Number(1), ..spec };
    let run = |file: &str| simulate(&one(spec(&trace, &machine, file)), &mut |_| true);
    let file =
        "node = 1\n[[page]]\nrelation = \"stock\"\nnode = 2\n[[page]]\narea = \"kernel heap and page cache\"\nnode = 3\n\
                [[page]]\narea = \"kernel per-CPU data\"\nnode = 4\n[[page]]\nsymbol = \"low\"\nnode = 2\n";
    let document = run(file).unwrap();
    let pages = document["options"]["placement"]["pages"].as_array().unwrap();
    assert!(pages.iter().all(|pages| pages.as_u64().unwrap() > 0), "{pages:?}");
    assert!(reads(&document).iter().all(|&lines| lines > 0));
    let near = run("[[page]]\nrelation = \"stok\"\nnode = 1\n").unwrap_err().to_string();
    assert!(near.contains("`stok` (did you mean `stock`?)"), "{near}");
    let both =
        run("[[page]]\narea = \"shared memory\"\nnode = 1\n[[page]]\nprocess = \"postgres\"\nnode = 2\n");
    assert!(both.unwrap_err().to_string().contains("both rules are for the same data"));
}
