//! One run: initial values, marked iterations, checks, report.
//!
//! Marks: kind 4 is never given (there is no client); kind 2 before the first measured iteration and 3
//! after the last; each iteration ends as one transaction of type 1, executed by the first thread behind
//! the barrier, so that a simulation can count iterations as it counts transactions.
//!
//! In an emulated guest the machine is saved between warm-up and measurement, and what is measured is ordered
//! when it goes on.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use serde_json::{json, Value};
use servsim_driver::control::{Control, Orders};
use servsim_driver::mark::{MarkKind, Marker};
use servsim_driver::pause::Pause;
use servsim_driver::window::SavePoint;
use servsim_units::Bytes;

use crate::array::Structures;
use crate::kernel::{Check, Kernel, RunOptions, Spec};
use crate::team::{Init, Team};
use crate::{Error, Result};

/// How to run, beside what to compute.
#[derive(Debug, Clone)]
pub struct Manner {
    /// Measured iterations.
    pub iterations: u64,
    /// Who writes the initial values.
    pub init: Init,
    /// Polls at a barrier before sleeping.
    pub polls: u32,
    /// Memory that the structures may take.
    pub memory: Bytes,
}

/// Where a guest is told what to measure, and how it is stopped before.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The control device.
    pub control: PathBuf,
    /// How to stop.
    pub pause: Pause,
    /// Iterations before the stop.
    pub warm_up: u64,
}

/// Iterations before the measured ones, and how many are measured.
#[derive(Debug, Clone, Copy)]
struct Plan {
    lead_in: u64,
    measured: u64,
}

/// A kernel with its structures, ready to run.
pub struct Prepared<'s> {
    spec: &'s Spec,
    request: RunOptions,
    manner: Manner,
    structures: Structures,
    kernel: Box<dyn Kernel>,
}

/// Allocates the structures of a run.
///
/// # Errors
/// When the request makes no sense or the host lacks memory.
pub fn prepare(spec: &Spec, request: RunOptions, manner: Manner) -> Result<Prepared<'_>> {
    if manner.iterations == 0 {
        return Err(Error::Usage("--iterations must be at least 1".to_owned()));
    }
    let mut structures = Structures::within(manner.memory);
    let kernel = (spec.make)(&request, &mut structures)?;
    Ok(Prepared { spec, request, manner, structures, kernel })
}

impl Prepared<'_> {
    /// The structures and their addresses, as JSON.
    pub fn structures(&self) -> Value {
        let list: Vec<Value> = self.structures.list().iter().map(structure).collect();
        json!({
            "schema": "servsim.kernel.structures/1",
            "kernel": self.spec.name,
            "process": std::process::id(),
            "structures": list,
        })
    }

    /// Runs all phases and reports.
    ///
    /// # Errors
    /// When the host gives no threads.
    ///
    /// # Panics
    /// When a thread does.
    pub fn run(self) -> Result<Value> {
        let plan = Plan { lead_in: 0, measured: self.manner.iterations };
        self.phases(0, || Ok(plan))
    }

    /// Runs all phases inside a guest: stops behind the warm-up, measures as many iterations as are ordered when the
    /// machine goes on, and leaves the report on the control device, with the structures as a trace describes them.
    ///
    /// # Errors
    /// As [`Prepared::run`], and when the control device does not work.
    pub fn run_in_guest(self, guest: &Guest) -> Result<Value> {
        // Opened before the stop: a missing device must be noticed while the guest is being prepared.
        let control = Control::open(&guest.control)?;
        let save_point = SavePoint { control: &control, pause: guest.pause };
        let orders = OnceLock::new();
        let told = || {
            let told = save_point.pass("null")?;
            Ok(plan(*orders.get_or_init(|| told)))
        };
        let data = json!({ "process": std::process::id(), "ranges": self.ranges() });
        let mut report = self.phases(guest.warm_up, told)?;
        if let Some(orders) = orders.get() {
            report["orders"] = json!(orders);
            report["lead_in_transactions"] = json!(plan(*orders).lead_in);
        }
        report["warm_up_iterations"] = json!(guest.warm_up);
        report["data"] = data;
        control.write_result(&report.to_string())?;
        Ok(report)
    }

    /// Name, first address and bytes of every structure.
    fn ranges(&self) -> Vec<Value> {
        self.structures.list().iter().map(|found| json!([found.name, found.start, found.bytes])).collect()
    }

    /// Runs warm-up, what `told` says behind it, and the checks; `told` is asked once, by the first thread.
    fn phases(self, warm_up: u64, told: impl Fn() -> Result<Plan> + Sync) -> Result<Value> {
        let team = Team::new(self.request.threads, self.manner.init, self.manner.polls);
        let marker = Mutex::new(Marker::default());
        let seconds = Mutex::new(0.0);
        let plan: OnceLock<Result<Plan>> = OnceLock::new();
        let mark = |event: Event| execute(event, &mut marker.lock().expect("one thread marks"));
        team.run(|me| {
            self.kernel.init(&me);
            me.barrier();
            self.kernel.begin(&me);
            me.barrier();
            let iterate = |iterations: u64, measured: bool| {
                for _ in 0..iterations {
                    self.kernel.iterate(&me);
                    me.barrier();
                    if me.id == 0 && measured {
                        mark(Event::Iteration);
                    }
                }
            };
            iterate(warm_up, false);
            if me.id == 0 {
                let _ = plan.set(told());
            }
            me.barrier();
            let Some(Ok(plan)) = plan.get() else { return };
            iterate(plan.lead_in, false);
            let start = Instant::now();
            if me.id == 0 {
                mark(Event::Start);
            }
            iterate(plan.measured, true);
            if me.id == 0 {
                mark(Event::Stop);
                *seconds.lock().expect("one thread measures") = start.elapsed().as_secs_f64();
            }
        })?;
        let plan = plan.into_inner().expect("the first thread asked")?;
        let waits = team.waits();
        let outcome = self.kernel.outcome();
        let checks = self.kernel.check(&team, warm_up + plan.lead_in + plan.measured)?;
        let problems: Vec<String> = checks.iter().filter_map(Check::problem).collect();
        let seconds = seconds.into_inner().expect("threads have ended");
        let marks = marker.into_inner().expect("threads have ended").counts();
        Ok(json!({
            "schema": "servsim.kernel.run/1",
            "kernel": self.spec.name,
            "size": self.request.size,
            "threads": self.request.threads,
            "iterations": plan.measured,
            "seed": self.request.seed,
            "init": self.manner.init.name(),
            "settings": self.request.settings,
            "valid": problems.is_empty(),
            "problems": problems,
            "seconds": seconds,
            "seconds_per_iteration": seconds / plan.measured as f64,
            "result": outcome.figures,
            "digest": format!("{:016x}", outcome.digest),
            "measured": self.kernel.measured(),
            "checks": checks,
            "marks": marks,
            "barriers": { "passed": waits.barriers, "polls": waits.polls, "sleeps": waits.sleeps },
            "process": std::process::id(),
            "structures": self.structures()["structures"],
        }))
    }
}

/// What is measured by these orders; the team is one user.
fn plan(orders: Orders) -> Plan {
    Plan { lead_in: orders.lead_in(1), measured: orders.transactions }
}

#[derive(Clone, Copy)]
enum Event {
    Start,
    Iteration,
    Stop,
}

fn execute(event: Event, marker: &mut Marker) {
    match event {
        Event::Start => marker.event(MarkKind::Start),
        Event::Iteration => marker.transaction(1, false, std::process::id()),
        Event::Stop => marker.event(MarkKind::Stop),
    }
}

fn structure(structure: &crate::array::Structure) -> Value {
    json!({
        "name": structure.name,
        "start": format!("{:#x}", structure.start),
        "end": format!("{:#x}", structure.start + structure.bytes),
        "bytes": structure.bytes,
    })
}
