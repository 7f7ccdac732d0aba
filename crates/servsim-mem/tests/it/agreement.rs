//! BASH is explored with three processors, and breaking any of its rules is found.

use servsim_mem::interconnect::coherence::homes::Entry;
use servsim_mem::interconnect::node_set::NodeSet;
use servsim_mem::protocol::agreement::{explore, Rules};
use servsim_mem::protocol::{by_name, OnSnoop, Options, Snoop, Table};

fn mosi() -> Table {
    by_name("mosi", &Options::default()).unwrap()
}

#[test]
fn owner_and_home_agree_and_every_request_drains() {
    let states = explore(&mosi(), &Rules::default(), 3).unwrap();
    assert!(states > 10_000, "{states} states");
    println!("{states} states");
}

#[test]
fn every_broken_rule_is_found() {
    let broken: [(&str, Rules); 7] = [
        (
            "sharers are not asked for a write",
            Rules { suffices: |entry, _, asker, to| entry.suffices(false, asker, to), ..Rules::default() },
        ),
        (
            "the owner is not asked for a read",
            Rules {
                suffices: |entry, write, asker, to| !write || entry.suffices(write, asker, to),
                ..Rules::default()
            },
        ),
        (
            "readers are not added",
            Rules {
                performed: |entry, write, asker| {
                    if write {
                        entry.performed(write, asker);
                    }
                },
                ..Rules::default()
            },
        ),
        (
            "a write leaves the sharers listed",
            Rules {
                performed: |entry, write, asker| {
                    let sharers = entry.sharers;
                    entry.performed(write, asker);
                    entry.sharers = if write { sharers } else { entry.sharers };
                },
                ..Rules::default()
            },
        ),
        (
            "a late write-back takes the line from its new owner",
            Rules { written_back: |entry, _| *entry = Entry { owner: None, ..*entry }, ..Rules::default() },
        ),
        ("the home forgets a request", Rules { asks_again: false, ..Rules::default() }),
        (
            "a write-back clears the sharers",
            Rules {
                written_back: |entry, node| {
                    entry.written_back(node, false);
                    entry.sharers = NodeSet::NONE;
                },
                ..Rules::default()
            },
        ),
    ];
    for (what, rules) in broken {
        assert!(explore(&mosi(), &rules, 3).is_err(), "not found: {what}");
    }
}

#[test]
fn a_broken_table_is_found_here_too() {
    let mut table = mosi();
    table.rows[1].snoop[Snoop::Invalidate as usize] = OnSnoop::to(1);
    assert!(explore(&table, &Rules::default(), 3).is_err());
}
