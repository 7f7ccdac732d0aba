//! Causes of misses, and leaving them out where nobody asks.

use servsim_core::{CacheId, CpuId, LineAddr};
use servsim_mem::snapshot::Writer;
use servsim_mem::switches::{LossCause, Switches, Taker};

#[test]
fn what_nobody_asks_for_is_neither_kept_nor_saved() {
    let (cpu, cache, line) = (CpuId(0), CacheId(0), LineAddr(5));
    let saved = |switches: &Switches| {
        let mut out = Writer::default();
        switches.save(&mut out);
        out.into_bytes()
    };
    let run = |unasked: bool, uses: bool| {
        let mut switches = Switches::new(1);
        if unasked {
            switches.leave_out_causes();
        }
        switches.begin(cpu, 3);
        if uses {
            switches.used(3, line);
            switches.lost(cache, line, Taker::Snoop);
        }
        switches
    };
    assert_eq!(run(false, true).loss(cache, line).cause(), LossCause::Invalidated);
    assert_eq!(run(true, true).loss(cache, line).cause(), LossCause::NeverHeld);
    assert_ne!(saved(&run(false, true)), saved(&run(false, false)));
    assert_eq!(saved(&run(true, true)), saved(&run(false, false)));
    assert!(run(true, true).runs(cpu, 3), "who runs where is still known");
}
