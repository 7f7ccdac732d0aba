//! What the home of a line does: state of its directory x event -> actions, next state.
//!
//! The home's own caches and memory are one here, because the bus of the home node and the directory are one ordering
//! point: its processors' accesses are events of this table, and before memory answers or an invalidation leaves, the
//! bus has asked the home's caches. `I`, `S` and `M` are stable: nobody else, sharers, an owner. `S_D` waits for the
//! owner's data on behalf of a reader elsewhere; `LS_D` and `LM_D` do for a read and a write of the home's own, and
//! `L_A` waits for the acknowledgements of a write of the home's own.

use super::{cell_text, markdown, Message, Next, Options};
use HomeAct::{
    AckPut, AddSharer, Forward, GrantAsker, Invalidate, OwnedByAsker, OwnedByNobody, Perform, SendLine,
    ShareWithOwner, TakeLine,
};
use HomeEvent as E;
use HomeState as S;

/// The state of a line at its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, non_camel_case_types)] // the names of the literature; the file's head explains them
pub enum HomeState {
    I,
    S,
    M,
    S_D,
    LS_D,
    LM_D,
    L_A,
}

impl HomeState {
    /// All, in the order of the rows.
    pub const ALL: [Self; 7] = [S::I, S::S, S::M, S::S_D, S::LS_D, S::LM_D, S::L_A];

    /// Its name, as printed.
    pub const fn name(self) -> &'static str {
        ["I", "S", "M", "S_D", "LS_D", "LM_D", "L_A"][self as usize]
    }

    /// Whether nothing is awaited.
    pub const fn is_stable(self) -> bool {
        matches!(self, S::I | S::S | S::M)
    }
}

/// What happens to a line at its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum HomeEvent {
    /// A node asks to read.
    GetS,
    /// A node asks for the line, to write.
    GetM,
    /// A node asks to write what it shared, and is no sharer any more: its copy was invalidated meanwhile.
    UpgLost,
    /// The only sharer asks to write.
    UpgAlone,
    /// A sharer among several asks to write.
    UpgShared,
    /// The owner gives the line back.
    PutM,
    /// The owner gives the line back and keeps copies.
    PutMS,
    /// Somebody gives the line back who lost it meanwhile.
    PutLate,
    /// The owner sends the line.
    Data,
    /// A sharer acknowledges.
    Ack,
    /// A processor of the home reads.
    Load,
    /// A processor of the home writes.
    Store,
}

impl HomeEvent {
    /// All, in the order of the columns.
    pub const ALL: [Self; 12] = [
        E::GetS,
        E::GetM,
        E::UpgLost,
        E::UpgAlone,
        E::UpgShared,
        E::PutM,
        E::PutMS,
        E::PutLate,
        E::Data,
        E::Ack,
        E::Load,
        E::Store,
    ];

    /// Heading of the column.
    pub const fn name(self) -> &'static str {
        [
            "GetS",
            "GetM",
            "Upg, lost",
            "Upg, alone",
            "Upg, shared",
            "PutM",
            "PutMS",
            "Put, late",
            "Data",
            "Ack",
            "own Load",
            "own Store",
        ][self as usize]
    }
}

/// Something that a home does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeAct {
    /// Sends the line to the asker, with how many acknowledgements it will get.
    SendLine,
    /// Lets the asker write, with how many acknowledgements it will get.
    GrantAsker,
    /// Invalidates all sharers but the asker; each is told their number if `counted`.
    Invalidate {
        /// Whether acknowledgements carry their number.
        counted: bool,
    },
    /// Forwards to the owner.
    Forward(Message),
    /// Acknowledges what was given back.
    AckPut,
    /// Memory takes the line.
    TakeLine,
    /// The asker is a sharer too.
    AddSharer,
    /// The owner shares the line with the asker, unless that is the home.
    ShareWithOwner,
    /// The asker owns the line.
    OwnedByAsker,
    /// Nobody else has the line.
    OwnedByNobody,
    /// The access of the home's processor is performed.
    Perform,
}

/// A cell of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HomeCell {
    /// Cannot occur.
    Impossible,
    /// The request waits.
    Wait,
    /// Actions, and the next state.
    Act(Vec<HomeAct>, Next<HomeState>),
}

/// The table of a home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HomeTable {
    cells: Vec<Vec<HomeCell>>,
}

impl HomeTable {
    /// The table under `options`.
    pub fn new(options: Options) -> Self {
        let act = |acts: &[HomeAct], next| HomeCell::Act(acts.to_vec(), Next::To(next));
        let mut table =
            Self { cells: vec![vec![HomeCell::Impossible; HomeEvent::ALL.len()]; HomeState::ALL.len()] };
        let mut set = |state: HomeState, cells: &[(HomeEvent, HomeCell)]| {
            for (event, cell) in cells {
                *table.cell_mut(state, *event) = cell.clone();
            }
        };
        for state in HomeState::ALL {
            set(state, &[(E::PutLate, act(&[AckPut], state))]);
        }
        let waits = |state, events: &[HomeEvent]| {
            let always = [E::GetS, E::GetM, E::UpgLost, E::Load, E::Store];
            let cells: Vec<_> = always.iter().chain(events).map(|&event| (event, HomeCell::Wait)).collect();
            (state, cells)
        };
        // Whom an upgrade can come from follows from how many sharers there are: two or more, one, none, none.
        for (state, cells) in [
            waits(S::S_D, &[E::UpgShared]),
            waits(S::LS_D, &[E::UpgAlone]),
            waits(S::LM_D, &[]),
            waits(S::L_A, &[]),
        ] {
            set(state, &cells);
        }
        let first = act(&[SendLine, OwnedByAsker], S::M);
        set(
            S::I,
            &[
                (E::GetS, act(&[SendLine, AddSharer], S::S)),
                (E::GetM, first.clone()),
                (E::UpgLost, first),
                (E::Load, act(&[Perform], S::I)),
                (E::Store, act(&[Perform], S::I)),
            ],
        );
        let taken = act(&[Invalidate { counted: false }, SendLine, OwnedByAsker], S::M);
        let upgraded = if options.counted_acks {
            act(&[Invalidate { counted: true }, OwnedByAsker], S::M)
        } else {
            act(&[Invalidate { counted: false }, GrantAsker, OwnedByAsker], S::M)
        };
        set(
            S::S,
            &[
                (E::GetS, act(&[SendLine, AddSharer], S::S)),
                (E::GetM, taken.clone()),
                (E::UpgLost, taken),
                (E::UpgAlone, act(&[GrantAsker, OwnedByAsker], S::M)),
                (E::UpgShared, upgraded),
                (E::Load, act(&[Perform], S::S)),
                (E::Store, act(&[Invalidate { counted: false }, OwnedByNobody], S::L_A)),
            ],
        );
        let passed = act(&[Forward(Message::FwdGetM), OwnedByAsker], S::M);
        set(
            S::M,
            &[
                (E::GetS, act(&[Forward(Message::FwdGetS), ShareWithOwner], S::S_D)),
                (E::GetM, passed.clone()),
                (E::UpgLost, passed),
                (E::PutM, act(&[TakeLine, AckPut, OwnedByNobody], S::I)),
                (E::PutMS, act(&[TakeLine, AckPut, ShareWithOwner], S::S)),
                (E::Load, act(&[Forward(Message::FwdGetS), ShareWithOwner], S::LS_D)),
                (E::Store, act(&[Forward(Message::FwdGetM), OwnedByNobody], S::LM_D)),
            ],
        );
        set(S::S_D, &[(E::Data, act(&[TakeLine], S::S))]);
        set(S::LS_D, &[(E::Data, act(&[TakeLine, Perform], S::S))]);
        set(S::LM_D, &[(E::Data, act(&[TakeLine, Perform], S::I))]);
        set(
            S::L_A,
            &[(E::Ack, HomeCell::Act(vec![Perform], Next::Counted { complete: S::I, waiting: S::L_A }))],
        );
        table
    }

    /// A cell.
    pub fn cell(&self, state: HomeState, event: HomeEvent) -> &HomeCell {
        &self.cells[state as usize][event as usize]
    }

    /// Every cell that is not impossible, as state and event.
    pub fn cells(&self) -> Vec<(&'static str, &'static str)> {
        let possible =
            |&(state, event): &(HomeState, HomeEvent)| *self.cell(state, event) != HomeCell::Impossible;
        let all = HomeState::ALL.into_iter().flat_map(|state| HomeEvent::ALL.map(|event| (state, event)));
        all.filter(possible).map(|(state, event)| (state.name(), event.name())).collect()
    }

    /// A cell, to be changed.
    pub fn cell_mut(&mut self, state: HomeState, event: HomeEvent) -> &mut HomeCell {
        &mut self.cells[state as usize][event as usize]
    }

    /// The table as Markdown, generated from the object that machines execute; `z` is a wait.
    pub fn to_markdown(&self) -> String {
        let text = |state: HomeState, event| match self.cell(state, event) {
            HomeCell::Impossible => "-".to_owned(),
            HomeCell::Wait => "z".to_owned(),
            HomeCell::Act(acts, next) => {
                let acts: Vec<String> = acts.iter().map(|act| act_text(*act)).collect();
                cell_text(&acts, *next, state, HomeState::name)
            }
        };
        let rows: Vec<_> = HomeState::ALL
            .map(|state| (state.name(), HomeEvent::ALL.map(|event| text(state, event)).to_vec()))
            .to_vec();
        markdown("Home of a line", &HomeEvent::ALL.map(HomeEvent::name), &rows)
    }
}

fn act_text(act: HomeAct) -> String {
    match act {
        SendLine => "Data(k)",
        GrantAsker => "Grant(k)",
        Invalidate { counted: false } => "Inv to others",
        Invalidate { counted: true } => "Inv(k) to others",
        Forward(message) => message.name(),
        AckPut => "PutAck",
        TakeLine => "mem:=data",
        AddSharer => "add asker",
        ShareWithOwner => "sharers:=owner, asker",
        OwnedByAsker => "owner:=asker",
        OwnedByNobody => "owner:=none",
        Perform => "perform",
    }
    .to_owned()
}
