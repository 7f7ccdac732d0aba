//! Where the platters stand: when the sectors of a request pass under the head.
//!
//! A drive turns evenly, so the time at which an access to the medium ends tells the angle of its last
//! sector. Sectors follow one another at so many to a turn, which changes from zone to zone; skews of
//! tracks and cylinders are part of that rate. [`find::infer`] finds turn, zones and the time that the
//! arm needs in a trace; [`Platters::pass_of_request`] says how long it is until a request will have
//! passed, and how close the arm comes to missing it.

pub mod find;
pub mod follow;
mod ready;
mod turn;
mod zones;

use crate::request::{Op, Start};
use serde::{Deserialize, Serialize};

/// Places of which the angle goes up evenly.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Zone {
    /// First place of it.
    pub from: f64,
    /// Place beyond which nothing is known, unless another zone begins there.
    pub to: f64,
    /// Turns a sector, skews included.
    pub per_sector: f64,
    /// Angle of the first place, in turns.
    pub angle: f64,
}

/// The time that an access needs before its sectors may pass, by distance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ready {
    /// Logarithms of distances, rising, and times in us.
    knots: Vec<[f64; 2]>,
    /// Angle of a completion beyond that of the last sector, in turns.
    angle: f64,
}

impl Ready {
    /// Time before the sectors of a request `distance` sectors away may pass, us.
    fn us(&self, distance: f64) -> f64 {
        let x = distance.ln_1p();
        let above = self.knots.partition_point(|knot| knot[0] <= x);
        match (above.checked_sub(1).map(|below| self.knots[below]), self.knots.get(above)) {
            (Some(below), Some(above)) => {
                below[1] + (above[1] - below[1]) * (x - below[0]) / (above[0] - below[0])
            }
            (Some(only), None) => only[1],
            (None, only) => only.map_or(0.0, |knot| knot[1]),
        }
    }
}

/// Turn, zones and arm of a drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Platters {
    /// One turn, us.
    pub turn_us: f64,
    /// Zones, in order of place.
    pub zones: Vec<Zone>,
    /// The arm for reads.
    reads: Ready,
    /// The arm for writes, if they are on the medium when they complete.
    writes: Option<Ready>,
    /// What times relative to a pass are told beyond, so that they are positive, us.
    pub origin_us: f64,
}

impl Platters {
    /// Whether a drive could turn like that.
    pub fn is_sound(&self) -> bool {
        let finite = |values: &[f64]| values.iter().all(|value| value.is_finite());
        let arms = || std::iter::once(&self.reads).chain(&self.writes);
        (100.0..1e6).contains(&self.turn_us)
            && (0.0..1e9).contains(&self.origin_us)
            && !self.zones.is_empty()
            && self.zones.iter().all(|zone| finite(&[zone.from, zone.to, zone.per_sector, zone.angle]))
            && self.zones.is_sorted_by(|a, b| a.from < b.from)
            && arms().all(|arm| arm.angle.is_finite() && arm.knots.iter().all(|knot| finite(knot)))
            && arms().all(|arm| arm.knots.is_sorted_by(|a, b| a[0] < b[0]))
    }

    /// Facts for `disk info`.
    pub fn describe(&self) -> serde_json::Value {
        let zone = |zone: &Zone| {
            serde_json::json!({
                "from": zone.from,
                "to": zone.to,
                "sectors_per_turn": 1.0 / zone.per_sector,
            })
        };
        serde_json::json!({
            "turn_us": self.turn_us,
            "zones": self.zones.iter().map(zone).collect::<Vec<_>>(),
            "writes_reach_the_medium": self.writes.is_some(),
        })
    }

    /// The zone of `place`, if it is known.
    fn zone(&self, place: f64) -> Option<&Zone> {
        let at = self.zones.partition_point(|zone| zone.from <= place).saturating_sub(1);
        self.zones.get(at).filter(|zone| place <= zone.to)
    }

    /// How long after `start_us` the last sector of an access will have passed, us, and the share of a
    /// turn by which the arm was there before it had to be.
    fn pass(&self, access: &Access) -> Option<(f64, f64)> {
        let arm = match access.op {
            Op::Read => &self.reads,
            Op::Write => self.writes.as_ref()?,
        };
        self.pass_of(access, arm)
    }

    /// [`Platters::pass`] if the arm were `arm`.
    fn pass_of(&self, access: &Access, arm: &Ready) -> Option<(f64, f64)> {
        let zone = self.zone(access.end)?;
        let needed_us = arm.us(access.distance) + access.sectors * zone.per_sector * self.turn_us;
        let angle = zone.angle + (access.end - zone.from) * zone.per_sector + arm.angle;
        let waits = (angle - (access.start_us + needed_us) / self.turn_us).rem_euclid(1.0);
        Some((needed_us + waits * self.turn_us, waits))
    }

    /// How long after its start the last sector of a request will have passed under the head, us and told from
    /// [`Platters::origin_us`], and the share of a turn by which the arm, `distance` away, is there before it
    /// has to be; `None` where nothing is known of the place.
    #[inline]
    pub fn pass_of_request(&self, start: &Start, distance: f32) -> Option<(f32, f32)> {
        let (us, waits) = self.pass(&Access::of(start, distance))?;
        Some(((us - self.origin_us) as f32, waits as f32))
    }
}

/// An access to the medium that begins.
#[derive(Debug, Clone, Copy)]
struct Access {
    op: Op,
    start_us: f64,
    /// First sector after it.
    end: f64,
    sectors: f64,
    /// From where the arm was left.
    distance: f64,
}

impl Access {
    fn of(start: &Start, distance: f32) -> Access {
        let command = &start.command;
        Access {
            op: command.op,
            start_us: start.start_ns as f64 * 1e-3,
            end: (command.lba + u64::from(command.sectors)) as f64,
            sectors: f64::from(command.sectors),
            distance: f64::from(distance),
        }
    }
}

/// An access to the medium that has ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    op: Op,
    end: f64,
    sectors: f64,
    distance: f64,
    done_us: f64,
    /// What it took.
    us: f64,
}

impl Ended {
    fn access(&self) -> Access {
        Access {
            op: self.op,
            start_us: self.done_us - self.us,
            end: self.end,
            sectors: self.sectors,
            distance: self.distance,
        }
    }
}
