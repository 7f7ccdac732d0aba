//! The directory protocol by messages: explored, broken and found out, its packets counted, and its tables printed.

use servsim_core::NodeId;
use servsim_mem::messages::checker::{explore, replay, Violation};
use servsim_mem::messages::home_table::{HomeAct, HomeCell, HomeEvent, HomeState};
use servsim_mem::messages::node_table::{NodeAct, NodeCell, NodeEvent, NodeState};
use servsim_mem::messages::world::{Protocol, Step, World, HOME};
use servsim_mem::messages::{Message, Next, Options};

const PLAIN: Options = Options { counted_acks: false };

fn protocol() -> Protocol {
    Protocol::new(Options::default())
}

#[test]
fn a_home_and_two_nodes_are_safe_and_never_stuck() {
    for (options, states) in [(Options::default(), 4115), (PLAIN, 4389)] {
        let found = explore(&Protocol::new(options), 2).unwrap_or_else(|fault| panic!("{fault:#?}"));
        assert_eq!(found.states, states, "{found:?}");
    }
}

#[test]
#[ignore = "acceptance: a home and three nodes"]
fn a_home_and_three_nodes_are_safe_and_never_stuck() {
    for (options, states) in [(Options::default(), 258_069), (PLAIN, 291_810)] {
        let found = explore(&Protocol::new(options), 3).unwrap_or_else(|fault| panic!("{fault:#?}"));
        assert_eq!(found.states, states, "{found:?}");
        assert!(found.dead_cells.is_empty(), "{found:?}");
    }
}

fn set_node(protocol: &mut Protocol, state: NodeState, event: NodeEvent, acts: &[NodeAct], next: NodeState) {
    *protocol.nodes.cell_mut(state, event) = NodeCell::Act(acts.to_vec(), Next::To(next));
}

fn set_home(protocol: &mut Protocol, state: HomeState, event: HomeEvent, acts: &[HomeAct], next: HomeState) {
    *protocol.home.cell_mut(state, event) = HomeCell::Act(acts.to_vec(), Next::To(next));
}

/// A seeded error: what it is, the change, and a word of what the exploration says. The timed machine finds them too.
pub type Mutation = (&'static str, fn(&mut Protocol), &'static str);

pub const MUTATIONS: &[Mutation] = &[
    (
        "an invalidation is dropped by the home",
        |p| {
            set_home(
                p,
                HomeState::S,
                HomeEvent::GetM,
                &[HomeAct::SendLine, HomeAct::OwnedByAsker],
                HomeState::M,
            );
        },
        "never lead",
    ),
    (
        "an invalidation is acknowledged and forgotten",
        |p| set_node(p, NodeState::S, NodeEvent::Inv, &[NodeAct::AckTo], NodeState::S),
        "stale",
    ),
    (
        "an owner forgets to send the line home",
        |p| set_node(p, NodeState::M, NodeEvent::FwdGetS, &[NodeAct::SendTo], NodeState::S),
        "never lead",
    ),
    (
        "memory forgets to take the line given back",
        |p| {
            set_home(
                p,
                HomeState::M,
                HomeEvent::PutM,
                &[HomeAct::AckPut, HomeAct::OwnedByNobody],
                HomeState::I,
            );
        },
        "stale",
    ),
    (
        "a node that gives a line back does not answer a forward",
        |p| set_node(p, NodeState::MI_A, NodeEvent::FwdGetS, &[NodeAct::SendTo], NodeState::SI_A),
        "never lead",
    ),
    (
        "an invalidation that overtakes the data is ignored",
        |p| set_node(p, NodeState::IS_D, NodeEvent::Inv, &[NodeAct::AckTo], NodeState::IS_D),
        "node 1 may read a stale line",
    ),
    (
        "an invalidation waits for the data",
        |p| *p.nodes.cell_mut(NodeState::IS_D, NodeEvent::Inv) = NodeCell::Wait,
        "never lead",
    ),
    (
        "an upgrade is granted to who is no sharer any more",
        |p| {
            let granted = p.home.cell(HomeState::S, HomeEvent::UpgAlone).clone();
            *p.home.cell_mut(HomeState::S, HomeEvent::UpgLost) = granted;
        },
        "IM_AD/Grant",
    ),
    (
        "a reader does not wait for the owner's line on its way home",
        |p| {
            let sent = [HomeAct::SendLine, HomeAct::AddSharer];
            set_home(p, HomeState::S_D, HomeEvent::GetS, &sent, HomeState::S_D);
        },
        "stale",
    ),
    (
        "an upgrade goes on as one after its copy was invalidated",
        |p| set_node(p, NodeState::SM_AD, NodeEvent::Inv, &[NodeAct::AckTo], NodeState::SM_AD),
        "may read a stale line",
    ),
    (
        "a writer does not wait for acknowledgements",
        |p| set_node(p, NodeState::IM_AD, NodeEvent::Data, &[], NodeState::M),
        "may write while others may read",
    ),
    (
        "a write of the home's own does not wait for acknowledgements",
        |p| {
            let acts = [HomeAct::Invalidate { counted: false }, HomeAct::OwnedByNobody, HomeAct::Perform];
            set_home(p, HomeState::S, HomeEvent::Store, &acts, HomeState::I);
        },
        "node 1 may read a stale line",
    ),
    (
        "what is given back late is taken all the same",
        |p| {
            let acts = [HomeAct::TakeLine, HomeAct::AckPut, HomeAct::OwnedByNobody];
            set_home(p, HomeState::M, HomeEvent::PutLate, &acts, HomeState::I);
        },
        "may read a stale line",
    ),
    (
        "an owner that keeps copies is forgotten",
        |p| {
            let acts = [HomeAct::TakeLine, HomeAct::AckPut, HomeAct::OwnedByNobody];
            set_home(p, HomeState::M, HomeEvent::PutMS, &acts, HomeState::I);
        },
        "the home does not know",
    ),
];

/// Steps that lead to a violation lead to it when they are replayed, and no fewer of them do.
fn shown_again(protocol: &Protocol, violation: &Violation) {
    if violation.what.contains("never lead") {
        assert!(replay(protocol, 2, &violation.steps).is_ok());
    } else {
        let again = replay(protocol, 2, &violation.steps).map(|_| ());
        assert_eq!(again, Err((violation.steps.len(), violation.what.clone())));
    }
}

#[test]
fn each_seeded_error_is_found_and_can_be_replayed() {
    for (what, mutate, word) in MUTATIONS {
        let mut broken = protocol();
        mutate(&mut broken);
        let Err(violation) = explore(&broken, 2) else { panic!("not found: {what}") };
        assert!(violation.what.contains(word), "{what}: {violation:#?}");
        shown_again(&broken, &violation);
        assert!(replay(&protocol(), 2, &violation.steps).is_ok(), "{what}: the sound protocol does the same");
    }
}

#[test]
fn an_invalidation_in_a_state_that_none_reaches_is_a_dead_cell() {
    let mut more = protocol();
    set_node(&mut more, NodeState::II_A, NodeEvent::Inv, &[NodeAct::AckTo], NodeState::II_A);
    let found = explore(&more, 2).unwrap_or_else(|fault| panic!("{fault:#?}"));
    assert_eq!(found.states, 4115);
    assert!(found.dead_cells.contains(&"node II_A/Inv".to_owned()), "{:?}", found.dead_cells);
}

#[test]
fn forwards_that_overtake_one_another_break_the_protocol() {
    let unordered = Protocol { forwards_in_order: false, ..protocol() };
    let violation = explore(&unordered, 2).unwrap_err();
    assert_eq!(
        violation.what, "node 1: no cell for MS_A/Inv",
        "the invalidation overtakes the home's PutAck"
    );
    shown_again(&unordered, &violation);
}

/// Lets a node do something, and every message arrive; how many packets that took.
fn packets(world: &mut World, protocol: &Protocol, node: usize, event: NodeEvent) -> usize {
    let mut count = 0;
    let mut take = |world: &mut World, step| {
        let next = world.after(protocol, step).unwrap_or_else(|fault| panic!("{fault}"));
        let Some((after, sent)) = next else { return false };
        count += sent.len();
        *world = after;
        true
    };
    assert!(take(world, Step::Access(NodeId(node), event)));
    while !world.is_quiet() {
        let steps = world.steps(protocol);
        assert!(steps.into_iter().filter(|step| step.is_delivery()).any(|step| take(world, step)));
    }
    count
}

/// A line that nodes have written or read in turn.
fn after(protocol: &Protocol, history: &[(usize, NodeEvent)]) -> World {
    let mut world = World::new(3);
    for &(node, event) in history {
        packets(&mut world, protocol, node, event);
    }
    world
}

/// What it is, what happened before, the access, and the packets that it takes.
type Operation = (&'static str, &'static [(usize, NodeEvent)], (usize, NodeEvent), usize);

#[test]
fn operations_take_as_many_packets_as_they_must() {
    use NodeEvent::{Downgrade, Evict, Load, Store};
    const HERE: usize = HOME.0;
    let operations: &[Operation] = &[
        ("read, clean", &[], (1, Load), 2),
        ("read, dirty at a third node", &[(2, Store)], (1, Load), 4),
        ("read, dirty at home", &[(HERE, Store)], (1, Load), 2),
        ("read by home, clean", &[(2, Load)], (HERE, Load), 0),
        ("read by home, dirty elsewhere", &[(2, Store)], (HERE, Load), 2),
        ("write, nobody has it", &[], (1, Store), 2),
        ("write, one sharer", &[(2, Load)], (1, Store), 4),
        ("write, two sharers", &[(2, Load), (3, Load)], (1, Store), 6),
        ("write, dirty at a third node", &[(2, Store)], (1, Store), 3),
        ("write, dirty at home", &[(HERE, Store)], (1, Store), 2),
        ("write by home, one sharer", &[(1, Load)], (HERE, Store), 2),
        ("write by home, three sharers", &[(1, Load), (2, Load), (3, Load)], (HERE, Store), 6),
        ("write by home, dirty elsewhere", &[(1, Store)], (HERE, Store), 2),
        ("upgrade, alone", &[(1, Load)], (1, Store), 2),
        ("upgrade, one other sharer", &[(1, Load), (2, Load)], (1, Store), 3),
        ("upgrade, two other sharers", &[(1, Load), (2, Load), (3, Load)], (1, Store), 5),
        ("dirty line gives way", &[(1, Store)], (1, Evict), 2),
        ("clean line gives way", &[(1, Load)], (1, Evict), 0),
        ("dirty line is read in its node", &[(1, Store)], (1, Downgrade), 2),
        ("hits", &[(1, Store)], (1, Store), 0),
    ];
    for &(what, history, (node, event), expected) in operations {
        let mut world = after(&protocol(), history);
        assert_eq!(packets(&mut world, &protocol(), node, event), expected, "{what}");
    }
}

#[test]
fn a_grant_beside_invalidations_is_a_sixth_packet() {
    let plain = Protocol::new(PLAIN);
    let mut world = after(&plain, &[(1, NodeEvent::Load), (2, NodeEvent::Load), (3, NodeEvent::Load)]);
    assert_eq!(packets(&mut world, &plain, 1, NodeEvent::Store), 6);
    let mut alone = after(&plain, &[(1, NodeEvent::Load)]);
    assert_eq!(packets(&mut alone, &plain, 1, NodeEvent::Store), 2);
}

#[test]
fn the_printed_tables_are_those_that_are_executed() {
    let page = include_str!("../../../../docs/parts/messages.md");
    for table in [protocol().nodes.to_markdown(), protocol().home.to_markdown()] {
        assert!(page.contains(&table), "docs/parts/messages.md is to have\n{table}");
    }
    assert!(protocol().nodes.to_markdown().contains("| I | GetS ->IS_D | GetM ->IM_AD | - |"));
    assert_eq!(Message::Upg.name(), "Upg");
}
