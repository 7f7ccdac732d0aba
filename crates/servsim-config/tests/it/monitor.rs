//! Programs of the monitor: what they may say, and what is said of those that are wrong.

use servsim_config::MonitorProgram;

fn read(text: &str) -> Result<MonitorProgram, String> {
    MonitorProgram::from_toml(text, "m.toml", 64).map_err(|faults| faults.to_string())
}

const FILTER: &str = "[[filter]]\nstart = '0x0'\nsize = '16 MiB'\ngranularity = '4 KiB'\n";

#[test]
fn a_whole_program_is_read() {
    let text = format!(
        "mode = 'simulator'\nparts = 4\n{FILTER}{FILTER}types = 'read, write-back'\ndirection = 'inbound'\nthreshold = 9\n\
         [[secondary]]\nfilters = '1 2'\n"
    );
    let program = read(&text).unwrap();
    let [first, second] = &program.filters[..] else { panic!("{program:?}") };
    assert_eq!((program.simulator, program.parts), (true, 4));
    assert_eq!((first.base, first.counters(), first.types, first.directions), (0, 4096, 31, 1));
    assert_eq!((second.base, second.types, second.directions, second.threshold), (4096, 0b10001, 2, Some(9)));
    assert_eq!((&program.secondary[0].filters[..], program.secondary[0].types), (&[0, 1][..], 31));
}

#[test]
fn what_the_card_cannot_do_is_refused_with_a_remedy() {
    let with = |line: &str| format!("{FILTER}{line}\n");
    let like = |from: &str, to: &str| FILTER.replace(from, to);
    for (text, says) in [
        (FILTER.repeat(33), "m.toml: filter: 33 filters; the monitor has 32, join some"),
        (like("16 MiB", "4 GiB"), "needs counters 0 to 1048575; the monitor has 524288"),
        (
            format!("{FILTER}{FILTER}base = 4095\n"),
            "filter 2: its counters are those of filter 1; leave out base",
        ),
        (like("4 KiB", "48 KiB"), "a power of two from 32 B to 2 MiB"),
        (like("4 KiB", "4 MiB"), "a power of two from 32 B to 2 MiB"),
        (like("4 KiB", "32 B"), "finer than the machine's lines of 64 B"),
        (like("0x0", "0x800"), "multiples of the granularity, 4096 B"),
        (like("16 MiB", "0 B"), "multiples of the granularity"),
        (like("start = '0x0'\n", ""), "start is missing"),
        (like("size = '16 MiB'\n", ""), "size is missing"),
        (with("types = 'reed'"), "unknown `reed` (did you mean `read`?)"),
        (with("types = ''"), "nothing would be counted"),
        (with("threshold = 0"), "every count reaches 0"),
        (with("[[secondary]]\nfilters = 2"), "there is no filter 2; they are 1 to 1"),
        (format!("{FILTER}{}", "[[secondary]]\nfilters = 1\n".repeat(17)), "17 counters; the monitor has 16"),
        ("mode = 'card'\n".into(), "filter: there is none"),
        (format!("mode = 'crad'\n{FILTER}"), "mode: unknown `crad`; accepted are card, simulator"),
        (
            format!("parts = 2\n{FILTER}"),
            "m.toml: parts: a card knows no transactions; leave it out, or use mode",
        ),
        (format!("mode = 'simulator'\nparts = 0\n{FILTER}"), "m.toml: parts: from 1 to 64"),
        (format!("mode = 'simulator'\nparts = 65\n{FILTER}"), "m.toml: parts: from 1 to 64"),
        (format!("mode = 'simulator'\nparts = 'two'\n{FILTER}"), "parts: `two` is no number"),
        (format!("secondary = 1\n{FILTER}"), "m.toml: write [[secondary]] for each secondary"),
        ("mode = \n".into(), "m.toml, line 1: "),
    ] {
        let refused = read(&text).expect_err(&text);
        assert!(refused.contains(says), "{text}: {refused}");
    }
}
