//! Mutants of every text this crate reads are refused with sentences, or are models that can be solved or refused.

use servsim_model::sim::Plan;
use servsim_model::text::{read_allocation, read_measurements, read_network, Problems};
use servsim_model::{solve, Load, Network, Options};
use servsim_oracle::mutation::Mutants;

/// Mutants of each text in `make test`.
const QUICK: usize = 300;
/// Customers of a network that a quick test solves.
const FEW: usize = 100;

/// Every key that a network can have.
const NETWORK: &str = r#"name = "all"
[[class]]
name = "users"
population = 9
think = "2 s"
priority = 1
[[class]]
name = "guests"
rate = "1 /s"
[[station]]
name = "cpu"
servers = 2
discipline = "ps"
demands = { users = "12 ms", guests = "1 ms" }
[[station]]
name = "disk"
kind = "rates"
rates = [1.0, 1.5]
visits = { users = 2, guests = 1 }
service = "3 ms"
[[station]]
name = "network"
kind = "delay"
demand = "1 ms"
[[what_if]]
name = "faster"
cost = 3
scale = { cpu = 0.5 }
servers = { cpu = 4 }
split = { cpu = 2 }
population = 1.5
"#;

/// Pools and forks, and the same in JSON.
const LAYERED: &str = r#"[[class]]
name = "users"
population = 9
[[station]]
name = "cpu"
demand = "12 ms"
[[station]]
name = "disk"
demand = "8 ms"
[[pool]]
name = "threads"
size = 3
stations = ["disk"]
[[pool]]
name = "lock"
size = 1
inside = "threads"
holds = { cpu = "1 ms" }
"#;
const FORKED: &str = r#"{"class": [{"name": "a", "population": 4, "think": 0.5}],
 "station": [{"name": "x", "demand": 0.1}, {"name": "y", "demand": 0.2}],
 "fork": [{"name": "both", "branches": ["x", "y"]}]}"#;

fn told(problems: &Problems) {
    assert!(!problems.0.is_empty());
    for problem in &problems.0 {
        let said = problem.to_string();
        assert!(!said.is_empty() && said.len() < 1000 && !said.contains('\n'), "{said}");
    }
}

fn small(network: &Network) -> bool {
    let customers = |load: &Load| match load {
        Load::Closed { population, .. } => *population,
        Load::Open { .. } => 0,
    };
    network.classes.iter().map(|class| customers(&class.load)).fold(0, usize::saturating_add) <= FEW
}

#[test]
fn the_texts_that_are_mutated_are_read_and_solved() {
    for (text, json) in [(NETWORK, false), (LAYERED, false), (FORKED, true)] {
        let model = read_network(text, json).unwrap_or_else(|problems| panic!("{:?}", problems.0));
        solve(&model.network, "auto", &Options::default()).unwrap_or_else(|error| panic!("{error}"));
    }
}

#[test]
fn a_mutant_of_a_network_is_refused_in_sentences_or_can_be_solved() {
    let mut mutants = Mutants::new(1);
    let (mut read, mut refused) = (0, 0);
    let quick = Options { simulation: Plan { requests: 200.0, ..Plan::default() }, ..Options::default() };
    for (text, json) in [(NETWORK, false), (LAYERED, false), (FORKED, true)] {
        let kind = if json { "network.json" } else { "network.toml" };
        for mutant in mutants.trials(env!("CARGO_MANIFEST_DIR"), kind, text.as_bytes(), QUICK) {
            match read_network(&String::from_utf8_lossy(&mutant), json) {
                Ok(model) => {
                    read += 1;
                    if small(&model.network) {
                        if let Err(error) = solve(&model.network, "auto", &quick) {
                            assert!(!error.to_string().contains('\n'), "{error}");
                        }
                    }
                }
                Err(problems) => {
                    told(&problems);
                    refused += 1;
                }
            }
        }
    }
    assert!(read > 20 && refused > 50, "both happen: {read} read, {refused} refused");
}

#[test]
fn a_mutant_of_an_allocation_or_of_measurements_is_read_or_refused_in_sentences() {
    let allocation = concat!(
        include_str!("../../../../examples/models/tpcc-tables.toml"),
        "[[station]]\nname = \"network\"\ndemand = \"1 ms\"\nservers = 8\n"
    );
    let measurements = include_str!("../../../../examples/models/measurements.toml");
    assert!(read_allocation(allocation, false).is_ok() && read_measurements(measurements, false).is_ok());
    let mut mutants = Mutants::new(2);
    for text in mutants.trials(env!("CARGO_MANIFEST_DIR"), "allocation.toml", allocation.as_bytes(), QUICK) {
        if let Err(problems) = read_allocation(&String::from_utf8_lossy(&text), false) {
            told(&problems);
        }
    }
    for text in
        mutants.trials(env!("CARGO_MANIFEST_DIR"), "measurements.toml", measurements.as_bytes(), QUICK)
    {
        if let Err(problems) = read_measurements(&String::from_utf8_lossy(&text), false) {
            told(&problems);
        }
    }
}
