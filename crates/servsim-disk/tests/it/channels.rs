//! The channels of a parallel device beside a slow, obvious device: one that asks every channel, every time.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use servsim_disk::models::parallel::{Channels, Collection, Parallel, Placement, LENGTHS};
use servsim_disk::request::{Command, Op};
use servsim_oracle::drive::Words;

/// One channel: until when it is busy, pieces to programme, pieces since it collected.
#[derive(Clone, Default)]
struct Slow {
    busy_us: f64,
    pending: u32,
    since: u32,
}

struct Device<'a> {
    model: &'a Parallel,
    each: Vec<Slow>,
    turn: usize,
}

impl Device<'_> {
    fn collect(&mut self, at: usize, pieces: u32) {
        let Some(collection) = self.model.collection else { return };
        self.each[at].since += pieces;
        if self.each[at].since >= collection.pieces {
            self.each[at].since = 0;
            self.each[at].busy_us += collection.pause_us;
        }
    }

    fn programme(&mut self, at: usize) {
        self.each[at].pending -= 1;
        self.each[at].busy_us += self.model.program_us;
        self.collect(at, 1);
    }

    /// All channels programme what they have time for.
    fn all_until(&mut self, now: f64) {
        for at in 0..self.each.len() {
            while self.each[at].pending > 0 && self.each[at].busy_us <= now {
                self.programme(at);
            }
        }
    }

    /// The first of those that are free first among the channels that `may` serve.
    fn first(&self, may: impl Fn(&Slow) -> bool) -> usize {
        let mut found = None;
        for (at, channel) in self.each.iter().enumerate() {
            if may(channel) && found.is_none_or(|best: usize| channel.busy_us < self.each[best].busy_us) {
                found = Some(at);
            }
        }
        found.expect("a channel")
    }

    fn wait_us(&mut self, command: &Command, now: f64) -> f64 {
        self.all_until(now);
        let count = self.model.channels;
        let pieces = command.sectors.div_ceil(self.model.piece_sectors);
        let (rounds, pieces) = (pieces.div_ceil(count), pieces.min(count));
        if let (Op::Write, Some(buffer)) = (command.op, self.model.buffer) {
            let pieces = rounds * pieces;
            let mut free_us = now;
            while self.each.iter().map(|channel| channel.pending).sum::<u32>() + pieces > buffer.max(pieces) {
                let at = self.first(|channel| channel.pending > 0);
                free_us = free_us.max(self.each[at].busy_us);
                self.programme(at);
            }
            for _ in 0..pieces {
                let at = self.turn % self.each.len();
                self.turn += 1;
                while self.each[at].pending > 0 && self.each[at].busy_us <= free_us {
                    self.programme(at);
                }
                if self.each[at].pending == 0 {
                    self.each[at].busy_us = self.each[at].busy_us.max(free_us);
                }
                self.each[at].pending += 1;
            }
            return free_us - now;
        }
        let piece_us = if command.op == Op::Read { self.model.read_us } else { self.model.program_us };
        let mut wait_us = 0.0_f64;
        for piece in 0..pieces {
            let at = if self.model.placement == Placement::First {
                self.first(|_| true)
            } else {
                ((command.lba / u64::from(self.model.piece_sectors) + u64::from(piece)) % u64::from(count))
                    as usize
            };
            wait_us = wait_us.max(self.each[at].busy_us - now);
            self.each[at].busy_us = self.each[at].busy_us.max(now) + f64::from(rounds) * piece_us;
            if command.op == Op::Write {
                self.collect(at, rounds);
            }
        }
        wait_us
    }
}

#[test]
fn channels_serve_as_those_of_a_device_that_asks_all_of_them_every_time() {
    let mut words = Words(31);
    let (mut waited, mut cases) = (0, 0);
    for channels in [1, 3, 8, 13, 64] {
        for placement in [Placement::First, Placement::Striped] {
            for buffer in [None, Some(5), Some(40), Some(1 << 24)] {
                for collection in [None, Some(Collection { pieces: 6, pause_us: 300.0 })] {
                    let model = Parallel {
                        channels,
                        placement,
                        piece_sectors: 8,
                        read_us: 50.0,
                        program_us: 130.0,
                        buffer,
                        collection,
                        throttle: None,
                        phases: None,
                        scale: [1.0; 2],
                        undisturbed: [1.0; 2],
                        quiet_us: [(); 2].map(|()| vec![vec![20.0]; LENGTHS]),
                        seen_in_tenth: 0,
                        rivals: Vec::new(),
                    };
                    let begun = |at| Slow {
                        since: collection.map_or(0, |c| c.pieces * at / channels),
                        ..Slow::default()
                    };
                    let mut slow =
                        Device { model: &model, each: (0..channels).map(begun).collect(), turn: 0 };
                    let (mut quick, mut rng) = (Channels::new(&model), Pcg64Mcg::seed_from_u64(1));
                    let mut now_us = 0;
                    for number in 0..600 {
                        now_us += if words.below(20) == 0 { words.below(20_000) } else { words.below(120) };
                        let command = Command {
                            lba: words.below(100_000) * 8,
                            sectors: 1 + words.below(200) as u32,
                            op: if words.below(2) == 0 { Op::Read } else { Op::Write },
                        };
                        let time_ns = quick.service_ns(&command, now_us * 1000, &mut rng);
                        let wait_us = slow.wait_us(&command, now_us as f64);
                        let name = format!("request {number} of {model:?}");
                        assert_eq!(time_ns, ((wait_us + 20.0) * 1e3) as u64, "{name}");
                        waited += u64::from(wait_us > 0.0);
                        cases += 1;
                    }
                    let pending: u32 = {
                        slow.all_until(now_us as f64);
                        slow.each.iter().map(|channel| channel.pending).sum()
                    };
                    assert_eq!(quick.buffered(now_us * 1000), pending);
                }
            }
        }
    }
    assert!((cases / 4..cases).contains(&waited), "{waited} of {cases} waited");
}
