//! A set of drives at work: itself a [`Device`], made of devices.
//!
//! Requests become operations of the members ([`super::layout`]); a request has completed when all of
//! them have. A mirror reads from the member with the fewest requests not yet completed; of equals,
//! from the one whose last request lies nearest; of equals again, from the first.
//!
//! A request is reported as [`Started`] when the last of its operations begins, since only then is its
//! completion known; its start is that of its first operation.

use super::layout::{Layout, Operation, ANY_MEMBER};
use crate::features::Command;
use crate::request::Op;
use crate::server::station::{Device, Started};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// What one member did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct MemberWork {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Sectors transferred.
    pub sectors: u64,
    /// Time in service, ns (of a member that serves one at a time).
    pub busy_ns: u64,
}

#[derive(Debug)]
struct Parent {
    id: u64,
    arrival_ns: u64,
    start_ns: u64,
    completion_ns: u64,
    /// Steps that have not begun their last operation.
    steps: usize,
}

#[derive(Debug)]
struct StepState {
    parent: u64,
    /// Operations of the present half that have not begun.
    left: usize,
    /// When those that have begun will all have completed, ns.
    until_ns: u64,
    then: Vec<Operation>,
}

/// Completions of one member that are known and may still lie ahead.
#[derive(Debug, Default)]
struct Load {
    submitted_not_begun: usize,
    completions: VecDeque<u64>,
    last_lba: u64,
}

impl Load {
    fn outstanding(&mut self, now_ns: u64) -> usize {
        self.completions.retain(|&done| done > now_ns);
        self.submitted_not_begun + self.completions.len()
    }
}

/// A set of drives.
#[derive(Debug)]
pub struct Array<D> {
    layout: Layout,
    members: Vec<D>,
    loads: Vec<Load>,
    work: Vec<MemberWork>,
    parents: HashMap<u64, Parent>,
    steps: HashMap<u64, StepState>,
    /// Operation to its step, its length and kind.
    operations: HashMap<u64, (u64, Operation)>,
    /// Second halves that wait: when, and which step.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    next_number: u64,
    begun: Vec<Started>,
}

impl<D: Device> Array<D> {
    /// A set of idle `members`, as many as the layout says.
    pub fn new(layout: Layout, members: Vec<D>) -> Self {
        assert_eq!(layout.members, members.len(), "a layout knows its members");
        let loads = members.iter().map(|_| Load::default()).collect();
        let work = vec![MemberWork::default(); members.len()];
        Array {
            layout,
            members,
            loads,
            work,
            parents: HashMap::new(),
            steps: HashMap::new(),
            operations: HashMap::new(),
            due: BinaryHeap::new(),
            next_number: 0,
            begun: Vec::new(),
        }
    }

    /// What each member has done so far.
    pub fn work(&self) -> &[MemberWork] {
        &self.work
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn least_busy(&mut self, lba: u64, now_ns: u64) -> usize {
        let key =
            |(at, load): (usize, &mut Load)| (load.outstanding(now_ns), load.last_lba.abs_diff(lba), at);
        self.loads.iter_mut().enumerate().map(key).min().map_or(0, |(_, _, at)| at)
    }

    fn send(&mut self, step: u64, mut operation: Operation, now_ns: u64) {
        if operation.member == ANY_MEMBER {
            operation.member = self.least_busy(operation.lba, now_ns);
        }
        let number = self.number();
        let member = operation.member;
        self.loads[member].submitted_not_begun += 1;
        self.loads[member].last_lba = operation.lba + u64::from(operation.sectors);
        self.operations.insert(number, (step, operation));
        let begun = &mut self.begun;
        self.members[member].submit(number, operation.command(), now_ns, &mut |s| begun.push(s));
    }

    /// Accounts for the operations that have begun.
    fn account(&mut self, started: &mut dyn FnMut(Started)) {
        while let Some(service) = self.begun.pop() {
            let (step_number, operation) = self.operations.remove(&service.id).expect("it was sent");
            let load = &mut self.loads[operation.member];
            load.submitted_not_begun -= 1;
            load.completions.push_back(service.completion_ns);
            let work = &mut self.work[operation.member];
            match operation.op {
                Op::Read => work.reads += 1,
                Op::Write => work.writes += 1,
            }
            work.sectors += u64::from(operation.sectors);
            work.busy_ns += service.completion_ns - service.start_ns;
            let step = self.steps.get_mut(&step_number).expect("a step lives until it is done");
            step.left -= 1;
            step.until_ns = step.until_ns.max(service.completion_ns);
            let parent =
                self.parents.get_mut(&step.parent).expect("a request lives until its steps are done");
            parent.start_ns = parent.start_ns.min(service.start_ns);
            parent.completion_ns = parent.completion_ns.max(service.completion_ns);
            if step.left > 0 {
                continue;
            }
            if !step.then.is_empty() {
                self.due.push(Reverse((step.until_ns, step_number)));
                continue;
            }
            parent.steps -= 1;
            if parent.steps == 0 {
                let number = step.parent;
                let Parent { id, arrival_ns, start_ns, completion_ns, .. } =
                    self.parents.remove(&number).expect("it was there");
                started(Started { id, arrival_ns, start_ns, completion_ns });
            }
            self.steps.remove(&step_number);
        }
    }
}

impl<D: Device> Device for Array<D> {
    fn submit(&mut self, id: u64, command: Command, now_ns: u64, started: &mut dyn FnMut(Started)) {
        self.advance(now_ns, started);
        let plan = self.layout.plan(&command);
        let parent = self.number();
        let steps = plan.len();
        self.parents
            .insert(parent, Parent { id, arrival_ns: now_ns, start_ns: u64::MAX, completion_ns: 0, steps });
        for step in plan {
            let number = self.number();
            let state = StepState { parent, left: step.first.len(), until_ns: 0, then: step.then };
            self.steps.insert(number, state);
            for operation in step.first {
                self.send(number, operation, now_ns);
            }
        }
        self.account(started);
    }

    fn advance(&mut self, now_ns: u64, started: &mut dyn FnMut(Started)) {
        while let Some(at_ns) = self.next_start_ns() {
            if at_ns >= now_ns {
                return;
            }
            while let Some(&Reverse((due_ns, number))) = self.due.peek() {
                if due_ns > at_ns {
                    break;
                }
                self.due.pop();
                let step = self.steps.get_mut(&number).expect("a step lives until it is done");
                let then = std::mem::take(&mut step.then);
                step.left = then.len();
                for operation in then {
                    self.send(number, operation, due_ns);
                }
            }
            for member in &mut self.members {
                let begun = &mut self.begun;
                member.advance(at_ns + 1, &mut |service| begun.push(service));
            }
            self.account(started);
        }
    }

    fn next_start_ns(&self) -> Option<u64> {
        let due = self.due.peek().map(|Reverse((due_ns, _))| *due_ns);
        self.members.iter().filter_map(Device::next_start_ns).chain(due).min()
    }

    fn waiting(&self) -> usize {
        self.parents.len()
    }
}
