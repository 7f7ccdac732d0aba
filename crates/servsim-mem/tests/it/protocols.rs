//! Every protocol table is explored exhaustively, and the checker catches seeded errors.

use servsim_mem::protocol::checker::{explore, replay, Step};
use servsim_mem::protocol::table::{otherwise, when};
use servsim_mem::protocol::{
    by_name, BusOp, Lines, OnAccess, OnEvict, OnSnoop, Options, Snoop, Table, PROTOCOLS,
};

fn all_options() -> Vec<Options> {
    (0..192_u8)
        .map(|bits| Options {
            any_copy_supplies: bits & 1 != 0,
            sticky_migratory: bits & 2 != 0,
            start_migratory: bits & 4 != 0,
            private_handover_updates_memory: bits & 8 != 0,
            two_hand_overs: bits & 16 != 0,
            write_updates_memory: bits & 32 != 0,
            any_copy_supplies_private: [None, Some(false), Some(true)][usize::from(bits / 64)],
            ..Options::default()
        })
        .collect()
}

#[test]
fn every_table_is_safe_and_drains_for_two_to_four_caches_under_every_option() {
    for (name, make) in PROTOCOLS {
        for options in all_options() {
            for caches in 2..=4 {
                if let Err(violation) = explore(&make(&options), caches) {
                    panic!("{name}, {caches} caches, {options:?}: {violation:?}");
                }
            }
        }
    }
}

#[test]
fn no_table_has_a_dead_cell_with_the_default_options() {
    for (name, make) in PROTOCOLS {
        let exploration = explore(&make(&Options::default()), 3).expect("safe");
        assert_eq!(exploration.dead_cells, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_states_that_options_add_or_save_are_all_met() {
    let variants = [
        ("amsd", Options { two_hand_overs: true, ..Options::default() }, 9),
        ("pscr", Options { write_updates_memory: true, ..Options::default() }, 4),
    ];
    for (name, options, states) in variants {
        let table = by_name(name, &options).unwrap();
        assert_eq!(table.rows.len(), states, "{name}");
        let exploration = explore(&table, 4).expect("safe");
        assert_eq!(exploration.dead_cells, Vec::<String>::new(), "{name}");
    }
}

fn row<'a>(table: &'a mut Table, state: &str) -> &'a mut servsim_mem::protocol::table::Row {
    table.rows.iter_mut().find(|row| row.info.name == state).expect("state exists")
}

type Mutation = (&'static str, &'static str, fn(&mut Table));

const MUTATIONS: &[Mutation] = &[
    ("mesi", "a sharer ignores invalidations", |t| {
        row(t, "S").snoop[Snoop::Invalidate as usize] = OnSnoop::to(1);
    }),
    ("mesi", "a sharer ignores read-exclusive", |t| {
        row(t, "S").snoop[Snoop::ReadExclusive as usize] = OnSnoop::to(1);
    }),
    ("mesi", "the owner does not flush on a read", |t| {
        row(t, "M").snoop[0] = OnSnoop::to(1).raising(Lines::SHARED);
    }),
    ("mesi", "memory misses the flush", |t| {
        let cell = row(t, "M").snoop[0];
        row(t, "M").snoop[0] = cell.into_memory(false);
    }),
    ("mesi", "a modified block is dropped", |t| row(t, "M").evict = OnEvict::Silent),
    ("mesi", "a sharer writes without telling", |t| row(t, "S").write = OnAccess::Local(3)),
    ("mesi", "every read miss fills exclusive", |t| {
        row(t, "I").read = OnAccess::Bus { op: BusOp::Read, branches: vec![otherwise(2)], again: false };
    }),
    ("mesi", "an exclusive copy stays exclusive when read", |t| {
        row(t, "E").snoop[0] = OnSnoop::to(2).raising(Lines::SHARED);
    }),
    ("mesi", "a sharer does not raise the shared line", |t| row(t, "S").snoop[0] = OnSnoop::to(1)),
    ("mesi", "the owner keeps its copy on read-exclusive", |t| {
        row(t, "M").snoop[2] = OnSnoop::to(3).raising(Lines::DIRTY).supplying(true);
    }),
    ("mesi", "a write miss only reads", |t| {
        row(t, "I").write = OnAccess::Bus { op: BusOp::Read, branches: vec![otherwise(3)], again: false };
    }),
    ("moesi", "the owned block is dropped", |t| row(t, "O").evict = OnEvict::Silent),
    ("moesi", "a second owner appears", |t| {
        row(t, "I").read = OnAccess::Bus {
            op: BusOp::Read,
            branches: vec![when(Lines::DIRTY, 4), when(Lines::SHARED, 1), otherwise(2)],
            again: false,
        };
    }),
    ("mosi", "the owned block is dropped", |t| row(t, "O").evict = OnEvict::Silent),
    ("mosi", "the owner keeps a modified block that another reads", |t| {
        row(t, "M").snoop[0] = OnSnoop::to(2).raising(Lines::DIRTY.and(Lines::SHARED)).supplying(true);
    }),
    ("mosi", "the owner ignores the upgrade of a sharer", |t| {
        row(t, "O").snoop[Snoop::Invalidate as usize] = OnSnoop::to(3);
    }),
    ("mosi", "an owner writes without telling", |t| row(t, "O").write = OnAccess::Local(2)),
    ("mesif", "the previous forwarder stays", |t| {
        let kept = OnSnoop::to(4).raising(Lines::SHARED).supplying(true);
        row(t, "F").snoop[0] = kept;
    }),
    ("amsd", "a migratory block leaves a copy behind", |t| {
        row(t, "MD").snoop[0] =
            OnSnoop::to(1).raising(Lines::DIRTY.and(Lines::MIGRATORY)).supplying(true).into_memory(true);
    }),
    ("amsd", "the third copy does not demote S2", |t| {
        let cell = OnSnoop::to(4).raising(Lines::SHARED);
        row(t, "S2").snoop[0] = cell;
        row(t, "M").snoop[0] =
            OnSnoop::to(4).raising(Lines::DIRTY.and(Lines::SHARED)).supplying(true).into_memory(true);
        row(t, "I").read = OnAccess::Bus {
            op: BusOp::Read,
            branches: vec![when(Lines::MIGRATORY, 5), when(Lines::SHARED, 4), otherwise(2)],
            again: false,
        };
    }),
    ("amsd", "handed over twice, the block leaves a copy behind", |t| {
        *t = by_name("amsd", &Options { two_hand_overs: true, ..Options::default() }).unwrap();
        row(t, "T2").snoop[Snoop::Invalidate as usize] = OnSnoop::to(8).raising(Lines::MIGRATORY);
    }),
    ("pscr", "a word is not written through", |t| {
        *t = by_name("pscr", &Options { write_updates_memory: true, ..Options::default() }).unwrap();
        t.words_to_memory = false;
    }),
    ("pscr", "a word that memory has is owed to it once more", |t| {
        *t = by_name("pscr", &Options { write_updates_memory: true, ..Options::default() }).unwrap();
        let branches = vec![when(Lines::SHARED, 3), otherwise(2)];
        row(t, "SC").write = OnAccess::Bus { op: BusOp::Write, branches, again: false };
    }),
    ("pscr", "a sharer misses the written word", |t| {
        row(t, "SC").snoop[Snoop::Write as usize] = OnSnoop::to(3).raising(Lines::SHARED);
    }),
    ("pscr", "the old owner keeps ownership", |t| {
        row(t, "SM").snoop[Snoop::Write as usize] = OnSnoop::to(4).raising(Lines::SHARED).updating();
    }),
    ("pscr", "a private hand-over loses the dirty data", |t| {
        row(t, "EM").snoop[1] = OnSnoop::to(0).supplying(true);
    }),
    ("pscr", "a private fetch leaves a copy behind", |t| {
        row(t, "EC").snoop[1] = OnSnoop::to(1);
    }),
];

#[test]
fn each_seeded_error_is_caught() {
    for (name, what, mutate) in MUTATIONS {
        let mut table = by_name(name, &Options::default()).expect("registered");
        mutate(&mut table);
        let found = explore(&table, 3);
        assert!(found.is_err(), "{name}: not caught: {what}");
    }
}

#[test]
fn the_printed_table_is_generated_from_the_executed_one() {
    let text = by_name("mesi", &Options::default()).unwrap().to_markdown();
    let expected = "\
**MESI (Papamarcos & Patel 1984; as in Foglia et al. 2004)**

| State | PrRd | PrWr | Evict | BusRd | BusRdX | BusInv |
|---|---|---|---|---|---|---|
| I | BusRd / SHD?->S ->E | BusRdX / ->M | - | ->I | ->I | ->I |
| S | hit | BusInv / ->M | silent ->I | SHD ->S | ->I | ->I |
| E | hit | silent ->M | silent ->I | SHD ->S | ->I | - |
| M | hit | hit | BusWB ->I | SHD,DIRTY; supply; mem:=data ->S | DIRTY; supply ->I | - |
";
    assert_eq!(text, expected);
}

/// What a table must be for any engine to run it, whatever the protocol says.
fn faults_of(table: &Table) -> Vec<String> {
    let (mut faults, states) = (Vec::new(), table.rows.len());
    let mut expect = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    expect(states <= servsim_mem::protocol::table::MAX_STATES, format!("{states} states"));
    for (state, row) in table.rows.iter().enumerate() {
        let name = row.info.name;
        expect((state == 0) == (name == "I"), format!("{name} in row {state}"));
        let evicts = if state == 0 {
            OnEvict::Impossible
        } else if row.info.dirty {
            OnEvict::WriteBack
        } else {
            OnEvict::Silent
        };
        expect(row.evict == evicts, format!("{name} evicts as {:?}", row.evict));
        for access in [&row.read, &row.write] {
            match access {
                OnAccess::Local(next) => {
                    expect(state != 0 && *next != 0, format!("{name} hits"));
                    expect(usize::from(*next) < states, format!("{name} goes to state {next}"));
                }
                OnAccess::Bus { op, branches, .. } => {
                    expect(op.is_fetch() == (state == 0), format!("{name} asks for {}", op.short()));
                    let last = branches.last().expect("a branch");
                    expect(*last == otherwise(last.next), format!("{name} may find no branch"));
                    let valid = branches.iter().all(|b| b.next != 0 && usize::from(b.next) < states);
                    expect(valid, format!("{name} goes nowhere"));
                }
            }
        }
        for (column, cell) in Snoop::ALL.into_iter().zip(row.snoop) {
            let OnSnoop::Act { supply, memory, update, next, .. } = cell else { continue };
            let what = format!("{name} on {}", column.heading());
            expect(usize::from(next) < states && (state != 0 || next == 0), what.clone());
            let moves_block = !matches!(column, Snoop::Invalidate | Snoop::Write);
            expect(moves_block || !(supply || memory), format!("{what} moves a block"));
            expect(column == Snoop::Write || !update, format!("{what} takes a word"));
            let gives_up = matches!(column, Snoop::ReadExclusive | Snoop::Invalidate);
            expect(!gives_up || next == 0, format!("{what} stays"));
            let loses = row.info.dirty && !table.rows[usize::from(next)].info.dirty;
            let handed_on = memory || supply || column == Snoop::Write || column == Snoop::Invalidate;
            expect(!loses || handed_on, format!("{what} drops dirty data"));
        }
    }
    faults
}

#[test]
fn every_table_has_the_form_that_engines_rely_on() {
    for (name, make) in PROTOCOLS {
        for options in all_options() {
            let table = make(&options);
            assert_eq!(table.name, *name);
            assert_eq!(faults_of(&table), Vec::<String>::new(), "{name}, {options:?}");
        }
    }
    // The description of the form is no list of what happens to be there: each of these breaks it.
    let broken: [fn(&mut Table); 5] = [
        |t| row(t, "M").evict = OnEvict::Silent,
        |t| row(t, "S").write = OnAccess::Local(9),
        |t| row(t, "S").snoop[Snoop::Invalidate as usize] = OnSnoop::to(1),
        |t| row(t, "M").snoop[0] = OnSnoop::to(1),
        |t| {
            let branches = vec![when(Lines::SHARED, 1)];
            row(t, "I").read = OnAccess::Bus { op: BusOp::Read, branches, again: false };
        },
    ];
    for (number, breaks) in broken.into_iter().enumerate() {
        let mut table = by_name("mesi", &Options::default()).unwrap();
        breaks(&mut table);
        assert!(!faults_of(&table).is_empty(), "{number}");
    }
}

/// Random walks with more caches than can be explored, every table under every option.
#[test]
fn every_table_survives_random_walks_of_nine_caches() {
    let mut random = servsim_core::RandomStream::new(5, "walks");
    for (name, make) in PROTOCOLS {
        for options in all_options() {
            let table = make(&options);
            let steps: Vec<Step> = (0..400)
                .map(|_| {
                    let (cache, private) =
                        (random.below(9) as usize, table.uses_private && random.below(2) == 0);
                    match random.below(8) {
                        0 => Step::Evict(cache),
                        1..=3 => Step::Write(cache, private),
                        _ => Step::Read(cache, private),
                    }
                })
                .collect();
            if let Err((at, what)) = replay(&table, 9, &steps) {
                panic!("{name}, {options:?}: {what} after {:?}", &steps[..at]);
            }
        }
    }
}
