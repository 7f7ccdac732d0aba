//! Pages that move while a machine runs, from description to result.

use crate::support::one_run::one_run;
use serde_json::Value;
use std::fmt::Write as _;

const MACHINE: &str =
    "[cache]\nsize = \"4 KiB\"\nassociativity = 2\nline = \"64 B\"\n[interconnect]\nkind = \"network\"\n\
                       [node]\nthreads = \"pinned\"\n";

/// Four tasks. Each writes 4 pages of its own; then, again and again, those of the next task.
fn handed_over() -> String {
    let mut text = String::new();
    for round in 0..20_u64 {
        for step in 0..4 * 64_u64 {
            for task in 0..4_u64 {
                let owner = if round == 0 { task } else { (task + 1) % 4 };
                let op = if step % 3 == 0 { "S" } else { "L" };
                let _ = writeln!(text, "{task} {op} {:x} 4 s", 0x10_0000 * (owner + 1) + step * 64);
            }
        }
    }
    text
}

fn number(run: &Value, key: &str) -> u64 {
    run["nodes"]["migration"][key].as_u64().unwrap_or_else(|| panic!("{key} in {}", run["nodes"]))
}

/// Share of the lines fetched from memory that another node's had, in per cent.
fn remote(run: &Value) -> u64 {
    let pairs = run["nodes"]["pairs"].as_array().expect("pairs");
    let reads = |only_remote: bool| -> u64 {
        let wanted = pairs.iter().filter(|pair| !only_remote || pair["from"] != pair["to"]);
        wanted.map(|pair| pair["memory_reads"].as_u64().expect("a number")).sum()
    };
    100 * reads(true) / reads(false)
}

/// Every cycle of every processor is charged once.
fn charged_once(run: &Value) {
    let cycles = run["cycles"].as_u64().expect("cycles");
    for processor in run["processors"].as_array().expect("processors") {
        let parts = processor.as_object().expect("parts").values();
        assert_eq!(parts.map(|part| part.as_u64().expect("cycles")).sum::<u64>(), cycles, "{processor}");
    }
}

#[test]
fn next_touch_brings_pages_to_who_uses_them() {
    for coherence in ["snooping", "directory", "bash"] {
        let protocol = if coherence == "snooping" { "" } else { "\n[protocol]\nname = \"mosi\"" };
        let run = |more: &str| {
            let machine = format!("{MACHINE}count = 4\ncoherence = \"{coherence}\"\n{more}{protocol}");
            one_run(&handed_over(), 4, &machine, false)
        };
        let stays = run("");
        assert_eq!(stays["nodes"]["migration"], Value::Null);
        let moves = run(
            "migration = \"next-touch\"\nmigration_interval = \"100000 cycles\"\nshootdown = \"500 cycles\"",
        );
        assert!(remote(&stays) > 85 && remote(&moves) < 40, "{} and {}", remote(&stays), remote(&moves));
        // All pages go to the next node once.
        assert_eq!(number(&moves, "pages"), 16, "{coherence}");
        assert!(number(&moves, "cached_lines") > 64, "{coherence}");
        let (shootdowns, taken) = (number(&moves, "shootdowns"), number(&moves, "shootdown_cycles"));
        assert!(shootdowns <= 16 * 3 && taken == shootdowns * 500);
        let kernel = |run: &Value| -> u64 {
            run["processors"]
                .as_array()
                .expect("processors")
                .iter()
                .map(|p| p["busy_kernel"].as_u64().unwrap())
                .sum()
        };
        assert_eq!(kernel(&moves), kernel(&stays) + taken, "interrupts are the kernel's time");
        charged_once(&stays);
        charged_once(&moves);
        let bus = |run: &Value, key: &str| run["bus"][key].as_u64().expect("a count");
        let pairs = |run: &Value, key: &str| -> u64 {
            run["nodes"]["pairs"]
                .as_array()
                .expect("pairs")
                .iter()
                .map(|pair| pair[key].as_u64().unwrap())
                .sum()
        };
        let fetched = pairs(&moves, "memory_reads") + pairs(&moves, "cache_reads");
        assert_eq!(fetched, bus(&moves, "read") + bus(&moves, "read_exclusive"), "{coherence}");
    }
}

#[test]
fn text_that_all_read_is_copied_and_what_is_written_is_not() {
    // Each node reads the same pages again and again, too many for its cache; all write one word of another.
    let mut text = String::new();
    for _ in 0..12 {
        for step in 0..4 * 64_u64 {
            for task in 0..4_u64 {
                let _ = writeln!(text, "{task} L {:x} 4 s", 0x10_0000 + step * 64);
            }
        }
        for task in 0..4_u64 {
            let _ = writeln!(text, "{task} S {:x} 4 s", 0x20_0000 + task * 64);
        }
    }
    for (coherence, protocol) in [("snooping", "mesi"), ("directory", "mosi"), ("bash", "mosi")] {
        let run = |more: &str| {
            let machine = format!(
                "{MACHINE}count = 4\ncoherence = \"{coherence}\"\n{more}\n[protocol]\nname = \"{protocol}\""
            );
            one_run(&text, 4, &machine, false)
        };
        let alone = run("");
        let copied = run("migration = \"replicate\"\nhot_threshold = 8\nshootdown = \"500 cycles\"");
        assert!(remote(&alone) > 70 && remote(&copied) < 30, "{} and {}", remote(&alone), remote(&copied));
        assert_eq!((number(&copied, "copies"), number(&copied, "pages")), (4 * 3, 0), "{coherence}");
        assert_eq!(number(&copied, "copies_dropped"), 0, "{coherence}");
        // A copy concerns its own node alone, whose only processor asks.
        assert_eq!(number(&copied, "shootdowns"), 0, "{coherence}");
        charged_once(&copied);
    }
}

#[test]
fn a_node_that_is_drained_ends_without_pages() {
    let machine = |more: &str| format!("{MACHINE}count = 4\n{more}");
    let run = |more: &str| one_run(&handed_over(), 4, &machine(more), false);
    let drained =
        run("migration = \"drain\"\ndrained = 4\nmigration_interval = \"50000 cycles\"\nmigration_pages = 2");
    assert_eq!(number(&drained, "pages"), 4, "those of the fourth task");
    assert!(number(&drained, "cached_lines") > 0 && number(&drained, "shootdowns") > 4);
    charged_once(&drained);
    let stays = run("");
    let of_node = |run: &Value| -> u64 {
        let pairs = run["nodes"]["pairs"].as_array().expect("pairs");
        pairs
            .iter()
            .filter(|pair| pair["to"] == 4)
            .map(|pair| pair["memory_reads"].as_u64().expect("a count"))
            .sum()
    };
    assert!(of_node(&drained) * 2 < of_node(&stays), "{} and {}", of_node(&drained), of_node(&stays));
}

#[test]
fn hot_pages_are_promoted_and_cold_ones_make_room() {
    let machine = |more: &str| {
        format!("{MACHINE}count = 2\nprocessors = \"4, 0\"\nmemory = \"32 KiB, unlimited\"\nmemory_latency = \"0 cycles, 300 cycles\"\n{more}")
    };
    // All fill the fast memory with pages that nobody uses again; then they work on two pages each of the slow one.
    let mut text = String::new();
    for step in 0..20 * 128_u64 {
        for task in 0..4_u64 {
            let area = if step < 128 { 0x10_0000 } else { 0x20_0000 };
            let _ = writeln!(text, "{task} L {:x} 4 s", area + task * 0x2000 + step % 128 * 64);
        }
    }
    let run = |more: &str| one_run(&text, 4, &machine(more), false);
    let stays = run("");
    let tiered = "migration = \"tiering\"\nmigration_interval = \"100000 cycles\"\nsample_period = 4";
    let moves = run(tiered);
    assert!(remote(&stays) > 90 && remote(&moves) < 30, "{} and {}", remote(&stays), remote(&moves));
    assert_eq!((number(&moves, "promoted"), number(&moves, "demoted")), (8, 8));
    charged_once(&moves);
    // No more in an interval than is allowed: a promotion and its demotion.
    let slowly = run(&format!("{tiered}\nmigration_pages = 2"));
    assert!(
        remote(&slowly) > remote(&moves) + 5 && number(&slowly, "promoted") == number(&slowly, "demoted")
    );
    let never = run(&format!("{tiered}\nmigration_pages = 1"));
    assert_eq!(number(&never, "pages"), 0);
    assert_eq!(never["cycles"], stays["cycles"], "who samples and moves nothing costs nothing");
}
