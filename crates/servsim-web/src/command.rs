//! What the programs of the web workloads share: options of a run, the form for a guest, reports and exit codes.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::{json, Value};
use servsim_driver::control::Control;
use servsim_driver::cpu::Server;
use servsim_driver::pause::Pause;
use servsim_driver::window::SavePoint;

use crate::conditions::broken;
use crate::crew::{Plan, Then};
use crate::report;
use crate::visit::Site;
use crate::{Error, Result};

/// Whether the server's own count of requests is compared with the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Count {
    /// The page `/server-status?auto` of Apache's `mod_status`.
    Apache,
    /// The server does not tell.
    None,
}

/// Options of every run.
#[derive(Clone, Debug, Args)]
pub struct Users {
    /// The server.
    #[arg(long, default_value = "127.0.0.1:80")]
    pub address: String,
    /// Number of users, each with a connection of its own.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub users: u64,
    /// Transactions before the measurement, over all users.
    #[arg(long, default_value_t = 1000)]
    pub warm_up: u64,
    /// Seed of the requests (in a guest: of the warm-up).
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Process number of the server's first process, whose processor time, with that of its children, is reported.
    #[arg(long)]
    pub server_process: Option<u32>,
    /// Whether the server's own count of requests is compared with the replies.
    #[arg(long, value_enum, default_value_t = Count::Apache)]
    pub server_count: Count,
    /// The program that asks the database, behind the run, whether it is consistent.
    #[arg(long)]
    pub consistency: Option<PathBuf>,
    /// The program that tells what lies where in the memory that the server's processes share.
    #[arg(long)]
    pub memory: Option<PathBuf>,
}

impl Users {
    /// The plan of a run that ends as `then` says.
    pub fn plan<'a>(&self, then: Then<'a>) -> Plan<'a> {
        let server = self.server_process.map_or(Server::Elsewhere, Server::Family);
        Plan { users: self.users, seed: self.seed, warm_up: self.warm_up, then, server }
    }

    /// Who is visited.
    pub fn site(&self) -> Site<'_> {
        Site {
            address: &self.address,
            counts: self.server_count == Count::Apache,
            consistency: self.consistency.as_deref(),
            memory: self.memory.as_deref(),
        }
    }
}

/// Whether a user asks for the next part of a page before the one before has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pipelining {
    /// It does.
    On,
    /// It waits.
    Off,
}

/// The step `run` of a program, whose users behave so.
#[derive(Debug, Args)]
pub struct RunStep<B: Args> {
    #[command(flatten)]
    behaviour: B,
    /// Transactions to measure, over all users.
    #[arg(long, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    transactions: Option<u64>,
    /// Measure for this many seconds instead.
    #[arg(long)]
    seconds: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl<B: Args> RunStep<B> {
    /// Runs natively, measuring `usual` transactions unless it is said how many, and prints the report.
    ///
    /// # Errors
    /// Those of `run`, and wrong options.
    pub fn report(
        &self,
        program: &str,
        usual: u64,
        run: impl FnOnce(&B, Then<'_>) -> Result<Value>,
    ) -> Result<u8> {
        let then = match self.seconds {
            Some(seconds) if seconds > 0.0 && seconds < 1e6 => Then::After(Duration::from_secs_f64(seconds)),
            Some(_) => return Err(Error::Usage("--seconds must be more than 0".to_owned())),
            None => Then::Transactions(self.transactions.unwrap_or(usual)),
        };
        let report = run(&self.behaviour, then)?;
        print(&report, self.json, report::text);
        Ok(verdict(program, &report, "valid"))
    }
}

/// The step `guest` of a program, whose users behave so: where a guest's orders come from, and how it stops.
#[derive(Debug, Args)]
pub struct GuestStep<B: Args> {
    #[command(flatten)]
    behaviour: B,
    /// Block device that carries orders and result.
    #[arg(long, default_value = "/dev/vdb")]
    control: PathBuf,
    /// How to stop at the checkpoint.
    #[arg(long, value_enum, default_value_t = Pause::Pvpanic)]
    pause: Pause,
}

impl<B: Args> GuestStep<B> {
    /// Runs in a guest, and leaves the report on the control device, whatever happens.
    ///
    /// # Errors
    /// Those of `run`, and of the device.
    pub fn report(
        &self,
        program: &str,
        (workload, notice): (&str, &str),
        run: impl FnOnce(&B, Then<'_>) -> Result<Value>,
    ) -> Result<u8> {
        let control = Control::open(&self.control)?;
        let save = SavePoint { control: &control, pause: self.pause };
        let outcome = run(&self.behaviour, Then::Saved(save));
        let result = match &outcome {
            Ok(report) => report.clone(),
            Err(error) => json!({
                "schema": "servsim.workload.run/1",
                "workload": workload,
                "notice": notice,
                "valid": false,
                "problems": [error.to_string()],
            }),
        };
        control.write_result(&result.to_string())?;
        let report = outcome?;
        print(&report, true, report::text);
        Ok(verdict(program, &report, "valid"))
    }
}

/// Prints a report as JSON or as text.
pub fn print(report: &Value, json: bool, text: impl Fn(&Value) -> String) {
    let said = if json { format!("{report:#}\n") } else { text(report) };
    // A reader that has had enough closes the pipe.
    let _ = std::io::stdout().write_all(said.as_bytes());
}

/// Conditions, one a line.
pub fn conditions(report: &Value) -> String {
    let line = |condition: &Value| {
        let verdict = if condition["holds"] == json!(true) { "ok" } else { "FAILS" };
        let found = condition["found"].as_f64().unwrap_or(f64::NAN);
        let limit = condition["limit"].as_f64().unwrap_or(f64::NAN);
        let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
        format!("{:<11} {verdict:<5} {found:.4} (limit {limit:.4}): {}\n", text("condition"), text("meaning"))
    };
    report["conditions"].as_array().into_iter().flatten().map(line).collect()
}

/// Prints what the conditions of a program's `check` have found, and returns its exit code.
pub fn reported(program: &str, (workload, notice): (&str, &str), found: &[Value], as_json: bool) -> u8 {
    let problems = broken(found);
    let report = json!({
        "schema": "servsim.workload.check/1",
        "workload": workload,
        "notice": notice,
        "passed": problems.is_empty(),
        "problems": problems,
        "conditions": found,
    });
    print(&report, as_json, conditions);
    verdict(program, &report, "passed")
}

/// The exit code of a report, whose problems go to standard error.
pub fn verdict(program: &str, report: &Value, key: &str) -> u8 {
    for problem in report["problems"].as_array().into_iter().flatten() {
        eprintln!("{program}: {}", problem.as_str().unwrap_or_default());
    }
    u8::from(report[key] != Value::Bool(true))
}

/// The exit code of a program; why it failed goes to standard error.
pub fn ended(program: &str, result: Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("{program}: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
