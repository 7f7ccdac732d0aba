//! Speed of the solvers on one core, beside their targets. What others publish is timed by `benches/model_peers.py`.
//!
//! `cargo bench -p servsim-model` prints a table; `-- --json` prints one JSON object.

use servsim_model::allocation::{allocate, Fixed, Problem, Table};
use servsim_model::solvers::{aql, convolution, linearizer, mixed, mva};
use servsim_model::{solve, Class, Network, Options, Pool, Speed, Station, Tolerance};
use std::hint::black_box;
use std::time::Instant;

/// Seconds per call: the best of many short batches, since other work only ever adds time and a
/// short batch has the best chance to run undisturbed.
fn time(mut work: impl FnMut()) -> f64 {
    work();
    let start = Instant::now();
    work();
    let once = start.elapsed().as_secs_f64().max(1e-9);
    let batch = (0.5e-3 / once).clamp(1.0, 10_000.0) as usize;
    let batches = (1.0 / (once * batch as f64)).clamp(5.0, 400.0) as usize;
    let mut best = f64::INFINITY;
    for _ in 0..batches {
        let start = Instant::now();
        for _ in 0..batch {
            work();
        }
        best = best.min(start.elapsed().as_secs_f64() / batch as f64);
    }
    best
}

struct Row {
    name: &'static str,
    seconds: f64,
    target: Option<f64>,
}

fn two_classes(population: usize, stations: usize) -> Network {
    let demand = |k: usize, c: usize| 0.1 + 0.05 * ((7 * k + 3 * c) % 5) as f64;
    let stations =
        (0..stations).map(|k| Station::queue(&format!("s{k}"), &[demand(k, 0), demand(k, 1)])).collect();
    let classes = vec![Class::closed("a", population, 2.0), Class::closed("b", population, 3.0)];
    Network::new("two", classes, stations)
}

fn forty() -> Network {
    let demand = |k: usize, c: usize| 0.001 * (1 + (7 * k + 3 * c) % 11) as f64;
    let demands = |k: usize| (0..40).map(|c| demand(k, c)).collect::<Vec<_>>();
    let stations = (0..40).map(|k| Station::queue(&format!("s{k}"), &demands(k))).collect();
    Network::new("forty", (0..40).map(|c| Class::closed(&format!("c{c}"), 40, 1.0)).collect(), stations)
}

fn multi_server(population: usize, servers: usize) -> Network {
    let mut network = Network::single(population, 3.0, &[1.0, 0.01, 0.012]);
    network.stations[0].speed = Speed::Servers(servers);
    network
}

fn layered() -> Network {
    let demands = [0.06, 0.09, 0.05, 0.08];
    let stations = demands.iter().enumerate().map(|(k, &d)| Station::queue(&format!("s{k}"), &[d])).collect();
    let mut network = Network::new("tiers", vec![Class::closed("users", 60, 4.0)], stations);
    let pool = |name: &str, size, parent, used: &[usize]| Pool {
        name: name.into(),
        size,
        parent,
        holds: (0..4).map(|k| if used.contains(&k) { demands[k] } else { 0.0 }).collect(),
        calls: 1.0,
    };
    network.pools =
        vec![pool("web", 30, None, &[0]), pool("app", 16, Some(0), &[1]), pool("db", 4, Some(1), &[2, 3])];
    network
}

fn allocation(tables: usize, disks_per_bus: Vec<usize>) -> Problem {
    let shares = [0.0907, 0.1129, 0.2157, 0.1108, 0.2937, 0.0246, 0.0202, 0.1278, 0.0036];
    let share = |i: usize| shares[i % 9] * (1.0 + (i / 9) as f64 * 0.13);
    let fixed = |name: &str, demand: f64, rates: Vec<f64>| Fixed { name: name.into(), demand, rates };
    Problem {
        population: 48,
        think: 17.504,
        fixed: vec![fixed("cpu", 1.0, vec![0.9111, 1.7665]), fixed("memory", 0.3473, vec![1.0])],
        tables: (0..tables).map(|i| Table { name: i.to_string(), share: share(i) }).collect(),
        disks_per_bus,
        disk_demand: 0.3619,
        bus_demand: 0.2619,
        reconnect: false,
    }
}

fn ours() -> Vec<Row> {
    let tolerance = Tolerance::default();
    let mut rows = Vec::new();
    let mut row = |name, target, work: &mut dyn FnMut()| {
        rows.push(Row { name, seconds: time(work), target });
    };
    let ten: Vec<f64> = (1..=10).map(|k| 0.02 * f64::from(k)).collect();
    let single = mixed::reduce(&Network::single(48, 1.0, &ten));
    row("exact MVA, N=48, K=10", Some(50e-6), &mut || drop(black_box(mva::solve(&single, &tolerance))));
    let models: Vec<Vec<f64>> =
        (0..10_000).map(|i| ten.iter().map(|d| d * (1.0 + f64::from(i) * 1e-4)).collect()).collect();
    let mut queue = vec![0.0; 10];
    row("sweep of 10,000 models, N=48, K=10", Some(0.1), &mut || {
        for demands in &models {
            queue.fill(0.0);
            black_box(mva::recursion(demands, 1.0, 48, &mut queue, |_, _| ()));
        }
    });
    let thousand = mixed::reduce(&Network::single(1000, 1.0, &ten));
    row("exact MVA, N=1000, K=10", None, &mut || drop(black_box(mva::solve(&thousand, &tolerance))));
    let loaded = mixed::reduce(&multi_server(1000, 64));
    row("load-dependent, m=64, N=1000, K=3", Some(20e-3), &mut || {
        drop(black_box(convolution::solve(&loaded, &tolerance)));
    });
    let large = mixed::reduce(&multi_server(5000, 1024));
    row("load-dependent, m=1024, N=5000, K=3", None, &mut || {
        drop(black_box(convolution::solve(&large, &tolerance)));
    });
    let two = mixed::reduce(&two_classes(24, 10));
    row("exact two classes, 24 x 24, K=10", Some(5e-3), &mut || {
        drop(black_box(mva::solve(&two, &tolerance)));
    });
    let many = mixed::reduce(&two_classes(500, 10));
    row("Linearizer, 500 x 500, K=10", Some(5e-3), &mut || {
        drop(black_box(linearizer::solve(&many, &tolerance)));
    });
    let forty = mixed::reduce(&forty());
    row("Linearizer, 40 classes of 40, K=40", Some(50e-3), &mut || {
        drop(black_box(linearizer::solve(&forty, &tolerance)));
    });
    row("AQL, 500 x 500, K=10", Some(5e-3), &mut || drop(black_box(aql::solve(&many, &tolerance))));
    let tiers = layered();
    let options = Options { percentiles: Vec::new(), ..Options::default() };
    row("layered, three tiers, N=60", Some(0.1), &mut || {
        drop(black_box(solve(&tiers, "layered", &options)));
    });
    row("Markov chain of the same, exact", None, &mut || {
        drop(black_box(solve(&tiers, "markov", &options)));
    });
    let exact = allocation(9, vec![2, 2]);
    row("allocation, 9 tables x 4 disks x 2 buses, exact", Some(1.0), &mut || {
        drop(black_box(allocate(&exact)));
    });
    let big = allocation(200, vec![4; 4]);
    row("allocation, 200 tables x 16 disks", None, &mut || drop(black_box(allocate(&big))));
    rows
}

fn duration(seconds: f64) -> String {
    match seconds {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.2} us", s * 1e6),
    }
}

fn main() {
    let rows = ours();
    if std::env::args().any(|a| a == "--json") {
        let figure = |r: &Row| serde_json::json!({"name": r.name, "value": r.seconds, "unit": "s"});
        let figures: Vec<_> = rows.iter().map(figure).collect();
        println!("{}", serde_json::json!({"schema": "servsim.bench.model/1", "figures": figures}));
        return;
    }
    println!("{:<50} {:>12} {:>12}", "problem", "servsim", "target");
    for r in &rows {
        let target = r.target.map_or("-".into(), duration);
        let flag = if r.target.is_some_and(|t| r.seconds > t) { "  MISSED" } else { "" };
        println!("{:<50} {:>12} {target:>12}{flag}", r.name, duration(r.seconds));
    }
}
