//! Loading, whichever the engine, and what a database says of how it was made.

use std::time::Instant;

use serde_json::json;

use super::engine::{Control, Engine};
use super::rows::Population;
use super::scale::{Constants, Scale};
use crate::{Error, Result};

/// Version of the database layout; a run refuses any other.
pub const VERSION: i64 = 1;

/// What the database says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Its size.
    pub scale: Scale,
    /// The seed of its rows.
    pub seed: u64,
    /// The constants C of its last names, items and customers.
    pub c_load: Constants,
}

/// Creates and fills the database, replacing one of this workload; `progress` is told each step.
///
/// # Errors
/// When the engine is not reachable or refuses a statement.
pub async fn load<E: Engine>(
    engine: &E,
    scale: Scale,
    seed: u64,
    progress: &mut dyn FnMut(&str),
) -> Result<serde_json::Value> {
    scale.validate()?;
    let begin = Instant::now();
    let population = Population::new(scale, seed);
    let bytes = engine.fill(&population, progress).await?;
    // The last step, so that an interrupted load is never used. Neither text holds a quotation mark.
    let (of_scale, c_load) = (json!(scale), json!(population.c));
    let record = format!("INSERT INTO servsim_oltp VALUES ({VERSION}, '{seed}', '{of_scale}', '{c_load}')");
    engine.control().await?.batch(&record).await?;
    Ok(json!({
        "schema": "servsim.workload.load/1",
        "workload": "oltp",
        "notice": super::NOTICE,
        "engine": E::NAME,
        "scale": scale,
        "seed": seed,
        "c_load": population.c,
        "database_bytes": bytes,
        "seconds": begin.elapsed().as_secs_f64(),
    }))
}

/// Reads how the database was made.
///
/// # Errors
/// [`Error::Usage`] when it holds no finished load of this version.
pub async fn made<C: Control>(control: &C) -> Result<Made> {
    let unloaded =
        || Error::Usage("this database holds no OLTP workload of this version; run `load` first".to_owned());
    let row = match control.row("SELECT version, seed, scale, c_load FROM servsim_oltp").await {
        Err(Error::Database { source, .. }) if !source.is_refusal() => {
            return Err(Error::Environment(format!("the connection was lost: {source}")));
        }
        reply => reply.ok().flatten().ok_or_else(unloaded)?,
    };
    let [Some(version), Some(seed), Some(scale), Some(c_load)] = row.as_slice() else {
        return Err(unloaded());
    };
    if *version != VERSION.to_string() {
        return Err(unloaded());
    }
    let seed = seed.parse().map_err(|_| unloaded())?;
    let scale = serde_json::from_str(scale).map_err(|_| unloaded())?;
    let c_load = serde_json::from_str(c_load).map_err(|_| unloaded())?;
    Ok(Made { scale, seed, c_load })
}
