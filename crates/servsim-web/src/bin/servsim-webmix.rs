//! The users of a static site and a message board on one server as a program: `rows` and `files` make both, `run` and `guest` visit
//! them, `check` looks at the files and asks the database.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use servsim_web::board::options::{self, Options, Rows};
use servsim_web::command::{self, reported, GuestStep, RunStep};
use servsim_web::crew::Then;
use servsim_web::surge::check::check;
use servsim_web::surge::files::Set;
use servsim_web::surge::sizes::SetSpec;
use servsim_web::webmix::{run, Mixed, NOTICE};
use servsim_web::Result;

/// What this program calls itself.
const NAME: &str = "servsim-webmix";

/// Users of a static site and a message board, natively or inside an emulated guest, and the first data of both.
#[derive(Parser)]
#[command(name = NAME, after_help = NOTICE)]
struct Cli {
    #[command(subcommand)]
    command: Step,
}

#[derive(Subcommand)]
enum Step {
    /// Print the board's first rows as a script for psql.
    Rows(Rows),
    /// Make the files of the static site.
    Files(Site),
    /// Look at the files, and ask the database whether it is consistent.
    Check(Check),
    /// Run transactions and report.
    Run(RunStep<Behaviour>),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(GuestStep<Behaviour>),
}

#[derive(Args)]
struct Site {
    /// Folder of the file set.
    #[arg(long)]
    root: PathBuf,
    /// Number of files.
    #[arg(long, default_value_t = 1000)]
    files: u32,
    /// Bytes of all files together, in MB (10^6 bytes).
    #[arg(long, default_value_t = 25.0)]
    megabytes: f64,
    /// Seed of sizes, contents and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    board: options::Check,
    /// Folder of the file set.
    #[arg(long)]
    root: PathBuf,
}

#[derive(Args)]
struct Behaviour {
    #[command(flatten)]
    board: Options,
    /// Folder of the file set.
    #[arg(long)]
    root: PathBuf,
    /// Of ten requests, how many are for files.
    #[arg(long, default_value_t = 7)]
    files_of_ten: u64,
}

impl Behaviour {
    fn report(&self, then: Then<'_>) -> Result<Value> {
        let Options { users, writes, .. } = &self.board;
        let (favourites, mix) = self.board.mind()?;
        let mixed = Mixed {
            set: &Set::read(&self.root)?,
            habits: self.board.habits(&favourites, &mix),
            writes: *writes,
            files_of_ten: self.files_of_ten,
            site: users.site(),
        };
        run(mixed, users.plan(then))
    }
}

fn main() -> ExitCode {
    command::ended(NAME, execute(Cli::parse().command))
}

fn execute(step: Step) -> Result<u8> {
    match step {
        Step::Rows(args) => args.write().map(|()| 0),
        Step::Files(args) => {
            let wanted = SetSpec::of(args.files, args.megabytes, args.seed)?;
            Set::make(&args.root, wanted, |line| eprintln!("loading: {line}")).map(|_| 0)
        }
        Step::Check(args) => {
            let site = check(&Set::read(&args.root)?, Some(&args.root))?;
            let mut found = site["conditions"].as_array().cloned().unwrap_or_default();
            found.extend(args.board.found()?);
            Ok(reported(NAME, ("webmix", NOTICE), &found, args.board.json))
        }
        Step::Run(args) => args.report(NAME, 4000, Behaviour::report),
        Step::Guest(args) => args.report(NAME, ("webmix", NOTICE), Behaviour::report),
    }
}
