//! Options of programs that make, ask and visit a board.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::member::{Deeds, Habits};
use super::mix::Mix;
use super::population::Population;
use super::run::counts;
use super::size::{Favourites, Size};
use crate::command::Users;
use crate::conditions::asked;
use crate::{Error, Result};

/// Options of what prints the board's first rows as a script for psql.
#[derive(Clone, Debug, Args)]
pub struct Rows {
    #[command(flatten)]
    size: Size,
    /// Seed of every row.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl Rows {
    /// Prints them.
    ///
    /// # Errors
    /// When the reader does not take them.
    pub fn write(&self) -> Result<()> {
        let mut out = std::io::stdout().lock();
        Population { size: self.size, seed: self.seed }.write(&mut out)?;
        out.flush().map_err(|error| Error::Environment(format!("the rows could not be written: {error}")))
    }
}

/// Options of what asks a board that nobody has visited whether it is consistent.
#[derive(Clone, Debug, Args)]
pub struct Check {
    #[command(flatten)]
    size: Size,
    /// The program that asks the database.
    #[arg(long)]
    consistency: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl Check {
    /// The conditions.
    ///
    /// # Errors
    /// When the program fails.
    pub fn found(&self) -> Result<Vec<Value>> {
        asked(&self.consistency, &counts(self.size, Deeds::default()))
    }
}

/// Options of a run.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Size of the board.
    #[command(flatten)]
    pub size: Size,
    /// The users.
    #[command(flatten)]
    pub users: Users,
    /// Of a hundred requests, how many write: posts, new members, moderation.
    #[arg(long, default_value_t = 12)]
    pub writes: u64,
    /// Factor on times to think (mean 7 s); 0 for none.
    #[arg(long, default_value_t = 0.0)]
    pub think_scale: f64,
}

impl Options {
    /// What the users ask for, and how often.
    ///
    /// # Errors
    /// [`Error::Usage`] with a share or a factor that cannot be.
    pub fn mind(&self) -> Result<(Favourites, Mix)> {
        if !(0.0..=1000.0).contains(&self.think_scale) {
            return Err(Error::Usage("--think-scale must be from 0 to 1000".to_owned()));
        }
        Ok((Favourites::of(self.size.stories), Mix::with(self.writes)?))
    }

    /// What the users have in common.
    pub fn habits<'a>(&'a self, favourites: &'a Favourites, mix: &'a Mix) -> Habits<'a> {
        Habits {
            address: &self.users.address,
            size: self.size,
            favourites,
            mix,
            think_scale: self.think_scale,
        }
    }
}
