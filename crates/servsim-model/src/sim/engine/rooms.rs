//! Stations with room for so many: who finds one full is lost, or keeps the server it has and waits in line.

use super::{Engine, JobId};
use crate::network::{Full, Network};
use std::collections::VecDeque;

/// Who waits for room at each station, in a network that blocks.
pub(super) struct Rooms {
    pub(super) block: bool,
    lines: Vec<VecDeque<(JobId, f64)>>,
}

impl Rooms {
    pub(super) fn new(network: &Network) -> Self {
        let block = network.stations.iter().any(|s| s.room.is_some_and(|room| room.full == Full::Block));
        Self { block, lines: vec![VecDeque::new(); network.stations.len()] }
    }
}

impl Engine<'_> {
    /// A request asks a station to take it: it enters, is lost, or keeps its server until there is room.
    pub(super) fn ask(&mut self, job: JobId, station: usize, mean: f64) {
        let present = self.counts[station].iter().sum::<u32>() as usize;
        match self.network.stations[station].room {
            Some(room) if present >= room.most && room.full == Full::Lose => {
                self.vacate(job);
                self.lose(job);
            }
            Some(room) if present >= room.most => self.rooms.lines[station].push_back((job, mean)),
            _ => {
                self.vacate(job);
                self.enter(job, station, mean);
            }
        }
    }

    /// Gives back the server that a request kept, and lets in who waited for the room.
    pub(super) fn vacate(&mut self, job: JobId) {
        let Some(station) = self.jobs[job as usize].keeps.take() else { return };
        self.settle_station(station);
        self.counts[station][self.jobs[job as usize].class] -= 1;
        self.servers[station].release(self.now);
        self.set_alarm(station);
        self.let_in(station);
    }

    /// Lets in who waited longest for room at a station.
    pub(super) fn let_in(&mut self, station: usize) {
        if let Some((next, mean)) = self.rooms.lines[station].pop_front() {
            self.vacate(next);
            self.enter(next, station, mean);
        }
    }

    /// A request that finds no room leaves; a customer thinks before the next.
    pub(super) fn lose(&mut self, job: JobId) {
        let class = self.jobs[job as usize].class;
        if self.measuring {
            self.measured.lost[class] += 1;
        }
        self.dismiss(job);
    }
}
