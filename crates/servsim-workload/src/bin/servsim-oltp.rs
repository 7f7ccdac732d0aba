//! The OLTP driver as a program: `load`, `run`, `check` and the `guest` form.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed
//! or the run is not valid, 2 wrong usage, 3 environment problem.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use serde_json::Value;
use servsim_workload::oltp::check::{self, After};
use servsim_workload::oltp::deck::Mix;
use servsim_workload::oltp::engine::{Engine, RoundTrip};
use servsim_workload::oltp::guest::{self, Checkpoint};
use servsim_workload::oltp::load;
use servsim_workload::oltp::postgres::Server;
use servsim_workload::oltp::report;
use servsim_workload::oltp::run::{Options, Run, Warehouses};
use servsim_workload::oltp::scale::{Preset, Scale};
use servsim_workload::oltp::settling::WarmUp;
use servsim_workload::oltp::sqlite::Sqlite;
use servsim_workload::oltp::user::Stop;
use servsim_workload::pause::Pause;
use servsim_workload::{Error, Result};

/// TPC-C-derived transactions on `PostgreSQL` or `SQLite`, natively or inside an emulated guest.
#[derive(Parser)]
#[command(name = "servsim-oltp", after_help = servsim_workload::oltp::NOTICE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Create and fill the database.
    Load(Load),
    /// Run transactions and report.
    Run(RunArgs),
    /// Check the twelve consistency conditions.
    Check(CheckArgs),
    /// Warm up, stop at a checkpoint, resume with orders from a control device.
    Guest(GuestArgs),
}

/// Where the database is: with a server, or in a file.
#[derive(Args)]
struct Database {
    #[command(flatten)]
    server: Server,
    /// A database of `SQLite` in this file, instead of a server.
    #[arg(long, conflicts_with_all = ["host", "port", "user", "password", "database"])]
    file: Option<PathBuf>,
    /// Settings of `SQLite`, such as synchronous=NORMAL,cache_size=-8192.
    #[arg(long, value_delimiter = ',', requires = "file")]
    pragma: Vec<String>,
}

#[derive(Args)]
struct Load {
    #[command(flatten)]
    place: Database,
    /// Named scale.
    #[arg(long, value_enum, default_value_t = Preset::Small)]
    preset: Preset,
    /// Warehouses, instead of the preset's.
    #[arg(long)]
    warehouses: Option<i32>,
    /// Districts per warehouse, instead of the preset's.
    #[arg(long)]
    districts: Option<i32>,
    /// Customers per district, instead of the preset's.
    #[arg(long)]
    customers: Option<i32>,
    /// Items, instead of the preset's.
    #[arg(long)]
    items: Option<i32>,
    /// Seed of all rows.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Behaviour {
    /// Number of users, each with its own connection.
    #[arg(long, default_value_t = 8)]
    users: usize,
    /// Transactions before the measurement, over all users; or "settle": until the server's work for a
    /// transaction no longer changes.
    #[arg(long, default_value = "200")]
    warm_up: WarmUp,
    /// Seed of the requests (in a guest: of the warm-up).
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How the kinds are mixed.
    #[arg(long, value_enum, default_value_t = Mix::Deck)]
    mix: Mix,
    /// Where users work.
    #[arg(long, value_enum, default_value_t = Warehouses::Random)]
    warehouse: Warehouses,
    /// Factor on the specification's keying and think times; 0 for none.
    #[arg(long, default_value_t = 0.0)]
    think_scale: f64,
    /// How much of a transaction a user sends at a time.
    #[arg(long, value_enum, default_value_t = RoundTrip::Transaction, conflicts_with = "file")]
    round_trip: RoundTrip,
}

impl Behaviour {
    fn options(&self) -> Result<Options> {
        if !(0.0..=1000.0).contains(&self.think_scale) {
            return Err(Error::Usage("--think-scale must be from 0 to 1000".to_owned()));
        }
        Ok(Options {
            users: self.users,
            seed: self.seed,
            mix: self.mix,
            warehouses: self.warehouse,
            think_scale: self.think_scale,
            warm_up: self.warm_up,
            round_trip: self.round_trip,
            window: None,
        })
    }
}

#[derive(Args)]
struct RunArgs {
    #[command(flatten)]
    place: Database,
    #[command(flatten)]
    behaviour: Behaviour,
    /// Transactions to measure, over all users.
    #[arg(long, default_value_t = 2000, conflicts_with = "seconds")]
    transactions: u64,
    /// Deal the transactions to the users in advance, so that the requests do not depend on timing.
    #[arg(long, conflicts_with = "seconds")]
    deal: bool,
    /// Measure for this many seconds instead.
    #[arg(long)]
    seconds: Option<f64>,
    /// Also count the transactions of successive windows of this many seconds.
    #[arg(long)]
    window_seconds: Option<f64>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl RunArgs {
    fn options(&self) -> Result<Options> {
        let window = match self.window_seconds {
            Some(seconds) if (0.001..1e6).contains(&seconds) => Some(Duration::from_secs_f64(seconds)),
            Some(_) => return Err(Error::Usage("--window-seconds must be at least 0.001".to_owned())),
            None => None,
        };
        Ok(Options { window, ..self.behaviour.options()? })
    }

    fn stop(&self) -> Result<Stop<'_>> {
        Ok(match self.seconds {
            Some(seconds) if seconds > 0.0 && seconds < 1e6 => Stop::After(Duration::from_secs_f64(seconds)),
            Some(_) => return Err(Error::Usage("--seconds must be more than 0".to_owned())),
            None if self.deal => Stop::Dealt(self.transactions),
            None => Stop::Transactions(self.transactions),
        })
    }
}

#[derive(Args)]
struct CheckArgs {
    #[command(flatten)]
    place: Database,
    /// What came before: a load (all conditions hold) or a run (all but condition 11).
    #[arg(long, value_enum, default_value_t = After::Run)]
    after: After,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct GuestArgs {
    #[command(flatten)]
    place: Database,
    #[command(flatten)]
    behaviour: Behaviour,
    /// Block device that carries orders and result.
    #[arg(long, default_value = "/dev/vdb")]
    control: PathBuf,
    /// How to stop at the checkpoint.
    #[arg(long, value_enum, default_value_t = Pause::Pvpanic)]
    pause: Pause,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // This loop serves the control connection; every user has its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&Error::Environment(format!("no event loop: {error}"))),
    };
    match runtime.block_on(execute(cli.command)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error),
    }
}

fn fail(error: &Error) -> ExitCode {
    eprintln!("servsim-oltp: {error}");
    ExitCode::from(error.exit_code())
}

async fn execute(mut command: Command) -> Result<u8> {
    let (place, behaviour) = match &mut command {
        Command::Load(args) => (&args.place, None),
        Command::Run(args) => (&args.place, Some(&mut args.behaviour)),
        Command::Check(args) => (&args.place, None),
        Command::Guest(args) => (&args.place, Some(&mut args.behaviour)),
    };
    let Some(file) = &place.file else {
        let server = place.server.clone();
        return execute_on(&server, command).await;
    };
    let database = Sqlite::new(file.clone(), &place.pragma)?;
    if let Some(behaviour) = behaviour {
        // A library has no stored procedures.
        behaviour.round_trip = RoundTrip::Statement;
    }
    execute_on(&database, command).await
}

async fn execute_on<E: Engine>(engine: &E, command: Command) -> Result<u8> {
    match command {
        Command::Load(args) => load_command(engine, args).await,
        Command::Run(args) => run_command(engine, args).await,
        Command::Check(args) => check_command(engine, args).await,
        Command::Guest(args) => guest_command(engine, args).await,
    }
}

async fn load_command<E: Engine>(engine: &E, args: Load) -> Result<u8> {
    let base = args.preset.scale(args.warehouses);
    let scale = Scale {
        warehouses: base.warehouses,
        districts: args.districts.unwrap_or(base.districts),
        customers: args.customers.unwrap_or(base.customers),
        items: args.items.unwrap_or(base.items),
    };
    let mut progress = |step: &str| eprintln!("loading {scale}: {step}");
    let report = load::load(engine, scale, args.seed, &mut progress).await?;
    if args.json {
        println!("{report:#}");
    } else {
        let megabytes = report["database_bytes"].as_f64().unwrap_or(0.0) / 1e6;
        let seconds = report["seconds"].as_f64().unwrap_or(0.0);
        println!("{}\nloaded {scale} in {seconds:.1} s, {megabytes:.0} MB", servsim_workload::oltp::NOTICE);
    }
    Ok(0)
}

async fn run_command<E: Engine>(engine: &E, args: RunArgs) -> Result<u8> {
    let stop = args.stop()?;
    let mut run = Run::connect(engine, args.options()?).await?;
    // Without the name of the program, which marks what a failure is told by.
    run.warm_up(|line| eprintln!("{line}"))?;
    let report = run.measure(stop, args.behaviour.seed).await?;
    print_run(&report, args.json);
    tell_problems(&report);
    Ok(verdict(&report, "valid"))
}

async fn check_command<E: Engine>(engine: &E, args: CheckArgs) -> Result<u8> {
    let report = check::check_database(engine, args.after).await?;
    if args.json {
        println!("{report:#}");
    } else {
        for condition in report["conditions"].as_array().into_iter().flatten() {
            let found = match condition["violations"].as_i64() {
                Some(0) => "ok".to_owned(),
                Some(rows) => format!("VIOLATED by {rows} rows"),
                None => condition["note"].as_str().unwrap_or_default().to_owned(),
            };
            let meaning = condition["meaning"].as_str().unwrap_or_default();
            println!("3.3.2.{:<2} {found}: {meaning}", condition["condition"].as_u64().unwrap_or(0));
        }
    }
    tell_problems(&report);
    Ok(verdict(&report, "passed"))
}

fn tell_problems(report: &Value) {
    for problem in report["problems"].as_array().into_iter().flatten() {
        eprintln!("servsim-oltp: {}", problem.as_str().unwrap_or_default());
    }
}

async fn guest_command<E: Engine>(engine: &E, args: GuestArgs) -> Result<u8> {
    let checkpoint = Checkpoint { control: &args.control, pause: args.pause };
    let report = guest::guest(engine, args.behaviour.options()?, checkpoint).await?;
    print_run(&report, true);
    Ok(verdict(&report, "valid"))
}

fn print_run(report: &Value, json: bool) {
    if json {
        println!("{report:#}");
    } else {
        print!("{}", report::text(report));
    }
}

fn verdict(report: &Value, key: &str) -> u8 {
    u8::from(report[key] != Value::Bool(true))
}
