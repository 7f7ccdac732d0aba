//! Address translation and prefetchers: built from the values of a
//! description, and checked where more than one setting is involved.

use crate::components::{Prefetch, Tlb};
use crate::read::Given;
use crate::setting::Value;
use crate::values::{differs, value};
use servsim_units::Cycles;

fn number(given: &Given, key: &str) -> u64 {
    match value(given, key) {
        Value::Number(number) => number,
        Value::Text(text) => unreachable!("{key} is a number, not `{text}`"),
    }
}

fn text(given: &Given, key: &str) -> String {
    match value(given, key) {
        Value::Text(text) => text,
        Value::Number(number) => unreachable!("{key} is text, not {number}"),
    }
}

/// The translation look-aside buffers, if there are any.
pub(crate) fn tlb(given: &Given) -> Option<Tlb> {
    let count = |key| number(given, key) as usize;
    let is = |key, word: &str| text(given, key) == word;
    let second = (count("tlb.l2_entries"), count("tlb.l2_associativity"));
    (count("tlb.entries") > 0).then(|| Tlb {
        entries: count("tlb.entries"),
        associativity: count("tlb.associativity"),
        split: is("tlb.organisation", "split"),
        second: Some(second).filter(|(entries, _)| *entries > 0),
        second_latency: Cycles(number(given, "tlb.l2_latency")),
        tagged: is("tlb.on_switch", "keep"),
        walk_entries: count("tlb.walk_entries"),
        walk_step: Cycles(number(given, "tlb.walk_step")),
        identity: is("tlb.plain_addresses", "identity"),
    })
}

/// The prefetcher, if there is one.
pub(crate) fn prefetch(given: &Given) -> Option<Prefetch> {
    let policy = text(given, "prefetch.policy");
    (policy != "none").then(|| Prefetch {
        policy,
        degree: number(given, "prefetch.degree"),
        level: if text(given, "prefetch.level") == "l2" { 2 } else { 1 },
        entries: number(given, "prefetch.entries") as usize,
    })
}

/// Checks what the settings of a prefetcher demand of one another and of the levels.
pub(crate) fn check_prefetch(
    prefetch: Option<&Prefetch>,
    second_is_private: bool,
    given: &Given,
    fault: &mut dyn FnMut(&str, String),
) {
    let Some(prefetch) = prefetch else {
        // A policy of `none` that is written, or cannot be read, says enough.
        if given.contains_key("prefetch.policy") {
            return;
        }
        for key in given.keys().filter(|key| key.starts_with("prefetch.")) {
            fault(key, "nothing is prefetched; choose a prefetch.policy".into());
        }
        return;
    };
    if prefetch.level == 2 && !second_is_private {
        fault("prefetch.level", "there is no private second level; describe it in [l2], or use `l1`".into());
    }
    if prefetch.policy != "stride" && differs(given, "prefetch.entries") {
        fault("prefetch.entries", format!("`{}` has no table; leave it out", prefetch.policy));
    }
}

/// Checks the shapes of the buffers.
pub(crate) fn check_tlb(tlb: Option<&Tlb>, given: &Given, fault: &mut dyn FnMut(&str, String)) {
    let Some(tlb) = tlb else {
        if given.contains_key("tlb.entries") {
            return;
        }
        for key in given.keys().filter(|key| key.starts_with("tlb.")) {
            fault(key, "there is no TLB; give it entries with tlb.entries".into());
        }
        return;
    };
    let first = ("tlb.associativity", "tlb.entries", tlb.entries, tlb.associativity);
    let second = tlb.second.map(|(entries, ways)| ("tlb.l2_associativity", "tlb.l2_entries", entries, ways));
    for (of_ways, of_entries, entries, ways) in std::iter::once(first).chain(second) {
        if entries % ways != 0 || !(entries / ways).is_power_of_two() {
            // Where it is written, if only one of the two is.
            let key = if given.contains_key(of_ways) { of_ways } else { of_entries };
            fault(
                key,
                format!(
                    "{ways} ways do not divide {entries} entries into a power of two of sets; use \
                     {of_ways} = {entries} for one set"
                ),
            );
        }
    }
    if tlb.second.is_none() {
        for key in given.keys().filter(|key| key.starts_with("tlb.l2_") && differs(given, key)) {
            fault(key, "there is no second level; give it entries with tlb.l2_entries".into());
        }
    }
}
