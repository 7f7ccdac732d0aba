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
use super::connect::Server;
use super::run::{Options, Run};
use super::settling::WarmUp;
use super::shared_memory::{self, Buffers};
use crate::control::Control;
use crate::error::Context;
use crate::pause::Pause;
use crate::window::SavePoint;
use crate::{Error, Result};

/// Reads every table and index into the server's buffers, or into the page cache where the buffers
/// do not hold the database.
const PREWARM: &str = "SELECT sum(pg_prewarm(c.oid, CASE WHEN pg_database_size(current_database()) < \
     pg_size_bytes(current_setting('shared_buffers')) THEN 'buffer' ELSE 'read' END)) \
     FROM pg_class c WHERE relkind IN ('r', 'i', 't', 'm')";

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
pub async fn guest(server: &Server, options: Options, checkpoint: Checkpoint<'_>) -> Result<Value> {
    // Opened before the stop: a missing device must be noticed while the image is being prepared.
    let control = Control::open(checkpoint.control)?;
    if options.warm_up == WarmUp::Settled {
        prewarm(server).await?;
    }
    let buffers = shared_memory::buffers(server).await?;
    let mut run = Run::connect(server, options).await?;
    let outcome =
        measured(SavePoint { control: &control, pause: checkpoint.pause }, &mut run, server, &buffers).await;
    let result = match &outcome {
        Ok(result) => result.clone(),
        Err(error) => failure(error),
    };
    control.write_result(&result.to_string())?;
    outcome
}

/// Reads the database, so that only what a transaction needs anew comes from disk later.
async fn prewarm(server: &Server) -> Result<()> {
    let client = server.connect().await?;
    let statements = format!("CREATE EXTENSION IF NOT EXISTS pg_prewarm; {PREWARM}");
    client.batch_execute(&statements).await.context("reading the database into memory")
}

async fn measured(
    save_point: SavePoint<'_>,
    run: &mut Run,
    server: &Server,
    before: &Buffers,
) -> Result<Value> {
    let (mut result, orders) = run.capture(save_point).await?;
    let Some(orders) = orders else { return Ok(result) };
    result["lead_in_transactions"] = json!(orders.lead_in(run.users() as u64));
    result["orders"] = json!(orders);
    result["warm_up"] = run.settling().clone();
    result["data"] = shared_memory::describe(server, run.control(), before).await?;
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
