//! How many states a chain has in which some stand in line: requests of the same numbers can stand in many orders.
//! Counted over the numbers of each class, one place or line after the other. The parts of a
//! fork that are served in turn are taken for places, of which there are fewer ways.

use super::route::Route;

/// Vectors of numbers that are gone through, each with each; so many requests have more orders than a chain has states.
const MOST_POINTS: f64 = 4_000.0;

/// All vectors of numbers up to `most`, the last class quickest.
struct Lattice {
    strides: Vec<usize>,
    points: Vec<Vec<usize>>,
}

impl Lattice {
    fn new(most: &[usize]) -> Self {
        let mut points = vec![Vec::new()];
        for &n in most {
            let longer =
                |p: &Vec<usize>| (0..=n).map(|i| p.iter().copied().chain([i]).collect()).collect::<Vec<_>>();
            points = points.iter().flat_map(longer).collect();
        }
        let strides = (0..most.len()).map(|c| most[c + 1..].iter().map(|n| n + 1).product()).collect();
        Self { strides, points }
    }
}

/// States of a route without pools, with these populations.
pub fn count(route: &Route, populations: &[usize]) -> f64 {
    let points: f64 = populations.iter().map(|&n| n as f64 + 1.0).product();
    if points > MOST_POINTS {
        return f64::INFINITY;
    }
    let lattice = Lattice::new(populations);
    let mut ways = vec![0.0; lattice.points.len()];
    ways[0] = 1.0;
    for (index, place) in route.places.iter().enumerate() {
        if route.kept.iter().any(|line| line.contains(&index)) {
            continue;
        }
        for (at, _) in lattice.points.iter().enumerate().filter(|(_, p)| p[place.class] > 0) {
            ways[at] += ways[at - lattice.strides[place.class]];
        }
    }
    for class in (0..populations.len()).filter(|&c| route.rates[c] > 0.0) {
        // Any number may be outside.
        for (at, _) in lattice.points.iter().enumerate().filter(|(_, p)| p[class] > 0) {
            ways[at] += ways[at - lattice.strides[class]];
        }
    }
    for line in &route.kept {
        ways = with_line(&lattice, &ways, &orders(&lattice, route, line));
    }
    ways[ways.len() - 1]
}

/// In how many orders each vector of numbers can stand in a line.
fn orders(lattice: &Lattice, route: &Route, line: &[usize]) -> Vec<f64> {
    let places = |class: usize| line.iter().filter(|&&p| route.places[p].class == class).count() as f64;
    let mut found = vec![0.0; lattice.points.len()];
    for (at, point) in lattice.points.iter().enumerate() {
        // Whoever is last came to the end of an order of the others.
        let last = (0..point.len()).filter(|&c| point[c] > 0);
        let sum = last.map(|c| places(c) * found[at - lattice.strides[c]]).sum::<f64>();
        found[at] = if at == 0 { 1.0 } else { sum };
    }
    found
}

fn with_line(lattice: &Lattice, ways: &[f64], orders: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; ways.len()];
    for (at, point) in lattice.points.iter().enumerate() {
        for (other, fewer) in lattice.points[..=at].iter().enumerate() {
            if fewer.iter().zip(point).all(|(few, many)| few <= many) {
                sum[at] += orders[other] * ways[at - other];
            }
        }
    }
    sum
}
