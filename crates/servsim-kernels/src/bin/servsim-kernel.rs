//! The kernels as one program: `servsim-kernel NAME`, a subcommand for each of the registry.
//!
//! Data go to standard output, messages to standard error. Exit codes: 0 success, 1 a check failed,
//! 2 wrong usage, 3 environment problem, 70 a fault of the program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::EnumValueParser;
use clap::{value_parser, Arg, ArgAction, ArgMatches, Command};
use serde_json::{json, Value};
use servsim_driver::pause::Pause;
use servsim_kernels::kernel::{RunOptions, Spec};
use servsim_kernels::registry::{find, KERNELS};
use servsim_kernels::report;
use servsim_kernels::run::{prepare, Guest, Manner};
use servsim_kernels::splash;
use servsim_kernels::team::Init;
use servsim_kernels::{Error, Result};
use servsim_units::Bytes;

/// More threads than this are a slip of the keyboard.
const MOST_THREADS: u64 = 4096;
/// The exit code of a fault of ours.
const BUG: u8 = 70;

fn main() -> ExitCode {
    match std::panic::catch_unwind(|| execute(&command().get_matches())) {
        Ok(Ok(code)) => ExitCode::from(code),
        Ok(Err(error)) => {
            eprintln!("servsim-kernel: {error}");
            ExitCode::from(error.exit_code())
        }
        Err(_) => ExitCode::from(BUG),
    }
}

fn command() -> Command {
    let list = Command::new("list").about("List the kernels").arg(flag("json", "Print JSON"));
    Command::new("servsim-kernel")
        .about("Threaded scientific kernels and memory tests with self-checks")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(list)
        .subcommands(KERNELS.iter().map(|spec| kernel_command(spec)))
}

fn kernel_command(spec: &'static Spec) -> Command {
    let paper = spec.paper.map_or_else(String::new, |(size, iterations)| {
        format!("; 'paper' for {size} with {iterations} iterations, as Brock et al. 2001")
    });
    let own = spec.settings.iter().map(|setting| {
        option(setting.name, setting.help).default_value(setting.default).allow_negative_numbers(true)
    });
    Command::new(spec.name)
        .about(spec.summary)
        .arg(option("threads", "Threads").default_value("1").value_parser(value_parser!(u64)))
        .arg(option("size", format!("Size: {}{paper}", spec.size)).default_value(spec.default_size))
        .arg(
            option("iterations", format!("Measured iterations [default: {}]", spec.iterations))
                .value_parser(value_parser!(u64)),
        )
        .arg(option("seed", "Seed of the initial values").default_value("1").value_parser(value_parser!(u64)))
        .arg(
            option("init", "Who writes the initial values, and so places pages by first touch")
                .default_value(Init::Parallel.name())
                .value_parser(value_parser!(Init)),
        )
        .arg(
            option("polls", "How often a thread polls a barrier before it sleeps")
                .default_value("1000")
                .value_parser(value_parser!(u32)),
        )
        .arg(option("memory", "Memory that the structures may take, with a unit [default: what is free]"))
        .args(own)
        .arg(
            option("control", "In a guest: the device with the orders, on which the report is left")
                .value_parser(value_parser!(PathBuf)),
        )
        .arg(
            option("pause", "In a guest: how to stop behind the warm-up")
                .default_value("pvpanic")
                .value_parser(EnumValueParser::<Pause>::new()),
        )
        .arg(
            option("warm-up", "In a guest: iterations before the stop")
                .default_value("1")
                .value_parser(value_parser!(u64)),
        )
        .arg(
            option("splash-dir", "Run the program of this folder, your own build of SPLASH, instead of ours")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with_all(["init", "polls", "memory", "print-structures", "control"])
                .conflicts_with_all(spec.settings.iter().map(|setting| setting.name)),
        )
        .arg(
            option("splash-input", "Its input, instead of one made of size, threads and iterations")
                .value_parser(value_parser!(PathBuf))
                .requires("splash-dir"),
        )
        .arg(flag("print-structures", "Print the structures and their addresses as JSON, not the report"))
        .arg(flag("json", "Print the report as JSON"))
}

fn option(name: &'static str, help: impl Into<clap::builder::StyledStr>) -> Arg {
    Arg::new(name).long(name).help(help)
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help).action(ArgAction::SetTrue)
}

fn execute(matches: &ArgMatches) -> Result<u8> {
    let (name, given) = matches.subcommand().expect("a subcommand is required");
    if name == "list" {
        list(given.get_flag("json"));
        return Ok(0);
    }
    let spec = find(name)?;
    let (request, manner) = read(spec, given)?;
    if let Some(folder) = given.get_one::<PathBuf>("splash-dir").cloned() {
        let iterations_given = given.contains_id("iterations");
        let input = given.get_one::<PathBuf>("splash-input").cloned();
        let manner = splash::Manner { folder, input, iterations: manner.iterations, iterations_given };
        let report = splash::run(spec, &request, &manner)?;
        if given.get_flag("json") {
            println!("{report:#}");
        } else {
            print!("{}", report["output"].as_str().unwrap_or_default());
        }
        return Ok(verdict(name, &report));
    }
    let prepared = prepare(spec, request, manner)?;
    let only_structures = given.get_flag("print-structures");
    if only_structures {
        println!("{:#}", prepared.structures());
    }
    let report = match given.get_one::<PathBuf>("control").cloned() {
        Some(control) => {
            let number = |name: &str| given.get_one::<u64>(name).copied().unwrap_or_default();
            let pause = given.get_one("pause").copied().unwrap_or(Pause::Pvpanic);
            prepared.run_in_guest(&Guest { control, pause, warm_up: number("warm-up") })?
        }
        None => prepared.run()?,
    };
    if given.get_flag("json") && !only_structures {
        println!("{report:#}");
    } else if !only_structures {
        print!("{}", report::text(&report));
    }
    Ok(verdict(name, &report))
}

/// Tells which checks failed; the exit code.
fn verdict(name: &str, report: &Value) -> u8 {
    for problem in report["problems"].as_array().into_iter().flatten() {
        eprintln!("servsim-kernel: a check of {name} failed: {}", problem.as_str().unwrap_or_default());
    }
    u8::from(report["valid"] != Value::Bool(true))
}

fn list(json: bool) {
    if json {
        let kernels: Vec<Value> = KERNELS.iter().map(|spec| described(spec)).collect();
        println!("{:#}", json!({ "schema": "servsim.kernel.list/1", "kernels": kernels }));
        return;
    }
    for spec in KERNELS {
        println!("{:<14} {}", spec.name, spec.summary);
    }
}

fn described(spec: &Spec) -> Value {
    json!({
        "name": spec.name,
        "summary": spec.summary,
        "size": spec.size,
        "default_size": spec.default_size,
        "iterations": spec.iterations,
        "paper": spec.paper.map(|(size, iterations)| json!({ "size": size, "iterations": iterations })),
        "settings": spec.settings.iter().map(|setting| setting.name).collect::<Vec<_>>(),
    })
}

fn read(spec: &'static Spec, given: &ArgMatches) -> Result<(RunOptions, Manner)> {
    let text = |name: &str| given.get_one::<String>(name).cloned();
    let threads = given.get_one::<u64>("threads").copied().unwrap_or(1);
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err(Error::Usage(format!("--threads must be from 1 to {MOST_THREADS}, not {threads}")));
    }
    let (mut size, mut iterations) = (text("size").unwrap_or_default(), spec.iterations);
    if size == "paper" {
        let Some(paper) = spec.paper else {
            return Err(Error::Usage(format!(
                "the paper gives no size for {}: give {}",
                spec.name, spec.size
            )));
        };
        (size, iterations) = (paper.0.to_owned(), paper.1);
    }
    let memory = match text("memory") {
        Some(memory) => memory.parse().map_err(|error| Error::Usage(format!("--memory: {error}")))?,
        None => available(),
    };
    let settings = spec.settings.iter().map(|setting| (setting.name, text(setting.name).unwrap_or_default()));
    let request = RunOptions {
        threads: threads as usize,
        size,
        seed: given.get_one("seed").copied().unwrap_or(1),
        settings: settings.collect(),
    };
    let manner = Manner {
        iterations: given.get_one("iterations").copied().unwrap_or(iterations),
        init: given.get_one("init").copied().unwrap_or(Init::Parallel),
        polls: given.get_one("polls").copied().unwrap_or(0),
        memory,
    };
    Ok((request, manner))
}

/// Memory that the host can give without swapping; everything where it does not tell.
fn available() -> Bytes {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibibytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Bytes(kibibytes.map_or(u64::MAX, |kibibytes| kibibytes.saturating_mul(1024)))
}
