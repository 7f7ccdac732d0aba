//! Every name that a setting offers has an implementation, and every implementation is offered.

use servsim_config::{Kind, Machine, SETTINGS};
use servsim_mem::interconnect::{migration_names, INTERCONNECTS, PAGE_POLICIES};
use servsim_mem::{prefetch, protocol, replacement};
use std::collections::BTreeSet;

fn choices(key: &str) -> BTreeSet<&'static str> {
    let setting = SETTINGS.iter().find(|setting| setting.key == key).unwrap_or_else(|| panic!("no {key}"));
    match setting.kind {
        Kind::Choice(words) => words.iter().copied().collect(),
        other => panic!("{key} is no choice: {other:?}"),
    }
}

fn names<T>(registry: &[(&'static str, T)]) -> BTreeSet<&'static str> {
    registry.iter().map(|(name, _)| *name).collect()
}

#[test]
fn what_settings_offer_is_what_the_registries_hold() {
    assert_eq!(choices("protocol.name"), names(protocol::PROTOCOLS));
    assert_eq!(choices("interconnect.kind"), names(INTERCONNECTS));
    assert_eq!(choices("node.placement"), names(PAGE_POLICIES));
    assert_eq!(choices("memory.mapping"), names(servsim_os::mapping::POLICIES));
    for level in ["cache", "l2", "l3"] {
        assert_eq!(choices(&format!("{level}.replacement")), names(replacement::POLICIES), "{level}");
    }
    let mut prefetchers = names(prefetch::POLICIES);
    prefetchers.insert("none");
    assert_eq!(choices("prefetch.policy"), prefetchers);
    assert_eq!(choices("node.migration"), migration_names().chain(["none"]).collect());
}

/// Where a choice is no registry but a case of the machine, no two words may mean the same.
#[test]
fn every_core_and_scheduler_offered_makes_a_machine_of_its_own() {
    let machine = |key: &str, word: &str| {
        Machine::from_toml("", "m.toml", &[format!("{key}={word}")])
            .unwrap_or_else(|faults| panic!("{faults}"))
    };
    let cores: Vec<_> = choices("processor.model")
        .into_iter()
        .map(|word| machine("processor.model", word).core.model)
        .collect();
    assert!(cores.iter().enumerate().all(|(index, core)| !cores[..index].contains(core)), "{cores:?}");
    let policies: Vec<_> = choices("scheduler.policy")
        .into_iter()
        .map(|word| machine("scheduler.policy", word).affinity)
        .collect();
    assert_eq!(policies.len(), 2);
    assert_ne!(policies[0], policies[1]);
}
