//! What holds for every kernel: checks pass, and the result is the same for any number of threads,
//! whoever writes the initial values.

use servsim_kernels::kernel::{RunOptions, Spec};
use servsim_kernels::registry::{find, KERNELS};
use servsim_kernels::run::{prepare, Manner};
use servsim_kernels::team::Init;
use servsim_units::Bytes;

use serde_json::Value;

/// A size of each kernel that takes a fraction of a second.
const SMALL: &[(&str, &str)] = &[
    ("fft", "16"),
    ("ocean", "34"),
    ("water-nsquared", "125"),
    ("water-spatial", "512"),
    ("barnes", "700"),
    ("fmm", "900"),
    ("membench", "64 KiB"),
];

fn run(spec: &'static Spec, size: &str, threads: usize, init: Init, seed: u64) -> Value {
    let settings = spec.settings.iter().map(|setting| (setting.name, setting.default.to_owned())).collect();
    let request = RunOptions { threads, size: size.to_owned(), seed, settings };
    let manner = Manner { iterations: 2, init, polls: 100, memory: Bytes(1 << 30) };
    prepare(spec, request, manner).unwrap().run().unwrap()
}

#[test]
fn every_kernel_of_the_registry_is_tested() {
    let tested: Vec<&str> = SMALL.iter().map(|(name, _)| *name).collect();
    assert_eq!(tested, KERNELS.iter().map(|spec| spec.name).collect::<Vec<_>>());
}

#[test]
fn results_are_the_same_bits_for_any_number_of_threads_and_checks_pass() {
    for (name, size) in SMALL {
        let spec = find(name).unwrap();
        let alone = run(spec, size, 1, Init::Serial, 7);
        for (threads, init) in [(2, Init::Parallel), (3, Init::Serial), (5, Init::Parallel)] {
            let report = run(spec, size, threads, init, 7);
            assert_eq!(report["valid"], true, "{name} with {threads} threads: {:#}", report["checks"]);
            // Of membench every thread has regions of its own: more threads do more.
            if *name != "membench" {
                assert_eq!(report["digest"], alone["digest"], "{name} with {threads} threads");
                assert_eq!(report["result"], alone["result"], "{name} with {threads} threads");
            }
            let again = run(spec, size, threads, Init::Parallel, 7);
            assert_eq!(report["digest"], again["digest"], "{name} again");
        }
        assert_ne!(run(spec, size, 1, Init::Serial, 8)["digest"], alone["digest"], "{name}, another seed");
    }
}

#[test]
fn every_iteration_is_marked_and_every_structure_is_listed() {
    for (name, size) in SMALL {
        let report = run(find(name).unwrap(), size, 2, Init::Parallel, 1);
        let marks = &report["marks"];
        assert_eq!(
            (&marks["start"], &marks["transaction"], &marks["stop"]),
            (&1.into(), &2.into(), &1.into())
        );
        let structures = report["structures"].as_array().unwrap();
        assert!(structures.len() > 1);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for structure in structures {
            assert!(structure["name"].as_str().unwrap().starts_with(&format!("{name}.")), "{structure}");
            let address = |key: &str| {
                u64::from_str_radix(structure[key].as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
            };
            assert_eq!(address("end") - address("start"), structure["bytes"].as_u64().unwrap());
            ranges.push((address("start"), address("end")));
        }
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{name}: structures overlap");
    }
}

#[test]
fn both_ways_of_finding_pairs_of_water_give_the_same_bits() {
    // 64 molecules are one cell, 512 have two cells a side, 1728 three.
    for size in ["64", "512", "1728"] {
        let all = run(find("water-nsquared").unwrap(), size, 2, Init::Parallel, 3);
        let cells = run(find("water-spatial").unwrap(), size, 3, Init::Parallel, 3);
        assert_eq!(all["digest"], cells["digest"], "{size} molecules");
        assert_eq!(all["result"], cells["result"], "{size} molecules");
    }
}
