//! One line at a node and at its home: the only places where a state changes, by the tables and nothing else. Model
//! checker and timed machine move their lines here.

use super::home_table::{HomeAct, HomeCell, HomeEvent, HomeState, HomeTable};
use super::node_table::{NodeAct, NodeCell, NodeEvent, NodeState, NodeTable};
use super::{Message, Next};
use crate::interconnect::node_set::NodeSet;
use servsim_core::NodeId;
use std::fmt;

/// A message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Packet {
    /// What it is.
    pub message: Message,
    /// Who sent it.
    pub from: NodeId,
    /// Who gets it.
    pub to: NodeId,
    /// The node whose access it belongs to.
    pub asker: NodeId,
    /// How many acknowledgements the asker gets in all, if the message says it.
    pub acks: Option<u8>,
}

/// A pair of state and event that a table has no cell for: a fault of the protocol, or of what drives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPair {
    /// The state.
    pub state: &'static str,
    /// The event.
    pub event: &'static str,
}

impl fmt::Display for MissingPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no cell for {}/{}", self.state, self.event)
    }
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// Nothing changed; it has to wait.
    Waits,
    /// It is over.
    Done {
        /// Whether an access of a processor was performed by it.
        performed: bool,
    },
}

/// Acknowledgements that came, and how many there are to be, if that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Acks {
    /// That came.
    pub came: u8,
    /// That there are.
    pub announced: Option<u8>,
}

impl Acks {
    fn all_in(self) -> bool {
        self.announced == Some(self.came)
    }
}

/// A line at a node that is not its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodeLine {
    /// Its state.
    pub state: NodeState,
    /// Acknowledgements for the write under way.
    pub acks: Acks,
}

impl Default for NodeLine {
    fn default() -> Self {
        Self { state: NodeState::I, acks: Acks::default() }
    }
}

impl NodeLine {
    /// Something happens; `of` is the message that it is, or for an event of the node's own one from the node to the
    /// home. What is sent goes to `sent`.
    ///
    /// # Errors
    /// When the table has no cell for it.
    pub fn apply(
        &mut self,
        table: &NodeTable,
        event: NodeEvent,
        of: &Packet,
        home: NodeId,
        sent: &mut Vec<Packet>,
    ) -> Result<Applied, MissingPair> {
        let (acts, next) = match table.cell(self.state, event) {
            NodeCell::Impossible => {
                return Err(MissingPair { state: self.state.name(), event: event.name() });
            }
            NodeCell::Wait => return Ok(Applied::Waits),
            NodeCell::Act(acts, next) => (acts, *next),
        };
        self.acks.came += u8::from(matches!(event, NodeEvent::Ack | NodeEvent::CountedAck));
        self.acks.announced = of.acks.filter(|_| event != NodeEvent::Inv).or(self.acks.announced);
        let me = if event_is_own(event) { of.from } else { of.to };
        let mut performed = false;
        let mut send = |message, to, acks| {
            sent.push(Packet { message, from: me, to, asker: of.asker, acks });
        };
        for act in acts {
            match act {
                NodeAct::Ask(message) => send(*message, home, None),
                NodeAct::SendTo if of.asker == home && acts.contains(&NodeAct::SendHome) => {}
                NodeAct::SendTo => send(Message::Data, of.asker, Some(0)),
                NodeAct::SendHome => send(Message::Data, home, None),
                NodeAct::AckTo => send(Message::Ack, of.asker, of.acks),
                NodeAct::Perform | NodeAct::PerformOnce => performed = true,
            }
        }
        self.state = match next {
            Next::To(state) => state,
            Next::Counted { complete, .. } if self.acks.all_in() => {
                performed = true;
                complete
            }
            Next::Counted { waiting, .. } => waiting,
        };
        if self.state.is_stable() {
            self.acks = Acks::default();
        }
        Ok(Applied::Done { performed })
    }
}

fn event_is_own(event: NodeEvent) -> bool {
    matches!(event, NodeEvent::Load | NodeEvent::Store | NodeEvent::Evict | NodeEvent::Downgrade)
}

/// A line at its home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HomeLine {
    /// Its state.
    pub state: HomeState,
    /// The node that owns it.
    pub owner: Option<NodeId>,
    /// Nodes that may have copies.
    pub sharers: NodeSet,
    /// Acknowledgements for a write of the home's own.
    pub acks: Acks,
}

impl Default for HomeLine {
    fn default() -> Self {
        Self { state: HomeState::I, owner: None, sharers: NodeSet::NONE, acks: Acks::default() }
    }
}

impl HomeLine {
    /// What a message is to the home. Whether a node that asks to write shares the line, and whether one that gives it
    /// back owns it, is the directory's to say: either may have changed since the message was sent.
    ///
    /// # Panics
    /// For a message that only nodes get.
    pub fn event_of(&self, packet: &Packet) -> HomeEvent {
        let owns = self.owner == Some(packet.from);
        match packet.message {
            Message::GetS => HomeEvent::GetS,
            Message::GetM => HomeEvent::GetM,
            Message::Upg if !self.sharers.has(packet.from) => HomeEvent::UpgLost,
            Message::Upg if self.sharers.without(packet.from).is_empty() => HomeEvent::UpgAlone,
            Message::Upg => HomeEvent::UpgShared,
            Message::PutM if owns => HomeEvent::PutM,
            Message::PutMS if owns => HomeEvent::PutMS,
            Message::PutM | Message::PutMS => HomeEvent::PutLate,
            Message::Data => HomeEvent::Data,
            Message::Ack => HomeEvent::Ack,
            Message::FwdGetS | Message::FwdGetM | Message::Inv | Message::PutAck | Message::Grant => {
                panic!("{} is not for homes", packet.message.name())
            }
        }
    }

    /// Something happens; `of` is the message that it is, or for an access of the home's own one from the home to
    /// itself. What is sent goes to `sent`.
    ///
    /// # Errors
    /// When the table has no cell for it.
    pub fn apply(
        &mut self,
        table: &HomeTable,
        event: HomeEvent,
        of: &Packet,
        sent: &mut Vec<Packet>,
    ) -> Result<Applied, MissingPair> {
        let (acts, next) = match table.cell(self.state, event) {
            HomeCell::Impossible => {
                return Err(MissingPair { state: self.state.name(), event: event.name() });
            }
            HomeCell::Wait => return Ok(Applied::Waits),
            HomeCell::Act(acts, next) => (acts, *next),
        };
        let (home, asker) = (of.to, of.asker);
        let others = self.sharers.without(asker);
        let count = others.len() as u8;
        self.acks.came += u8::from(event == HomeEvent::Ack);
        let (mut perform, mut send) = (false, |message, to, acks| {
            sent.push(Packet { message, from: home, to, asker, acks });
        });
        for act in acts {
            match act {
                HomeAct::SendLine => send(Message::Data, asker, Some(count)),
                HomeAct::GrantAsker => send(Message::Grant, asker, Some(count)),
                HomeAct::Invalidate { counted } => {
                    others.iter().for_each(|to| send(Message::Inv, to, counted.then_some(count)));
                    if asker == home {
                        self.acks = Acks { came: 0, announced: Some(count) };
                    }
                }
                HomeAct::Forward(message) => match self.owner {
                    Some(owner) => send(*message, owner, None),
                    None => return Err(MissingPair { state: "no owner", event: event.name() }),
                },
                HomeAct::AckPut => send(Message::PutAck, of.from, None),
                HomeAct::TakeLine => {}
                HomeAct::AddSharer => self.sharers = self.sharers.with(asker),
                HomeAct::ShareWithOwner => {
                    let owner = self.owner.take();
                    self.sharers = owner.map_or(NodeSet::NONE, NodeSet::of).with(asker).without(home);
                }
                HomeAct::OwnedByAsker => (self.owner, self.sharers) = (Some(asker), NodeSet::NONE),
                HomeAct::OwnedByNobody => (self.owner, self.sharers) = (None, NodeSet::NONE),
                HomeAct::Perform => perform = true,
            }
        }
        let (state, performed) = match next {
            Next::To(state) => (state, perform),
            Next::Counted { complete, .. } if self.acks.all_in() => (complete, perform),
            Next::Counted { waiting, .. } => (waiting, false),
        };
        self.state = state;
        if state.is_stable() {
            self.acks = Acks::default();
        }
        Ok(Applied::Done { performed })
    }

    /// Whether the table takes the line from a message now: memory is written by it.
    pub fn takes_line(&self, table: &HomeTable, event: HomeEvent) -> bool {
        matches!(table.cell(self.state, event), HomeCell::Act(acts, _) if acts.contains(&HomeAct::TakeLine))
    }
}
