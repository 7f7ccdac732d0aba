//! Which settings of a machine a warm start depends on.

use serde_json::Value;
use std::collections::BTreeMap;

/// Settings, or the beginnings of their names, on which warm caches do not depend. Every other setting
/// must be equal, so that one added later is not overlooked.
pub const FREE: &[&str] = &[
    "name",
    "clock",
    "processor.",
    "bus.",
    "interconnect.",
    "memory.banks",
    "memory.bank_time",
    "l2.latency",
    "l3.latency",
    "protocol.asynchronous",
    "locks.spin_interval",
    "disk.",
    "io.",
    "placement.",
    "write_buffer.",
    "perturbation.",
];

fn is_free(key: &str) -> bool {
    FREE.iter().any(|free| if free.ends_with('.') { key.starts_with(free) } else { key == *free })
}

/// The settings of a resolved description that warm caches depend on, by key.
pub fn binding(resolved: &Value) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut put = |key: String, value: &Value| {
        if let (Value::String(text), false) = (value, is_free(&key)) {
            found.insert(key, text.clone());
        }
    };
    for (key, value) in resolved.as_object().into_iter().flatten() {
        match value {
            Value::Object(section) => {
                section.iter().for_each(|(name, value)| put(format!("{key}.{name}"), value));
            }
            value => put(key.clone(), value),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_config::{Machine, SETTINGS};

    #[test]
    fn every_free_name_is_a_setting_and_shapes_are_not_free() {
        for free in FREE {
            assert!(SETTINGS.iter().any(|s| s.key.starts_with(free)), "{free}");
        }
        let machine = Machine::from_toml("", "m.toml", &[]).expect("valid");
        let binding = binding(&machine.resolved());
        for key in ["processors", "cache.size", "l2.size", "protocol.name", "scheduler.policy"] {
            assert!(binding.contains_key(key), "{key}");
        }
        for key in ["bus.bytes_per_cycle", "processor.model", "disk.read_time", "clock", "l2.latency"] {
            assert!(!binding.contains_key(key), "{key}");
        }
    }
}
