//! The client of a static web site as a program: `load`, `check`, `requests`, `run` and the `guest` form.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde_json::{json, Value};
use servsim_web::command::{self, print, verdict, GuestStep, Pipelining, RunStep, Users};
use servsim_web::crew::Then;
use servsim_web::surge::check::check;
use servsim_web::surge::files::{write_path, Set};
use servsim_web::surge::run::{run, StaticSite};
use servsim_web::surge::sizes::SetSpec;
use servsim_web::surge::NOTICE;
use servsim_web::{Error, Result};

/// What this program calls itself.
const NAME: &str = "servsim-surge";

/// Static files and requests after the published model of SURGE, natively or inside an emulated guest.
#[derive(Parser)]
#[command(name = NAME, after_help = NOTICE)]
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
    Run(RunStep<Behaviour>),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(GuestStep<Behaviour>),
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

#[derive(Args)]
struct Behaviour {
    #[command(flatten)]
    root: Root,
    #[command(flatten)]
    users: Users,
    /// Factor on the published times between requests; 0 for none.
    #[arg(long, default_value_t = 0.0)]
    off_scale: f64,
    /// Whether a page's references are asked for one behind the other without waiting, or each when the one before has come, as
    /// always with times between requests.
    #[arg(long, value_enum, default_value_t = Pipelining::On)]
    pipelining: Pipelining,
}

impl Behaviour {
    fn report(&self, then: Then<'_>) -> Result<Value> {
        if !(0.0..=1000.0).contains(&self.off_scale) {
            return Err(Error::Usage("--off-scale must be from 0 to 1000".to_owned()));
        }
        let set = Set::read(&self.root.root)?;
        let site = StaticSite {
            site: self.users.site(),
            set: &set,
            off_scale: self.off_scale,
            pipelining: self.pipelining == Pipelining::On,
        };
        run(site, self.users.plan(then))
    }
}

fn main() -> ExitCode {
    command::ended(NAME, execute(Cli::parse().command))
}

fn execute(command: Command) -> Result<u8> {
    match command {
        Command::Load(args) => load(&args),
        Command::Check(args) => check_command(&args),
        Command::Requests(root) => requests(&root),
        Command::Run(args) => args.report(NAME, 20_000, Behaviour::report),
        Command::Guest(args) => args.report(NAME, ("staticweb", NOTICE), Behaviour::report),
    }
}

fn load(args: &Load) -> Result<u8> {
    let wanted = SetSpec::of(args.files, args.megabytes, args.seed)?;
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
    print(&report, args.json, command::conditions);
    Ok(verdict(NAME, &report, "passed"))
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
