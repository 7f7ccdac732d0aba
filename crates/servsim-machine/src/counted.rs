//! The counters of a run, as their declarations have them: which there are, and how results and windows show them.

use crate::result::{ProcessorTimes, Replication, SystemCounters};
use serde_json::{json, Map, Value};
use servsim_core::counters::{windowed, Counter, Layout};
use servsim_mem::{
    Counters, GroupCounters, LevelCounters, LinkCounters, MessageCounters, MigrationCounters, PairCounters,
    PrefetchCounters, RequestCounters, TlbCounters, WriteBufferCounters,
};

/// The declarations whose counters a replication has once, and those of which it has a list under this path.
pub const SETS: [(&str, &[Counter]); 13] = [
    ("", Counters::REGISTRY),
    ("", TlbCounters::REGISTRY),
    ("", PrefetchCounters::REGISTRY),
    ("", WriteBufferCounters::REGISTRY),
    ("", SystemCounters::REGISTRY),
    ("", GroupCounters::REGISTRY),
    ("", LinkCounters::REGISTRY),
    ("", RequestCounters::REGISTRY),
    ("", MessageCounters::REGISTRY),
    ("", MigrationCounters::REGISTRY),
    ("nodes.pairs.*.", PairCounters::REGISTRY),
    ("processors.*.", ProcessorTimes::REGISTRY),
    ("levels.*.", LevelCounters::REGISTRY),
];

/// Number of counters that every window of a run keeps.
const WINDOWED: usize = windowed(Counters::REGISTRY)
    + windowed(ProcessorTimes::REGISTRY)
    + windowed(SystemCounters::REGISTRY)
    + windowed(RequestCounters::REGISTRY);

/// The counters that windows keep, modes and processors added: one reading, or what a window adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windowed([u64; WINDOWED]);

impl Default for Windowed {
    fn default() -> Self {
        Self([0; WINDOWED])
    }
}

impl Windowed {
    /// Of these readings.
    pub fn of(
        memory: &Counters,
        times: &ProcessorTimes,
        system: &SystemCounters,
        requests: &RequestCounters,
    ) -> Self {
        let all = [memory.registered(), times.registered(), system.registered(), requests.registered()];
        let kept = all.into_iter().flatten().filter(|(counter, _)| counter.windowed);
        let found = kept.flat_map(|(counter, values)| counter.both_modes(values));
        let mut windowed = Self::default();
        windowed.0.iter_mut().zip(found).for_each(|(value, found)| *value = found);
        windowed
    }

    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] - earlier.0[index]))
    }

    /// Windows joined.
    #[must_use]
    pub fn joined(windows: &[&Self]) -> Self {
        Self(std::array::from_fn(|index| windows.iter().map(|window| window.0[index]).sum()))
    }

    /// One column of values per counter, by name; those of requests between nodes for machines with `nodes`.
    pub fn columns(windows: &[Self], nodes: bool) -> Value {
        let requests = if nodes { RequestCounters::REGISTRY } else { &[] };
        let all = [Counters::REGISTRY, ProcessorTimes::REGISTRY, SystemCounters::REGISTRY, requests];
        let names = all.into_iter().flatten().filter(|counter| counter.windowed).flat_map(Counter::names);
        let column = |index: usize| windows.iter().map(|window| json!(window.0[index])).collect::<Value>();
        names.enumerate().map(|(index, name)| (name, column(index))).collect()
    }
}

/// The counters that a replication has once.
pub fn counted(replication: &Replication) -> Vec<(&'static Counter, &[u64])> {
    let timing = replication.timing.as_ref();
    let mut all = replication.counters.registered();
    all.extend(replication.tlb.iter().flat_map(TlbCounters::registered));
    all.extend(replication.prefetches.iter().flat_map(PrefetchCounters::registered));
    all.extend(replication.groups.iter().flat_map(GroupCounters::registered));
    all.extend(
        timing.iter().filter_map(|t| t.write_buffers.as_ref()).flat_map(WriteBufferCounters::registered),
    );
    all.extend(timing.iter().flat_map(|t| t.system.registered()));
    let nodes = || timing.iter().filter_map(|t| t.nodes.as_ref());
    all.extend(nodes().flat_map(|nodes| nodes.links.registered()));
    all.extend(nodes().flat_map(|nodes| nodes.requests.registered()));
    all.extend(nodes().filter_map(|nodes| nodes.messages.as_ref()).flat_map(MessageCounters::registered));
    all.extend(nodes().filter_map(|nodes| nodes.migration.as_ref()).flat_map(MigrationCounters::registered));
    all
}

/// Writes counters into a replication of a result, each at its path.
pub fn write<'a>(
    counted: impl IntoIterator<Item = (&'static Counter, &'a [u64])>,
    object: &mut Map<String, Value>,
) {
    for (counter, values) in counted {
        let Some(value) = shown(counter, values) else { continue };
        let mut place = &mut *object;
        let mut path = counter.path.split('.').peekable();
        while let Some(part) = path.next() {
            if path.peek().is_none() {
                place.insert(part.into(), value);
                break;
            }
            let inner = place.entry(part).or_insert_with(|| Value::Object(Map::new()));
            let Value::Object(inner) = inner else { unreachable!("{} lies within a number", counter.path) };
            place = inner;
        }
    }
}

/// As in results; nothing for a hidden counter.
fn shown(counter: &Counter, values: &[u64]) -> Option<Value> {
    let modes = |user: u64, kernel: u64| json!({"user": user, "kernel": kernel});
    let width = counter.width();
    let sum = |mode: &[u64]| mode.iter().sum::<u64>();
    match counter.layout {
        Layout::Hidden => None,
        Layout::Parts if counter.parts.is_empty() => Some(json!(counter.both_modes(values)[0])),
        Layout::Parts => {
            let both = counter.both_modes(values);
            Some(
                counter
                    .parts
                    .iter()
                    .zip(both)
                    .map(|(part, value)| ((*part).to_owned(), json!(value)))
                    .collect(),
            )
        }
        Layout::Modes | Layout::ModesAndTotal => {
            let (user, kernel) = values.split_at(width);
            if counter.parts.is_empty() {
                return Some(modes(user[0], kernel[0]));
            }
            let of_part =
                |(index, part): (usize, &&str)| ((*part).to_owned(), modes(user[index], kernel[index]));
            let mut object: Map<String, Value> = counter.parts.iter().enumerate().map(of_part).collect();
            if counter.layout == Layout::ModesAndTotal {
                object.insert("total".into(), modes(sum(user), sum(kernel)));
            }
            Some(Value::Object(object))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_counters_have_one_place_and_every_one_is_explained() {
        let mut seen = std::collections::BTreeSet::new();
        for (prefix, counter) in SETS.iter().flat_map(|(prefix, set)| set.iter().map(move |c| (prefix, c))) {
            assert!(seen.insert(format!("{prefix}{}", counter.path)), "{}", counter.path);
            assert!(!counter.meaning.is_empty() && !counter.meaning.ends_with('.'), "{}", counter.path);
        }
    }

    #[test]
    fn windows_hold_each_counter_under_its_own_name() {
        let memory = Counters { misses: [[1, 2, 3, 4, 5, 6], [10; 6]], ..Counters::default() };
        let times = ProcessorTimes { idle: 70, ..ProcessorTimes::default() };
        let system = SystemCounters { migrations: 8, disk_writes: 9, ..SystemCounters::default() };
        let requests = RequestCounters { retries: 4, ..RequestCounters::default() };
        let window = [Windowed::of(&memory, &times, &system, &requests)];
        let without = Windowed::columns(&window, false).as_object().map(Map::len);
        assert_eq!(without, Some(WINDOWED - windowed(RequestCounters::REGISTRY)));
        let columns = Windowed::columns(&window, true);
        assert_eq!(columns.as_object().map(Map::len), Some(WINDOWED));
        for (name, expected) in [
            ("misses.cold", 11),
            ("misses.passive_sharing", 16),
            ("idle", 70),
            ("migrations", 8),
            ("disk.writes", 9),
            ("nodes.retries", 4),
        ] {
            assert_eq!(columns[name], json!([expected]), "{name}");
        }
    }
}
