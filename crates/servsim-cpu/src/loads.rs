//! The loads of a core: where each found its data, and those under way.
//!
//! A load whose line is found farther out is under way for a known time; one that misses until the
//! engine reports its data. One whose address is not known, or whose line is under way for another
//! load, waits without asking.

use crate::waiting::{Need, Target, Waiting};
use crate::{Core, UNKNOWN};
use servsim_core::{Cycles, LineAddr};

/// A load whose data's time is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Flight<T> {
    /// Its own number: a load that crosses lines has two.
    load: u64,
    access: T,
    /// When the registers of its address are there.
    start: u64,
    /// From them to the data of a first-level hit.
    first: Cycles,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Its address is not known.
    Addressless,
    /// It waits for the line that another load asked for.
    Merged(u64),
    /// It can go on.
    Ready,
    /// It asks.
    Asking,
}

/// A load that can go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issue<T> {
    /// Its number.
    pub load: u64,
    /// Its access.
    pub access: T,
    /// When the registers of its address are there.
    pub start: u64,
    /// From them to the data of a first-level hit.
    pub first: Cycles,
    /// The line it waited for has just arrived.
    pub merged: bool,
}

/// The loads of a core.
#[derive(Debug)]
pub(crate) struct Loads<T> {
    next: u64,
    flights: Vec<Flight<T>>,
    /// Lines found farther out and when they arrive, until the list is long.
    returns: Vec<(LineAddr, u64)>,
    /// When all of these are there.
    last_return: u64,
}

impl<T> Default for Loads<T> {
    fn default() -> Self {
        Self { next: 0, flights: Vec::new(), returns: Vec::new(), last_return: 0 }
    }
}

impl<T: Copy> Loads<T> {
    pub fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    fn find(&mut self, load: u64) -> Option<&mut Flight<T>> {
        self.flights.iter_mut().find(|flight| flight.load == load)
    }

    /// The address of `load` comes from registers that are there at `start`.
    pub fn begin(&mut self, load: u64, start: u64) {
        if let Some(flight) = self.find(load) {
            (flight.start, flight.state) = (start, State::Ready);
        }
    }

    fn issue(&self, load: u64, merged: bool) -> Option<Issue<T>> {
        let flight = self.flights.iter().find(|flight| flight.load == load)?;
        Some(Issue { load, access: flight.access, start: flight.start, first: flight.first, merged })
    }
}

impl<T: Copy> Core<T> {
    /// When the registers of the current load's address are there.
    #[inline]
    fn start(&self) -> u64 {
        let current = &self.current;
        current.entered.max(current.held).max(self.ready(current.instruction.address))
    }

    /// To the address and to a first-level hit's data: none where the code is not known.
    #[inline]
    fn times(&self) -> (Cycles, Cycles) {
        if self.current.known {
            (self.parameters.agen, self.parameters.load)
        } else {
            (Cycles(0), Cycles(0))
        }
    }

    /// When the current instruction's load asks for its data; `None` if that is not known.
    #[inline]
    pub fn address(&self) -> Option<u64> {
        let start = self.start();
        (start != UNKNOWN).then(|| start + self.times().0)
    }

    /// The current load got a place among those under way at `now`.
    pub fn hold(&mut self, now: u64) {
        self.current.held = now;
    }

    /// A load of the current instruction finds `line` in a level that takes `beyond_first` more than the
    /// first.
    #[inline]
    pub fn hit(&mut self, line: LineAddr, now: u64, beyond_first: Cycles) {
        let start = self.start();
        let at = self.arrival(line, now, start, self.times().1, beyond_first);
        self.current.loaded = self.current.loaded.max(at);
        self.current.load |= beyond_first != Cycles(0) || at > start + self.times().1;
    }

    /// When data of `line` are there for a load with the registers of its address at `start`.
    #[inline]
    fn arrival(&mut self, line: LineAddr, now: u64, start: u64, first: Cycles, beyond_first: Cycles) -> u64 {
        let mut at = start + first + beyond_first;
        let Loads { returns, last_return, .. } = &mut self.loads;
        if beyond_first != Cycles(0) {
            returns.retain(|&(_, until)| until > now);
            returns.push((line, at));
            *last_return = at.max(*last_return);
        } else if *last_return > at {
            let same = returns.iter().filter(|&&(other, _)| other == line);
            at = same.map(|&(_, until)| until).max().map_or(at, |until| until.max(at));
        }
        at
    }

    /// The same for load `load`, which waited for its address or line; returns when it has its data,
    /// for [`Core::arrived`].
    pub fn hit_of(&mut self, issue: &Issue<T>, line: LineAddr, now: u64, beyond_first: Cycles) -> u64 {
        let at = self.arrival(line, now, issue.start, issue.first, beyond_first);
        if issue.merged {
            at.max(now)
        } else {
            at
        }
    }

    /// A load of the current instruction takes its data at `at`: the processor waited for it.
    pub fn loaded(&mut self, at: u64) {
        self.current.loaded = self.current.loaded.max(at);
        self.current.load = true;
    }

    /// A load of the current instruction misses; returns its number, to be given when it arrives.
    pub fn miss(&mut self, access: T) -> u64 {
        let start = self.start();
        self.add(access, start, State::Asking)
    }

    /// A load of the current instruction waits for its address.
    pub fn wait_for_address(&mut self, access: T) -> u64 {
        let load = self.add(access, UNKNOWN, State::Addressless);
        let (target, known) = (Target::Address(load), self.current.entered);
        let waiting = Waiting { target, known, latency: Cycles(0), writes: 0 };
        self.wait(self.current.instruction.address, waiting, &[]);
        load
    }

    /// A load of the current instruction waits for the line that load `other` asks for.
    pub fn merge(&mut self, access: T, other: u64) -> u64 {
        let start = self.start();
        self.add(access, start, State::Merged(other))
    }

    /// The same for load `load`, which waited for its address.
    pub fn merge_into(&mut self, load: u64, other: u64) {
        if let Some(flight) = self.loads.find(load) {
            flight.state = State::Merged(other);
        }
    }

    /// Load `load`, which waited, misses: it asks for its data.
    pub fn ask(&mut self, load: u64) {
        if let Some(flight) = self.loads.find(load) {
            flight.state = State::Asking;
        }
    }

    fn add(&mut self, access: T, start: u64, state: State) -> u64 {
        let load = self.loads.next;
        self.loads.next += 1;
        self.loads.flights.push(Flight { load, access, start, first: self.times().1, state });
        self.current.loading.push(load);
        self.current.load = true;
        load
    }

    /// The load that asks for its data and whose access satisfies `matches`.
    #[inline]
    pub fn asking(&self, matches: impl Fn(&T) -> bool) -> Option<u64> {
        let mut asking = self.loads.flights.iter().filter(|f| f.state == State::Asking);
        asking.find(|flight| matches(&flight.access)).map(|flight| flight.load)
    }

    /// Whether any load asks for its data.
    #[inline]
    pub fn is_asking(&self) -> bool {
        self.asking(|_| true).is_some()
    }

    /// Whether as many loads are under way at `now` as can.
    pub fn is_busy(&self, now: u64) -> bool {
        let asking = self.loads.flights.iter().filter(|f| f.state == State::Asking).count();
        let returns = self.loads.returns.iter().filter(|&&(_, until)| until > now).count();
        asking + returns >= self.parameters.misses
    }

    /// Whether more loads wait than the window holds: only in a trace without fetches.
    pub fn is_crowded(&self) -> bool {
        self.loads.flights.len() >= self.parameters.window
    }

    /// When the next load of known time after `now` arrives.
    pub fn next_return(&self, now: u64) -> Option<u64> {
        self.loads.returns.iter().map(|&(_, until)| until).filter(|&until| until > now).min()
    }

    /// The access of load `load`.
    pub fn access(&self, load: u64) -> Option<T> {
        self.loads.flights.iter().find(|flight| flight.load == load).map(|flight| flight.access)
    }

    /// The data of `load` are there at `at`; returns the loads that can go on, oldest first.
    pub fn arrived(&mut self, load: u64, at: u64) -> Vec<Issue<T>> {
        let before = self.loads.flights.len();
        self.loads.flights.retain(|flight| flight.load != load);
        if self.loads.flights.len() == before {
            return Vec::new();
        }
        self.last = self.last.max(at);
        if let Some(place) = self.current.loading.iter().position(|&other| other == load) {
            self.current.loading.swap_remove(place);
            self.current.loaded = self.current.loaded.max(at);
        }
        let addresses = self.resolve(Need::load(load), at);
        let mut merged: Vec<u64> = Vec::new();
        for flight in &mut self.loads.flights {
            if flight.state == State::Merged(load) {
                flight.state = State::Ready;
                merged.push(flight.load);
            }
        }
        let mut issues: Vec<Issue<T>> =
            addresses.iter().filter_map(|&l| self.loads.issue(l, false)).collect();
        issues.extend(merged.iter().filter_map(|&l| self.loads.issue(l, true)));
        issues.sort_unstable_by_key(|issue| issue.load);
        issues
    }
}
