//! Does a file set follow the published laws? One condition for each, with what was found and the limit.
//!
//! Distances between distribution functions are those of Kolmogorov and Smirnov with the 1 % point of
//! their statistic, 1.63 over the root of the number; other limits say below what they allow for.

use std::path::Path;

use serde_json::{json, Value};

use super::files::Set;
use super::laws::distance;
use super::popularity;
use super::sequence::stack_distances;
use super::sizes::split;
use super::Model;
use crate::Result;

/// Total bytes may differ by this much from what was wanted.
const TOTAL: f64 = 0.05;
/// Slope of the logarithms of requests over ranks against minus the exponent.
const SLOPE: f64 = 0.05;
/// Quantiles of whole distances against those of a continuous law.
const QUANTILE: f64 = 0.15;
/// What matching leaves beside half of the first rank, which cannot be divided: files smaller than the smallest reply.
const MATCHING: f64 = 0.02;

/// One condition: its name, what it means, what was found and the most that may be.
fn condition(name: &str, meaning: &str, found: f64, limit: f64) -> Value {
    json!({"condition": name, "meaning": meaning, "found": found, "limit": limit, "holds": found <= limit})
}

fn ks_limit(count: usize) -> f64 {
    1.63 / (count as f64).sqrt()
}

/// Checks a set: `root` is where its files are, or none to leave them alone.
///
/// # Errors
/// When the set is one that the laws cannot make.
pub fn check(set: &Set, root: Option<&Path>) -> Result<Value> {
    let model = Model::published();
    let mut conditions = of_sizes(set, &model)?;
    conditions.extend(of_requests(set, &model));
    let spoilt = root.map(|root| set.spoilt(root)).unwrap_or_default();
    if root.is_some() {
        conditions.push(condition("contents", "files that are not as written", spoilt.len() as f64, 0.0));
    }
    let failed: Vec<&str> = conditions
        .iter()
        .filter(|c| c["holds"] != json!(true))
        .filter_map(|c| c["condition"].as_str())
        .collect();
    let mut problems: Vec<String> =
        failed.iter().map(|name| format!("the condition {name} does not hold")).collect();
    problems.extend(spoilt.into_iter().take(5));
    Ok(json!({
        "schema": "servsim.workload.check/1",
        "workload": "staticweb",
        "passed": problems.is_empty(),
        "problems": problems,
        "conditions": conditions,
    }))
}

fn of_sizes(set: &Set, model: &Model) -> Result<Vec<Value>> {
    let law = model.file_size;
    let largest = split(law, set.wanted)?.largest;
    let mut sizes: Vec<f64> = set.files.iter().map(|file| file.bytes as f64).collect();
    sizes.sort_by(f64::total_cmp);
    let (body, tail) = sizes.split_at(sizes.partition_point(|&size| size <= law.tail_from));
    let total: f64 = sizes.iter().sum();
    let off = (total / set.wanted.total_bytes as f64 - 1.0).abs();
    let mut conditions = vec![
        condition(
            "body",
            "sizes up to the tail against their lognormal law",
            distance(law.body(), body),
            ks_limit(body.len()),
        ),
        condition("total", "bytes of all files against what was wanted, relative", off, TOTAL),
    ];
    if !tail.is_empty() {
        let found = distance(law.tail(largest), tail);
        conditions.push(condition(
            "tail",
            "sizes of the tail against their Pareto law",
            found,
            ks_limit(tail.len()),
        ));
    }
    Ok(conditions)
}

fn of_requests(set: &Set, model: &Model) -> Vec<Value> {
    let requests = &set.sequence.requests;
    let mut counts = vec![0u32; set.files.len()];
    requests.iter().for_each(|&file| counts[file as usize] += 1);
    let unlike =
        counts.iter().zip(&set.files).filter(|(&count, file)| count != file.requests || count == 0).count();
    let sizes: Vec<u64> = set.files.iter().map(|file| file.bytes).collect();
    let most = counts.iter().max().map_or(0.0, |&most| f64::from(most));
    let matching = MATCHING + most / requests.len() as f64 / 2.0;
    let found = popularity::distance(&sizes, &counts, model.request_size.law());
    let slope = (slope(&mut counts) + model.popularity.exponent).abs();
    vec![
        condition("replies", "sizes of replies against their Pareto law", found, matching),
        condition("popularity", "slope of log requests over log rank against Zipf's exponent", slope, SLOPE),
        condition(
            "every-file",
            "files asked for never, or not as often as the catalogue says",
            unlike as f64,
            0.0,
        ),
        condition(
            "locality",
            "quantiles .25 .5 .75 .9 of stack distances, largest relative error",
            locality(requests, model),
            QUANTILE,
        ),
        embedded(set, model),
    ]
}

/// The slope of a straight line through (log rank, log requests) of the files asked for ten times or more: below, whole
/// numbers hide the law. Ranks weigh by their requests, or the many of the middle would decide alone.
fn slope(counts: &mut [u32]) -> f64 {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let points: Vec<(f64, f64, f64)> = (1u32..)
        .zip(counts.iter())
        .take_while(|(_, &count)| count >= 10)
        .map(|(rank, &count)| (f64::from(rank).ln(), f64::from(count).ln(), f64::from(count)))
        .collect();
    let weight: f64 = points.iter().map(|p| p.2).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| points.iter().map(|p| of(p) * p.2).sum::<f64>() / weight;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let covariance: f64 = points.iter().map(|p| p.2 * (p.0 - x) * (p.1 - y)).sum();
    covariance / points.iter().map(|p| p.2 * (p.0 - x).powi(2)).sum::<f64>()
}

fn locality(requests: &[u32], model: &Model) -> f64 {
    let mut distances = stack_distances(requests);
    distances.sort_unstable();
    [0.25, 0.5, 0.75, 0.9].into_iter().fold(0.0, |worst, p| {
        let expected = model.stack_distance.law().quantile(p);
        let at = (p * distances.len() as f64) as usize;
        // A whole number stands for half a place on either side.
        let off = distances.get(at).map_or(f64::INFINITY, |&found| (f64::from(found) - expected).abs() - 0.5);
        f64::max(worst, off / expected)
    })
}

/// Numbers of embedded references against the whole part of their law; the last page may be cut short.
fn embedded(set: &Set, model: &Model) -> Value {
    let pages = set.sequence.page_count() - 1;
    let law = model.embedded.law();
    let found = (1..20).fold(0.0, |worst, most: usize| {
        let share = (0..pages).filter(|&page| set.sequence.page(page).len() - 1 <= most).count() as f64
            / pages as f64;
        f64::max(worst, (share - law.cdf(most as f64 + 1.0)).abs())
    });
    condition("embedded", "references of a page against their Pareto law", found, ks_limit(pages))
}
