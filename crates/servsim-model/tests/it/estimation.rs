//! Demands estimated from measurements.

use crate::common::{relative, Draw};
use servsim_model::fit::{fit, kalman::Noise, Measurements, Sample};
use servsim_model::ModelError;

fn measured(draw: &mut Draw, demands: &[Vec<f64>], samples: usize, noise: f64) -> Measurements {
    let classes = demands[0].len();
    let sample = |draw: &mut Draw| {
        let throughput: Vec<f64> = (0..classes).map(|_| draw.between(0.5, 5.0)).collect();
        let utilization = demands
            .iter()
            .map(|d| {
                let u: f64 = d.iter().zip(&throughput).map(|(d, x)| d * x).sum();
                (u * (1.0 + noise * draw.normal())).clamp(0.0, 1.0)
            })
            .collect();
        Sample { throughput, utilization, response: None }
    };
    Measurements {
        classes: (0..classes).map(|c| format!("c{c}")).collect(),
        stations: (0..demands.len()).map(|k| format!("s{k}")).collect(),
        servers: Vec::new(),
        population: None,
        think: 0.0,
        samples: (0..samples).map(|_| sample(draw)).collect(),
    }
}

#[test]
fn demands_are_estimated_within_five_per_cent_at_five_per_cent_noise_and_intervals_cover() {
    let truth = vec![vec![0.04, 0.06, 0.03], vec![0.05, 0.02, 0.05]];
    let mut draw = Draw(10);
    let (mut errors, mut covered, mut total) = (Vec::new(), 0, 0);
    for _ in 0..400 {
        let measurements = measured(&mut draw, &truth, 200, 0.05);
        let found = fit(&measurements, "nnls", &Noise::default()).unwrap();
        for (demand, value) in found.demands.iter().zip(truth.iter().flatten()) {
            errors.push(relative(demand.demand.unwrap(), *value));
            covered += u32::from(demand.low.unwrap() <= *value && *value <= demand.high.unwrap());
            total += 1;
        }
    }
    errors.sort_by(f64::total_cmp);
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    let p95 = errors[errors.len() * 95 / 100];
    let coverage = f64::from(covered) / f64::from(total);
    println!(
        "nnls: mean error {:.2} %, p95 {:.2} %; coverage {:.1} %",
        mean * 100.0,
        p95 * 100.0,
        coverage * 100.0
    );
    assert!(p95 <= 0.05 && (0.93..=0.97).contains(&coverage), "{p95} {coverage}");
}

#[test]
fn a_drifting_demand_is_followed_by_the_kalman_filter() {
    let mut draw = Draw(12);
    let mut measurements = measured(&mut draw, &[vec![0.04, 0.06]], 300, 0.0);
    for (t, sample) in measurements.samples.iter_mut().enumerate() {
        let grown = 0.04 * (1.0 + t as f64 / 300.0);
        let u = grown * sample.throughput[0] + 0.06 * sample.throughput[1];
        sample.utilization[0] = (u * (1.0 + 0.05 * draw.normal())).min(1.0);
    }
    let found = fit(&measurements, "kalman", &Noise::default()).unwrap();
    assert!(relative(found.demands[0].demand.unwrap(), 0.08) < 0.1, "{:?}", found.demands);
    assert!(relative(found.demands[1].demand.unwrap(), 0.06) < 0.1, "{:?}", found.demands);
    assert_eq!(found.series.len(), 300);
}

#[test]
fn intervals_of_the_kalman_filter_are_as_wide_as_samples_scatter() {
    let mut draw = Draw(18);
    for (error, drift, told) in [(0.05, 0.02, false), (0.1, 0.02, true), (0.05, 0.05, true)] {
        let (mut covered, mut scattered) = (0, 0);
        for _ in 0..400 {
            let mut measurements = measured(&mut draw, &[vec![0.05]], 50, 0.0);
            let mut demand = 0.05;
            for sample in &mut measurements.samples {
                demand *= 1.0 + drift * draw.normal();
                let busy = demand * sample.throughput[0] * (1.0 + error * draw.normal());
                sample.utilization[0] = busy.clamp(0.0, 1.0);
            }
            let found = fit(&measurements, "kalman", &Noise::default()).unwrap();
            let last = &found.demands[0];
            covered += usize::from(last.low.unwrap() <= demand && demand <= last.high.unwrap());
            scattered += found.scatter.len();
        }
        println!("error {error}, drift {drift}: {covered} of 400 covered, {scattered} scatter");
        assert!(covered >= 340 && (scattered > 300) == told, "{error} {drift}: {covered}, {scattered}");
    }
}

#[test]
fn classes_that_always_move_together_are_flagged_not_guessed() {
    let mut draw = Draw(13);
    let mut measurements = measured(&mut draw, &[vec![0.04, 0.06, 0.02]], 50, 0.02);
    for sample in &mut measurements.samples {
        sample.throughput[1] = 2.0 * sample.throughput[0];
    }
    let found = fit(&measurements, "nnls", &Noise::default()).unwrap();
    let flags: Vec<bool> = found.demands.iter().map(|d| d.identifiable).collect();
    assert_eq!(flags, [false, false, true]);
    assert!(found.demands[0].demand.is_none());
    assert!(found.demands[0].note.as_ref().unwrap().contains("`c0`, `c1`"), "{:?}", found.demands[0].note);
    for sample in &mut measurements.samples {
        sample.throughput[2] = sample.throughput[0];
    }
    let none = fit(&measurements, "nnls", &Noise::default()).unwrap();
    assert!(none.demands.iter().all(|demand| !demand.identifiable && demand.low.is_none()), "{none:?}");
}

#[test]
fn work_beside_requests_is_told_from_demands_and_samples_far_off_are_shown() {
    let mut draw = Draw(15);
    let mut measurements = measured(&mut draw, &[vec![0.02], vec![0.01]], 30, 0.0);
    for sample in &mut measurements.samples {
        let noise = 1.0 + 0.01 * draw.normal();
        sample.utilization[0] = (0.20 + 0.02 * sample.throughput[0]) * noise;
    }
    measurements.samples[7].utilization[1] += 0.3;
    let found = fit(&measurements, "nnls", &Noise::default()).unwrap();
    assert_eq!(found.background.len(), 1, "{:?}", found.background);
    let background = &found.background[0];
    assert!(background.station == "s0" && background.low < 0.20 && 0.20 < background.high, "{background:?}");
    assert!(relative(found.demands[0].demand.unwrap(), 0.02) < 0.05, "{:?}", found.demands[0]);
    let shown: Vec<(usize, &str)> = found.outliers.iter().map(|o| (o.sample, o.station.as_str())).collect();
    assert_eq!(shown, [(8, "s1")]);
    assert!(relative(found.outliers[0].fitted, measurements.samples[7].throughput[0] * 0.01) < 0.02);
}

#[test]
fn intervals_of_few_samples_hold_with_and_without_work_beside_requests() {
    let mut draw = Draw(17);
    let cases = [(5, 0.0), (5, 0.05), (6, 0.05), (10, 0.0), (10, 0.05), (30, 0.05), (30, 0.1)];
    let noise = Noise { drift: 0.0, measurement: 0.02 };
    for (method, (samples, beside)) in ["nnls", "kalman"].iter().flat_map(|m| cases.map(|case| (*m, case))) {
        let (mut covered, mut total) = (0, 0);
        for _ in 0..400 {
            let truth = [draw.between(0.02, 0.1), draw.between(0.02, 0.1)];
            let mut measurements = measured(&mut draw, &[truth.to_vec()], samples, 0.0);
            for sample in &mut measurements.samples {
                let busy = (sample.utilization[0] + beside) * (1.0 + 0.02 * draw.normal());
                sample.utilization[0] = busy.min(1.0);
            }
            let found = fit(&measurements, method, &noise).unwrap();
            assert!(found.presumed.is_empty());
            for (demand, value) in found.demands.iter().zip(truth) {
                covered += u32::from(demand.low.unwrap() <= value && value <= demand.high.unwrap());
                total += 1;
            }
        }
        let coverage = f64::from(covered) / f64::from(total);
        println!(
            "{method}, {samples} samples, {:.0} % beside requests: {:.1} % covered",
            beside * 100.0,
            coverage * 100.0
        );
        assert!((0.93..0.997).contains(&coverage), "{method} {samples} {beside}: {coverage}");
    }
    let few = measured(&mut draw, &[vec![0.05, 0.02]], 4, 0.02);
    assert_eq!(fit(&few, "nnls", &Noise::default()).unwrap().presumed, ["s0"]);
    assert_eq!(fit(&few, "kalman", &Noise::default()).unwrap().presumed, ["s0"]);
}

#[test]
fn work_beside_requests_is_told_from_demands_that_drift() {
    let mut draw = Draw(19);
    let (mut held, mut proven) = (0, 0);
    for _ in 0..200 {
        let mut measurements = measured(&mut draw, &[vec![0.0]], 60, 0.0);
        let mut demand = 0.03;
        for sample in &mut measurements.samples {
            demand *= 1.0 + 0.01 * draw.normal();
            sample.utilization[0] = (0.15 + demand * sample.throughput[0]) * (1.0 + 0.02 * draw.normal());
        }
        let noise = Noise { drift: 0.01, measurement: 0.02 };
        let found = fit(&measurements, "kalman", &noise).unwrap();
        assert!(found.series.iter().all(|stations| stations[0].len() == 1));
        held +=
            usize::from((found.demands[0].low.unwrap()..=found.demands[0].high.unwrap()).contains(&demand));
        proven += usize::from(found.background.iter().any(|b| b.low < 0.15 && 0.15 < b.high));
    }
    assert!(held >= 188 && proven >= 188, "{held} and {proven} of 200");
}

#[test]
fn measurements_without_work_beside_requests_have_no_background() {
    let mut draw = Draw(16);
    let named = |m: &Measurements| !fit(m, "nnls", &Noise::default()).unwrap().background.is_empty();
    let mut models = (0..200).map(|_| measured(&mut draw, &[vec![0.04, 0.06]], 40, 0.05));
    let wrong = (0..200).filter(|_| named(&models.next().unwrap())).count();
    assert!(wrong <= 6, "{wrong} of 200, where 1 in 100 and one side of two make 1");
}

#[test]
fn contradictory_measurements_are_refused_with_their_station() {
    let mut draw = Draw(14);
    let good = measured(&mut draw, &[vec![0.04]], 5, 0.0);
    let refused = |change: &dyn Fn(&mut Measurements), station: &str, word: &str| {
        let mut bad = good.clone();
        change(&mut bad);
        match fit(&bad, "nnls", &Noise::default()) {
            Err(ModelError::Contradiction { station: s, what, .. }) => {
                assert!(s == station && what.contains(word), "{s}: {what}");
            }
            other => panic!("{word}: {other:?}"),
        }
    };
    refused(&|m| m.samples[1].utilization[0] = 63.0, "s0", "between 0 and 1");
    refused(&|m| m.samples[1].utilization[0] = f64::NAN, "s0", "between 0 and 1");
    refused(
        &|m| {
            m.samples[2].throughput[0] = 0.0;
            m.samples[2].utilization[0] = 0.3;
        },
        "s0",
        "no throughput",
    );
    refused(&|m| m.samples[2].throughput[0] = -1.0, "system", "throughput");
    refused(
        &|m| {
            m.population = Some(1000.0);
            m.samples[0].response = Some(0.1);
        },
        "system",
        "customers",
    );
}
