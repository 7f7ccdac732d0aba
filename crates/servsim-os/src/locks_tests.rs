//! The lock table alone: order, wake-ups, events without partner, force, digests.

use super::*;
use LockClass::LightweightOrWait as OrWait;
use LockClass::{
    KernelSleep, KernelSpin, LightweightExclusive as Exclusive, LightweightShared as Shared, UserSpin,
};

fn release(locks: &mut Locks, owner: Owner, word: u64, now: u64) -> Vec<TaskId> {
    let mut woken = Vec::new();
    locks.release(owner, word, now, &mut woken);
    woken
}

#[test]
fn a_spinlock_passes_to_the_waiter_that_came_first() {
    let mut locks = Locks::new(3);
    assert_eq!(locks.acquire(0, 8, KernelSpin, 10), Verdict::Granted);
    assert_eq!(locks.acquire(2, 8, KernelSpin, 11), Verdict::Spin);
    assert_eq!(locks.acquire(1, 8, KernelSpin, 12), Verdict::Spin);
    assert!(release(&mut locks, 0, 8, 20).is_empty(), "spinners need no wake-up");
    assert_eq!(locks.acquire(1, 8, KernelSpin, 25), Verdict::Spin, "not its turn");
    assert_eq!(locks.acquire(2, 8, KernelSpin, 26), Verdict::Granted);
    release(&mut locks, 2, 8, 30);
    assert_eq!(locks.acquire(1, 8, KernelSpin, 33), Verdict::Granted);
    let counts = locks.counts.classes[KernelSpin as usize];
    assert_eq!((counts.acquisitions, counts.contended), (3, 2));
    assert_eq!(counts.wait_cycles, (26 - 11) + (33 - 12));
}

#[test]
fn a_woken_sleeper_may_be_overtaken_once_and_is_served_at_the_next_release() {
    let mut locks = Locks::new(4);
    locks.acquire(0, 8, Exclusive, 0);
    assert_eq!(locks.acquire(1, 8, Exclusive, 1), Verdict::Sleep);
    assert_eq!(locks.acquire(2, 8, Exclusive, 2), Verdict::Sleep);
    assert_eq!(release(&mut locks, 0, 8, 10), [1]);
    assert_eq!(locks.acquire(3, 8, Exclusive, 11), Verdict::Granted, "nobody has it yet");
    assert_eq!(locks.acquire(1, 8, Exclusive, 12), Verdict::Sleep, "woken in vain");
    assert_eq!(release(&mut locks, 3, 8, 20), [1]);
    assert_eq!(locks.acquire(0, 8, Exclusive, 21), Verdict::Sleep, "it is task 1's by now");
    assert_eq!(locks.acquire(1, 8, Exclusive, 22), Verdict::Granted);
    assert_eq!(release(&mut locks, 1, 8, 30), [2], "then the next in line");
}

#[test]
fn readers_share_and_a_writer_waits_for_all_of_them() {
    let mut locks = Locks::new(4);
    assert_eq!(locks.acquire(0, 8, Shared, 0), Verdict::Granted);
    assert_eq!(locks.acquire(1, 8, Shared, 0), Verdict::Granted);
    assert_eq!(locks.acquire(2, 8, Exclusive, 1), Verdict::Sleep);
    assert!(release(&mut locks, 0, 8, 2).is_empty());
    assert_eq!(release(&mut locks, 1, 8, 3), [2]);
    assert_eq!(locks.acquire(2, 8, Exclusive, 4), Verdict::Granted);
    assert_eq!(locks.acquire(0, 8, Shared, 5), Verdict::Sleep);
    assert_eq!(locks.acquire(3, 8, Shared, 5), Verdict::Sleep);
    assert_eq!(release(&mut locks, 2, 8, 9), [0, 3], "readers are woken together");
}

#[test]
fn those_that_wait_for_work_done_for_all_go_on_together_up_to_the_first_other() {
    let mut locks = Locks::new(6);
    assert_eq!(locks.acquire(0, 8, OrWait, 0), Verdict::Granted);
    for (owner, class) in [(1, OrWait), (2, OrWait), (3, Exclusive), (4, OrWait)] {
        assert_eq!(locks.acquire(owner, 8, class, 1), Verdict::Sleep);
    }
    assert_eq!(release(&mut locks, 0, 8, 10), [1, 2]);
    assert_eq!(locks.acquire(5, 8, OrWait, 11), Verdict::Sleep, "the lock is theirs already");
    assert_eq!(locks.acquire(2, 8, OrWait, 12), Verdict::Granted);
    assert_eq!(locks.acquire(1, 8, OrWait, 13), Verdict::Granted);
    assert!(release(&mut locks, 1, 8, 20).is_empty(), "one of the two has it still");
    assert_eq!(release(&mut locks, 2, 8, 21), [3]);
    assert_eq!(locks.acquire(3, 8, Exclusive, 22), Verdict::Granted);
    assert_eq!(release(&mut locks, 3, 8, 30), [4, 5]);
    assert_eq!(locks.counts.classes[OrWait as usize].wait_cycles, 11 + 12);
}

#[test]
fn releases_and_acquisitions_without_partner_do_no_harm_and_are_counted() {
    let mut locks = Locks::new(2);
    assert!(release(&mut locks, 0, 8, 0).is_empty());
    locks.acquire(0, 8, KernelSleep, 1);
    assert!(release(&mut locks, 1, 8, 2).is_empty(), "task 1 does not hold it");
    assert_eq!(locks.acquire(1, 8, KernelSleep, 3), Verdict::Sleep);
    assert_eq!(locks.acquire(0, 8, KernelSleep, 4), Verdict::Granted);
    assert_eq!((locks.counts.unmatched_releases, locks.counts.repeated), (2, 1));
    assert_eq!(release(&mut locks, 0, 8, 5), [1]);
}

#[test]
fn kernel_spinlocks_end_when_their_holder_leaves_and_others_when_it_ends() {
    let mut locks = Locks::new(3);
    let mut woken = Vec::new();
    locks.acquire(0, 8, KernelSpin, 0);
    locks.acquire(0, 16, Exclusive, 0);
    assert_eq!(locks.spins_held(0), 1);
    locks.acquire(1, 8, KernelSpin, 1);
    locks.acquire(2, 16, Exclusive, 1);
    locks.leave(0, false, 5, &mut woken);
    assert_eq!((locks.spins_held(0), locks.spins_held(1), woken.len()), (0, 1, 0));
    locks.expire(1, 5 + LONGEST_SPIN_HOLD, &mut woken);
    assert_eq!(locks.spins_held(1), 1);
    locks.expire(1, 6 + LONGEST_SPIN_HOLD, &mut woken);
    assert_eq!(locks.spins_held(1), 0);
    locks.leave(0, true, 9, &mut woken);
    assert_eq!(woken, [2]);
    assert_eq!((locks.counts.forced_releases, locks.counts.cut_holds), (2, 1));
}

#[test]
fn a_cycle_of_waiters_is_broken_and_counted() {
    let mut locks = Locks::new(3);
    (0..3).for_each(|owner| {
        assert_eq!(locks.acquire(owner, u64::from(owner), Exclusive, 0), Verdict::Granted);
    });
    assert_eq!(locks.acquire(0, 1, Exclusive, 1), Verdict::Sleep);
    assert_eq!(locks.acquire(1, 2, Exclusive, 2), Verdict::Sleep);
    assert_eq!(locks.acquire(2, 0, Exclusive, 3), Verdict::Granted, "else all three wait forever");
    assert_eq!(locks.counts.forced_handovers, 1);
}

#[test]
fn a_spinlock_of_user_mode_is_never_handed_to_one_that_may_be_off_its_processor() {
    let mut locks = Locks::new(4);
    locks.acquire(0, 8, UserSpin, 0);
    assert_eq!(locks.acquire(1, 8, UserSpin, 1), Verdict::Spin);
    assert_eq!(locks.acquire(2, 8, UserSpin, 2), Verdict::Spin);
    assert!(release(&mut locks, 0, 8, 5).is_empty());
    // Task 1 came first, but its time slice ended while it spun: task 2 does not wait for it.
    assert_eq!(locks.acquire(2, 8, UserSpin, 6), Verdict::Granted);
    release(&mut locks, 2, 8, 7);
    assert_eq!(locks.acquire(3, 8, UserSpin, 8), Verdict::Granted);
    release(&mut locks, 3, 8, 9);
    assert_eq!(locks.acquire(1, 8, UserSpin, 10), Verdict::Granted);
}

#[test]
fn a_spinner_that_sleeps_instead_is_woken_and_spins_again_if_another_was_quicker() {
    let mut locks = Locks::new(3);
    locks.acquire(0, 8, UserSpin, 0);
    assert_eq!(locks.acquire(1, 8, UserSpin, 1), Verdict::Spin);
    locks.sleep_instead(1);
    assert_eq!(release(&mut locks, 0, 8, 5), [1]);
    assert_eq!(locks.acquire(2, 8, UserSpin, 6), Verdict::Granted);
    assert_eq!(locks.acquire(1, 8, UserSpin, 7), Verdict::Spin);
    assert!(release(&mut locks, 2, 8, 8).is_empty(), "it spins, and needs no wake-up");
    assert_eq!(locks.acquire(1, 8, UserSpin, 9), Verdict::Granted);
}

#[test]
fn a_kernel_spinlock_held_as_another_class_is_handed_over() {
    let mut locks = Locks::new(2);
    locks.acquire(0, 8, Exclusive, 0);
    assert_eq!(locks.acquire(1, 8, KernelSpin, 1), Verdict::Granted);
    assert_eq!(locks.counts.forced_handovers, 1);
}

#[test]
fn one_that_spins_for_too_long_gets_the_lock_whatever_its_class() {
    let mut locks = Locks::new(2);
    locks.acquire(0, 8, UserSpin, 0);
    assert_eq!(locks.acquire(1, 8, UserSpin, 10), Verdict::Spin);
    assert_eq!(locks.acquire(1, 8, UserSpin, 10 + LONGEST_SPIN_HOLD), Verdict::Spin);
    assert_eq!(locks.acquire(1, 8, UserSpin, 11 + LONGEST_SPIN_HOLD), Verdict::Granted);
    let holders: Vec<Owner> =
        locks.entries[locks.by_word[&8]].holders.iter().map(|holder| holder.owner).collect();
    assert_eq!((locks.counts.forced_handovers, holders), (1, vec![1]));
}

#[test]
fn the_longest_sleeper_is_helped_when_nothing_else_can_run() {
    let mut locks = Locks::new(3);
    locks.acquire(0, 8, Exclusive, 0);
    locks.acquire(2, 8, Exclusive, 1);
    locks.acquire(1, 8, Exclusive, 2);
    assert_eq!(locks.force_one(9), Some(2));
    assert_eq!(locks.acquire(2, 8, Exclusive, 9), Verdict::Granted);
    assert_eq!(Locks::new(1).force_one(0), None);
}

#[test]
fn a_holder_asleep_until_its_lock_s_waiter_wakes_it_is_seen_at_once() {
    // Task 0 holds lock 8 and sleeps until task 2 wakes it; task 2 sleeps until task 1 does; task 1
    // asks for the lock.
    let mut locks = Locks::new(4);
    locks.acquire(0, 8, Exclusive, 0);
    assert_eq!(locks.sleeps_until_woken(0, 2, 1), None);
    assert_eq!(locks.sleeps_until_woken(2, 1, 2), None);
    assert_eq!(locks.acquire(3, 8, Exclusive, 3), Verdict::Sleep, "nobody waits for task 3");
    assert_eq!(locks.acquire(1, 8, Exclusive, 4), Verdict::Granted);
    assert_eq!(locks.counts.forced_handovers, 1);
}

#[test]
fn the_same_is_seen_when_the_wait_for_the_lock_came_first() {
    let mut locks = Locks::new(3);
    locks.acquire(0, 8, Exclusive, 0);
    assert_eq!(locks.acquire(1, 8, Exclusive, 1), Verdict::Sleep);
    assert_eq!(locks.sleeps_until_woken(2, 1, 2), None, "task 2 holds nothing");
    assert_eq!(locks.sleeps_until_woken(0, 2, 3), Some(1), "task 1 is to be woken: the lock is its");
    assert_eq!(locks.acquire(1, 8, Exclusive, 4), Verdict::Granted);
    assert_eq!(locks.counts.forced_handovers, 1);
}

#[test]
fn a_woken_holder_is_waited_for() {
    let mut locks = Locks::new(2);
    locks.acquire(0, 8, Exclusive, 0);
    locks.sleeps_until_woken(0, 1, 1);
    locks.wakes(0);
    assert_eq!(locks.acquire(1, 8, Exclusive, 2), Verdict::Sleep);
    assert_eq!(locks.counts.forced_handovers, 0);
}

#[test]
fn the_digest_tells_the_order_within_locks_and_nothing_else() {
    let run = |steps: &[(Owner, u64)]| {
        let mut locks = Locks::new(2);
        for (now, &(owner, word)) in (0..).zip(steps) {
            assert_eq!(locks.acquire(owner, word, KernelSpin, now), Verdict::Granted);
            release(&mut locks, owner, word, now);
        }
        locks.order_digest()
    };
    let base = run(&[(0, 8), (1, 8), (0, 16)]);
    assert_eq!(base, run(&[(0, 16), (0, 8), (1, 8)]), "other locks in between do not matter");
    assert_ne!(base, run(&[(1, 8), (0, 8), (0, 16)]));
    assert_ne!(run(&[(0, 8), (1, 8), (0, 8)]), run(&[(1, 8), (1, 8), (0, 8)]), "the last is not all");
    assert_ne!(base, run(&[(0, 8), (1, 8), (1, 16)]));
}

#[test]
fn chains_of_waits_are_followed_as_graphs_of_them_are() {
    let mut found = 0;
    for seed in 0..200 {
        let mut random = RandomStream::new(seed, "locks");
        let (mut locks, owners) = (Locks::new(24), 24);
        for now in 0..200 {
            let (owner, word) = (random.below(owners) as Owner, random.below(12) * 8);
            match random.below(8) {
                0 => locks.release(owner, word, now, &mut Vec::new()),
                1 => locks.wakers[owner as usize] = Some(random.below(owners) as Owner),
                // As a lock is waited for, without the hand-over that ends a cycle of waits.
                kind if locks.waits[owner as usize].is_none() => {
                    let lock = locks.lock(word);
                    let class = if kind == 2 { Shared } else { Exclusive };
                    if locks.entries[lock].admits(class) {
                        locks.grant(owner, lock, class, now);
                    } else if !locks.entries[lock].held_by(owner) {
                        locks.enqueue(owner, lock, class, now, false);
                    }
                }
                _ => {}
            }
            for owner in 0..owners as Owner {
                let blocker = locks.blocker_in_a_cycle(owner);
                assert_eq!(blocker, locks.blocker_in_a_graph(owner), "seed {seed}, at {now}, owner {owner}");
                found += usize::from(blocker.is_some());
            }
        }
    }
    assert!(found > 1000, "{found}");
}

#[test]
fn a_spinlock_taken_behind_a_release_is_held_for_its_own_time() {
    let mut locks = Locks::new(2);
    let mut woken = Vec::new();
    locks.acquire(0, 8, KernelSpin, 0);
    locks.release(0, 8, 5, &mut woken);
    locks.acquire(0, 8, KernelSpin, 100);
    locks.acquire(0, 16, KernelSpin, 200);
    assert_eq!(locks.acquire(1, 8, KernelSpin, 300), Verdict::Spin);
    for (now, held) in
        [(100 + LONGEST_SPIN_HOLD, 2), (101 + LONGEST_SPIN_HOLD, 1), (300 + LONGEST_SPIN_HOLD, 0)]
    {
        locks.expire_holders(1, 8, now, &mut woken);
        locks.expire(0, now, &mut woken);
        assert_eq!(locks.spins_held(0), held, "{now}");
    }
    assert_eq!(locks.acquire(1, 8, KernelSpin, 301 + LONGEST_SPIN_HOLD), Verdict::Granted);
}
