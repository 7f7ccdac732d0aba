//! Partitions: nodes that move under load, and everything taken back, wherever it was stopped.

use crate::checks::machine;
use crate::kernel;
use serde_json::{json, Value};
use servsim_rset::partitions::{Journal, Partitions, Step, REST};
use servsim_rset::{processors_of, Nodes};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MEBIBYTES: usize = 64;
const PAGE: usize = 4096;
const THREADS: usize = 2;
const TOP: &str = "/sys/fs/cgroup";

/// The partitions of this machine.
pub fn open() -> Partitions {
    Partitions::open(Journal::new(Journal::PLACE)).unwrap()
}

/// Nodes by the name of a partition.
pub fn wanted(parts: &[(&str, &str)]) -> BTreeMap<String, Nodes> {
    parts.iter().map(|(name, nodes)| ((*name).to_owned(), nodes.parse().unwrap())).collect()
}

/// A program that writes all of its 64 MiB again and again, until its input is closed; then every page must hold as
/// many rounds as its thread made.
pub fn load() {
    // All of it exists before the first round.
    let mut memory = vec![1u64; MEBIBYTES << 17];
    let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for part in memory.chunks_mut((MEBIBYTES << 17) / THREADS) {
            scope.spawn(|| {
                let mut own = 0;
                while !stop.load(Ordering::Relaxed) || own < 2 {
                    part.iter_mut().step_by(PAGE / 8).for_each(|word| *word += 1);
                    own += 1;
                    // Emulated processors that never pause keep each other from answering the kernel's calls.
                    std::thread::sleep(Duration::from_millis(1));
                }
                assert!(part.iter().step_by(PAGE / 8).all(|&word| word == own + 1), "a write was lost");
                rounds.fetch_add(own, Ordering::Relaxed);
            });
        }
        println!("ready");
        std::io::stdout().flush().expect("its reader is there");
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    println!("{}", rounds.into_inner());
}

/// A process under load.
pub struct Loaded {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Loaded {
    /// Begins one, and waits until all of its memory exists.
    pub fn begin() -> Self {
        let command =
            |word| Command::new("/init").arg(word).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = command("load").unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        Self { child, said }
    }

    /// Its number.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// How many rounds it made without losing a write.
    pub fn end(mut self) -> u64 {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        assert!(self.child.wait().unwrap().success());
        line.trim().parse().unwrap()
    }

    /// Its memory lies in these nodes alone, and it runs on their processors alone.
    pub fn expect_in(&self, nodes: &[u32]) {
        let pages = kernel::pages_per_node(self.child.id());
        let inside: u64 = nodes.iter().map(|&node| pages[node as usize]).sum();
        assert!(inside >= (MEBIBYTES << 20 >> 12) as u64, "{pages:?}, wished in {nodes:?}");
        // Pages of the program's file are shared with the first process, and stay.
        let outside: u64 = pages.iter().sum::<u64>() - inside;
        assert!(outside < 600, "{pages:?}, wished in {nodes:?}");
        let wished: Vec<u32> = nodes.iter().flat_map(|node| node * 4..node * 4 + 4).collect();
        assert_eq!(processors_of(self.id()).unwrap().iter().collect::<Vec<_>>(), wished);
    }
}

/// Three times a node leaves a partition under load and returns, and a neighbour notices nothing.
pub fn partitions() -> Value {
    moved(&["database", REST, "database"])
}

/// The same fifty times: a hundred moves.
pub fn hundred_moves() -> Value {
    let turns: Vec<&str> = ["database", REST].into_iter().cycle().take(50).collect();
    moved(&turns)
}

fn moved(turns: &[&str]) -> Value {
    let parts = open();
    for (name, nodes, why) in [
        ("web", "0", "machine's first"),
        ("web", "7", "no node 7"),
        ("web", "", "has no node"),
        ("rest", "1", "a name is"),
        ("Web", "1", "a name is"),
    ] {
        let refused = parts.plan(&wanted(&[(name, nodes)])).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert!(parts
        .plan(&wanted(&[("a", "1-2"), ("b", "2")]))
        .unwrap_err()
        .to_string()
        .contains("another partition"));
    parts.execute(&parts.plan(&wanted(&[("database", "1"), ("web", "2-3")])).unwrap()).unwrap();
    let present: Vec<String> =
        parts.present().unwrap().into_iter().map(|(name, part)| format!("{name}: {}", part.set)).collect();
    assert_eq!(
        present,
        ["database: processors 4-7 and memory of nodes 1", "web: processors 8-15 and memory of nodes 2-3"]
    );
    for (node, from, to, why) in [
        (1, "database", "web", "its last"),
        (3, "database", "web", "holds nodes 1"),
        (0, "rest", "web", "machine's first"),
        (3, "web", "mail", "no such partition"),
        (3, "web", "web", "where it is"),
    ] {
        let refused = parts.plan_move(node, from, to).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let (web, database) = (Loaded::begin(), Loaded::begin());
    parts.execute(&parts.plan_adopt(web.id(), "web").unwrap()).unwrap();
    parts.execute(&parts.plan_adopt(database.id(), "database").unwrap()).unwrap();
    web.expect_in(&[2, 3]);
    database.expect_in(&[1]);
    let (mut milliseconds, mut left) = (Vec::new(), 0);
    for &to in turns {
        let begin = Instant::now();
        left += parts.execute(&parts.plan_move(3, "web", to).unwrap()).unwrap();
        milliseconds.push(begin.elapsed().as_millis() as u64);
        web.expect_in(&[2]);
        if to == REST {
            database.expect_in(&[1]);
        }
        let begin = Instant::now();
        left += parts.execute(&parts.plan_move(3, to, "web").unwrap()).unwrap();
        milliseconds.push(begin.elapsed().as_millis() as u64);
        // What had gone to the node has left it again.
        database.expect_in(&[1]);
        web.expect_in(&[2, 3]);
    }
    let rounds = [web.end(), database.end()];
    assert!(rounds.iter().all(|&rounds| rounds > 3), "{rounds:?}");
    parts.undo().unwrap();
    expect_nothing(&parts);
    json!({"milliseconds of a move": milliseconds, "rounds of all threads": rounds, "pages that would not move": left})
}

/// No partition is left, nor what they needed; all that they had is everybody's again.
pub fn expect_nothing(parts: &Partitions) {
    assert!(parts.present().unwrap().is_empty());
    let handed_down = fs::read_to_string(format!("{TOP}/cgroup.subtree_control")).unwrap();
    assert!(!handed_down.contains("cpuset"), "{handed_down}");
    let (machine, all) = machine();
    assert_eq!(all, machine.online());
}

/// Stopped after any step, everything is taken back, with the processes in it; what others made stays.
pub fn undone() -> Value {
    let parts = open();
    let all = parts.plan(&wanted(&[("a", "1"), ("b", "2-3")])).unwrap();
    for done in 0..=all.len() {
        parts.execute(&all[..done]).unwrap();
        let held = fs::metadata(format!("{TOP}/servsim.b/cpuset.cpus.partition")).is_ok().then(Loaded::begin);
        if let Some(held) = &held {
            // A group without memory or processors takes no process.
            let _ = parts.execute(&parts.plan_adopt(held.id(), "b").unwrap());
        }
        let undone = parts.undo().unwrap();
        assert_eq!(undone.is_empty(), done == 0, "{undone:?}");
        expect_nothing(&parts);
        held.map(Loaded::end);
        assert!(parts.undo().unwrap().is_empty());
    }
    // A folder that stood there before is not ours, although the journal says that we wanted it.
    fs::create_dir(format!("{TOP}/servsim.a")).unwrap();
    let refused = parts.execute(&all).unwrap_err().to_string();
    assert!(refused.contains("make /sys/fs/cgroup/servsim.a"), "{refused}");
    parts.undo().unwrap();
    fs::remove_dir(format!("{TOP}/servsim.a")).unwrap();
    // A group of somebody else's that needs the controller keeps it.
    parts.execute(&all[..1]).unwrap();
    fs::create_dir(format!("{TOP}/others")).unwrap();
    kernel::set(&format!("{TOP}/others/cpuset.mems"), "1");
    assert!(parts.undo().unwrap().is_empty());
    fs::remove_dir(format!("{TOP}/others")).unwrap();
    kernel::set(&format!("{TOP}/cgroup.subtree_control"), "-cpuset");
    expect_nothing(&parts);
    json!({"steps": all.iter().map(Step::to_string).collect::<Vec<_>>()})
}
