//! The form used inside an emulated guest: warm up, stop at the checkpoint, resume, measure.
//!
//! The machine is saved while every user is idle. Each resume reads its own orders from the
//! control device, so one checkpoint serves any number of captures. The result, valid or not,
//! goes back through the same device.

use std::path::Path;
use std::time::Duration;

use serde_json::{json, Value};

use super::check::{self, After};
use super::connect::Server;
use super::run::{Options, Run};
use super::shared_memory::{self, Buffers};
use super::user::Stop;
use crate::control::Control;
use crate::pause::{pause, Pause};
use crate::{Error, Result};

/// How the guest program stops and where it is told what to do.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The control device.
    pub control: &'a Path,
    /// How to stop.
    pub pause: Pause,
    /// Quiet time before the stop, for background writers of kernel and server.
    pub settle: Duration,
}

/// Runs the whole sequence and returns the result, which is also on the control device.
///
/// # Errors
/// When the preparation fails, or the control device does not work. A failure after the resume
/// is written to the control device as well.
pub async fn guest(server: &Server, options: Options, checkpoint: Checkpoint<'_>) -> Result<Value> {
    // Opened before the stop: a missing device must be noticed while the image is being prepared.
    let control = Control::open(checkpoint.control)?;
    let buffers = shared_memory::buffers(server).await?;
    let mut run = Run::connect(server, options).await?;
    run.warm_up()?;
    tokio::time::sleep(checkpoint.settle).await;
    pause(checkpoint.pause)?;
    let outcome = measured(&control, &mut run, server, &buffers).await;
    let result = match &outcome {
        Ok(result) => result.clone(),
        Err(error) => failure(error),
    };
    control.write_result(&result.to_string())?;
    outcome
}

/// The transactions are dealt to the users beforehand: whatever the timing of the disk, a repeat
/// from the same checkpoint does the same transactions.
async fn measured(control: &Control, run: &mut Run, server: &Server, before: &Buffers) -> Result<Value> {
    let orders = control.orders()?;
    let mut result = run.measure(Stop::Dealt(orders.transactions), orders.seed).await?;
    result["orders"] = json!(orders);
    result["shared_memory"] = shared_memory::describe(server, run.control(), before).await?;
    if orders.check && result["valid"] == json!(true) {
        let scale = run.made().scale;
        let check = check::check(run.control(), scale, After::Run).await?;
        if check["passed"] != json!(true) {
            result["valid"] = json!(false);
            result["problems"] = check["problems"].clone();
        }
        result["check"] = check;
    }
    Ok(result)
}

fn failure(error: &Error) -> Value {
    json!({
        "schema": "servsim.workload.run/1",
        "workload": "oltp",
        "notice": super::NOTICE,
        "valid": false,
        "problems": [error.to_string()],
    })
}
