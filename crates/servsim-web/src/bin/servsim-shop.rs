//! The users of the book shop as a program: `rows` and `images` make the shop, `run` and `guest` visit it, `check` asks whether its
//! database is consistent.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use servsim_web::command::{self, reported, GuestStep, Pipelining, RunStep, Users};
use servsim_web::conditions::asked;
use servsim_web::crew::Then;
use servsim_web::tpcw::mix::Mix;
use servsim_web::tpcw::names::Size;
use servsim_web::tpcw::population::Population;
use servsim_web::tpcw::run::{counts, run, Shop};
use servsim_web::tpcw::shopper::{Deeds, Habits};
use servsim_web::tpcw::{images, NOTICE};
use servsim_web::{Error, Result};

/// What this program calls itself.
const NAME: &str = "servsim-shop";

/// Emulated browsers of a TPC-W-derived book shop, natively or inside an emulated guest, and the shop's first data.
#[derive(Parser)]
#[command(name = NAME, after_help = NOTICE)]
struct Cli {
    #[command(subcommand)]
    command: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Print the shop's first rows as a script for psql.
    Rows(Rows),
    /// Make the images of the books.
    Images(Images),
    /// Ask the database whether it is consistent.
    Check(Check),
    /// Run transactions and report.
    Run(RunStep<Behaviour>),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(GuestStep<Behaviour>),
}

#[derive(Args)]
struct Rows {
    #[command(flatten)]
    size: Size,
    /// Seed of every row.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Args)]
struct Images {
    /// Folder of the images.
    #[arg(long)]
    root: PathBuf,
    /// How many of each kind.
    #[arg(long = "images", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    count: u32,
    /// Seed of sizes and contents.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    size: Size,
    /// The program that asks the database.
    #[arg(long)]
    consistency: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Behaviour {
    #[command(flatten)]
    size: Size,
    #[command(flatten)]
    users: Users,
    /// The mix of interactions: browsing, shopping or ordering.
    #[arg(long, default_value = "shopping")]
    mix: String,
    /// Factor on the published times to think; 0 for none.
    #[arg(long, default_value_t = 0.0)]
    think_scale: f64,
    /// How many users fetch images by a second connection.
    #[arg(long, default_value_t = 0)]
    second_connections: u64,
    /// Whether a page's images are asked for one behind the other without waiting, or each when the one before has come.
    #[arg(long, value_enum, default_value_t = Pipelining::On)]
    pipelining: Pipelining,
}

impl Behaviour {
    fn report(&self, then: Then<'_>) -> Result<Value> {
        if !(0.0..=1000.0).contains(&self.think_scale) {
            return Err(Error::Usage("--think-scale must be from 0 to 1000".to_owned()));
        }
        let mix = &Mix::named(&self.mix)?;
        let habits = Habits {
            address: &self.users.address,
            size: self.size,
            mix,
            think_scale: self.think_scale,
            pipelining: self.pipelining == Pipelining::On,
        };
        let shop = Shop {
            habits,
            mix: &self.mix,
            second_connections: self.second_connections,
            site: self.users.site(),
        };
        run(shop, self.users.plan(then))
    }
}

fn main() -> ExitCode {
    command::ended(NAME, execute(Cli::parse().command))
}

fn execute(step: Step) -> Result<u8> {
    match step {
        Step::Rows(args) => {
            let mut out = std::io::stdout().lock();
            Population { size: args.size, seed: args.seed }.write(&mut out)?;
            out.flush()
                .map_err(|error| Error::Environment(format!("the rows could not be written: {error}")))?;
            Ok(0)
        }
        Step::Images(args) => images::make(&args.root, args.count, args.seed).map(|()| 0),
        Step::Check(args) => {
            let found = asked(&args.consistency, &counts(args.size, Deeds::default()))?;
            Ok(reported(NAME, ("ecommerce", NOTICE), &found, args.json))
        }
        Step::Run(args) => args.report(NAME, 2000, Behaviour::report),
        Step::Guest(args) => args.report(NAME, ("ecommerce", NOTICE), Behaviour::report),
    }
}
