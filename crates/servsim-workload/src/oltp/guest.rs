//! The form used inside an emulated guest: warm up, stop at the checkpoint, resume, measure.
//!
//! The machine is saved while the users are at work, each at another point of its transaction; how the
//! warm-up went lies on the control device then. Each resume reads its own orders from that device, so
//! one checkpoint serves any number of captures. Nobody stops working: every user finishes what it was
//! at and goes on with requests of the ordered seed; the measurement begins so many transactions later
//! as ordered, and ends while the users are still at work. The result, valid or not, goes back through
//! the same device.

use std::path::Path;

use serde_json::{json, Value};

use super::check::{self, After};
use super::engine::Engine;
use super::run::{Options, Run};
use super::settling::WarmUp;
use crate::control::Control;
use crate::pause::Pause;
use crate::window::SavePoint;
use crate::{Error, Result};

/// How the guest program stops and where it is told what to do.
#[derive(Clone, Copy, Debug)]
pub struct Checkpoint<'a> {
    /// The control device.
    pub control: &'a Path,
    /// How to stop.
    pub pause: Pause,
}

/// Runs the whole sequence and returns the result, which is also on the control device.
///
/// # Errors
/// When the preparation fails, or the control device does not work. A failure after the resume
/// is written to the control device as well.
pub async fn guest<E: Engine>(engine: &E, options: Options, checkpoint: Checkpoint<'_>) -> Result<Value> {
    // Opened before the stop: a missing device must be noticed while the image is being prepared.
    let control = Control::open(checkpoint.control)?;
    if options.warm_up == WarmUp::Settled {
        engine.prewarm().await?;
    }
    let memory = engine.memory().await?;
    let mut run = Run::connect(engine, options).await?;
    let save_point = SavePoint { control: &control, pause: checkpoint.pause };
    let outcome = measured(save_point, &mut run, engine, &memory).await;
    let result = match &outcome {
        Ok(result) => result.clone(),
        Err(error) => failure(error),
    };
    control.write_result(&result.to_string())?;
    outcome
}

async fn measured<E: Engine>(
    save_point: SavePoint<'_>,
    run: &mut Run<E>,
    engine: &E,
    before: &E::Memory,
) -> Result<Value> {
    let (mut result, orders) = run.capture(save_point).await?;
    let Some(orders) = orders else { return Ok(result) };
    result["lead_in_transactions"] = json!(orders.lead_in(run.users() as u64));
    result["orders"] = json!(orders);
    result["warm_up"] = run.settling().clone();
    let data = engine.describe(run.control(), before).await?;
    if !data.is_null() {
        result["data"] = data;
    }
    if orders.check && result["valid"] == json!(true) {
        let check = check::check(run.control(), run.made().scale, After::Run).await?;
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
