//! The state of an array as bytes ([`crate::snapshot`]).

use super::{Array, Cold, Frame, Pool, EMPTY, UNSHADOWED};
use crate::protocol::State;
use crate::snapshot::{ranks, Damaged, Reader, Writer};
use crate::words::WordMask;
use servsim_core::LineAddr;

impl<W: WordMask> Frame<W> {
    /// Writes what the future of the copy depends on; `rank` stands for its stamp.
    fn save(&self, cold: &Cold<W>, rank: u64, out: &mut Writer) {
        let Self { line: _, stamp: _, touched, writer, state, flags, user, written } = *self;
        let Cold { record: _, new_words, new_writer, shadow: _ } = *cold;
        [rank, u64::from(state), u64::from(flags & !UNSHADOWED), u64::from(user)]
            .iter()
            .for_each(|&value| out.put(value));
        // One more, so that nobody is 0, which compresses best.
        [writer, new_writer].iter().for_each(|task| out.put(u64::from(task.wrapping_add(1))));
        [touched, new_words, written].iter().for_each(|&words| out.words(words));
    }

    /// That of `line`, and what is to be kept apart.
    fn restore(
        line: LineAddr,
        ways: u64,
        states: u64,
        from: &mut Reader<'_>,
    ) -> Result<(Self, Cold<W>), Damaged> {
        let stamp = from.below(ways + 1)?;
        let (state, flags) = (from.below(states)? as State, from.below(u64::from(UNSHADOWED))? as u8);
        let user = from.below(1 << 16)? as u16;
        let (writer, new_writer) = (from.short()?.wrapping_sub(1), from.short()?.wrapping_sub(1));
        let (touched, new_words, written) = (from.words()?, from.words()?, from.words()?);
        let frame = Self { line, stamp, touched, writer, state, flags, user, written };
        Ok((frame, Cold { new_words, new_writer, ..Cold::new() }))
    }
}

impl<W: WordMask> Array<W> {
    /// Writes its lines with what is known of each, and in which order they were used.
    pub(crate) fn save(&self, out: &mut Writer) {
        let Self {
            frames,
            cold,
            signatures: _,
            guesses: _,
            clock: _,
            tick: _,
            set_index: _,
            ways,
            replacement,
            filled,
            pool,
        } = self;
        out.put(frames.len() as u64 - pool.as_ref().map_or(0, |pool| pool.free.len() as u64));
        if pool.is_some() {
            // Where a line lies in a pool means nothing; nor do stamps, since it chooses no victim.
            let mut held: Vec<_> = frames.iter().zip(cold).filter(|(frame, _)| frame.line != EMPTY).collect();
            held.sort_unstable_by_key(|(frame, _)| frame.line);
            for (frame, cold) in held {
                out.put(frame.line.0.wrapping_add(1));
                frame.save(cold, 0, out);
            }
        } else {
            for (frames, cold) in frames.chunks(*ways).zip(cold.chunks(*ways)) {
                let ranks = ranks(frames.iter().map(|frame| frame.stamp));
                for ((frame, cold), rank) in frames.iter().zip(cold).zip(ranks) {
                    // One more: an empty frame's tag is the largest number, and becomes 0.
                    out.put(frame.line.0.wrapping_add(1));
                    if frame.line != EMPTY {
                        frame.save(cold, rank, out);
                    }
                }
            }
        }
        replacement.save(out);
        if pool.is_none() {
            filled.save(out);
        }
    }

    /// Takes over what another array of the same shape held; where the records of its lines are is the caller's.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub(crate) fn restore(&mut self, states: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        if let Some(pool) = &mut self.pool {
            let lines = from.length()?;
            self.frames = vec![Frame::new(); lines];
            **pool = Pool::new(Vec::new());
        } else {
            from.exactly(self.frames.len())?;
        }
        self.cold = vec![Cold::new(); self.frames.len()];
        for index in 0..self.frames.len() {
            let line = LineAddr(from.take()?.wrapping_sub(1));
            self.frames[index] = Frame::new();
            if line == EMPTY {
                continue;
            }
            (self.frames[index], self.cold[index]) =
                Frame::restore(line, self.ways as u64, states as u64, from)?;
            if let Some(pool) = &mut self.pool {
                if pool.find(line).is_some() {
                    return Err(Damaged("a line in it occurs twice"));
                }
                pool.insert(line, index);
            } else {
                self.signatures.set(index / self.ways, index % self.ways, line);
            }
        }
        if self.frames.is_empty() {
            // A guess needs a frame to look at.
            let pool = Some(Box::new(Pool::new(vec![0])));
            (self.frames, self.cold, self.pool) = (vec![Frame::new()], vec![Cold::new()], pool);
        }
        self.guesses.fill(0);
        self.clock = self.ways as u64;
        self.replacement.restore(from)?;
        if self.pool.is_none() {
            self.filled.restore(from)?;
        }
        Ok(())
    }
}
