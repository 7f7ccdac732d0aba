//! An emulated browser's time: sessions, and thinking between interactions (TPC-W 1.8, clauses 5.3.1 and 6.2).

use std::time::Duration;

use servsim_driver::rng::{Purpose, Stream};

use super::mix::{Interaction, Mix};

/// Mean and longest think time in seconds.
const THINK: (f64, f64) = (7.0, 70.0);
/// Mean and longest session in seconds.
const SESSION: (f64, f64) = (15.0 * 60.0, 60.0 * 60.0);

/// The share of interactions behind which a session ends: a time to think is longer than what is left of the session.
pub const ENDS: f64 = THINK.0 / (THINK.0 + SESSION.0);

/// A number of a negative exponential law, cut off.
fn exponential((mean, most): (f64, f64), stream: &mut Stream) -> f64 {
    (-stream.unit().ln() * mean).min(most)
}

/// A time to think in seconds.
pub fn think(stream: &mut Stream) -> f64 {
    exponential(THINK, stream)
}

/// What a browser does next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The page it asks for.
    pub interaction: Interaction,
    /// Whether a session begins with it: the user is another, and brings no cart.
    pub begins: bool,
    /// How long the user thinks before it.
    pub think: Duration,
}

/// One emulated browser: its walk through a mix, from (seed, purpose, browser) alone.
#[derive(Clone, Debug)]
pub struct Browser<'a> {
    mix: &'a Mix,
    walk: Stream,
    waiting: Stream,
    at: Option<Interaction>,
    /// Seconds of thinking that are left of the session.
    left: f64,
}

impl<'a> Browser<'a> {
    /// Browser `index` with the streams of a seed and a purpose.
    pub fn new(mix: &'a Mix, seed: u64, purpose: Purpose, index: u64) -> Self {
        let (walk, waiting) = (Stream::new(seed, purpose, index), Stream::new(seed, Purpose::Waiting, index));
        Browser { mix, walk, waiting, at: None, left: 0.0 }
    }

    /// Such a browser in the midst of a session: measurements begin anywhere, not with everybody at home.
    pub fn midway(mix: &'a Mix, seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut browser = Browser::new(mix, seed, purpose, index);
        browser.at = Some(mix.anywhere(&mut browser.walk));
        // What is left of an exponential time has the law of the whole.
        browser.left = exponential(SESSION, &mut browser.waiting);
        browser
    }

    /// The next step. Sessions end by the time that their users have thought, whether or not anybody waits for it, so
    /// that what a browser asks for never depends on how fast the server is.
    pub fn step(&mut self) -> Step {
        let think = think(&mut self.waiting);
        self.left -= think;
        let begins = self.at.is_none() || self.left <= 0.0;
        let interaction = match self.at {
            Some(at) if !begins => self.mix.next(at, &mut self.walk),
            _ => {
                self.left = exponential(SESSION, &mut self.waiting);
                Interaction::Home
            }
        };
        self.at = Some(interaction);
        Step { interaction, begins, think: Duration::from_secs_f64(think) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn think_times_and_sessions_have_their_means_and_their_ends() {
        let mix = Mix::named("shopping").unwrap();
        let mut browser = Browser::new(&mix, 3, Purpose::Measured, 0);
        let steps: Vec<Step> = (0..200_000).map(|_| browser.step()).collect();
        let thinks: Vec<f64> = steps.iter().map(|step| step.think.as_secs_f64()).collect();
        // Cutting an exponential law at ten means takes exp(-10) off its mean; four standard errors are allowed.
        let mean = thinks.iter().sum::<f64>() / thinks.len() as f64;
        assert!((mean - 7.0).abs() < 4.0 * 7.0 / (thinks.len() as f64).sqrt(), "{mean}");
        assert!(thinks.iter().all(|&think| think <= 70.0));
        // A session of 15 minutes cut at 60 lasts 15 (1 - exp(-4)) on average, and as many thinks of 7 s.
        let sessions = steps.iter().filter(|step| step.begins).count() as f64;
        let seconds = thinks.iter().sum::<f64>() / sessions;
        let expected = 900.0 * (1.0 - (-4.0f64).exp());
        // A session ends with the think that passes its end: half of what such a think has beyond its mean.
        assert!(
            (seconds - expected - 7.0).abs() < 4.0 * 900.0 / sessions.sqrt(),
            "{seconds}, {sessions} sessions"
        );
    }

    #[test]
    fn sessions_begin_at_home_and_browsers_are_independent() {
        let mix = Mix::named("ordering").unwrap();
        let steps = |index| {
            let mut browser = Browser::new(&mix, 5, Purpose::Measured, index);
            (0..5000).map(|_| browser.step()).collect::<Vec<_>>()
        };
        let one = steps(0);
        assert!(
            one[0].begins
                && one.iter().filter(|step| step.begins).all(|s| s.interaction == Interaction::Home)
        );
        assert_eq!(one, steps(0));
        assert_ne!(one, steps(1));
    }
}
