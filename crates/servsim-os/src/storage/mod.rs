//! The I/O system of a simulated server: disks with queues, on I/O buses that they hold or release
//! while they position, after Du et al. 2001 sections 2.2 and 3.2.
//!
//! A disk takes a request as its discipline says when it has a free slot, then asks for its bus.
//!
//! * **Read, bus released**: the command takes the bus for `overhead`; the disk positions and reads
//!   with the bus free, asks for it again, and moves the data. Its slot is free once the bus was
//!   granted again: the data leave from its buffer (Equation 3.8 ends there).
//! * **Write, bus held** (Equation 3.7): command and data take the bus, which stays taken until the
//!   data are on the medium.
//! * Each can be changed: a read that holds the bus takes it from the command to the last byte, a write
//!   that releases it gives it up when the disk has the data.
//!
//! Buses serve in order of asking. Who holds a bus never waits for a disk, so nothing can dead-lock.
//! A write completes when it is on the medium, so a flush finds nothing to do: it takes `overhead`
//! and neither disk nor bus (section 2.2 leaves out "immediate reporting").
//!
//! Left out: the traffic of transfers on the memory bus.

mod counts;

pub use counts::{BusCounts, DiskCounts, StorageCounts};

use crate::gauge::Gauge;
use servsim_core::{Cycles, DiskRequest, Drive};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// How long buses are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenures {
    /// Of a command.
    pub overhead: Cycles,
    /// Bytes a second.
    pub rate: u64,
    /// Cycles a second.
    pub hertz: u64,
    /// Reads hold the bus while the disk positions.
    pub hold_on_read: bool,
    /// Writes hold the bus while the disk positions.
    pub hold_on_write: bool,
}

impl Tenures {
    /// To move `bytes`, begun ones whole.
    pub fn transfer(&self, bytes: u64) -> Cycles {
        Cycles((u128::from(bytes) * u128::from(self.hertz)).div_ceil(u128::from(self.rate.max(1))) as u64)
    }
}

/// A request that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The caller's number.
    pub request: u64,
    /// When it was submitted.
    pub submitted: u64,
    /// When it was complete.
    pub completed: u64,
    /// Whether it writes.
    pub write: bool,
}

/// What a part asks the bus for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tenure {
    /// To give the disk its command (and a write's data).
    Command,
    /// To bring a read's data.
    Reply,
}

/// What ends at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// The command is given: the mechanism begins.
    Commanded,
    /// The mechanism is done.
    Positioned,
    /// The last step of the part; the flag says whether its disk's slot becomes free.
    Done { frees_slot: bool },
    /// A flush is over.
    Flushed,
}

/// The part of a request that one disk serves.
#[derive(Debug)]
struct Part {
    request: u64,
    disk: usize,
    wanted: DiskRequest,
    arrived: u64,
    asked: u64,
    wait: u64,
    bus_wait: u64,
    mechanism: Cycles,
}

#[derive(Debug)]
struct Whole {
    left: usize,
    submitted: u64,
    write: bool,
}

struct Disk<'a> {
    drive: Box<dyn Drive + 'a>,
    bus: Option<usize>,
    in_service: usize,
    busy: Gauge,
    present: Gauge,
    counts: DiskCounts,
}

#[derive(Debug, Default)]
struct IoBus {
    taken: bool,
    queue: VecDeque<(usize, Tenure)>,
    busy: Gauge,
    waiting: Gauge,
    tenures: u64,
}

/// The disks and buses at work.
pub struct Storage<'a> {
    disks: Vec<Disk<'a>>,
    buses: Vec<IoBus>,
    tenures: Tenures,
    parts: Vec<Part>,
    free_parts: Vec<usize>,
    requests: HashMap<u64, Whole>,
    steps: BinaryHeap<Reverse<(u64, u64, Step, u64)>>,
    stepped: u64,
    flushes: u64,
    done: Vec<Completion>,
}

impl<'a> Storage<'a> {
    /// `drives`, each with the bus it hangs on if there are any; `buses` of them.
    pub fn new(drives: Vec<(Box<dyn Drive + 'a>, Option<usize>)>, buses: usize, tenures: Tenures) -> Self {
        let disk = |(drive, bus): (Box<dyn Drive + 'a>, Option<usize>)| Disk {
            drive,
            bus,
            in_service: 0,
            busy: Gauge::default(),
            present: Gauge::default(),
            counts: DiskCounts::default(),
        };
        Self {
            disks: drives.into_iter().map(disk).collect(),
            buses: (0..buses).map(|_| IoBus::default()).collect(),
            tenures,
            parts: Vec::new(),
            free_parts: Vec::new(),
            requests: HashMap::new(),
            steps: BinaryHeap::new(),
            stepped: 0,
            flushes: 0,
            done: Vec::new(),
        }
    }

    /// Accepts request `request` at `now`, which each of `parts` serves at the disk of that number; no
    /// parts are a flush. Numbers are unique, calls come in order of time.
    pub fn submit(&mut self, request: u64, parts: &[(usize, DiskRequest)], write: bool, now: u64) {
        self.requests.insert(request, Whole { left: parts.len().max(1), submitted: now, write });
        if parts.is_empty() {
            self.schedule(now + self.tenures.overhead, Step::Flushed, request);
        }
        for &(disk, wanted) in parts {
            let arrived = now;
            let part = Part {
                request,
                disk,
                wanted,
                arrived,
                asked: now,
                wait: 0,
                bus_wait: 0,
                mechanism: Cycles(0),
            };
            let id = if let Some(id) = self.free_parts.pop() {
                self.parts[id] = part;
                id
            } else {
                self.parts.push(part);
                self.parts.len() - 1
            };
            self.disks[disk].present.up(now);
            self.disks[disk].drive.push(id, wanted, now);
            self.begin(disk, now);
        }
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<u64> {
        self.steps.peek().map(|Reverse((time, ..))| *time)
    }

    /// Does what happens up to `now`, and returns the requests completed by then, in order.
    pub fn advance(&mut self, now: u64) -> Vec<Completion> {
        while let Some(&Reverse((time, _, step, id))) = self.steps.peek() {
            if time > now {
                break;
            }
            self.steps.pop();
            self.step(step, id, time);
        }
        std::mem::take(&mut self.done)
    }

    /// Everything counted up to `now`.
    pub fn counts(&mut self, now: u64) -> StorageCounts {
        let disk = |disk: &mut Disk<'a>| DiskCounts {
            busy: disk.busy.integral(now),
            present: disk.present.integral(now),
            ..disk.counts
        };
        let bus = |bus: &mut IoBus| BusCounts {
            tenures: bus.tenures,
            busy: bus.busy.integral(now),
            waiting: bus.waiting.integral(now),
        };
        StorageCounts {
            disks: self.disks.iter_mut().map(disk).collect(),
            buses: self.buses.iter_mut().map(bus).collect(),
            flushes: self.flushes,
        }
    }

    /// Requests that are served side by side, by disk.
    pub fn slots(&self) -> Vec<usize> {
        self.disks.iter().map(|disk| disk.drive.slots()).collect()
    }

    fn schedule(&mut self, time: u64, step: Step, id: u64) {
        self.stepped += 1;
        self.steps.push(Reverse((time, self.stepped, step, id)));
    }

    /// The disk takes requests for its free slots.
    fn begin(&mut self, disk: usize, now: u64) {
        while self.disks[disk].in_service < self.disks[disk].drive.slots() {
            let Some(id) = self.disks[disk].drive.take() else { return };
            self.disks[disk].in_service += 1;
            self.parts[id].wait = now - self.parts[id].arrived;
            self.ask(id, Tenure::Command, now);
        }
    }

    fn ask(&mut self, id: usize, tenure: Tenure, now: u64) {
        self.parts[id].asked = now;
        match self.disks[self.parts[id].disk].bus {
            Some(bus) if self.buses[bus].taken => {
                self.buses[bus].waiting.up(now);
                self.buses[bus].queue.push_back((id, tenure));
            }
            bus => self.grant(bus, id, tenure, now),
        }
    }

    fn grant(&mut self, bus: Option<usize>, id: usize, tenure: Tenure, now: u64) {
        let (overhead, move_data) = match bus {
            Some(_) => (self.tenures.overhead, self.tenures.transfer(self.parts[id].wanted.bytes)),
            None => (Cycles(0), Cycles(0)),
        };
        if let Some(bus) = bus {
            let bus = &mut self.buses[bus];
            bus.taken = true;
            bus.tenures += 1;
            bus.busy.up(now);
        }
        self.parts[id].bus_wait += now - self.parts[id].asked;
        let write = self.parts[id].wanted.write;
        match tenure {
            Tenure::Command => {
                let given = if write { overhead + move_data } else { overhead };
                self.schedule(now + given, Step::Commanded, id as u64);
            }
            Tenure::Reply => {
                self.leave_slot(id, now);
                self.schedule(now + move_data, Step::Done { frees_slot: false }, id as u64);
            }
        }
    }

    fn step(&mut self, step: Step, id: u64, now: u64) {
        match step {
            Step::Commanded => self.commanded(id as usize, now),
            Step::Positioned => self.positioned(id as usize, now),
            Step::Done { frees_slot } => {
                self.complete(id as usize, now);
                if frees_slot {
                    self.leave_slot(id as usize, now);
                }
                self.release(id as usize, now);
                self.free_parts.push(id as usize);
            }
            Step::Flushed => {
                self.flushes += 1;
                self.end_one(id, now);
            }
        }
    }

    fn holds(&self, id: usize) -> bool {
        if self.parts[id].wanted.write {
            self.tenures.hold_on_write
        } else {
            self.tenures.hold_on_read
        }
    }

    fn commanded(&mut self, id: usize, now: u64) {
        let (disk, wanted) = (self.parts[id].disk, self.parts[id].wanted);
        self.disks[disk].busy.up(now);
        let mechanism = self.disks[disk].drive.mechanism(&wanted, now);
        self.parts[id].mechanism = mechanism;
        self.schedule(now + mechanism, Step::Positioned, id as u64);
        if !self.holds(id) {
            self.release(id, now);
        }
    }

    fn positioned(&mut self, id: usize, now: u64) {
        let part = &self.parts[id];
        let bus = self.disks[part.disk].bus;
        match (part.wanted.write, self.holds(id)) {
            // On the medium: a bus that was held is free again.
            (true, held) => {
                self.complete(id, now);
                self.leave_slot(id, now);
                if held {
                    self.release(id, now);
                }
                self.free_parts.push(id);
            }
            (false, false) => self.ask(id, Tenure::Reply, now),
            (false, true) => {
                // The slot is the disk's until the data have left: nobody could use it before.
                self.disks[part.disk].busy.down(now);
                let move_data = bus.map_or(Cycles(0), |_| self.tenures.transfer(self.parts[id].wanted.bytes));
                self.schedule(now + move_data, Step::Done { frees_slot: true }, id as u64);
            }
        }
    }

    /// The disk is done with a part and takes another.
    fn leave_slot(&mut self, id: usize, now: u64) {
        let disk = self.parts[id].disk;
        let state = &mut self.disks[disk];
        state.in_service -= 1;
        if self.parts[id].wanted.write || !self.tenures.hold_on_read {
            state.busy.down(now);
        }
        self.begin(disk, now);
    }

    /// The part's bus is free: the next that asked gets it.
    fn release(&mut self, id: usize, now: u64) {
        let Some(number) = self.disks[self.parts[id].disk].bus else { return };
        let bus = &mut self.buses[number];
        bus.taken = false;
        bus.busy.down(now);
        if let Some((next, tenure)) = bus.queue.pop_front() {
            bus.waiting.down(now);
            self.grant(Some(number), next, tenure, now);
        }
    }

    fn complete(&mut self, id: usize, now: u64) {
        let part = &self.parts[id];
        let disk = &mut self.disks[part.disk];
        disk.present.down(now);
        let counts = &mut disk.counts;
        if part.wanted.write {
            counts.writes += 1;
        } else {
            counts.reads += 1;
        }
        counts.bytes += part.wanted.bytes;
        counts.wait += part.wait;
        counts.bus_wait += part.bus_wait;
        counts.mechanism += part.mechanism;
        counts.response += now - part.arrived;
        self.end_one(part.request, now);
    }

    /// One part of a request, or its flush, is over.
    fn end_one(&mut self, request: u64, now: u64) {
        let whole = self.requests.get_mut(&request).expect("a part belongs to a request under way");
        whole.left -= 1;
        if whole.left == 0 {
            let (submitted, write) = (whole.submitted, whole.write);
            self.requests.remove(&request);
            self.done.push(Completion { request, submitted, completed: now, write });
        }
    }
}
