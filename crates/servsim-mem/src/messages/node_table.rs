//! What the coherence unit of a node does about a line of another node's memory: state x event -> actions, next state.
//!
//! The state is that of the node as a whole; which cache of it has the line is the business of its bus, and so is an
//! access that the bus settles alone. `I`, `S` and `M` are stable. The rest are named by where the line comes from and
//! where it goes, and by what is awaited: `D` data, `A` acknowledgements. Clean copies leave silently, so a home may
//! invalidate what is not there.

use super::{cell_text, markdown, Message, Next, Options};
use NodeAct::{AckTo, Ask, Perform, PerformOnce, SendHome, SendTo};
use NodeEvent as E;
use NodeState as S;

/// The state of a line at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, non_camel_case_types)] // the names of the literature; the file's head explains them
pub enum NodeState {
    I,
    IS_D,
    IS_D_I,
    IM_AD,
    IM_A,
    S,
    SM_AD,
    SM_A,
    M,
    MI_A,
    SI_A,
    MS_A,
    SS_A,
    II_A,
}

impl NodeState {
    /// All, in the order of the rows.
    pub const ALL: [Self; 14] = [
        S::I,
        S::IS_D,
        S::IS_D_I,
        S::IM_AD,
        S::IM_A,
        S::S,
        S::SM_AD,
        S::SM_A,
        S::M,
        S::MI_A,
        S::SI_A,
        S::MS_A,
        S::SS_A,
        S::II_A,
    ];

    /// Its name, as printed.
    pub const fn name(self) -> &'static str {
        [
            "I", "IS_D", "IS_D_I", "IM_AD", "IM_A", "S", "SM_AD", "SM_A", "M", "MI_A", "SI_A", "MS_A",
            "SS_A", "II_A",
        ][self as usize]
    }

    /// Whether nothing is awaited.
    pub const fn is_stable(self) -> bool {
        matches!(self, S::I | S::S | S::M)
    }

    /// Whether a cache of the node keeps a frame for the line.
    pub const fn has_frame(self) -> bool {
        !matches!(self, S::I | S::MI_A | S::SI_A | S::II_A)
    }

    /// Whether processors of the node may read the line.
    pub const fn is_readable(self) -> bool {
        matches!(self, S::S | S::SM_AD | S::SM_A | S::M | S::MS_A | S::SS_A)
    }
}

/// What happens to a line at a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum NodeEvent {
    /// A processor reads.
    Load,
    /// A processor writes.
    Store,
    /// The last copy leaves the node's caches.
    Evict,
    /// A processor reads what is dirty in another's cache, and no cache of the node keeps it dirty.
    Downgrade,
    /// From the home.
    FwdGetS,
    /// From the home.
    FwdGetM,
    /// From the home.
    Inv,
    /// From the home.
    PutAck,
    /// From the home or the owner.
    Data,
    /// From the home.
    Grant,
    /// From a sharer.
    Ack,
    /// From a sharer, with how many there are.
    CountedAck,
}

impl NodeEvent {
    /// All, in the order of the columns.
    pub const ALL: [Self; 12] = [
        E::Load,
        E::Store,
        E::Evict,
        E::Downgrade,
        E::FwdGetS,
        E::FwdGetM,
        E::Inv,
        E::PutAck,
        E::Data,
        E::Grant,
        E::Ack,
        E::CountedAck,
    ];

    /// Heading of the column.
    pub const fn name(self) -> &'static str {
        [
            "Load",
            "Store",
            "Evict",
            "Downgrade",
            "FwdGetS",
            "FwdGetM",
            "Inv",
            "PutAck",
            "Data",
            "Grant",
            "Ack",
            "Ack(k)",
        ][self as usize]
    }

    /// What a message is to the node that it reaches; `counted` for an acknowledgement with a number.
    ///
    /// # Panics
    /// For a message that only homes get.
    pub fn of(message: Message, counted: bool) -> Self {
        match message {
            Message::FwdGetS => E::FwdGetS,
            Message::FwdGetM => E::FwdGetM,
            Message::Inv => E::Inv,
            Message::PutAck => E::PutAck,
            Message::Data => E::Data,
            Message::Grant => E::Grant,
            Message::Ack if counted => E::CountedAck,
            Message::Ack => E::Ack,
            Message::GetS | Message::GetM | Message::Upg | Message::PutM | Message::PutMS => {
                panic!("{} is for homes", message.name())
            }
        }
    }
}

/// Something that a coherence unit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeAct {
    /// Sends a request to the home.
    Ask(Message),
    /// Sends the line to who asked, unless that is the home and gets it anyway.
    SendTo,
    /// Sends the line to the home.
    SendHome,
    /// Acknowledges to who asked.
    AckTo,
    /// The access is performed.
    Perform,
    /// The read that waited is performed, and the line kept for no other.
    PerformOnce,
}

/// A cell of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NodeCell {
    /// Cannot occur.
    Impossible,
    /// Waits, what is behind it in its queue too.
    Wait,
    /// Actions, and the next state.
    Act(Vec<NodeAct>, Next<NodeState>),
}

/// The table of a node's coherence unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeTable {
    cells: Vec<Vec<NodeCell>>,
}

impl NodeTable {
    /// The table under `options`.
    #[allow(clippy::too_many_lines)] // a line per cell
    pub fn new(options: Options) -> Self {
        let act = |acts: &[NodeAct], next| NodeCell::Act(acts.to_vec(), Next::To(next));
        let counted = |acts: &[NodeAct], complete, waiting| {
            NodeCell::Act(acts.to_vec(), Next::Counted { complete, waiting })
        };
        let mut table =
            Self { cells: vec![vec![NodeCell::Impossible; NodeEvent::ALL.len()]; NodeState::ALL.len()] };
        let mut set = |state: NodeState, cells: &[(NodeEvent, NodeCell)]| {
            for (event, cell) in cells {
                *table.cell_mut(state, *event) = cell.clone();
            }
        };
        let wait = |event| (event, NodeCell::Wait);
        let hit = |event, state| (event, act(&[Perform], state));
        let ack = |next| (E::Inv, act(&[AckTo], next));

        set(
            S::I,
            &[
                (E::Load, act(&[Ask(Message::GetS)], S::IS_D)),
                (E::Store, act(&[Ask(Message::GetM)], S::IM_AD)),
                ack(S::I),
            ],
        );
        set(
            S::IS_D,
            &[
                wait(E::Load),
                wait(E::Store),
                wait(E::Evict),
                ack(S::IS_D_I),
                (E::Data, act(&[Perform], S::S)),
            ],
        );
        set(
            S::IS_D_I,
            &[
                wait(E::Load),
                wait(E::Store),
                wait(E::Evict),
                ack(S::IS_D_I),
                (E::Data, act(&[PerformOnce], S::I)),
            ],
        );
        let writes = [wait(E::Load), wait(E::Store), wait(E::Evict), wait(E::FwdGetS), wait(E::FwdGetM)];
        let upgrades =
            [hit(E::Load, S::SM_AD), wait(E::Store), wait(E::Evict), wait(E::FwdGetS), wait(E::FwdGetM)];
        let last = |waiting| counted(&[], S::M, waiting);
        set(S::IM_AD, &writes);
        set(S::IM_AD, &[ack(S::IM_AD), (E::Data, last(S::IM_A)), (E::Ack, act(&[], S::IM_AD))]);
        set(S::IM_A, &writes);
        set(S::IM_A, &[(E::Ack, last(S::IM_A))]);
        set(
            S::S,
            &[
                hit(E::Load, S::S),
                (E::Store, act(&[Ask(Message::Upg)], S::SM_AD)),
                (E::Evict, act(&[], S::I)),
                ack(S::I),
            ],
        );
        set(S::SM_AD, &upgrades);
        set(S::SM_AD, &[ack(S::IM_AD), (E::Grant, last(S::SM_A))]);
        set(S::SM_A, &upgrades);
        set(S::SM_A, &[hit(E::Load, S::SM_A)]);
        if options.counted_acks {
            set(S::SM_AD, &[(E::CountedAck, last(S::SM_A))]);
            set(S::SM_A, &[(E::CountedAck, last(S::SM_A))]);
        } else {
            set(S::SM_AD, &[(E::Ack, act(&[], S::SM_AD))]);
            set(S::SM_A, &[(E::Ack, last(S::SM_A))]);
        }
        set(
            S::M,
            &[
                hit(E::Load, S::M),
                hit(E::Store, S::M),
                (E::Evict, act(&[Ask(Message::PutM)], S::MI_A)),
                (E::Downgrade, act(&[Ask(Message::PutMS)], S::MS_A)),
                (E::FwdGetS, act(&[SendTo, SendHome], S::S)),
                (E::FwdGetM, act(&[SendTo], S::I)),
            ],
        );
        let given =
            |load: bool, state| [if load { hit(E::Load, state) } else { wait(E::Load) }, wait(E::Store)];
        set(S::MI_A, &given(false, S::MI_A));
        set(
            S::MI_A,
            &[
                (E::FwdGetS, act(&[SendTo, SendHome], S::SI_A)),
                (E::FwdGetM, act(&[SendTo], S::II_A)),
                (E::PutAck, act(&[], S::I)),
            ],
        );
        set(S::SI_A, &given(false, S::SI_A));
        set(S::SI_A, &[ack(S::II_A), (E::PutAck, act(&[], S::I))]);
        set(S::MS_A, &given(true, S::MS_A));
        set(
            S::MS_A,
            &[
                wait(E::Evict),
                (E::FwdGetS, act(&[SendTo, SendHome], S::SS_A)),
                (E::FwdGetM, act(&[SendTo], S::II_A)),
                (E::PutAck, act(&[], S::S)),
            ],
        );
        set(S::SS_A, &given(true, S::SS_A));
        set(S::SS_A, &[wait(E::Evict), ack(S::II_A), (E::PutAck, act(&[], S::S))]);
        set(S::II_A, &given(false, S::II_A));
        set(S::II_A, &[(E::PutAck, act(&[], S::I))]);
        table
    }

    /// A cell.
    pub fn cell(&self, state: NodeState, event: NodeEvent) -> &NodeCell {
        &self.cells[state as usize][event as usize]
    }

    /// Every cell that is not impossible, as state and event.
    pub fn cells(&self) -> Vec<(&'static str, &'static str)> {
        let possible =
            |&(state, event): &(NodeState, NodeEvent)| *self.cell(state, event) != NodeCell::Impossible;
        let all = NodeState::ALL.into_iter().flat_map(|state| NodeEvent::ALL.map(|event| (state, event)));
        all.filter(possible).map(|(state, event)| (state.name(), event.name())).collect()
    }

    /// A cell, to be changed.
    pub fn cell_mut(&mut self, state: NodeState, event: NodeEvent) -> &mut NodeCell {
        &mut self.cells[state as usize][event as usize]
    }

    /// The table as Markdown, generated from the object that machines execute; `z` is a wait.
    pub fn to_markdown(&self) -> String {
        let text = |state: NodeState, event| match self.cell(state, event) {
            NodeCell::Impossible => "-".to_owned(),
            NodeCell::Wait => "z".to_owned(),
            NodeCell::Act(acts, next) => {
                let acts: Vec<String> = acts.iter().map(|act| act_text(*act, event)).collect();
                let text = cell_text(&acts, *next, state, NodeState::name);
                if text.is_empty() {
                    "count".to_owned()
                } else {
                    text
                }
            }
        };
        let rows: Vec<_> = NodeState::ALL
            .map(|state| (state.name(), NodeEvent::ALL.map(|event| text(state, event)).to_vec()))
            .to_vec();
        markdown("Coherence unit of a node", &NodeEvent::ALL.map(NodeEvent::name), &rows)
    }
}

fn act_text(act: NodeAct, event: NodeEvent) -> String {
    match act {
        Ask(message) => message.name(),
        SendTo => "Data to asker",
        SendHome => "Data to home",
        AckTo => "Ack to asker",
        Perform if event == E::Data => "read",
        Perform => "hit",
        PerformOnce => "read once",
    }
    .to_owned()
}
