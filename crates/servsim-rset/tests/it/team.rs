//! Threads that work together: each on its processor, its memory by the team's policy, none begun in vain.

use servsim_rset::{MemoryPolicy, ResourceSet, RsetError, Team, ThreadOrder, Topology};
use std::num::NonZeroUsize;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn every_thread_runs_where_it_was_dealt_to_and_results_come_by_number() {
    let machine = Topology::discover().unwrap();
    let all = machine.global().unwrap();
    let count = all.processors.len() + 1;
    for order in [ThreadOrder::Fill, ThreadOrder::RoundRobin] {
        let made = Team::new(threads(count)).order(order).run(|member| {
            // SAFETY: asks for a number.
            let here = unsafe { libc::sched_getcpu() } as u32;
            assert_eq!((here, member.threads), (member.processor, count));
            (member.index, member.processor)
        });
        let dealt = order.processors(&machine, &all, count).unwrap();
        assert_eq!(made.unwrap(), dealt.into_iter().enumerate().collect::<Vec<_>>());
    }
}

#[test]
fn members_allocate_by_the_teams_policy() {
    let made = Team::new(threads(3)).memory(MemoryPolicy::Local).run(|member| {
        let mut own = member.allocate(1 << 20).unwrap();
        own.fill(1);
        let found = own.verify().unwrap();
        assert!(found.is_as_wished());
        found.per_node.into_keys().eq([member.node().unwrap()])
    });
    assert_eq!(made.unwrap(), [true; 3]);
}

#[test]
fn no_thread_begins_where_one_cannot_be_bound() {
    let begun = AtomicUsize::new(0);
    let nowhere = ResourceSet { processors: "8000".parse().unwrap(), ..ResourceSet::empty() };
    let outcome = Team::new(threads(2)).within(nowhere).run(|_| begun.fetch_add(1, Ordering::Relaxed));
    assert!(matches!(outcome, Err(RsetError::Outside { .. })), "{outcome:?}");
    assert_eq!(begun.into_inner(), 0);
}

#[test]
fn what_a_thread_panics_with_reaches_the_caller() {
    let run =
        AssertUnwindSafe(|| Team::new(threads(2)).run(|member| assert_eq!(member.index, 0, "number one")));
    let reason = catch_unwind(run).unwrap_err();
    assert!(reason.downcast_ref::<String>().unwrap().contains("number one"));
}
