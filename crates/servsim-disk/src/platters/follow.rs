//! Follows where the platters stand by completions that are past.
//!
//! A turn found in a trace holds for years to come only if nobody's clock is off by a millionth, and if no request is
//! missing from the trace. Where completions are known up to a moment, as one step at a time, they show how far
//! the platters have slipped by then. A free run has no completions but its own, and follows nothing.

use super::Platters;
use crate::request::{Command, Op};
use std::f64::consts::TAU;
use std::sync::Arc;

/// Share of what is known that a completion replaces.
const RENEWS: f64 = 0.01;

/// Platters, and how far they have slipped.
#[derive(Debug, Clone)]
pub struct PhaseTracker {
    platters: Arc<Platters>,
    /// Mean point on the circle of recent completions, whose angle is the slip.
    mean: [f64; 2],
}

impl PhaseTracker {
    /// Platters that have not slipped yet.
    pub fn new(platters: Arc<Platters>) -> PhaseTracker {
        PhaseTracker { platters, mean: [1.0, 0.0] }
    }

    /// What a clock on which the platters had not slipped would show at `at_ns`.
    pub fn unslipped_ns(&self, at_ns: u64) -> u64 {
        let slip_turns = self.mean[1].atan2(self.mean[0]) / TAU;
        // A whole turn more, so that no time is below zero.
        at_ns + (self.platters.turn_us * (1.0 - slip_turns) * 1e3) as u64
    }

    /// Notes that `command` completed at `completion_ns`, after `service_ns`.
    pub fn completed(&mut self, command: &Command, service_ns: u64, completion_ns: u64) {
        let Some(late) = self.late(command, service_ns, completion_ns) else { return };
        let (sin, cos) = (late.fract() * TAU).sin_cos();
        self.mean =
            [self.mean[0] + RENEWS * (cos - self.mean[0]), self.mean[1] + RENEWS * (sin - self.mean[1])];
    }

    /// Turns beyond the angle at which `command` would complete, and any number of whole ones.
    /// `None` if that is not known, or the service was quicker than the medium can be.
    fn late(&self, command: &Command, service_ns: u64, completion_ns: u64) -> Option<f64> {
        let platters = &self.platters;
        let arm = match command.op {
            Op::Read => &platters.reads,
            Op::Write => platters.writes.as_ref()?,
        };
        let end = (command.lba + u64::from(command.sectors)) as f64;
        let zone = platters.zone(end)?;
        if (service_ns as f64) < arm.us(0.0) * 1e3 {
            return None;
        }
        let angle = zone.angle + (end - zone.from) * zone.per_sector + arm.angle;
        Some(completion_ns as f64 * 1e-3 / platters.turn_us - angle)
    }
}
