//! Reading of machine descriptions: what is accepted, and that every error is reported at once.

use servsim_config::{explain, Machine, SETTINGS};
use servsim_units::Cycles;

fn faults(text: &str) -> Vec<String> {
    Machine::from_toml(text, "m.toml", &[]).expect_err("faulty").0
}

#[test]
fn an_empty_description_is_the_published_machine() {
    let machine = Machine::from_toml("", "m.toml", &[]).unwrap();
    assert_eq!((machine.processors, machine.cache.line.0), (4, 128));
    assert_eq!(machine.resolved()["bus"]["memory_read"], "64 cycles");
}

#[test]
fn every_error_is_reported_at_once_with_line_and_remedy() {
    let text = "processors = 1025\nclock = \"fast\"\n[cache]\nsize = \"3200 B\"\nlin = \"64 B\"\n\
                [bus]\ninvalidate = 5\n[protocol]\nname = \"mesy\"\n[cash]\nsize = \"1 KiB\"\n";
    let faults = faults(text);
    let expected = [
        ("line 1", "1025 is outside 1 to 1024"),
        ("line 2", "\"1 GHz\""),
        ("line 4", "ways do not divide 3200 B"),
        ("line 5", "did you mean `cache.line`"),
        ("line 7", "units: cycles"),
        ("line 9", "did you mean `mesi`"),
        ("line 10", "did you mean `[cache]`"),
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (line, remedy) in expected {
        let hit = |f: &&String| f.starts_with(&format!("m.toml, {line}: ")) && f.contains(remedy);
        assert!(faults.iter().any(|f| hit(&f)), "{line} {remedy}: {faults:#?}");
    }
}

#[test]
fn impossible_combinations_are_refused() {
    let cases = [
        ("[cache]\nline = \"8 KiB\"", "outside 4 B to 4 KiB"),
        ("[cache]\nsize = \"128 B\"\nassociativity = 4", "smaller than one set"),
        ("[cache]\nassociativity = 3", "into whole sets of lines of 128 B; use cache.associativity = 2"),
        ("[perturbation]\nmemory_delay = \"3 cycles\"", "is odd"),
        ("[perturbation]\nmemory_delay = \"16 cycles\"", "shortest fetch"),
        ("processors = \"4\"", "without quotes"),
        ("processors = 4\nprocessors = 5", "duplicate key"),
        ("processors = [", "line 1: not TOML: "),
        ("[scheduler]\ntime_slice = \"200000\"", "lacks its unit"),
        ("processors = 4.5", "whole number"),
        ("[cache]\norganisation = \"splitt\"", "did you mean `split`"),
        ("[l2]\nsize = \"large\"", "write `none` to leave the level out"),
        ("[l2]\nsize = \"1 MiB\"", "cannot include the levels inside it (2 MiB)"),
        ("[cache]\norganisation = \"split\"\n[l2]\nsize = \"2 MiB\"", "(4 MiB)"),
        ("[l2]\nsize = \"8 MiB\"\nassociativity = 3", "line 3: l2.associativity: 3 ways do not divide"),
        ("[l3]\nsize = \"8 MiB\"", "no second level inside it"),
        ("[l2]\nlatency = \"9 cycles\"", "give it a size with l2.size"),
        ("[cache]\nsize = \"12345 B\"", "not a whole number of lines of 128 B"),
        ("[cache]\nsize = \"48 KiB\"\nassociativity = 10\nline = \"64 B\"", "use cache.associativity = 8"),
        (
            "[l2]\nsize = \"8 MiB\"\nsharing = \"shared\"\n[l3]\nsize = \"16 MiB\"",
            "a private level cannot lie outside l2",
        ),
        ("[prefetch]\ndegree = 2", "choose a prefetch.policy"),
        ("[prefetch]\npolicy = \"next-line\"\nlevel = \"l2\"", "line 3: prefetch.level: there is no private"),
        ("[prefetch]\npolicy = \"next-line\"\nentries = 9", "has no table"),
        ("[prefetch]\npolicy = \"nextline\"", "did you mean `next-line`"),
        ("[tlb]\ntagged = 1", "unknown key"),
        ("[tlb]\nassociativity = 2", "give it entries with tlb.entries"),
        ("[tlb]\nentries = 24", "line 2: tlb.entries: 4 ways do not divide 24 entries"),
        ("[tlb]\nentries = 16\nl2_latency = \"9 cycles\"", "give it entries with tlb.l2_entries"),
        ("[tlb]\nentries = 16\nl2_entries = 48", "line 3: tlb.l2_entries: 4 ways do not"),
        ("[tlb]\nentries = 16\non_switch = \"flushed\"", "did you mean `flush`"),
        (
            "[cache]\nwrite_miss = \"around\"",
            "line 2: cache.write_miss: `around` needs a private second level",
        ),
        ("[cache]\nwrite_miss = \"around\"\n[l2]\nsize = \"8 MiB\"\nsharing = \"shared\"", "set l2.size"),
        (
            "[cache]\nwrite_miss = \"around\"\n[l2]\nsize = \"8 MiB\"\ninclusion = \"exclusive\"",
            "set l2.size",
        ),
        (
            "[l2]\nsize = \"8 MiB\"\nwrite_miss = \"around\"",
            "line 3: l2.write_miss: `around` is for a shared level",
        ),
        ("[l2]\nsize = \"8 MiB\"\nsharing = \"shared\"\nwrite_miss = \"around\"", "an inclusive one holds"),
        ("[l2]\nline = \"64 B\"", "cache.line is that of every level"),
        ("[cache]\norganisation = \"split\"\n[protocol]\nprivate_on_switch = \"flush\"", "one unified level"),
    ];
    for (text, expected) in cases {
        let faults = faults(text);
        assert!(faults.iter().any(|f| f.contains(expected)), "{text}: {faults:?}");
    }
}

#[test]
fn overrides_win_and_are_checked_like_the_file() {
    let set = |o: &[&str]| {
        let overrides: Vec<String> = o.iter().map(|s| (*s).to_owned()).collect();
        Machine::from_toml("processors = 2", "m.toml", &overrides)
    };
    assert_eq!(set(&["processors=8", "cache.size=1 MiB"]).unwrap().processors, 8);
    let faults = set(&["procesors=8", "cache.size=12", "cache"]).unwrap_err().0;
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[0].contains("did you mean `processors`"), "{faults:?}");
}

#[test]
fn words_are_taken_as_the_field_writes_them_and_a_table_is_told_from_a_setting() {
    let set = |o: &[&str]| {
        let overrides: Vec<String> = o.iter().map(|s| (*s).to_owned()).collect();
        Machine::from_toml("[cache]\nreplacement = \"FIFO\"\n[l2]\nsize = \"None\"", "m.toml", &overrides)
    };
    let (upper, lower) = (set(&["protocol.name=MOESI"]).unwrap(), set(&["protocol.name=moesi"]).unwrap());
    assert_eq!((upper.protocol.name.as_str(), &upper), ("moesi", &lower));
    let faults = set(&["protocol=MESI"]).unwrap_err().0;
    assert!(faults[0].ends_with("give one of them, for example `protocol.name`"), "{faults:?}");
}

#[test]
fn every_setting_explains_itself_and_accepts_its_own_default() {
    for setting in SETTINGS {
        let text = explain(setting.key).unwrap();
        for part in ["meaning: ", "accepted: ", "default: ", "source: "] {
            assert!(text.contains(part), "{text}");
        }
        let quoted = !setting.default.bytes().all(|b| b.is_ascii_digit());
        assert!(setting.kind.read(setting.default, quoted).is_ok(), "{}", setting.key);
    }
    assert!(explain("cache.sise").unwrap_err().contains("cache.size"));
    assert!(explain("D12").unwrap_err().ends_with("`servsim explain` lists every key"));
}

#[test]
fn levels_come_from_the_inside_out_and_none_leaves_one_out() {
    let text = "[cache]\nsize = \"32 KiB\"\norganisation = \"split\"\nreplacement = \"srrip\"\n\
                [l2]\nsize = \"1 MiB\"\ninclusion = \"exclusive\"\n\
                [l3]\nsize = \"8 MiB\"\nassociativity = 16\nsharing = \"shared\"\n";
    let machine = Machine::from_toml(text, "m.toml", &[]).unwrap();
    assert!(machine.split && machine.replacement == "srrip");
    let shape =
        |l: &servsim_config::OuterLevel| (l.size.0, l.associativity, l.is_shared(), l.inclusion.clone());
    let levels: Vec<_> = machine.levels.iter().map(shape).collect();
    let expected = [(1 << 20, 8, false, "exclusive".to_owned()), (8 << 20, 16, true, "inclusive".to_owned())];
    assert_eq!(levels, expected);
    assert_eq!(machine.resolved()["l2"]["replacement"], "lru");
    let plain = Machine::from_toml("[l2]\nsize = \"none\"", "m.toml", &[]).unwrap();
    assert!(plain.levels.is_empty());
    assert_eq!(plain.resolved()["l2"]["size"], "none");
}

#[test]
fn disks_hang_on_buses_and_data_lie_on_disks() {
    let text = "[disk]\ncount = 4\nmodel = \"hp97560\"\n[io]\nbuses = 2\nrate = \"20000 kB/s\"\n\
                [placement]\nrelations = \"1: stock item; 3: customer\"\nsectors = \"2: vda 0-7; 4: vda 8-9\"\n\
                rest = \"2\"\n";
    let storage = Machine::from_toml(text, "m.toml", &[]).unwrap().storage;
    assert_eq!(storage.bus_of, [0, 0, 1, 1]);
    assert_eq!((storage.bus_rate, storage.hold_on_read, storage.hold_on_write), (20_000_000, false, true));
    let placed: Vec<_> =
        storage.placement.relations.iter().map(|named| (named.name.as_str(), named.disk)).collect();
    assert_eq!(placed, [("stock", 0), ("item", 0), ("customer", 2)]);
    let ranges: Vec<_> = storage.placement.sectors.iter().map(|r| (r.first, r.last, r.disk)).collect();
    assert_eq!((ranges, storage.placement.rest), (vec![(0, 7, 1), (8, 9, 3)], Some(1)));
    let attach = ["io.attach=2 1 2 1".to_owned()];
    assert_eq!(Machine::from_toml(text, "m.toml", &attach).unwrap().storage.bus_of, [1, 0, 1, 0]);
    // Everything resolved can be read again.
    let plain = Machine::from_toml("", "m.toml", &[]).unwrap();
    assert_eq!((plain.storage.disks, plain.storage.placement.rest), (0, None));
}

#[test]
fn every_fault_of_the_disks_is_reported_at_once() {
    let text = "[disk]\ncount = 2\nparallel = 4\nflushes = \"shared\"\n[io]\nbuses = 2\nattach = \"1 3 1\"\n\
                [placement]\nrelations = \"1: stock; 3: item; 2: stock; customer\"\nfiles = \"x: pg_wal\"\n\
                sectors = \"1: vda 0-9; 2: vda 9-12; 1: vda 7\"\nrest = \"0\"\n";
    let faults = Machine::from_toml(text, "m.toml", &[]).unwrap_err().0;
    let parts = [
        "line 3: disk.parallel: is for the pool",
        "line 4: disk.flushes: is for the pool",
        "line 7: io.attach: `3` is not the number of an I/O bus, 1 to 2 (io.buses)",
        "line 7: io.attach: 3 buses named for 2 disks",
        "line 9: placement.relations: `3` is not the number of a disk, 1 to 2",
        "line 9: placement.relations: `stock` lies on disk 1 already",
        "line 9: placement.relations: `customer` is not DISK: WHAT",
        "line 10: placement.files: `x` is not the number of a disk",
        "line 11: placement.sectors: `vda 9-12` overlaps `vda 0-9`",
        "line 11: placement.sectors: `vda 7` is not DEVICE FIRST-LAST",
        "line 12: placement.rest: `0` is not the number of a disk",
    ];
    for part in parts {
        assert!(faults.iter().any(|fault| fault.contains(part)), "{part} in {faults:#?}");
    }
    assert_eq!(faults.len(), parts.len(), "{faults:#?}");
    let alone = Machine::from_toml("[io]\nbuses = 1\n", "m.toml", &["disk.count=0".into()]).unwrap_err().0;
    assert!(alone.len() == 1 && alone[0].contains("say how many with disk.count"), "{alone:?}");
}

#[test]
fn names_that_the_trace_does_not_know_are_reported_with_the_nearest() {
    let text = "[disk]\ncount = 2\n[placement]\nrelations = \"1: stok district; 2: nonsense\"\n";
    let placement = Machine::from_toml(text, "m.toml", &[]).unwrap().storage.placement;
    let faults = placement.unknown(&["stock", "district"], &[], &[]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains("m.toml, line 4: placement.relations: no relation"), "{faults:?}");
    assert!(faults[0].contains("`stok` (did you mean `stock`?)"), "{faults:?}");
    assert!(placement.unknown(&[], &[], &[])[0].contains("does not tell where its relations lie"));
}

#[test]
fn what_cannot_be_read_is_not_called_missing_as_well() {
    let cases = [
        "[l2]\nsize = \"large\"\nassociativity = 16\nlatency = \"9 cycles\"",
        "[tlb]\nentries = \"many\"\nassociativity = 8",
        "[prefetch]\npolicy = \"strid\"\nentries = 64",
    ];
    for text in cases {
        let faults = faults(text);
        assert!(faults.len() == 1 && faults[0].starts_with("m.toml, line 2: "), "{faults:#?}");
    }
}

#[test]
fn a_level_that_is_left_out_by_name_keeps_its_other_settings_for_later() {
    let text = "[l2]\nsize = \"8 MiB\"\nassociativity = 16";
    let machine = Machine::from_toml(text, "m.toml", &["l2.size=none".to_owned()]).unwrap();
    assert!(machine.levels.is_empty());
}

#[test]
fn sizes_ways_and_sets_need_be_no_powers_of_two() {
    let text = "[cache]\nsize = \"48 KiB\"\nassociativity = 12\nline = \"64 B\"\n\
                [l2]\nsize = \"60 MiB\"\nassociativity = 15\n";
    let machine = Machine::from_toml(text, "m.toml", &[]).unwrap();
    assert_eq!((machine.cache.size.0, machine.levels[0].size.0), (48 << 10, 60 << 20));
    assert_eq!(machine.resolved()["l2"]["size"], "60 MiB");
    let text = "[cache]\nsize = \"96 KiB\"\nassociativity = 8\nline = \"4 B\"\n[l2]\nsize = \"11 MiB\"\n";
    let machine = Machine::from_toml(text, "m.toml", &[]).unwrap();
    assert_eq!((machine.cache.line.0, machine.levels[0].size.0), (4, 11 << 20));
}

#[test]
fn stores_go_around_where_a_level_outside_takes_them() {
    let text = "processors = 64\n[cache]\nsize = \"32 KiB\"\norganisation = \"split\"\nwrite_miss = \"around\"\n\
                [l2]\nsize = \"1 MiB\"\n\
                [l3]\nsize = \"24 MiB\"\nsharing = \"shared\"\ninclusion = \"neither\"\nwrite_miss = \"around\"\n";
    let machine = Machine::from_toml(text, "m.toml", &[]).unwrap();
    assert!(machine.write_around && !machine.levels[0].write_around && machine.levels[1].write_around);
    let split = Machine::from_toml("processors = 64\n[cache]\norganisation = \"split\"", "m.toml", &[]);
    assert_eq!(split.unwrap().processors, 64);
}

const NODES: &str = "processors = 8\n[interconnect]\nkind = \"network\"\n[node]\ncount = 4\n";

#[test]
fn nodes_have_processors_memories_and_ways() {
    let list = "processors = \"4, 4, 0, 0\"\nmemory = \"1 GiB, 1 GiB, unlimited, none\"\nlinks = \"1-2 2-3 1-4\"\n\
                hop = \"10 cycles\"\nlocal = \"3 cycles\"\nmemory_latency = \"0 cycles, 0 cycles, 9 cycles, 0 cycles\"";
    let text = format!("{NODES}{}", list.replace("none", "2 GiB"));
    let nodes = Machine::from_toml(&text, "m.toml", &[]).unwrap().nodes.unwrap();
    assert_eq!(nodes.of_processor, [0, 0, 0, 0, 1, 1, 1, 1]);
    assert_eq!(nodes.distances[0], [3, 10, 20, 10].map(Cycles));
    assert_eq!(nodes.distances[2], [20, 10, 3, 30].map(Cycles));
    assert_eq!((nodes.links, nodes.routes[2][3].len(), nodes.routes[1][1].len()), (6, 3, 0));
    assert_eq!(nodes.memories[2].unwrap().latency.0, 9);
    let switch = Machine::from_toml(NODES, "m.toml", &[]).unwrap().nodes.unwrap();
    assert_eq!((switch.links, switch.distances[3][0]), (8, Cycles(50)));
    assert_eq!(switch.of_processor, [0, 0, 1, 1, 2, 2, 3, 3]);
    assert_eq!(Machine::from_toml("processors = 8", "m.toml", &[]).unwrap().nodes, None);
}

#[test]
fn nodes_that_make_no_sense_are_refused_with_the_remedy() {
    for (settings, fault) in [
        ("processors = \"4, 4, 4, 0\"", "12 processors in nodes, but the machine has 8"),
        ("processors = \"4, 4\"", "2 values for 4 nodes"),
        ("processors = \"8, 0, 0, 0\"\nmemory = \"unlimited, none, unlimited, none\"", "node 2 has neither"),
        ("memory = \"none\"", "no node has memory"),
        ("memory = \"0 B\"", "write `none` for a node without memory"),
        ("memory_bytes_per_cycle = \"0 B\"", "write `unlimited`, or a number of bytes"),
        ("memory_latency = \"fast\"", "node.memory_latency"),
        ("links = \"1-2 3-4\"", "no way leads from node 1 to node 3"),
        ("links = \"1-2 2-5\"", "`2-5` joins no two of the nodes 1 to 4"),
        ("distances = \"0 cycles; 1 cycles\"", "2 rows for 4 nodes"),
        ("link_bytes_per_cycle = \"0 B\"", "node.link_bytes_per_cycle"),
        ("link_bytes_per_cycle = \"0.0001 B\"", "at most three decimals"),
        ("coherence = \"directory\"", "exactly with protocol.name `mosi` only, and this machine has `mesi`"),
        (
            "coherence = \"bash\"\n[protocol]\nname = \"mosi\"\nsupplier = \"any-copy\"",
            "protocol.supplier: the home asks the owner of a line alone",
        ),
        ("directory = \"9 cycles\"", "is for node.coherence `directory`, `bash` or `messages`, and this machine has `snooping`"),
        ("bash_interval = \"64 cycles\"", "node.bash_interval: is for node.coherence `bash`"),
        (
            "coherence = \"bash\"\nbash_threshold = \"80 %\"\nbash_dead_band = \"20 %\"\n[protocol]\nname = \"mosi\"",
            "no utilisation is beyond threshold and dead band",
        ),
        ("coherence = \"messages\"\n[bus]\nintervention = \"9 cycles\"", "bus.intervention: node.coherence `messages` has one time"),
        ("coherence = \"messages\"\n[write_buffer]\nentries = 4", "`messages` has no write buffers"),
        ("shootdown = \"9 cycles\"", "node.shootdown: is for node.migration `drain`, `next-touch`, `replicate` or `tiering`, and this machine has `none`"),
        ("migration = \"next-touch\"\nhot_threshold = 2", "node.hot_threshold: is for node.migration `replicate` or `tiering`"),
        ("migration = \"replicate\"\nmigration_pages = 9", "node.migration_pages: is for node.migration `drain` or `tiering`"),
        ("migration = \"drain\"", "node.drained: `drain` empties a node, and none is named; say which of 2 to 4"),
        ("migration = \"drain\"\ndrained = 1", "the first node has memory that the kernel cannot move; name one of 2 to 4"),
        ("migration = \"drain\"\ndrained = 5", "there is no node 5; name one of 2 to 4"),
        ("migration = \"replicate\"\ndrained = 2", "node.drained: is for node.migration `drain`"),
        ("migration = \"tiering\"\nmigration_work = \"9 cycles\"", "node.migration_work: is for node.migration `next-touch`"),
        ("migration = \"tiering\"", "give them in node.processors and node.memory, or choose `next-touch`"),
        (
            "migration = \"tiering\"\nprocessors = \"8, 0, 0, 0\"\nmemory = \"none, unlimited, unlimited, unlimited\"",
            "this machine lacks one or the other with memory",
        ),
        ("migration = \"next-touch\"\ncoherence = \"messages\"", "node.migration: with node.coherence `messages`"),
        ("migration = \"next-touch\"\nmigration_interval = \"0 cycles\"", "node.migration_interval"),
        ("[memory]\nbanks = 8", "is for one memory"),
        ("[l2]\nsize = \"1 MiB\"\nsharing = \"shared\"", "lies in no node"),
    ] {
        let faults =
            Machine::from_toml(&format!("{NODES}{settings}"), "m.toml", &[]).unwrap_err().to_string();
        assert!(faults.contains(fault), "{settings}: {faults}");
    }
    for (text, fault) in [
        ("[node]\ncount = 2", "nodes are joined by a network"),
        ("processors = 2\n[interconnect]\nkind = \"network\"\n[node]\ncount = 3", "3 nodes for 2 processors"),
        ("[node]\nplacement = \"striped\"", "say how many with node.count"),
    ] {
        let faults = Machine::from_toml(text, "m.toml", &[]).unwrap_err().to_string();
        assert!(faults.contains(fault), "{text}: {faults}");
    }
}

#[test]
fn pages_that_cannot_move_are_refused_once() {
    for policy in ["tiering", "next-touch", "replicate"] {
        let settings = format!("{NODES}migration = \"{policy}\"\ncoherence = \"messages\"");
        let faults = Machine::from_toml(&settings, "m.toml", &[]).unwrap_err().to_string();
        assert_eq!(faults.matches("node.migration:").count(), 1, "{policy}: {faults}");
        assert!(faults.contains("the directory of a page stays at its home; choose `none`"), "{faults}");
    }
}

const GROUPS: &str = "processors = 8\n[l2]\nsize = \"4 MiB\"\nsharing = \"group\"\n[group]\ncount = 2\n";

#[test]
fn core_groups_are_read_and_nonsense_is_refused_with_its_remedy() {
    let machine = Machine::from_toml(&format!("{GROUPS}crossing = \"80 cycles\"\n"), "m.toml", &[]).unwrap();
    assert_eq!(machine.groups.map(|groups| (groups.count, groups.crossing.0)), Some((2, 80)));
    assert_eq!(Machine::from_toml("", "m.toml", &[]).unwrap().groups, None);
    let network = "interconnect.kind=network";
    for (overrides, fault) in [
        (&["group.count=3"][..], "3 groups do not divide 8 processors; choose a number that does, such as 2"),
        (&["group.count=1"], "l2.sharing: there is one group of all processors"),
        (&["l2.sharing=private"], "no level is shared by a core group"),
        (&["l2.size=none"], "no level is shared by a core group"),
        (&["l3.size=8 MiB", "l3.sharing=shared"], "the level of a core group is the outermost"),
        (&["l3.size=8 MiB", "l3.sharing=shared"], "l3.sharing: all processors share it"),
        (&["protocol.name=pscr"], "core groups know mesi, moesi, mosi, and this machine has `pscr`"),
        (&[network, "node.count=2", "node.processors=2, 6"], "group 1 lies in two nodes"),
        (
            &[network, "node.count=2", "node.coherence=directory", "protocol.name=mosi"],
            "homes know nothing of the levels that core groups share",
        ),
    ] {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let faults = Machine::from_toml(GROUPS, "m.toml", &overrides).unwrap_err().to_string();
        assert!(faults.contains(fault), "{overrides:?}: {faults}");
    }
    let faults =
        Machine::from_toml("[group]\ncrossing = \"9 cycles\"", "m.toml", &[]).unwrap_err().to_string();
    assert!(faults.contains("say how many with group.count"), "{faults}");
    let nodes: Vec<String> = [network, "node.count=2"].map(str::to_owned).to_vec();
    assert_eq!(Machine::from_toml(GROUPS, "m.toml", &nodes).unwrap().nodes.unwrap().memories.len(), 2);
}
