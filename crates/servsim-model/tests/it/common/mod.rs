//! Shared by the tests: a small random source, random networks, and slow obvious oracles written
//! without the crate's own numerics.

use servsim_model::{Class, Network, Speed, Station};

/// `SplitMix64` (Steele, Lea and Flood 2014): good enough to draw test cases.
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }
    pub fn integer(&mut self, low: usize, high: usize) -> usize {
        low + (self.next() % (high - low + 1) as u64) as usize
    }
    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.unit(), self.unit());
        (-2.0 * a.ln()).sqrt() * (2.0 * std::f64::consts::PI * b).cos()
    }
}

/// Another seed in every run; `SERVSIM_FIRST_SEED` repeats one.
pub fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let given = std::env::var("SERVSIM_FIRST_SEED").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| now.map_or(1, |elapsed| elapsed.as_nanos() as u64))
}

/// Share of seeds that follow `first`, per cent, for which something holds.
pub fn share_of_seeds(first: u64, seeds: u64, holds: impl Fn(u64) -> bool) -> f64 {
    100.0 * (0..seeds).filter(|seed| holds(first.wrapping_add(*seed))).count() as f64 / seeds as f64
}

/// A number of any magnitude: `mantissa x 2^exponent`.
#[derive(Clone, Copy)]
pub struct Wide(pub f64, pub i64);

impl Wide {
    pub fn new(value: f64) -> Self {
        Self(value, 0).normal()
    }
    fn normal(self) -> Self {
        if self.0 == 0.0 {
            return Self(0.0, i64::MIN / 4);
        }
        let shift = self.0.abs().log2().floor() as i64;
        Self(self.0 * (-shift as f64).exp2(), self.1 + shift)
    }
    pub fn times(self, other: Self) -> Self {
        Self(self.0 * other.0, self.1 + other.1).normal()
    }
    pub fn plus(self, other: Self) -> Self {
        let (big, small) = if self.1 >= other.1 { (self, other) } else { (other, self) };
        let gap = small.1 - big.1;
        if gap < -1000 {
            return big;
        }
        Self(big.0 + small.0 * (gap as f64).exp2(), big.1).normal()
    }
    pub fn over(self, other: Self) -> f64 {
        self.0 / other.0 * ((self.1 - other.1) as f64).exp2()
    }
}

/// Throughput of one class by Buzen's convolution in unbounded range: no scaling to get wrong.
pub fn oracle_throughput(network: &Network) -> f64 {
    let population = network.population();
    let think = network.classes[0].think();
    let mut g = vec![Wide::new(0.0); population + 1];
    g[0] = Wide::new(1.0);
    let mut stations: Vec<(f64, Speed)> =
        network.stations.iter().map(|s| (s.demands[0], s.speed.clone())).collect();
    stations.push((think, Speed::Delay));
    for (demand, speed) in stations.into_iter().filter(|s| s.0 > 0.0) {
        let mut factor = vec![Wide::new(1.0)];
        for n in 1..=population {
            factor.push(factor[n - 1].times(Wide::new(demand / speed.at(n))));
        }
        let mut next = Vec::with_capacity(population + 1);
        for n in 0..=population {
            let mut sum = Wide::new(0.0);
            for j in 0..=n {
                sum = sum.plus(factor[j].times(g[n - j]));
            }
            next.push(sum);
        }
        g = next;
    }
    g[population - 1].over(g[population])
}

/// A random single-class network; `rates` also draws multi-server and load-dependent stations.
pub fn random_single(draw: &mut Draw, rates: bool) -> Network {
    let stations = draw.integer(1, 8);
    let population = draw.integer(1, 80);
    let mut network = Network::single(population, 0.0, &[]);
    network.classes[0] =
        Class::closed("c", population, if draw.unit() < 0.3 { 0.0 } else { draw.between(0.1, 30.0) });
    for k in 0..stations {
        let speed = match draw.integer(0, if rates { 3 } else { 0 }) {
            1 => Speed::Servers(draw.integer(2, 16)),
            2 => Speed::Delay,
            3 => Speed::Rates((0..draw.integer(1, 12)).map(|_| draw.between(0.5, 4.0)).collect()),
            _ => Speed::Servers(1),
        };
        let demand = 10f64.powf(draw.between(-3.0, 0.5));
        network.stations.push(Station::queue(&format!("s{k}"), &[demand]).with_speed(speed));
    }
    network
}

/// A random two-class network of single servers, as used to judge approximations.
pub fn random_two_class(draw: &mut Draw) -> Network {
    let classes = ["a", "b"]
        .map(|name| {
            let population = draw.integer(1, 20);
            let think = if draw.unit() < 0.5 { 0.0 } else { draw.between(0.0, 10.0) };
            Class::closed(name, population, think)
        })
        .to_vec();
    let stations = (0..draw.integer(2, 6))
        .map(|k| Station::queue(&format!("s{k}"), &[draw.between(0.01, 1.0), draw.between(0.01, 1.0)]))
        .collect();
    Network::new("two classes", classes, stations)
}

pub fn relative(a: f64, b: f64) -> f64 {
    (a - b).abs() / b.abs().max(1e-300)
}
