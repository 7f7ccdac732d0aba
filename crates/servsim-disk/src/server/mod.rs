//! The server around a model: which waiting request a device takes next, and how many it serves at
//! a time. [`station`] runs it, [`infer`] finds it in a trace.

pub mod infer;
pub mod queue;
pub mod station;

use crate::error::{suggestion, ModelError};
use serde::{Deserialize, Serialize};

/// Which waiting request goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discipline {
    /// First come, first served.
    Fcfs,
    /// Shortest seek (from the end of the last request) first.
    Sstf,
    /// Upwards only: the nearest place ahead, then from the lowest again (circular look).
    CScan,
}

/// All disciplines.
pub const DISCIPLINES: [Discipline; 3] = [Discipline::Fcfs, Discipline::Sstf, Discipline::CScan];

impl Discipline {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Discipline::Fcfs => "fcfs",
            Discipline::Sstf => "sstf",
            Discipline::CScan => "c-scan",
        }
    }
}

impl std::str::FromStr for Discipline {
    type Err = ModelError;

    fn from_str(name: &str) -> Result<Self, ModelError> {
        let names = DISCIPLINES.map(Discipline::name);
        DISCIPLINES.into_iter().find(|discipline| discipline.name() == name).ok_or_else(|| {
            let nearest = suggestion(name, &names);
            ModelError::Invalid(format!(
                "no scheduler is called `{name}`{nearest}; accepted: {}",
                names.join(", ")
            ))
        })
    }
}

/// A device's queueing: `slots` above 1 is a device that serves requests side by side, such as a
/// multi-queue SSD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Order of service.
    pub discipline: Discipline,
    /// Requests served at a time.
    pub slots: u32,
    /// Whether the start of service comes from the trace.
    pub recorded_start: bool,
    /// Sectors that are one place to the discipline, such as a cylinder: among requests at the same
    /// place the earliest goes first. 1 where every sector counts.
    #[serde(default = "every_sector")]
    pub place_sectors: u32,
}

fn every_sector() -> u32 {
    1
}

impl Server {
    /// One request at a time in order of arrival.
    pub const FCFS: Server =
        Server { discipline: Discipline::Fcfs, slots: 1, recorded_start: false, place_sectors: 1 };

    /// `rotating` or `parallel`: models of one class say little of the other.
    pub fn class(&self) -> &'static str {
        if self.slots > 1 {
            "device that serves requests side by side"
        } else {
            "device that serves one request at a time"
        }
    }
}
