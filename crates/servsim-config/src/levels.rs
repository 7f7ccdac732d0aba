//! The levels of cache outside the first, from the inside out, and the checks of their sizes.

use crate::components::{Cache, OuterLevel, Sharing};
use crate::machine::Machine;
use crate::read::Given;
use crate::setting::Value;
use crate::values::value;
use servsim_units::{Bytes, Cycles};

/// Sections of the levels outside the first, from the inside out.
const LEVELS: [&str; 2] = ["l2", "l3"];

/// The levels that have a size.
pub fn levels(given: &Given) -> Vec<OuterLevel> {
    LEVELS.iter().filter_map(|name| level(given, name)).collect()
}

/// The level that section `name` describes, if it has a size.
fn level(given: &Given, name: &str) -> Option<OuterLevel> {
    let number = |key: &str| match value(given, &format!("{name}.{key}")) {
        Value::Number(number) => number,
        Value::Text(text) => unreachable!("{name}.{key} is a number, not `{text}`"),
    };
    let text = |key: &str| match value(given, &format!("{name}.{key}")) {
        Value::Text(text) => text,
        Value::Number(number) => unreachable!("{name}.{key} is text, not {number}"),
    };
    (number("size") > 0).then(|| OuterLevel {
        size: Bytes(number("size")),
        associativity: number("associativity") as u32,
        replacement: text("replacement"),
        sharing: match text("sharing").as_str() {
            "private" => Sharing::Processor,
            "group" => Sharing::Group,
            _ => Sharing::All,
        },
        inclusion: text("inclusion"),
        write_around: text("write_miss") == "around",
        latency: Cycles(number("latency")),
    })
}

/// Checks the levels outside the first, and what they demand of the rest.
pub fn check(machine: &Machine, given: &Given, fault: &mut dyn FnMut(&str, String)) {
    let halves = if machine.split { 2 } else { 1 };
    let mut inside = Bytes(machine.cache.size.0 * halves);
    let mut shared_inside = None;
    let present = LEVELS.iter().filter_map(|name| level(given, name).map(|level| (name, level)));
    for (name, level) in present {
        let (size, associativity) = (level.size, level.associativity);
        check_shape(Cache { size, associativity, ..machine.cache }, name, given, fault);
        if level.inclusion == "inclusive" && level.size < inside {
            fault(
                &format!("{name}.size"),
                format!("{} cannot include the levels inside it ({inside})", level.size),
            );
        }
        if let (Some(inner), false) = (shared_inside, level.is_shared()) {
            fault(
                &format!("{name}.sharing"),
                format!("a private level cannot lie outside {inner}, which is shared; use `shared`"),
            );
        }
        if level.write_around && !(level.is_shared() && level.inclusion == "neither") {
            fault(
                &format!("{name}.write_miss"),
                format!(
                    "`around` is for a shared level with {name}.inclusion = \"neither\": an inclusive one holds \
                     what is written from inside, an exclusive one is filled by it, and a private one keeps \
                     coherence or lies inside the level that does"
                ),
            );
        }
        shared_inside = shared_inside.or(level.is_shared().then_some(name));
        inside = level.size;
    }
    if level(given, "l2").is_none() && level(given, "l3").is_some() {
        fault("l3.size", "there is no second level inside it; set l2.size, or use l2 instead".into());
    }
    let is_told = |name: &&&str| given.contains_key(format!("{name}.size").as_str());
    for name in LEVELS.iter().filter(|name| level(given, name).is_none() && !is_told(name)) {
        let idle = |key: &&&str| key.strip_prefix(name).is_some_and(|k| k.starts_with('.') && k != ".size");
        if let Some(key) = given.keys().find(idle) {
            fault(key, format!("there is no such level; give it a size with {name}.size"));
        }
    }
    let takes_stores = |level: &OuterLevel| !level.is_shared() && level.inclusion != "exclusive";
    if machine.write_around && !machine.levels.first().is_some_and(takes_stores) {
        fault(
            "cache.write_miss",
            "`around` needs a private second level that takes the store, because coherence is kept by lines: \
             set l2.size, l2.sharing = \"private\" and l2.inclusion = \"inclusive\" or \"neither\""
                .into(),
        );
    }
    if machine.protocol.flush_private && (machine.split || !machine.levels.is_empty()) {
        fault(
            "protocol.private_on_switch",
            "`flush` is for machines with one unified level; use `keep`".into(),
        );
    }
}

/// The number of ways nearest to `ways` that divides so many lines into sets.
fn fitting_ways(lines: u64, ways: u64) -> u64 {
    let near = (0..ways).flat_map(|distance| [ways - distance, ways + distance]);
    near.into_iter().find(|&fits| lines.is_multiple_of(fits)).unwrap_or(1)
}

/// Checks that a cache is made of whole sets.
pub fn check_shape(shape: Cache, section: &str, given: &Given, fault: &mut dyn FnMut(&str, String)) {
    let Cache { size, associativity: ways, line } = shape;
    let set = line.0.saturating_mul(u64::from(ways));
    if set > size.0 {
        fault(
            &format!("{section}.size"),
            format!("{size} is smaller than one set of {ways} lines of {line} ({})", Bytes(set)),
        );
    } else if size.0 % line.0 != 0 {
        fault(&format!("{section}.size"), format!("{size} is not a whole number of lines of {line}"));
    } else if size.0 % set != 0 {
        let (of_ways, of_size) = (format!("{section}.associativity"), format!("{section}.size"));
        let fits = fitting_ways(size.0 / line.0, u64::from(ways));
        fault(
            // Where it is written, if only one of the two is.
            if given.contains_key(of_ways.as_str()) { &of_ways } else { &of_size },
            format!(
                "{ways} ways do not divide {size} into whole sets of lines of {line}; use {of_ways} = {fits}"
            ),
        );
    }
}
