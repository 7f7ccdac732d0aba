//! SURGE: static files and the requests for them, after Barford and Crovella (SIGMETRICS 1998).
//!
//! `surge.toml` holds the published laws; `sizes` draws the files, `popularity` says how often each is
//! asked for so that requests have their own law of sizes, `sequence` puts the requests in an order with
//! temporal locality and groups them to pages, `files` writes and reads the set, `check` compares a set
//! and its requests with the laws, and `visitor` is a user who asks for the pages.

pub mod check;
pub mod content;
pub mod files;
pub mod laws;
pub mod popularity;
pub mod run;
pub mod sequence;
pub mod sizes;
pub mod visitor;

use laws::Law;
use serde::Deserialize;

/// What reports say of the workload.
pub const NOTICE: &str = "staticweb: static files after the published model of SURGE; own program, not SURGE";

/// The published laws, as `surge.toml` has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Sizes of files.
    pub file_size: FileSize,
    /// Sizes of replies.
    pub request_size: Pareto,
    /// How unevenly files are asked for.
    pub popularity: Popularity,
    /// How soon a file is asked for again.
    pub stack_distance: Lognormal,
    /// References that belong to a page.
    pub embedded: Pareto,
    /// Seconds between the references of a page.
    pub active_off: Weibull,
    /// Seconds between pages.
    pub inactive_off: Pareto,
}

/// Sizes of files in bytes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSize {
    /// Mean of the body's logarithm.
    pub body_mu: f64,
    /// Standard deviation of the body's logarithm.
    pub body_sigma: f64,
    /// Largest size of the body, smallest of the tail.
    pub tail_from: f64,
    /// Exponent of the tail.
    pub tail_alpha: f64,
}

/// Zipf's law.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Popularity {
    /// Its exponent.
    pub exponent: f64,
}

/// A Pareto law as written in the file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pareto {
    /// Smallest value.
    pub k: f64,
    /// Exponent of the tail.
    pub alpha: f64,
}

/// A lognormal law as written in the file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lognormal {
    /// Mean of the logarithm.
    pub mu: f64,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

/// A Weibull law as written in the file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Weibull {
    /// Shape.
    pub shape: f64,
    /// Scale.
    pub scale: f64,
}

impl Model {
    /// The model as published.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test reads it.
    pub fn published() -> Self {
        toml::from_str(include_str!("surge.toml")).expect("surge.toml is part of the program")
    }
}

impl FileSize {
    /// The law of the body.
    pub fn body(self) -> Law {
        Law::Lognormal { mu: self.body_mu, sigma: self.body_sigma, most: self.tail_from }
    }

    /// The law of the tail up to a largest file.
    pub fn tail(self, largest: f64) -> Law {
        Law::Pareto { k: self.tail_from, alpha: self.tail_alpha, most: largest }
    }
}

impl Pareto {
    /// The law without an upper end.
    pub fn law(self) -> Law {
        Law::Pareto { k: self.k, alpha: self.alpha, most: f64::INFINITY }
    }
}

impl Lognormal {
    /// The law without an upper end.
    pub fn law(self) -> Law {
        Law::Lognormal { mu: self.mu, sigma: self.sigma, most: f64::INFINITY }
    }
}

impl Weibull {
    /// The law.
    pub fn law(self) -> Law {
        Law::Weibull { shape: self.shape, scale: self.scale }
    }
}
