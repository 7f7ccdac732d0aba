//! The form used inside an emulated guest: warm up, stop at the checkpoint, resume, measure.
//!
//! The machine is saved while every user is idle; how the warm-up went lies on the control device
//! then. Each resume reads its own orders from that device, so one checkpoint serves any number of
//! captures. The users then begin all at once; the measurement starts when they are out of step, and
//! ends while they are still at work. The result, valid or not, goes back through the same device.

use std::path::Path;
use std::time::Duration;

use serde_json::{json, Value};

use super::check::{self, After};
use super::connect::Server;
use super::run::{Options, Run};
use super::settling::WarmUp;
use super::shared_memory::{self, Buffers};
use super::user::Stop;
use crate::control::Control;
use crate::error::Context;
use crate::pause::{pause, Pause};
use crate::{Error, Result};

/// Transactions per user between the resume and the start mark: all users are at work then, each at
/// another point of its transaction.
const LEAD_IN_PER_USER: u64 = 2;
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
    if options.warm_up == WarmUp::Settled {
        prewarm(server).await?;
    }
    let buffers = shared_memory::buffers(server).await?;
    let mut run = Run::connect(server, options).await?;
    // The host passes on what the console says after these words.
    run.warm_up(|line| eprintln!("servsim-guest: {line}"))?;
    control.write_result(&run.settling().to_string())?;
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

/// Reads the database, so that only what a transaction needs anew comes from disk later.
async fn prewarm(server: &Server) -> Result<()> {
    let client = server.connect().await?;
    let statements = format!("CREATE EXTENSION IF NOT EXISTS pg_prewarm; {PREWARM}");
    client.batch_execute(&statements).await.context("reading the database into memory")
}

async fn measured(control: &Control, run: &mut Run, server: &Server, before: &Buffers) -> Result<Value> {
    let orders = control.orders()?;
    let lead_in = LEAD_IN_PER_USER * run.users() as u64;
    let stop = Stop::Window { lead_in, transactions: orders.transactions };
    let mut result = run.measure(stop, orders.seed).await?;
    result["lead_in_transactions"] = json!(lead_in);
    result["orders"] = json!(orders);
    result["warm_up"] = run.settling().clone();
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
