//! Lines that caches own after a functional warm-up: the homes of all machines with nodes know the owner, which
//! supplies them.

use crate::support::sharing::number;
use crate::support::whole_trace::whole_trace;
use serde_json::Value;
use servsim_machine::warm::Amount;
use servsim_machine::{simulate, RunSpec, Start};

/// Lines that task 1 writes and task 0 reads afterwards.
const LINES: u64 = 8;

/// Four processors in as many nodes; what was simulated after the first `warm` references.
fn run(protocol: &str, coherence: &str, warm: u64) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    let line = |task: u64, op: char| {
        (0..LINES).map(move |line| format!("{task} {op} {:x}\n", 0x10_0000 + 64 * line))
    };
    std::fs::write(&trace, line(1, 'S').chain(line(0, 'L')).collect::<String>()).unwrap();
    let machine = format!(
        "processors = 4\n[perturbation]\nmemory_delay = \"0 cycles\"\n[cache]\nsize = \"4 KiB\"\nline = \"64 B\"\n\
         [protocol]\nname = \"{protocol}\"\n[interconnect]\nkind = \"network\"\n[node]\ncount = 4\n\
         coherence = \"{coherence}\"\nplacement = \"striped\"\nthreads = \"pinned\"\n"
    );
    let start = Start::Functional { amount: Amount::References(warm), save: None };
    let spec = RunSpec { functional: false, start, ..whole_trace(trace, machine) };
    simulate(&spec, &mut |_| true).unwrap()["replications"][0].clone()
}

#[test]
fn who_owns_a_line_after_the_warm_up_supplies_it() {
    for (protocol, coherence) in
        [("mosi", "snooping"), ("mosi", "directory"), ("mosi", "bash"), ("mesi", "messages")]
    {
        let run = run(protocol, coherence, LINES);
        assert_eq!(number(&run["bus"], "cache_to_cache"), LINES, "{coherence}: {}", run["bus"]);
        let pairs = run["nodes"]["pairs"].as_array().expect("pairs");
        let supplied: u64 = pairs.iter().map(|pair| number(pair, "cache_reads")).sum();
        assert_eq!(supplied, LINES, "{coherence}: {pairs:?}");
    }
}
