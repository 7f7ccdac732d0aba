//! A user's own copy of SPLASH-2, Splash-3 or Splash-4, run in place of one of our kernels.
//!
//! Its licence forbids passing it on, so none of it is here: the programs are looked for in a folder that
//! the user has built, and given their documented command lines and input. They run in their own
//! folder, where some look for files. A run is valid when the program ends with 0, prints something, and
//! prints no error.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{json, Value};
use servsim_driver::mark::{MarkKind, Marker};

use crate::kernel::{Check, RunOptions, Spec};
use crate::{Error, Result};

/// A program of SPLASH that stands for one of our kernels.
struct Program {
    kernel: &'static str,
    /// Below the folder of the programs.
    path: &'static str,
    /// Iterations that its time step makes, or that it cannot be told how many.
    iterations: bool,
    arguments: fn(&Task) -> Vec<String>,
    input: fn(&Task) -> Option<String>,
}

/// What the program is asked for.
struct Task {
    size: u64,
    threads: usize,
    iterations: u64,
    seed: u64,
}

static PROGRAMS: [Program; 5] = [
    Program {
        kernel: "ocean",
        path: "apps/ocean/contiguous_partitions/OCEAN",
        iterations: false,
        arguments: |task| vec![format!("-n{}", task.size), format!("-p{}", task.threads)],
        input: |_| None,
    },
    Program {
        kernel: "water-nsquared",
        path: "apps/water-nsquared/WATER-NSQUARED",
        iterations: true,
        arguments: |_| Vec::new(),
        input: |task| Some(water(task)),
    },
    Program {
        kernel: "water-spatial",
        path: "apps/water-spatial/WATER-SPATIAL",
        iterations: true,
        arguments: |_| Vec::new(),
        input: |task| Some(water(task)),
    },
    Program {
        kernel: "barnes",
        path: "apps/barnes/BARNES",
        iterations: true,
        arguments: |_| Vec::new(),
        // Input file, bodies, seed, output file, time step, softening, tolerance, two sizes of tables, end, time
        // between outputs, processors: one in a line.
        input: |task| {
            let (step, end) = (0.025, 0.025 * task.iterations as f64);
            Some(format!(
                "\n{}\n{}\n\n{step}\n0.05\n1.0\n2.0\n5.0\n{end}\n0.25\n{}\n",
                task.size, task.seed, task.threads
            ))
        },
    },
    Program {
        kernel: "fmm",
        path: "apps/fmm/FMM",
        iterations: true,
        arguments: |_| Vec::new(),
        // Clusters, distribution, particles, precision, processors, steps, time step, softening, partition.
        input: |task| {
            Some(format!(
                "two cluster\nplummer\n{}\n1e-6\n{}\n{}\n.025\n0.0\ncost zones\n",
                task.size, task.threads, task.iterations
            ))
        },
    },
];

/// Time step, molecules, steps, order of the integrator; three intervals of output and restart, forces;
/// processors, cutoff (0: the program's own).
fn water(task: &Task) -> String {
    format!("1.5e-16 {} {} 6\n-1 3000 3 0\n{} 0\n", task.size, task.iterations, task.threads)
}

/// How to run it.
#[derive(Debug, Clone)]
pub struct Manner {
    /// The folder that the user has built.
    pub folder: PathBuf,
    /// A file to be read instead of the input that we would write.
    pub input: Option<PathBuf>,
    /// Iterations, and whether the user gave their number.
    pub iterations: u64,
    /// See above.
    pub iterations_given: bool,
}

/// Runs the program that stands for a kernel, and reports.
///
/// # Errors
/// When there is no such program, or it cannot be started. One that fails is told in the report.
pub fn run(spec: &Spec, request: &RunOptions, manner: &Manner) -> Result<Value> {
    let Some(program) = PROGRAMS.iter().find(|program| program.kernel == spec.name) else {
        let known: Vec<&str> = PROGRAMS.iter().map(|program| program.kernel).collect();
        return Err(Error::Usage(format!(
            "SPLASH has no program that does what {} does: leave --splash-dir out, or choose from {}",
            spec.name,
            known.join(", ")
        )));
    };
    if manner.iterations_given && !program.iterations {
        return Err(Error::Usage(format!(
            "the SPLASH program for {} cannot be told its number of steps: leave --iterations out",
            spec.name
        )));
    }
    if manner.iterations == 0 {
        return Err(Error::Usage("--iterations must be at least 1".to_owned()));
    }
    let task = Task {
        size: request.count("SPLASH's own units")?,
        threads: request.threads,
        iterations: manner.iterations,
        seed: request.seed,
    };
    let path = find(&manner.folder, program.path)?;
    let input = match &manner.input {
        Some(file) => Some(std::fs::read_to_string(file).map_err(|error| {
            Error::Usage(format!("--splash-input {} cannot be read: {error}", file.display()))
        })?),
        None => (program.input)(&task),
    };
    let arguments = (program.arguments)(&task);
    let started = Instant::now();
    let mut marker = Marker::default();
    marker.event(MarkKind::Start);
    let output = execute(&path, &arguments, input.as_deref())?;
    marker.transaction(1, false, std::process::id());
    marker.event(MarkKind::Stop);
    let seconds = started.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let checks = checks(output.status.code(), &text, &told);
    Ok(json!({
        "schema": "servsim.kernel.splash/1",
        "kernel": spec.name,
        "program": path,
        "arguments": arguments,
        "input": input,
        "valid": checks.iter().all(|check| check.passed),
        "problems": checks.iter().filter_map(Check::problem).collect::<Vec<_>>(),
        "seconds": seconds,
        "exit_code": output.status.code(),
        "checks": checks,
        "marks": marker.counts(),
        "output": text,
        "messages": told,
    }))
}

fn checks(code: Option<i32>, text: &str, told: &str) -> Vec<Check> {
    // A program that a signal ended has no code.
    let code = code.map_or(f64::NAN, f64::from);
    let wrong = |line: &&str| {
        let line = line.to_lowercase();
        ["error", "failed", "abort"].iter().any(|word| line.contains(word)) && !line.contains("error of")
    };
    let errors = text.lines().chain(told.lines()).filter(wrong).count();
    let silent = u8::from(text.trim().is_empty());
    vec![
        Check::at_most("exit code of the program", code, 0.0),
        Check::at_most("lines of its output that tell of an error", errors as f64, 0.0),
        Check::at_most("outputs that are empty", f64::from(silent), 0.0),
    ]
}

/// The program in a user's folder: SPLASH keeps all below `codes`, which may be the folder given. Makefiles of some
/// releases write lower-case names.
fn find(folder: &Path, program: &str) -> Result<PathBuf> {
    if !folder.is_dir() {
        return Err(Error::Usage(format!(
            "--splash-dir {} is no folder: give that of your SPLASH, which holds 'codes' or 'apps'",
            folder.display()
        )));
    }
    let (place, name) = program.rsplit_once('/').unwrap_or(("", program));
    let names = [name.to_owned(), name.to_lowercase()];
    let places = [folder.join("codes"), folder.to_owned()].map(|above| above.join(place));
    let candidates = places.iter().flat_map(|place| names.iter().map(|name| place.join(name)));
    let found = candidates.clone().find(|path| path.is_file());
    // Programs are started in their own folder, where a relative path would not lead to them.
    let found = found.and_then(|path| path.canonicalize().ok());
    found.ok_or_else(|| {
        let first = candidates.map(|path| path.display().to_string()).next().unwrap_or_default();
        Error::Usage(format!(
            "{first} is missing: build that program of your SPLASH, or give another --splash-dir"
        ))
    })
}

fn execute(path: &Path, arguments: &[String], input: Option<&str>) -> Result<std::process::Output> {
    let refused = |error: std::io::Error| {
        Error::Environment(format!("{} cannot be run: {error}; build it for this host", path.display()))
    };
    let mut command = Command::new(path);
    command.args(arguments).current_dir(path.parent().unwrap_or(Path::new("/")));
    command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(refused)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        // One that ends without reading all of its input has its own reasons, which its exit code tells.
        let _ = pipe.write_all(input.as_bytes());
    }
    child.wait_with_output().map_err(refused)
}
