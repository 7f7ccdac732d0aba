//! What the comparisons with the oracle share.

use servsim_mem::{CoherenceClass, Counters, LossCause, MissClass, SwitchCause};
use servsim_oracle::Counts;

/// The engine's counters under the oracle's names, those that are 0 left out.
pub fn by_oracle_names(c: &Counters) -> Counts {
    let mut counts = Counts::new();
    let mut put = |name: String, values: [u64; 2]| {
        if values != [0, 0] {
            counts.insert(name, values);
        }
    };
    let pick = |table: &dyn Fn(usize) -> u64| [table(0), table(1)];
    for (i, name) in ["fetch", "load", "store"].iter().enumerate() {
        put(format!("references.{name}"), pick(&|m| c.references[m][i]));
    }
    for (i, name) in MissClass::NAMES.iter().enumerate() {
        put(format!("misses.{name}"), pick(&|m| c.misses[m][i]));
    }
    for (i, name) in CoherenceClass::NAMES.iter().enumerate() {
        put(format!("coherence.{name}"), pick(&|m| c.coherence[m][i]));
    }
    for (i, name) in ["read", "read_exclusive", "invalidate", "write", "write_back"].iter().enumerate() {
        put(format!("bus.{name}"), pick(&|m| c.bus[m][i]));
    }
    put("bus.cache_to_cache".into(), pick(&|m| c.cache_to_cache[m][0]));
    put("misses.true_by_self".into(), pick(&|m| c.true_by_self[m][0]));
    for (i, name) in MissClass::NAMES.iter().enumerate() {
        put(format!("misses_by_owner.{name}"), pick(&|m| c.misses_by_owner[m][i]));
    }
    for (i, name) in CoherenceClass::NAMES.iter().enumerate() {
        put(format!("coherence_by_owner.{name}"), pick(&|m| c.coherence_by_owner[m][i]));
    }
    for (i, name) in SwitchCause::NAMES.iter().enumerate() {
        put(format!("context_switch.{name}"), pick(&|m| c.context_switch[m][i]));
    }
    for (i, name) in LossCause::NAMES.iter().enumerate() {
        put(format!("misses_by_loss.{name}"), pick(&|m| c.misses_by_loss[m][i]));
    }
    put("flushed".into(), pick(&|m| c.flushed[m][0]));
    put("removed.copies".into(), pick(&|m| c.removed[m][0]));
    put("removed.misses".into(), pick(&|m| c.removed[m][1]));
    counts
}
