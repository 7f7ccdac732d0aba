//! Models of disks that serve requests side by side, asked about three times the load that they were fitted at:
//! `cargo bench -p servsim-disk --bench side_by_side -- [FIRST LAST] [DISK...]`; ends with 1 if one was wrong and did not refuse.
//!
//! Truth is the solid-state disk of `servsim-oracle`. The models were made looking at MQSim's parameters with the
//! arrivals of seed 5; here are other arrivals, two disks that nobody looked at then (`small`, `large`), and
//! one with all parameters drawn at random for every seed; `lengths` is read in requests of 4 to 512 KiB. Right is a mean within 10 % and an
//! autocorrelation within .1; the other right answer is to refuse, or to warn where the truth has a limit of its host that the
//! trace never met.

use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::Model;
use servsim_disk::simulate::check_load;
use servsim_disk::trial::trial;
use servsim_oracle::drive::Words;
use servsim_oracle::flash::{workload, Bucket, Flash};

#[path = "../tests/it/truth/mod.rs"]
mod truth;
use truth::{flash_errors, flash_truth};

const REQUESTS: usize = 12_000;
/// The load asked about, in loads of the fit.
const LOAD: f64 = 3.0;

/// What became of the cases.
#[derive(Default)]
struct Tally {
    right: usize,
    wrong: usize,
    warned: usize,
    refused: usize,
    refused_in_vain: usize,
}

/// Lengths of requests, sectors, that tell one request from another by themselves; and how many pages one has, in those of the
/// oracle's workload, whose lengths hardly do.
const LENGTHS: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1024];
const LONGER: f64 = 7.7;

fn one(name: &str, flash: &Flash, writes: f64, seed: u64, tally: &mut Tally) {
    let mut words = Words(seed ^ 0x10ad);
    // At three times the load dies, or the limit, are to be busy for .35 to .8 of the time.
    let mut gap_us = LOAD * flash.saturating_gap_us(writes) / (0.35 + 0.45 * words.unit());
    let of_all_lengths = name == "lengths";
    let mut sectors = flash.sectors();
    if of_all_lengths {
        gap_us *= LONGER;
        sectors -= u64::from(LENGTHS[7]);
    }
    let mut jobs = workload(sectors, REQUESTS, gap_us, writes, 1_000_003 * seed + 17);
    if of_all_lengths {
        jobs.iter_mut().for_each(|job| job.sectors = LENGTHS[words.below(8) as usize]);
    }
    let before = flash_truth(flash, &jobs, 1.0);
    let model = fit("parallel", &before, &[], &FitOptions::default()).expect("a long trace").remove(0);
    let (own, _) = flash_errors(&model, flash, &jobs, 1.0);
    let (error, acf) = flash_errors(&model, flash, &jobs, LOAD);
    let right = error.abs() <= 10.0 && acf <= 0.1;
    // As `disk fit` tries it, and as `disk simulate` asks at the load.
    let tried = trial("parallel", &before, &FitOptions::default()).expect("a long trace");
    let problem = tried.and_then(|tried| tried.problem());
    let refused = problem.is_some() || check_load(&model, &before, LOAD, 0).is_err();
    // No trace shows a limit beyond all that it held: `disk simulate` warns of that at every load denser than seen.
    let Model::Parallel(found) = &model.model else { panic!("{}", model.model.kind()) };
    let warned = flash.bucket.is_some() && found.throttle.is_none();
    match (right, refused) {
        (true, false) => tally.right += 1,
        (false, false) if warned => tally.warned += 1,
        (false, false) => tally.wrong += 1,
        (false, true) => tally.refused += 1,
        (true, true) => tally.refused_in_vain += 1,
    }
    let verdict = match (right, refused) {
        (_, true) => "refused",
        (true, false) => "right",
        (false, false) if warned => "wrong, and warned of a limit of the host",
        (false, false) => "WRONG",
    };
    println!(
        "  {name:<10} seed {seed:4} writes {writes:.2} gap {gap_us:6.0} us: at its load {own:+6.1} %, x{LOAD} {error:+7.1} %, \
         autocorrelation off {acf:.3}  {verdict}{}",
        problem.map_or(String::new(), |problem| format!(" ({problem})"))
    );
}

fn main() {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-') && argument.parse::<u64>().is_err())
        .collect();
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (first, last) = if let [first, last] = numbers[..] { (first, last) } else { (500, 509) };
    println!("fitted at load 1, asked at x{LOAD}: error of the mean and of the autocorrelation, {REQUESTS} requests each");
    let mut tally = Tally::default();
    for seed in first..=last {
        let writes = [0.0, 0.2, 0.5][(seed % 3) as usize];
        let mqsim = Flash::mqsim();
        let limited =
            Flash { bucket: Some(Bucket { per_second: 3000.0, burst: 100.0 }), spare: 0.4, ..Flash::mqsim() };
        let disks = [
            ("mqsim", mqsim.clone(), 0.0),
            ("lengths", mqsim, 0.0),
            ("limited", limited, writes),
            ("small", Flash::small(), writes),
            ("large", Flash::large(), writes),
            ("random", Flash::at_random(seed), writes),
        ];
        for (name, disk, writes) in &disks {
            if asked.is_empty() || asked.iter().any(|one| one == name) {
                one(name, disk, *writes, seed, &mut tally);
            }
        }
    }
    let Tally { right, wrong, warned, refused, refused_in_vain } = tally;
    println!("right {right}, refused {refused} (would have been wrong) and {refused_in_vain} (would have been right), warned {warned}, wrong {wrong}");
    if wrong > 0 {
        std::process::exit(1);
    }
}
