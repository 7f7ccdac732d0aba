//! What a model for moves finds out about a drive, and what it predicts, against an independently
//! written drive whose every parameter is drawn at random.

use crate::truth::{heated, mean, truth};

use servsim_disk::cache::{self, Cache, Law};
use servsim_disk::features::Command;
use servsim_disk::mechanics;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::{file, Model};
use servsim_disk::moves::{predict, Unmoved};
use servsim_disk::order::{services, Served};
use servsim_disk::reorganize::{covered, plan, Policy};
use servsim_disk::request::Op;
use servsim_oracle::drive::{Drive, Job, Order};

/// Requests of a trace.
const JOBS: usize = 12_000;

/// Share of the reads of which a law says rightly whether the cache answered them.
fn told_apart(drive: &Drive, served: &[Served], law: Law) -> f64 {
    let mut cache = Cache::new(law);
    let (mut reads, mut right) = (0, 0);
    for service in served {
        let command = Command::from(&service.request);
        if command.op == Op::Read {
            let quick_us = drive.overhead_us + f64::from(command.sectors) * drive.bus_us_per_sector + 1.0;
            reads += 1;
            right += u32::from((service.service_ns() as f64 * 1e-3 <= quick_us) == cache.holds(&command));
        }
        cache.advance(&command);
    }
    f64::from(right) / f64::from(reads)
}

#[test]
fn which_reads_are_quick_settles_how_many_streams_a_cache_has() {
    // Drives whose times alone would be best parted by half as many streams again as they have.
    for (seed, order) in [(37, Order::Sstf), (139, Order::Fcfs)] {
        let drive = Drive::at_random(seed);
        let served = services(&truth(&drive, &heated(&drive, JOBS, 25_000.0, seed), order, 1.0), 1, false);
        let law = cache::infer(&served).expect("a cache");
        let (streams, real) = (f64::from(law.streams), drive.segments as f64);
        assert!((streams / real - 1.0).abs() < 0.2, "drive {seed}: {law:?}, truth {real}");
        assert!(told_apart(&drive, &served, law) > 0.997, "drive {seed}: {law:?}");
    }
}

#[test]
fn the_law_of_a_cache_is_found_and_tells_its_answers_from_accesses() {
    let base = Drive { write_behind: false, ..Drive::nameless() };
    for (segments, read_ahead, keeps_read) in [(4, 192, false), (8, 64, true), (1, 512, true), (12, 0, true)]
    {
        let drive = Drive { segments, read_ahead, keeps_read, ..base.clone() };
        let trace = truth(&drive, &heated(&drive, JOBS, 40_000.0, 5), Order::Fcfs, 1.0);
        let served = services(&trace, 1, false);
        let law = cache::infer(&served).expect("a cache");
        assert_eq!((law.keeps_read, law.keeps_written), (keeps_read, false), "{law:?}");
        let right = told_apart(&drive, &served, law);
        assert!(right > 0.985, "{right}: {law:?}");
    }
    let without = Drive { segments: 1, read_ahead: 0, ..base };
    let trace = truth(&without, &heated(&without, JOBS, 40_000.0, 5), Order::Fcfs, 1.0);
    assert_eq!(cache::infer(&services(&trace, 1, false)), None);
}

#[test]
fn the_mechanism_of_a_drive_is_found_in_its_trace() {
    for seed in [40, 41, 42, 43] {
        let drive = Drive { write_behind: false, ..Drive::at_random(seed) };
        let trace = truth(&drive, &heated(&drive, JOBS, 50_000.0, seed), Order::Fcfs, 1.0);
        let served = services(&trace, 1, false);
        let found = mechanics::infer(&served, cache::infer(&served)).expect("accesses");
        let turn = found.revolution_us.expect("places asked for again");
        assert!((turn / drive.revolution_us - 1.0).abs() < 2e-3, "{turn} for {}", drive.revolution_us);
        // Over the outer half of the sectors, and from there inwards.
        let middle = drive.sectors() / 2;
        for (from, to) in [(0, middle), (middle, drive.sectors() - 1), (0, middle / 8)] {
            let said = found.seek_us(found.radius.depth(to) - found.radius.depth(from));
            let cylinders = drive.cylinder(to) - drive.cylinder(from);
            let real = drive.settle_us
                + drive.sqrt_us * (cylinders as f64).sqrt()
                + drive.linear_us * cylinders as f64;
            assert!((said - real).abs() < 300.0 + 0.08 * real, "drive {seed}: {said} us, truth {real} us");
        }
    }
}

#[test]
fn what_a_move_brings_is_predicted_on_drives_never_seen() {
    let mut squares = 0.0;
    let cases = [(50, Order::Fcfs), (51, Order::Sstf), (52, Order::Fcfs), (53, Order::Sstf)];
    for (seed, order) in cases {
        let drive = Drive::at_random(seed);
        let jobs = heated(&drive, JOBS, 40_000.0, seed);
        let before = truth(&drive, &jobs, order, 1.0);
        let map = plan(&before, 1000, Policy::HotBlock);
        let moved: Vec<Job> = jobs.iter().map(|job| Job { lba: map.sector(job.lba), ..*job }).collect();
        let real = 100.0 * (mean(&truth(&drive, &moved, order, 1.0)) / mean(&before) - 1.0);
        let options = FitOptions { movable: true, ..FitOptions::default() };
        let models = fit("forest", &before, &["disk0".to_owned()], &options).unwrap();
        let Model::Forest(forest) = &models[0].model else { panic!("a forest") };
        assert!(forest.radius.is_some());
        let mut impossible = models.clone();
        let Model::Forest(forest) = &mut impossible[0].model else { panic!("a forest") };
        forest.cache = Some(Law { streams: u32::MAX, ..cache::infer(&services(&before, 1, false)).unwrap() });
        let refused = file::from_bytes(&file::to_bytes(&impossible)).unwrap_err().to_string();
        assert!(refused.contains("impossible"), "{refused}");
        // The file keeps what the model knows of the drive.
        assert!(file::from_bytes(&file::to_bytes(&models)).unwrap() == models);
        let said = predict(&models[0], &before, &map, covered(&before, 1000), 1.0, 1).unwrap().change_percent;
        assert!((said - real).abs() < 5.0, "drive {seed} {order:?}: {said:+.1} %, truth {real:+.1} %");
        squares += (said - real).powi(2);
    }
    assert!((squares / 4.0).sqrt() < 2.5, "{squares}");
}

#[test]
fn a_map_is_judged_on_requests_that_it_was_not_drawn_from() {
    let drive = Drive { write_behind: false, ..Drive::nameless() };
    let quarter = heated(&drive, JOBS / 4, 25_000.0, 3);
    let long = 2 * quarter.last().expect("jobs").arrival_ns - quarter[quarter.len() - 2].arrival_ns;
    let steady: Vec<Job> = (0..4)
        .flat_map(|turn| {
            quarter.iter().map(move |job| Job { arrival_ns: job.arrival_ns + turn * long, ..*job })
        })
        .collect();
    // As many places, each asked for once.
    let once: Vec<Job> = (0..)
        .zip(&steady)
        .map(|(at, job)| Job {
            lba: at * 7919 % 12_007 * (drive.sectors() / 12_007 / 8 * 8),
            sectors: 8,
            ..*job
        })
        .collect();
    for (jobs, same) in [(steady, true), (once, false)] {
        let before = truth(&drive, &jobs, Order::Fcfs, 1.0);
        let options = FitOptions { movable: true, ..FitOptions::default() };
        let model = fit("forest", &before, &["disk0".to_owned()], &options).expect("a long trace").remove(0);
        let unmoved = Unmoved::of(&model, &before, 1.0, 1).expect("a load");
        let own =
            unmoved.by_map(&plan(&before, 600, Policy::HotBlock), covered(&before, 600)).expect("a load");
        let held_out = unmoved.held_out(600, Policy::HotBlock).expect("a load");
        let told = |of: &servsim_disk::moves::Prediction| (of.covered, of.change_percent, of.zero_seek_after);
        if same {
            assert_eq!(told(&held_out), told(&own), "every quarter has the same hot blocks");
            assert!(own.covered > 0.5 && own.change_percent < -5.0, "{own:?}");
        } else {
            assert_eq!((held_out.covered, held_out.before_ms), (0.0, own.before_ms));
            assert!(own.covered > 0.04, "{own:?}");
            let size = |of: &servsim_disk::moves::Prediction| of.seek_distance_change_percent.abs();
            assert!(size(&held_out) < 0.1 * size(&own), "{held_out:?}, {own:?}");
        }
    }
}
