//! Hand-computed behaviour of a core.

use super::*;
use servsim_core::code::Class;
use servsim_core::LineAddr;

const WIDE: Parameters = Parameters {
    width: 4,
    window: 8,
    misses: 2,
    in_order: false,
    latencies: [Cycles(0), Cycles(1), Cycles(5), Cycles(35), Cycles(2), Cycles(2), Cycles(19)],
    agen: Cycles(1),
    load: Cycles(2),
};

/// Reads register `from` and writes register `to`.
fn op(class: Class, from: u64, to: u64) -> Instruction {
    Instruction { address: 0, reads: 1 << from, writes: 1 << to, class }
}

/// Loads register `to` from the address in register `from`.
fn load(from: u64, to: u64) -> Instruction {
    Instruction { address: 1 << from, reads: 1 << from, writes: 1 << to, class: Class::None }
}

/// Enters all as early as can be; the cycle of each entry.
fn enter(core: &mut Core<char>, now: &mut u64, list: &[Instruction]) -> Vec<u64> {
    let mut entries = Vec::new();
    for instruction in list {
        loop {
            match core.enter(*now, Some(instruction), true) {
                Entry::Entered(next) => {
                    entries.push(*now);
                    *now = next;
                    break;
                }
                Entry::Later { at, .. } => *now = at,
                Entry::Blocked => return entries,
            }
        }
    }
    entries
}

#[test]
fn width_instructions_enter_per_cycle_and_a_wait_begins_a_new_cycle() {
    let mut core = Core::<char>::new(WIDE);
    let one = op(Class::Integer, 0, 1);
    let mut now = 10;
    assert_eq!(enter(&mut core, &mut now, &[one; 6]), [10, 10, 10, 10, 11, 11]);
    now = 20;
    assert_eq!(enter(&mut core, &mut now, &[one; 5]), [20, 20, 20, 20, 21]);
}

#[test]
fn a_chain_of_multiplies_takes_their_latency_times_its_length() {
    let mut core = Core::<char>::new(Parameters { window: 64, ..WIDE });
    let mut now = 0;
    enter(&mut core, &mut now, &[op(Class::Multiply, 1, 1); 8]);
    assert_eq!(core.drained(), Some(8 * 5), "each begins when the one before is complete");
    let mut core = Core::<char>::new(Parameters { window: 64, ..WIDE });
    let independent: Vec<_> = (1..9).map(|r| op(Class::Multiply, 0, r)).collect();
    enter(&mut core, &mut 0, &independent);
    assert_eq!(core.drained(), Some(1 + 5), "four enter at 0 and four at 1");
}

#[test]
fn the_window_closes_behind_what_is_not_complete() {
    let mut core = Core::<char>::new(WIDE);
    // A divide from 0 to 35 and seven others fill the window.
    let mut list = vec![op(Class::Divide, 0, 1)];
    list.extend([op(Class::Integer, 0, 2); 9]);
    assert_eq!(enter(&mut core, &mut 0, &list), [0, 0, 0, 0, 1, 1, 1, 1, 35, 35]);
}

#[test]
fn a_load_that_misses_holds_what_needs_it_and_nothing_else() {
    let mut core = Core::new(WIDE);
    let mut now = 0;
    enter(&mut core, &mut now, &[load(0, 1)]);
    assert_eq!(core.address(), Some(1));
    let miss = core.miss('a');
    enter(&mut core, &mut now, &[op(Class::Multiply, 1, 2), op(Class::Multiply, 0, 3), load(2, 4)]);
    assert_eq!(core.address(), None, "its address comes from the load");
    let second = core.wait_for_address('b');
    assert_eq!(core.drained(), None);
    let issued = core.arrived(miss, 100);
    assert_eq!(issued, [Issue { load: second, access: 'b', start: 105, first: Cycles(2), merged: false }]);
    assert_eq!(
        core.hit_of(&issued[0], LineAddr(7), 100, Cycles(0)),
        107,
        "the multiply, then a first-level hit"
    );
    assert!(core.arrived(second, 107).is_empty());
    assert_eq!(core.drained(), Some(107));
}

#[test]
fn an_in_order_core_waits_at_the_first_use() {
    let mut core = Core::new(Parameters { in_order: true, width: 1, ..WIDE });
    let mut now = 0;
    enter(&mut core, &mut now, &[load(0, 1)]);
    let miss = core.miss('a');
    let others = [op(Class::Divide, 0, 2), op(Class::Integer, 0, 3), op(Class::Integer, 1, 4)];
    assert_eq!(enter(&mut core, &mut now, &others), [1, 2], "the last uses the data");
    core.arrived(miss, 50);
    now = 50;
    assert_eq!(core.enter(now, Some(&others[2]), true), Entry::Entered(51));
    let use_of_quotient = op(Class::Integer, 2, 2);
    assert_eq!(core.enter(51, Some(&use_of_quotient), true), Entry::Entered(52), "35 cycles are over");
}

#[test]
fn unknown_code_takes_no_time_and_is_used_at_once_in_order() {
    let mut core = Core::<char>::new(WIDE);
    for _ in 0..8 {
        core.enter(0, None, true);
    }
    assert_eq!(core.drained(), Some(0));
    let mut core = Core::new(Parameters { in_order: true, ..WIDE });
    core.enter(0, None, true);
    core.miss('a');
    assert_eq!(core.enter(1, None, true), Entry::Blocked);
}

#[test]
fn another_contexts_registers_are_there() {
    let mut core = Core::new(WIDE);
    core.enter(0, Some(&load(0, 1)), true);
    core.miss('a');
    core.enter(0, Some(&load(1, 2)), true);
    assert_eq!(core.address(), None);
    core.change_context();
    core.enter(0, Some(&load(1, 2)), true);
    assert_eq!(core.address(), Some(1));
}

#[test]
fn sets_of_registers_are_there_with_the_last_of_them() {
    let (mut registers, mut plain) = (Registers::default(), [0; PLACES]);
    let mut random = servsim_core::RandomStream::new(1, "registers");
    for at in 1..2000 {
        let mut set = || (0..random.below(6)).fold(0_u64, |set, _| set | 1 << random.below(PLACES as u64));
        let (read, written) = (set(), set());
        let expected = numbers(read).map(|register| plain[register]).max();
        assert_eq!(registers.ready(read), expected.unwrap_or(0), "{read:#x}");
        registers.set(written, at);
        numbers(written).for_each(|register| plain[register] = at);
    }
}

#[test]
fn a_load_of_a_line_that_is_on_its_way_has_its_data_when_it_arrives() {
    let mut core = Core::<char>::new(WIDE);
    for (register, beyond_first) in [(1, 10), (2, 0)] {
        core.enter(0, Some(&load(0, register)), true);
        core.hit(LineAddr(7), 0, Cycles(beyond_first));
    }
    core.enter(0, Some(&op(Class::Integer, 2, 3)), true);
    assert_eq!(core.drained(), Some(2 + 10 + 1));
}
