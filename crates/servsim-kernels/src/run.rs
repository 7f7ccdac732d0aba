//! One run: initial values, marked iterations, checks, report.
//!
//! Marks: kind 4 is never given (there is no client); kind 2 before the first measured iteration and 3
//! after the last; each iteration ends as one transaction of type 1, executed by the first thread behind
//! the barrier, so that a simulation can count iterations as it counts transactions.

use std::sync::Mutex;
use std::time::Instant;

use serde_json::{json, Value};
use servsim_driver::mark::{MarkKind, Marker};
use servsim_units::Bytes;

use crate::array::Structures;
use crate::kernel::{Kernel, Request, Spec};
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

/// A kernel with its structures, ready to run.
pub struct Prepared<'s> {
    spec: &'s Spec,
    request: Request,
    manner: Manner,
    structures: Structures,
    kernel: Box<dyn Kernel>,
}

/// Allocates the structures of a run.
///
/// # Errors
/// When the request makes no sense or the host lacks memory.
pub fn prepare(spec: &Spec, request: Request, manner: Manner) -> Result<Prepared<'_>> {
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
        let team = Team::new(self.request.threads, self.manner.init, self.manner.polls);
        let marker = Mutex::new(Marker::default());
        let seconds = Mutex::new(0.0);
        let mark = |event: Event| execute(event, &mut marker.lock().expect("one thread marks"));
        team.run(|me| {
            self.kernel.init(&me);
            me.barrier();
            self.kernel.begin(&me);
            me.barrier();
            let start = Instant::now();
            if me.id == 0 {
                mark(Event::Start);
            }
            for _ in 0..self.manner.iterations {
                self.kernel.iterate(&me);
                me.barrier();
                if me.id == 0 {
                    mark(Event::Iteration);
                }
            }
            if me.id == 0 {
                mark(Event::Stop);
                *seconds.lock().expect("one thread measures") = start.elapsed().as_secs_f64();
            }
        })?;
        let waits = team.waits();
        let outcome = self.kernel.outcome();
        let checks = self.kernel.check(&team, self.manner.iterations)?;
        let valid = checks.iter().all(|check| check.passed);
        let seconds = seconds.into_inner().expect("threads have ended");
        let marks = marker.into_inner().expect("threads have ended").counts();
        Ok(json!({
            "schema": "servsim.kernel.run/1",
            "kernel": self.spec.name,
            "size": self.request.size,
            "threads": self.request.threads,
            "iterations": self.manner.iterations,
            "seed": self.request.seed,
            "init": self.manner.init.name(),
            "settings": self.request.settings,
            "valid": valid,
            "seconds": seconds,
            "seconds_per_iteration": seconds / self.manner.iterations as f64,
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
