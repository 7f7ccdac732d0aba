//! The client of a static web site as a program: `load`, `check`, `requests`, `run` and the `guest` form.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde_json::{json, Value};
use servsim_driver::control::Control;
use servsim_driver::cpu::Server;
use servsim_driver::pause::Pause;
use servsim_driver::window::SavePoint;
use servsim_web::crew::{Plan, Then};
use servsim_web::report;
use servsim_web::surge::check::check;
use servsim_web::surge::files::{write_path, Set};
use servsim_web::surge::run::{run, Site};
use servsim_web::surge::sizes::Wanted;
use servsim_web::surge::NOTICE;
use servsim_web::{Error, Result};

/// Static files and requests after the published model of SURGE, natively or inside an emulated guest.
#[derive(Parser)]
#[command(name = "servsim-surge", after_help = NOTICE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make the files, the catalogue and the order of requests.
    Load(Load),
    /// Check a file set against the published laws, and its files against the catalogue.
    Check(Check),
    /// Print the paths of a round of requests, for other clients of the same site.
    Requests(Root),
    /// Run transactions and report.
    Run(Run),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(Guest),
}

#[derive(Args)]
struct Root {
    /// Folder of the file set; the server serves `htdocs` in it.
    #[arg(long)]
    root: PathBuf,
}

#[derive(Args)]
struct Load {
    #[command(flatten)]
    root: Root,
    /// Number of files.
    #[arg(long, default_value_t = 20_000)]
    files: u32,
    /// Bytes of all files together, in MB (10^6 bytes).
    #[arg(long, default_value_t = 500.0)]
    megabytes: f64,
    /// Seed of sizes, contents and requests.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    root: Root,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Whether the server's own count of requests is compared with the replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Count {
    /// The page `/server-status?auto` of Apache's `mod_status`.
    Apache,
    /// The server does not tell.
    None,
}

#[derive(Args)]
struct Behaviour {
    #[command(flatten)]
    root: Root,
    /// The server.
    #[arg(long, default_value = "127.0.0.1:80")]
    address: String,
    /// Number of users, each with a connection of its own.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    users: u64,
    /// Transactions before the measurement, over all users.
    #[arg(long, default_value_t = 1000)]
    warm_up: u64,
    /// Seed of the requests (in a guest: of the warm-up).
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Factor on the published times between requests; 0 for none.
    #[arg(long, default_value_t = 0.0)]
    off_scale: f64,
    /// Process number of the server's first process, whose processor time, with that of its children, is reported.
    #[arg(long)]
    server_process: Option<u32>,
    /// Whether the server's own count of requests is compared with the replies.
    #[arg(long, value_enum, default_value_t = Count::Apache)]
    server_count: Count,
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    behaviour: Behaviour,
    /// Transactions to measure, over all users.
    #[arg(long, default_value_t = 20_000, conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Measure for this many seconds instead.
    #[arg(long)]
    seconds: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Guest {
    #[command(flatten)]
    behaviour: Behaviour,
    /// Block device that carries orders and result.
    #[arg(long, default_value = "/dev/vdb")]
    control: PathBuf,
    /// How to stop at the checkpoint.
    #[arg(long, value_enum, default_value_t = Pause::Pvpanic)]
    pause: Pause,
}

impl Behaviour {
    fn report(&self, then: Then<'_>) -> Result<Value> {
        if !(0.0..=1000.0).contains(&self.off_scale) {
            return Err(Error::Usage("--off-scale must be from 0 to 1000".to_owned()));
        }
        let set = Set::read(&self.root.root)?;
        let site = Site {
            address: &self.address,
            set: &set,
            off_scale: self.off_scale,
            counts: self.server_count == Count::Apache,
        };
        let server = self.server_process.map_or(Server::Elsewhere, Server::Family);
        run(site, Plan { users: self.users, seed: self.seed, warm_up: self.warm_up, then, server })
    }
}

fn main() -> ExitCode {
    match execute(Cli::parse().command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("servsim-surge: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

fn execute(command: Command) -> Result<u8> {
    match command {
        Command::Load(args) => load(&args),
        Command::Check(args) => check_command(&args),
        Command::Requests(root) => requests(&root),
        Command::Run(args) => {
            let then = match args.seconds {
                Some(seconds) if seconds > 0.0 && seconds < 1e6 => {
                    Then::After(Duration::from_secs_f64(seconds))
                }
                Some(_) => return Err(Error::Usage("--seconds must be more than 0".to_owned())),
                None => Then::Transactions(args.transactions),
            };
            let report = args.behaviour.report(then)?;
            print(&report, args.json, report::text);
            Ok(verdict(&report, "valid"))
        }
        Command::Guest(args) => guest(&args),
    }
}

fn load(args: &Load) -> Result<u8> {
    if !(0.0..1e6).contains(&args.megabytes) {
        return Err(Error::Usage("--megabytes must be from 0 to 1000000".to_owned()));
    }
    if args.files > 99_999 {
        return Err(Error::Usage("--files must be at most 99999".to_owned()));
    }
    let total_bytes = (args.megabytes * 1e6) as u64;
    let wanted = Wanted { files: args.files, total_bytes, seed: args.seed };
    let set = Set::make(&args.root.root, wanted, |line| eprintln!("loading: {line}"))?;
    let report = json!({
        "schema": "servsim.workload.load/1",
        "workload": "staticweb",
        "notice": NOTICE,
        "scale": wanted,
        "bytes": set.files.iter().map(|file| file.bytes).sum::<u64>(),
        "largest_bytes": set.files.iter().map(|file| file.bytes).max(),
        "tail_files": set.tail_files(),
        "requests": set.sequence.requests.len(),
        "pages": set.sequence.page_count(),
    });
    print(&report, args.json, |report| {
        format!(
            "{NOTICE}\nloaded {} files, {} bytes: {} in the tail, the largest {}; {} requests in {} pages\n",
            args.files,
            report["bytes"],
            report["tail_files"],
            report["largest_bytes"],
            report["requests"],
            report["pages"]
        )
    });
    Ok(0)
}

fn check_command(args: &Check) -> Result<u8> {
    let set = Set::read(&args.root.root)?;
    let report = check(&set, Some(&args.root.root))?;
    print(&report, args.json, |report| {
        let line = |condition: &Value| {
            let verdict = if condition["holds"] == json!(true) { "ok" } else { "FAILS" };
            let found = condition["found"].as_f64().unwrap_or(f64::NAN);
            let limit = condition["limit"].as_f64().unwrap_or(f64::NAN);
            let text = |key: &str| condition[key].as_str().unwrap_or_default().to_owned();
            format!(
                "{:<11} {verdict:<5} {found:.4} (limit {limit:.4}): {}\n",
                text("condition"),
                text("meaning")
            )
        };
        report["conditions"].as_array().into_iter().flatten().map(line).collect()
    });
    Ok(verdict(&report, "passed"))
}

fn requests(root: &Root) -> Result<u8> {
    let set = Set::read(&root.root)?;
    let mut paths = String::new();
    for &file in &set.sequence.requests {
        write_path(&mut paths, file);
        paths.push('\n');
    }
    // A reader that has had enough closes the pipe.
    let _ = std::io::stdout().write_all(paths.as_bytes());
    Ok(0)
}

fn guest(args: &Guest) -> Result<u8> {
    let control = Control::open(&args.control)?;
    let outcome = args.behaviour.report(Then::Saved(SavePoint { control: &control, pause: args.pause }));
    let result = match &outcome {
        Ok(report) => report.clone(),
        Err(error) => json!({
            "schema": "servsim.workload.run/1",
            "workload": "staticweb",
            "notice": NOTICE,
            "valid": false,
            "problems": [error.to_string()],
        }),
    };
    control.write_result(&result.to_string())?;
    let report = outcome?;
    print(&report, true, report::text);
    Ok(verdict(&report, "valid"))
}

fn print(report: &Value, json: bool, text: impl Fn(&Value) -> String) {
    let said = if json { format!("{report:#}\n") } else { text(report) };
    // A reader that has had enough closes the pipe.
    let _ = std::io::stdout().write_all(said.as_bytes());
}

/// The exit code of a report, whose problems go to standard error.
fn verdict(report: &Value, key: &str) -> u8 {
    for problem in report["problems"].as_array().into_iter().flatten() {
        eprintln!("servsim-surge: {}", problem.as_str().unwrap_or_default());
    }
    u8::from(report[key] != Value::Bool(true))
}
