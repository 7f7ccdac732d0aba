//! Pinned and contiguous memory on the machine that runs the tests: there, or refused with the reason.

use servsim_rset::{Block, MemoryPolicy, RsetError, Topology};
use std::num::NonZeroUsize;

#[test]
fn a_pinned_block_exists_and_says_so() {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    let mut block = Block::allocate(&machine, &all, MemoryPolicy::Touch, 20 << 10).unwrap();
    assert!(!block.is_pinned().unwrap());
    assert_eq!(block.verify().unwrap().absent, block.pages());
    block.pin().unwrap();
    assert!(block.is_pinned().unwrap());
    assert_eq!(block.verify().unwrap().absent, 0);
}

#[test]
fn one_page_is_contiguous_and_more_than_any_page_is_refused() {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    let contiguous = |policy, bytes| {
        Block::allocate_contiguous(&machine, &all, policy, bytes).map(|block| block.is_contiguous().unwrap())
    };
    // Without the privilege to see frames it cannot be shown, and is not claimed.
    assert_ne!(contiguous(MemoryPolicy::Local, 100).unwrap(), Some(false));
    for (policy, bytes) in
        [(MemoryPolicy::Local, 1 << 45), (MemoryPolicy::Striped { stride: NonZeroUsize::MIN }, 1 << 20)]
    {
        let refused = contiguous(policy, bytes).unwrap_err();
        assert!(matches!(refused, RsetError::Contiguous { .. }), "{refused}");
    }
}

#[test]
fn ordinary_memory_is_not_taken_for_contiguous() {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    let mut block = Block::allocate(&machine, &all, MemoryPolicy::Touch, 1 << 20).unwrap();
    assert_eq!(block.is_contiguous().unwrap(), Some(false), "nothing is there yet");
    block[0] = 1;
    assert_eq!(block.is_contiguous().unwrap(), Some(false), "one page of many is there");
}
