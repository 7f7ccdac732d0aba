//! Levels over time: how many are there now, and the integral of that over simulated time.

/// A level and its integral.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauge {
    /// How many there are.
    pub level: u64,
    integral: u128,
    since: u64,
}

impl Gauge {
    /// One more at `now`.
    pub fn up(&mut self, now: u64) {
        self.settle(now);
        self.level += 1;
    }

    /// One fewer at `now`.
    ///
    /// # Panics
    /// When there was none: an internal fault.
    pub fn down(&mut self, now: u64) {
        self.settle(now);
        self.level = self.level.checked_sub(1).expect("something that left had come");
    }

    /// The integral up to `now`, in things times cycles.
    pub fn integral(&mut self, now: u64) -> u128 {
        self.settle(now);
        self.integral
    }

    fn settle(&mut self, now: u64) {
        let now = now.max(self.since);
        self.integral += u128::from(self.level) * u128::from(now - self.since);
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_for_ten_cycles_and_one_for_five_are_25() {
        let mut gauge = Gauge::default();
        gauge.up(100);
        gauge.up(105);
        gauge.down(115);
        assert_eq!(gauge.integral(115), 5 + 20);
        assert_eq!(gauge.integral(120), 30);
    }
}
