//! Causes of misses, and leaving them out where nobody asks.

use servsim_core::{CacheId, CpuId, LineAddr, RandomStream};
use servsim_mem::snapshot::{Reader, Writer};
use servsim_mem::switches::{Loss, LossCause, Switches, Taker};
use std::collections::HashMap;

fn saved(switches: &Switches, last: Vec<(LineAddr, Loss)>) -> Vec<u8> {
    let mut out = Writer::default();
    switches.save(last, &mut out);
    out.into_bytes()
}

#[test]
fn what_nobody_asks_for_is_neither_kept_nor_saved() {
    let (cpu, cache, line) = (CpuId(0), CacheId(0), LineAddr(5));
    let run = |unasked: bool, uses: bool| {
        let mut last = Loss::NEVER;
        let mut switches = Switches::new(1);
        if unasked {
            switches.leave_out_causes();
        }
        switches.begin(cpu, 3);
        if uses {
            switches.used(3, line);
            switches.lost(cache, line, Taker::Snoop, &mut last);
        }
        (switches, last)
    };
    let cause = |(switches, last): (Switches, Loss)| switches.loss(cache, line, last).cause();
    let saved = |(switches, last): (Switches, Loss)| saved(&switches, vec![(line, last)]);
    assert_eq!(cause(run(false, true)), LossCause::Invalidated);
    assert_eq!(cause(run(true, true)), LossCause::NeverHeld);
    assert_ne!(saved(run(false, true)), saved(run(false, false)));
    assert_eq!(saved(run(true, true)), saved(run(false, false)));
    assert!(run(true, true).0.runs(cpu, 3), "who runs where is still known");
}

/// The record of a line has room for one loss; each cache's last one is known all the same, and saved.
#[test]
fn every_cache_s_last_loss_of_a_line_is_known() {
    let mut random = RandomStream::new(7, "losses");
    let mut switches = Switches::new(3);
    let mut last = [Loss::NEVER; 4];
    let mut plain = HashMap::new();
    for task in 0..2000 {
        let (cache, line) = (CacheId(random.below(3) as usize), random.below(4));
        switches.begin(CpuId(0), task);
        let taker = if task % 3 == 0 { Taker::Snoop } else { Taker::Fill(task) };
        switches.lost(cache, LineAddr(line), taker, &mut last[line as usize]);
        plain.insert((line, cache), Loss::of(cache, taker, task + 1));
        let mut restored = Switches::new(3);
        let bytes = saved(&switches, (0..).map(LineAddr).zip(last).collect());
        restored.restore(&mut Reader::new(&bytes)).expect("its own bytes");
        for (line, cache) in (0..4).flat_map(|line| CacheId::all(3).map(move |cache| (line, cache))) {
            let expected = plain.get(&(line, cache)).copied().unwrap_or(Loss::NEVER);
            assert_eq!(switches.loss(cache, LineAddr(line), last[line as usize]), expected);
            assert_eq!(restored.loss(cache, LineAddr(line), Loss::NEVER), expected, "restored");
        }
    }
}
