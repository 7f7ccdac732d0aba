//! The users of the message board as a program: `rows` makes the board, `run` and `guest` visit it, `check` asks whether its
//! database is consistent.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use serde_json::Value;
use servsim_web::board::options::{Check, Options, Rows};
use servsim_web::board::run::{run, Board};
use servsim_web::board::NOTICE;
use servsim_web::command::{self, reported, GuestStep, RunStep};
use servsim_web::crew::Then;
use servsim_web::Result;

/// What this program calls itself.
const NAME: &str = "servsim-board";

/// Users of a message board, natively or inside an emulated guest, and the board's first data.
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
    /// Ask the database whether it is consistent.
    Check(Check),
    /// Run transactions and report.
    Run(RunStep<Options>),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(GuestStep<Options>),
}

fn main() -> ExitCode {
    command::ended(NAME, execute(Cli::parse().command))
}

fn report(options: &Options, then: Then<'_>) -> Result<Value> {
    let (favourites, mix) = options.mind()?;
    let board = Board {
        habits: options.habits(&favourites, &mix),
        writes: options.writes,
        site: options.users.site(),
    };
    run(board, options.users.plan(then))
}

fn execute(step: Step) -> Result<u8> {
    match step {
        Step::Rows(args) => args.write().map(|()| 0),
        Step::Check(args) => Ok(reported(NAME, ("board", NOTICE), &args.found()?, args.json)),
        Step::Run(args) => args.report(NAME, 2000, report),
        Step::Guest(args) => args.report(NAME, ("board", NOTICE), report),
    }
}
