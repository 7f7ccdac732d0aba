//! Guest time. The emulator advances the guest's clock by one nanosecond per instruction
//! (`-icount shift=0`) and jumps ahead when the guest idles; the jumps show when the guest reads
//! its time-stamp counter, which then counts nanoseconds of the same clock.

/// Guest time since the trace began, in nanoseconds.
#[derive(Debug, Default)]
pub struct Clock {
    instructions: u64,
    idle_ns: u64,
    last_reading: Option<(u64, u64)>,
}

impl Clock {
    /// `count` more instructions were executed.
    #[inline]
    pub fn advance(&mut self, count: u64) {
        self.instructions += count;
    }

    /// The guest read `counter` from its time-stamp counter.
    pub fn reading(&mut self, counter: u64) {
        if let Some((before, instructions)) = self.last_reading {
            let elapsed = counter.wrapping_sub(before);
            let executed = self.instructions - instructions;
            // Readings are ordered; one that seems to run backwards is a write to the counter.
            if elapsed < 1 << 40 {
                self.idle_ns += elapsed.saturating_sub(executed);
            }
        }
        self.last_reading = Some((counter, self.instructions));
    }

    /// Now.
    pub fn now_ns(&self) -> u64 {
        self.instructions + self.idle_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_what_the_counter_gained_beyond_the_instructions() {
        let mut clock = Clock::default();
        clock.advance(10);
        clock.reading(5_000);
        clock.advance(100);
        clock.reading(5_100);
        assert_eq!(clock.now_ns(), 110);
        clock.advance(50);
        clock.reading(9_000);
        assert_eq!(clock.now_ns(), 160 + 3_850);
    }
}
