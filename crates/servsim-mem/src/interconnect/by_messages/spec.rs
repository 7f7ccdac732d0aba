//! What is chosen of nodes that keep coherent by messages, and what they say of a request that is complete.

use super::super::Origin;
use crate::messages::Options;
use servsim_core::{CpuId, Cycles};

/// Room for messages, and what only tests choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageSpec {
    /// The open points of the protocol.
    pub options: Options,
    /// Requests that a home has room for.
    pub requests: usize,
    /// Forwards that a node has room for.
    pub forwards: usize,
    /// Cycles that every message may be late by, at random.
    pub jitter: u64,
    /// Cycles after which a request that is not complete ends the run: something is stuck.
    pub oldest: Cycles,
    /// Whether messages carry data.
    pub values: bool,
}

impl Default for MessageSpec {
    fn default() -> Self {
        Self {
            options: Options::default(),
            requests: 16,
            forwards: 16,
            jitter: 0,
            oldest: Cycles(5_000_000),
            values: false,
        }
    }
}

/// A request that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completed {
    /// Whose it is.
    pub cpu: CpuId,
    /// What of the processor asked.
    pub origin: Origin,
    /// When it was ordered.
    pub granted: u64,
    /// When it is complete.
    pub time: u64,
    /// Whether its access is done; otherwise it has to ask again.
    pub done: bool,
    /// Whether what it read is older than its completion: an invalidation overtook the line.
    pub used_once: bool,
}
