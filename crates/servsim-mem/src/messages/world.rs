//! One line, its home and a few nodes, and the messages between them: what can happen next, and what it leads to.
//! Without time: any message that its network may deliver now can be the next.
//!
//! Values are reduced to fresh (equal to the last performed write) and stale. The home is node 0; its memory and its
//! caches are one.

use super::controller::{Applied, HomeLine, NodeLine, Packet};
use super::home_table::{HomeEvent, HomeState, HomeTable};
use super::node_table::{NodeEvent, NodeState, NodeTable};
use super::{Message, Network, Options};
use servsim_core::NodeId;

/// The home.
pub const HOME: NodeId = NodeId(0);

/// Tables, and what may be varied of what carries messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protocol {
    /// Of the nodes.
    pub nodes: NodeTable,
    /// Of the home.
    pub home: HomeTable,
    /// Whether forwards keep their order from the home to a node.
    pub forwards_in_order: bool,
}

impl Protocol {
    /// The protocol under `options`.
    pub fn new(options: Options) -> Self {
        Self { nodes: NodeTable::new(options), home: HomeTable::new(options), forwards_in_order: true }
    }
}

/// One thing that happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A processor of a node does something to the line.
    Access(NodeId, NodeEvent),
    /// The message at this place arrives.
    Deliver(usize),
}

impl Step {
    /// Whether it is the protocol's own, and not a wish of a processor.
    pub fn is_delivery(self) -> bool {
        matches!(self, Self::Deliver(_))
    }
}

/// A cell: whether it is of the home's table, its state and its event.
pub type Cell = (bool, &'static str, &'static str);

/// What a step is to whom it happens to.
#[derive(Debug, Clone, Copy)]
enum Event {
    AtHome(HomeEvent),
    AtNode(NodeId, NodeEvent),
}

/// A message on its way, and whether the line that it carries is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Flight {
    packet: Packet,
    fresh: bool,
}

impl Flight {
    /// By this they are sorted: forwards to a node stay in the order in which they were sent.
    fn place(&self) -> (Network, NodeId, Option<Self>) {
        match self.packet.message.network() {
            Network::Forward => (Network::Forward, self.packet.to, None),
            network => (network, NodeId(0), Some(*self)),
        }
    }
}

/// A line at a node, and whether what the node has of it is fresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Agent {
    line: NodeLine,
    fresh: bool,
}

/// The line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    home: HomeLine,
    memory_fresh: bool,
    /// By node; the home's is never used.
    agents: Vec<Agent>,
    /// By network, and within it by kind; forwards in the order in which they were sent.
    flights: Vec<Flight>,
}

impl World {
    /// Nobody has the line beside the home; with so many other nodes.
    pub fn new(agents: usize) -> Self {
        Self {
            home: HomeLine::default(),
            memory_fresh: true,
            agents: vec![Agent::default(); agents + 1],
            flights: Vec::new(),
        }
    }

    /// The state of the line at a node.
    pub fn state_of(&self, node: NodeId) -> NodeState {
        self.agents[node.0].line.state
    }

    /// What the home knows.
    pub fn home(&self) -> &HomeLine {
        &self.home
    }

    /// Whether no message is on its way and nobody waits for one.
    pub fn is_quiet(&self) -> bool {
        self.flights.is_empty()
            && self.home.state.is_stable()
            && self.agents.iter().all(|agent| agent.line.state.is_stable())
    }

    /// A step in words.
    pub fn text(&self, step: Step) -> String {
        match step {
            Step::Access(node, event) => format!("node {}: {}", node.0, event.name()),
            Step::Deliver(place) => {
                let Packet { message, from, to, asker, .. } = self.flights[place].packet;
                format!("{} of node {} from {} reaches {}", message.name(), asker.0, from.0, to.0)
            }
        }
    }

    /// Everything that may happen next.
    pub fn steps(&self, protocol: &Protocol) -> Vec<Step> {
        let mut steps: Vec<Step> = (0..self.flights.len())
            .filter(|&place| self.may_arrive(place, protocol))
            .map(Step::Deliver)
            .collect();
        for node in NodeId::all(self.agents.len()) {
            steps.extend([NodeEvent::Load, NodeEvent::Store].map(|event| Step::Access(node, event)));
            let state = self.state_of(node);
            if state.has_frame() && node != HOME {
                steps.push(Step::Access(node, NodeEvent::Evict));
            }
            if state == NodeState::M {
                steps.push(Step::Access(node, NodeEvent::Downgrade));
            }
        }
        steps
    }

    /// Forwards to a node arrive in order, as far as that is asked for.
    fn may_arrive(&self, place: usize, protocol: &Protocol) -> bool {
        let Packet { message, to, .. } = self.flights[place].packet;
        let forward =
            |flight: &Flight| flight.packet.message.network() == Network::Forward && flight.packet.to == to;
        !protocol.forwards_in_order
            || message.network() != Network::Forward
            || !self.flights[..place].iter().any(forward)
    }

    /// What a step is to whom it happens to.
    fn event_of(&self, step: Step) -> Event {
        match step {
            Step::Access(HOME, NodeEvent::Store) => Event::AtHome(HomeEvent::Store),
            Step::Access(HOME, _) => Event::AtHome(HomeEvent::Load),
            Step::Access(node, event) => Event::AtNode(node, event),
            Step::Deliver(place) => {
                let packet = &self.flights[place].packet;
                if packet.to == HOME {
                    return Event::AtHome(self.home.event_of(packet));
                }
                Event::AtNode(packet.to, NodeEvent::of(packet.message, packet.acks.is_some()))
            }
        }
    }

    /// The cell of a table that a step needs, as `STATE/EVENT`, with whether it is the home's.
    pub fn cell_of(&self, step: Step) -> Cell {
        match self.event_of(step) {
            Event::AtHome(event) => (true, self.home.state.name(), event.name()),
            Event::AtNode(node, event) => (false, self.state_of(node).name(), event.name()),
        }
    }

    /// What a step leads to, and the messages sent by it; `None` if what it asks for has to wait.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn after(&self, protocol: &Protocol, step: Step) -> Result<Option<(Self, Vec<Packet>)>, String> {
        let (mut world, mut sent) = (self.clone(), Vec::new());
        let flight = match step {
            Step::Access(node, _) => {
                let packet = Packet { message: Message::GetS, from: node, to: HOME, asker: node, acks: None };
                Flight { packet, fresh: false }
            }
            Step::Deliver(place) => world.flights.remove(place),
        };
        let waits = match self.event_of(step) {
            Event::AtHome(event) => world.at_home(protocol, event, &flight, &mut sent)?,
            Event::AtNode(node, event) => world.at_node(protocol, node, event, &flight, &mut sent)?,
        } == Applied::Waits;
        if waits {
            return Ok(None);
        }
        world.check()?;
        Ok(Some((world, sent)))
    }

    fn at_home(
        &mut self,
        protocol: &Protocol,
        event: HomeEvent,
        flight: &Flight,
        sent: &mut Vec<Packet>,
    ) -> Result<Applied, String> {
        let before = self.home.state;
        if self.home.takes_line(&protocol.home, event) {
            self.memory_fresh = flight.fresh;
        }
        let applied = self
            .home
            .apply(&protocol.home, event, &flight.packet, sent)
            .map_err(|missing| missing.to_string())?;
        self.send(sent, self.memory_fresh);
        let writes = event == HomeEvent::Store || matches!(before, HomeState::LM_D | HomeState::L_A);
        if applied == (Applied::Done { performed: true }) {
            if !self.memory_fresh {
                return Err("the home uses a stale line".into());
            }
            if writes {
                self.written();
                self.memory_fresh = true;
            }
        }
        Ok(applied)
    }

    fn at_node(
        &mut self,
        protocol: &Protocol,
        node: NodeId,
        event: NodeEvent,
        flight: &Flight,
        sent: &mut Vec<Packet>,
    ) -> Result<Applied, String> {
        let agent = &mut self.agents[node.0];
        let before = agent.line.state;
        if event == NodeEvent::Data {
            agent.fresh = flight.fresh;
        }
        let applied = agent
            .line
            .apply(&protocol.nodes, event, &flight.packet, HOME, sent)
            .map_err(|missing| format!("node {}: {missing}", node.0))?;
        let (fresh, after) = (agent.fresh, agent.line.state);
        self.send(sent, fresh);
        let performed = applied == (Applied::Done { performed: true });
        if performed && after == NodeState::M && (event == NodeEvent::Store || before != NodeState::M) {
            if !fresh {
                return Err(format!("node {} writes to a stale line", node.0));
            }
            self.written();
            self.agents[node.0].fresh = true;
        }
        if matches!(
            after,
            NodeState::I
                | NodeState::IS_D
                | NodeState::IS_D_I
                | NodeState::IM_AD
                | NodeState::SI_A
                | NodeState::II_A
        ) {
            self.agents[node.0].fresh = false;
        }
        Ok(applied)
    }

    /// Somebody wrote: whatever was fresh is not any more.
    fn written(&mut self) {
        self.memory_fresh = false;
        self.agents.iter_mut().for_each(|agent| agent.fresh = false);
        self.flights.iter_mut().for_each(|flight| flight.fresh = false);
        self.flights.sort_by_key(Flight::place);
    }

    fn send(&mut self, sent: &[Packet], fresh: bool) {
        for &packet in sent {
            let flight = Flight { packet, fresh: fresh && packet.message.has_line() };
            let place = self.flights.partition_point(|other| other.place() <= flight.place());
            self.flights.insert(place, flight);
        }
    }

    /// Holds the line to what must always be true.
    fn check(&self) -> Result<(), String> {
        let nodes = || NodeId::all(self.agents.len()).skip(1);
        let readable = |node: NodeId| self.state_of(node).is_readable();
        let home_reads = matches!(self.home.state, HomeState::I | HomeState::S);
        for writer in nodes().filter(|&node| self.state_of(node) == NodeState::M) {
            if home_reads || nodes().any(|node| node != writer && readable(node)) {
                return Err(format!("node {} may write while others may read", writer.0));
            }
        }
        if let Some(node) = nodes().find(|&node| readable(node) && !self.agents[node.0].fresh) {
            return Err(format!("node {} may read a stale line", node.0));
        }
        if home_reads && !self.memory_fresh {
            return Err("the home may read a stale line".into());
        }
        if self.is_quiet() {
            self.check_quiet()
        } else {
            Ok(())
        }
    }

    /// With nothing under way the home knows the owner, and of every copy.
    fn check_quiet(&self) -> Result<(), String> {
        for node in NodeId::all(self.agents.len()).skip(1) {
            let (state, home) = (self.state_of(node), &self.home);
            let known = match state {
                NodeState::M => home.state == HomeState::M && home.owner == Some(node),
                NodeState::S => home.state == HomeState::S && home.sharers.has(node),
                _ => home.owner != Some(node),
            };
            if !known {
                return Err(format!(
                    "the home does not know that node {} has the line in {}",
                    node.0,
                    state.name()
                ));
            }
        }
        Ok(())
    }
}
