//! Stores that take two transactions, and lose between the two what the first has brought. Lines of 64 bytes: a fetch
//! from memory takes 64 + 8 cycles and the bus for 8 + 8.

use crate::support::one_run::one_run;
use serde_json::{json, Value};

/// PSCR, whose stores fetch first and write then, with as little room as there can be.
fn pscr(trace: &str, processors: usize, settings: &[&str]) -> Value {
    let machine = format!(
        "[protocol]\nname = \"pscr\"\n[cache]\nline = \"64 B\"\nassociativity = 1\n{}\n",
        settings.join("\n")
    );
    one_run(trace, processors, &machine, false)
}

#[test]
fn a_store_whose_line_prefetches_displace_is_performed_in_the_end() {
    let run = pscr("0 S 0\n", 1, &["size = \"128 B\"", "[prefetch]", "policy = \"next-line\"", "degree = 2"]);
    // Of two lines ahead, granted at 16 and 32, the second takes the place of the store's, which comes at 72 and is fetched
    // anew: until 144 nothing else is granted. Then comes the second prefetch, and behind it at 160 the write-back.
    assert_eq!(run["cycles"], 144 + 16);
    assert_eq!((&run["bus"]["read"], &run["bus"]["write_back"]), (&json!(5), &json!(1)));
    assert_eq!(run["bus_busy_cycles"], 3 * 16 + 72 + 16 + 12, "a write-back takes 4 + 8");
    assert_eq!((&run["levels"][0]["hits"], &run["levels"][0]["misses"]), (&json!(0), &json!(2)));
}

/// A store at each of two processors, to one set of a level that both their caches are included in.
fn two_stores(settings: &[&str]) -> Value {
    let shared =
        ["size = \"1 KiB\"", "[l2]", "size = \"1 KiB\"", "associativity = 1", "sharing = \"shared\""];
    pscr("0 S 0\n1 S 1000\n", 2, &[&shared, settings].concat())
}

#[test]
fn two_stores_that_take_each_others_line_are_performed_in_the_end() {
    for settings in [&[][..], &["[interconnect]", "kind = \"crossbar\""], &["[processor]", "model = \"ooo\""]]
    {
        let run = two_stores(settings);
        // The second fetch takes the first's line away; that comes at 72, and is fetched anew until 144. So it goes to the
        // second store, whose line had come at 88.
        assert_eq!(run["cycles"], 72 + 72 + 72, "{settings:?}");
        assert_eq!(run["bus"]["read"], 4, "{settings:?}");
    }
}

#[test]
fn what_a_store_that_lost_its_line_has_to_tell_others_is_told_at_once() {
    let prefetch = ["size = \"128 B\"", "[prefetch]", "policy = \"next-line\"", "degree = 2"];
    let run = pscr("0 L f00\n1 L 7fc0\n1 S f40\n", 2, &prefetch);
    // The first processor has the stored line too, as what came behind a miss on the one before. The store asks at 90, gets its
    // line from 104, when the other has it, to 176, loses it to the last line of the page, and has it again at 248: it is shared,
    // and the word goes out to the others for 5 cycles before the prefetch that takes the line away once more.
    assert_eq!((&run["bus"]["write"], &run["coherence"]["total"]["user"]), (&json!(1), &json!(1)));
    assert_eq!(run["cycles"], 248 + 5 + 16);
}
