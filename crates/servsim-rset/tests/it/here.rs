//! On the machine that runs the tests, whatever its nodes: what holds on every one.

use servsim_rset::{bind_process, bind_thread, Block, MemoryPolicy, ResourceSet, RsetError, Topology};
use std::num::NonZeroUsize;
use std::process::{Command, Stdio};

const BYTES: usize = 3 << 20;

fn here() -> (Topology, ResourceSet) {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    (machine, all)
}

fn striped(pages: usize) -> MemoryPolicy {
    MemoryPolicy::Striped { stride: NonZeroUsize::new(pages).unwrap() }
}

#[test]
fn every_policy_places_every_page_as_it_says() {
    let (machine, all) = here();
    for policy in [MemoryPolicy::Float, MemoryPolicy::Local, MemoryPolicy::Touch, striped(1), striped(5)] {
        let mut block = Block::allocate(&machine, &all, policy, BYTES).unwrap();
        assert!(block.iter().all(|&byte| byte == 0));
        block.fill(7);
        let found = block.verify().unwrap();
        assert!(found.is_as_wished(), "{policy}: {found:?}");
        assert_eq!(found.absent, 0);
        assert_eq!(found.per_node.values().sum::<usize>(), block.pages());
    }
}

#[test]
fn memory_nobody_touched_is_nowhere() {
    let (machine, all) = here();
    let mut block = Block::allocate(&machine, &all, MemoryPolicy::Touch, BYTES).unwrap();
    assert_eq!(block.verify().unwrap().absent, block.pages());
    block[0] = 1;
    assert!(block.verify().unwrap().absent < block.pages());
}

#[test]
fn remote_memory_needs_a_second_node() {
    let (machine, all) = here();
    match Block::allocate(&machine, &all, MemoryPolicy::Remote, BYTES) {
        Ok(_) => assert!(all.nodes.len() > 1),
        Err(RsetError::NothingRemote { .. }) => assert_eq!(all.nodes.len(), 1),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn what_the_machine_lacks_is_refused() {
    let (machine, all) = here();
    let absent = ResourceSet { nodes: "999".parse().unwrap(), ..ResourceSet::empty() };
    let fault = Block::allocate(&machine, &all.union(&absent), MemoryPolicy::Touch, BYTES).unwrap_err();
    assert!(matches!(fault, RsetError::Outside { .. }), "{fault}");
    assert!(matches!(machine.node_set(999), Err(RsetError::Outside { .. })));
    for bytes in [0, usize::MAX, isize::MAX as usize] {
        assert!(Block::allocate(&machine, &all, striped(1), bytes).is_err(), "{bytes}");
    }
    let nowhere = ResourceSet { nodes: all.nodes.clone(), ..ResourceSet::empty() };
    assert!(matches!(bind_thread(0, &nowhere), Err(RsetError::NoProcessor)));
}

#[test]
fn what_was_inherited_is_narrower_than_what_is_allowed() {
    let (machine, all) = here();
    let one = ResourceSet {
        processors: [all.processors.first().unwrap()].into_iter().collect(),
        ..ResourceSet::empty()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            bind_thread(0, &one).unwrap();
            assert_eq!(machine.inherited().unwrap().processors, one.processors);
            assert_eq!(machine.global().unwrap(), all);
        });
    });
    assert_eq!(machine.global().unwrap(), all);
}

#[test]
fn a_process_is_bound_with_all_its_threads() {
    let (machine, all) = here();
    // It waits for input that does not come, and ends when its input is closed.
    let mut waiting = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let id = waiting.id() as i32;
    let last = all.processors.iter().next_back().unwrap();
    let set = ResourceSet { processors: [last].into_iter().collect(), ..ResourceSet::empty() };
    assert_eq!(bind_process(id, &set).unwrap().threads, 1);
    assert_eq!(servsim_rset::processors_of(id).unwrap(), set.processors);
    assert_eq!(servsim_rset::migrate_process(id, &machine.with_memory(), &all).unwrap(), 0);
    drop(waiting.stdin.take());
    waiting.wait().unwrap();
    assert!(matches!(bind_process(id, &set), Err(RsetError::NoProcess { .. })));
}
