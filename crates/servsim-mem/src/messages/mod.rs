//! Coherence between nodes by messages: the directory protocol of a ccNUMA machine with a coherence unit per node
//! (Brock et al., IBM J. Res. & Dev. 45(2), 2001), whose tables are unpublished. Built here is the textbook's non-blocking
//! MSI with a full map (Sorin, Hill & Wood, *A Primer on Memory Consistency and Cache Coherence*): acknowledgements are
//! counted by the asker, and transient states stand in the tables (docs/adr/0340).
//!
//! * `node_table.rs`, `home_table.rs`: what a controller does for each pair of state and event. A pair without a cell
//!   is an internal error wherever it is met.
//! * `controller.rs`: the state of one line at a node and at its home, moved by these tables and nothing else.
//! * `world.rs`, `checker.rs`: one line with its messages, and every state that it can reach.
//!
//! **Networks.** Requests travel to homes, in any order, and may wait there. Forwards travel from homes and keep their
//! order from one home to one node. Responses travel to anybody, in any order, and never wait for another message. So
//! requests wait for forwards, forwards for responses, and responses for nothing.

pub mod checker;
pub mod controller;
pub mod home_table;
pub mod node_table;
pub mod world;

pub use controller::{HomeLine, MissingPair, NodeLine};
pub use home_table::{HomeAct, HomeCell, HomeEvent, HomeState, HomeTable};
pub use node_table::{NodeAct, NodeCell, NodeEvent, NodeState, NodeTable};

/// The open points of the protocol, as named options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Acknowledgements of an upgrade say how many there are, so that the home grants nothing where there are sharers:
    /// five packets with two of them. Otherwise the home's grant says it, in a sixth.
    pub counted_acks: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { counted_acks: true }
    }
}

/// A virtual network: messages of one never wait for room that messages of a later one take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Network {
    /// From nodes to homes, in any order.
    Request,
    /// From homes to nodes, in order between a home and a node.
    Forward,
    /// From anybody to anybody, in any order, always taken in.
    Response,
}

impl Network {
    /// All, in the order in which one may wait for the next.
    pub const ALL: [Self; 3] = [Self::Request, Self::Forward, Self::Response];
}

/// A kind of message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Message {
    /// Asks for the line, to read it.
    GetS,
    /// Asks for the line, to write it.
    GetM,
    /// Asks to write a line that the node shares.
    Upg,
    /// Gives a dirty line back.
    PutM,
    /// Gives a dirty line back, of which copies stay.
    PutMS,
    /// Tells the owner to send the line to who asked to read it, and to the home.
    FwdGetS,
    /// Tells the owner to give the line to who asked to write it.
    FwdGetM,
    /// Tells a sharer to give its copies up, and to acknowledge to who asks to write.
    Inv,
    /// The home has taken what was given back.
    PutAck,
    /// The line.
    Data,
    /// A sharer that asked may write.
    Grant,
    /// Copies were given up.
    Ack,
}

impl Message {
    /// The network that it travels on.
    pub const fn network(self) -> Network {
        match self {
            Self::GetS | Self::GetM | Self::Upg | Self::PutM | Self::PutMS => Network::Request,
            Self::FwdGetS | Self::FwdGetM | Self::Inv | Self::PutAck => Network::Forward,
            Self::Data | Self::Grant | Self::Ack => Network::Response,
        }
    }

    /// Whether it carries the line: 48 bytes in place of 16 with lines of 32.
    pub const fn has_line(self) -> bool {
        matches!(self, Self::Data | Self::PutM | Self::PutMS)
    }

    /// Its name, as printed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GetS => "GetS",
            Self::GetM => "GetM",
            Self::Upg => "Upg",
            Self::PutM => "PutM",
            Self::PutMS => "PutMS",
            Self::FwdGetS => "FwdGetS",
            Self::FwdGetM => "FwdGetM",
            Self::Inv => "Inv",
            Self::PutAck => "PutAck",
            Self::Data => "Data",
            Self::Grant => "Grant",
            Self::Ack => "Ack",
        }
    }
}

/// Where an action leads: a state, or one of two by whether every acknowledgement is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next<S> {
    /// This state.
    To(S),
    /// By whether as many acknowledgements came as were announced.
    Counted {
        /// All are in.
        complete: S,
        /// Some are missing, or their number is not known yet.
        waiting: S,
    },
}

/// A table as Markdown: heading, names of columns, and a row of cells for each name.
fn markdown(title: &str, columns: &[&str], rows: &[(&str, Vec<String>)]) -> String {
    let heading = format!(
        "**{title}**\n\n| State | {} |\n|{}\n",
        columns.join(" | "),
        "---|".repeat(columns.len() + 1)
    );
    rows.iter().fold(heading, |text, (name, cells)| text + &format!("| {name} | {} |\n", cells.join(" | ")))
}

/// Actions and next state of a cell of `from`, as printed; `performed` says what an access without any other action is.
fn cell_text<S: PartialEq + Copy>(
    acts: &[String],
    next: Next<S>,
    from: S,
    name: impl Fn(S) -> &'static str,
) -> String {
    let done = acts.join(", ");
    let next = match next {
        Next::To(next) if next == from => String::new(),
        Next::To(next) => format!("->{}", name(next)),
        Next::Counted { complete, waiting } => format!("all in? ->{} : ->{}", name(complete), name(waiting)),
    };
    format!("{done} {next}").trim().to_owned()
}
