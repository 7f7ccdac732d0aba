//! The referee: fresh random models of every kind, answered by `auto` with percentiles and bounded, beside a slow
//! simulator that shares nothing with the crate. Run by `make acceptance`, and set by the environment:
//!
//! - `SERVSIM_KINDS`: names of kinds, separated by commas; without it all, each in its turn
//! - `SERVSIM_MODELS`: models of each kind (20 without it); `SERVSIM_MINUTES`: after which no further model is begun
//! - `SERVSIM_JOURNAL`: a file with a line for every model judged; a run goes on after those that it has
//! - `SERVSIM_FIRST_SEED`: repeats a run, or with the seed of a line and one model that model
//! - `SERVSIM_SOLVER`: judges another solver; `SERVSIM_WORK`: how many times longer than usual the slow simulator looks
//!
//! A figure is the throughput or the response time of a class; a figure of a place is utilisation, number present or
//! number waiting at a station or pool, and judged of exact and simulated answers. A class that the slow simulator does not know to 2 % of
//! throughput, 5 % of response time and 10 % of percentiles in its time is counted, and not judged. A model may only be
//! refused if a class falls behind in the slow simulator, too.

pub mod models;
mod slow;
mod truth;
mod verdict;

use crate::common::{fresh_seed, Draw};
use models::KINDS;
use servsim_model::{solve, Options};
use std::io::Write;
use std::time::Instant;
use truth::falls_behind;
pub use truth::{truth, Known};
use verdict::Verdict;

/// Looks at a request that all slow runs of a model may take together: half a second or so.
const WORK: f64 = 1e7;
/// How many times longer the slow simulator looks at a model whose bounds seem violated.
const LOOK_AGAIN: f64 = 4.0;

fn setting<T: std::str::FromStr>(name: &str, without: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(without)
}

/// Draws a model, has it answered, and judges the answer.
fn judge(kind: usize, seed: u64, solver: &str, work: f64) -> Verdict {
    // No two kinds share their numbers.
    let mut draw = Draw(Draw(seed ^ (kind as u64) << 56).next());
    let network = KINDS[kind].1(&mut draw);
    let options = Options { percentiles: truth::PERCENTS.to_vec(), ..Options::default() };
    let began = Instant::now();
    let answer = solve(&network, solver, &options);
    let answering = began.elapsed().as_secs_f64();
    let mut verdict = match answer {
        Err(error) => Verdict {
            refused: Some(error.to_string()),
            wrongly: !falls_behind(&network, draw.next(), work),
            ..Verdict::default()
        },
        Ok(answer) => {
            let mut verdict = Verdict::on(&network, &answer, &truth(&network, draw.next(), work));
            // Of thousands of bounds that equal the truth, some are outside an interval by chance: not twice.
            if !verdict.outside.is_empty() {
                verdict.look_again(&network, &truth(&network, draw.next(), LOOK_AGAIN * work).classes);
            }
            verdict
        }
    };
    (verdict.kind, verdict.seed) = (KINDS[kind].0.into(), seed);
    (verdict.answering, verdict.judging) = (answering, began.elapsed().as_secs_f64() - answering);
    verdict
}

#[test]
#[ignore = "fresh models, half a second or more each: run with --ignored"]
fn fresh_models_are_as_their_answers_say() {
    let wanted: String = setting("SERVSIM_KINDS", String::new());
    let models = setting("SERVSIM_MODELS", 20usize);
    let minutes = setting("SERVSIM_MINUTES", f64::INFINITY);
    let solver: String = setting("SERVSIM_SOLVER", "auto".into());
    let work = WORK * setting("SERVSIM_WORK", 1.0);
    let chosen = |kind: &&usize| wanted.is_empty() || wanted.split(',').any(|w| w.trim() == KINDS[**kind].0);
    let kinds: Vec<usize> = (0..KINDS.len()).collect::<Vec<_>>().iter().filter(chosen).copied().collect();
    assert!(!kinds.is_empty(), "no kind among `{wanted}`");
    let journal = std::env::var_os("SERVSIM_JOURNAL").map(std::path::PathBuf::from);
    let lines = journal.as_ref().and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    // The last line of a run that was killed may be half of one.
    let mut verdicts: Vec<Verdict> = lines.lines().filter_map(|l| serde_json::from_str(l).ok()).collect();
    let mut file = journal.map(|path| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        if !lines.is_empty() && !lines.ends_with('\n') {
            writeln!(file).unwrap();
        }
        file
    });
    let (began, mut seed) = (Instant::now(), fresh_seed());
    println!("first seed {seed}");
    let first = |kind: &usize| verdicts.iter().filter(|v| v.kind == KINDS[*kind].0).count();
    let mut done: Vec<usize> = kinds.iter().map(first).collect();
    while done.iter().any(|&n| n < models) && began.elapsed().as_secs_f64() < 60.0 * minutes {
        for (&kind, done) in kinds.iter().zip(&mut done).filter(|(_, done)| **done < models) {
            let verdict = judge(kind, seed, &solver, work);
            if let Some(file) = &mut file {
                writeln!(file, "{}", serde_json::to_string(&verdict).unwrap()).unwrap();
            }
            verdicts.push(verdict);
            *done += 1;
        }
        // Mixed anew: seeds that follow one another as the source steps would share their numbers.
        seed = Draw(seed).next();
    }
    let faults: Vec<String> =
        kinds.iter().flat_map(|&kind| verdict::summary(KINDS[kind].0, &verdicts)).collect();
    assert!(faults.is_empty(), "{}", faults.join("; "));
}

/// One small model of each new kind, so that the referee itself is run wherever tests are.
#[test]
fn a_few_general_models_are_as_the_slow_simulator_has_them() {
    for (kind, (name, draw_model)) in KINDS.iter().enumerate().skip(8) {
        let mut draw = Draw(17 + kind as u64);
        let (mut figures, mut off) = (0, 0);
        for _ in 0..3 {
            let network = draw_model(&mut draw);
            let Ok(answer) = solve(&network, "auto", &Options::default()) else { continue };
            for (class, known) in answer.classes.iter().zip(truth(&network, draw.next(), 1e6).classes) {
                let Some(known) = known else { continue };
                let near = |a: f64, b: Known| (a - b.mean).abs() < 0.02 * b.mean + 4.8 * b.error;
                figures += 2;
                off += usize::from(!near(class.throughput, known.throughput));
                off += usize::from(!near(class.response, known.response));
            }
        }
        assert!(figures > 0 && off == 0, "{name}: {off} of {figures}");
    }
}
