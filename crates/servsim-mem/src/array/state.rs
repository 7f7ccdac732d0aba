//! The state of an array as bytes ([`crate::snapshot`]).

use super::{Array, Frame, Pool, EMPTY, UNSHADOWED};
use crate::protocol::State;
use crate::snapshot::{ranks, Damaged, Reader, Writer};
use crate::words::WordMask;
use servsim_core::LineAddr;

impl<W: WordMask> Frame<W> {
    /// Writes what the future of the copy depends on; `rank` stands for its stamp.
    fn save(&self, rank: u64, out: &mut Writer) {
        let Self { stamp: _, touched, new_words, written, writer, new_writer, shadow: _, state, flags, user } =
            *self;
        [rank, u64::from(state), u64::from(flags & !UNSHADOWED), u64::from(user)]
            .iter()
            .for_each(|&value| out.put(value));
        // One more, so that nobody is 0, which compresses best.
        [writer, new_writer].iter().for_each(|task| out.put(u64::from(task.wrapping_add(1))));
        [touched, new_words, written].iter().for_each(|&words| out.words(words));
    }

    fn restore(ways: u64, states: u64, from: &mut Reader<'_>) -> Result<Self, Damaged> {
        let stamp = from.below(ways + 1)?;
        let (state, flags) = (from.below(states)? as State, from.below(u64::from(UNSHADOWED))? as u8);
        let user = from.below(1 << 16)? as u16;
        let (writer, new_writer) = (from.short()?.wrapping_sub(1), from.short()?.wrapping_sub(1));
        let (touched, new_words, written) = (from.words()?, from.words()?, from.words()?);
        Ok(Self { stamp, touched, new_words, written, writer, new_writer, state, flags, user, ..Self::new() })
    }
}

impl<W: WordMask> Array<W> {
    /// Writes its lines with what is known of each, and in which order they were used.
    pub(crate) fn save(&self, out: &mut Writer) {
        let Self {
            tags,
            frames,
            records: _,
            guesses: _,
            clock: _,
            tick: _,
            set_index: _,
            ways,
            replacement,
            pool,
        } = self;
        out.put(tags.len() as u64 - pool.as_ref().map_or(0, |pool| pool.free.len() as u64));
        if pool.is_some() {
            // Where a line lies in a pool means nothing; nor do stamps, since it chooses no victim.
            let mut lines: Vec<usize> = (0..tags.len()).filter(|&index| tags[index] != EMPTY).collect();
            lines.sort_unstable_by_key(|&index| tags[index]);
            for index in lines {
                out.put(tags[index].0.wrapping_add(1));
                frames[index].save(0, out);
            }
        } else {
            for (tags, frames) in tags.chunks(*ways).zip(frames.chunks(*ways)) {
                let ranks = ranks(frames.iter().map(|frame| frame.stamp));
                for ((tag, frame), rank) in tags.iter().zip(frames).zip(ranks) {
                    // One more: an empty frame's tag is the largest number, and becomes 0.
                    out.put(tag.0.wrapping_add(1));
                    if *tag != EMPTY {
                        frame.save(rank, out);
                    }
                }
            }
        }
        replacement.save(out);
    }

    /// Takes over what another array of the same shape held; where the records of its lines are is the caller's.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub(crate) fn restore(&mut self, states: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        if let Some(pool) = &mut self.pool {
            let lines = from.length()?;
            self.tags = vec![EMPTY; lines];
            self.frames = vec![Frame::new(); lines];
            *pool = Pool::new(Vec::new());
        } else {
            from.exactly(self.tags.len())?;
        }
        for index in 0..self.tags.len() {
            let tag = LineAddr(from.take()?.wrapping_sub(1));
            self.tags[index] = tag;
            self.frames[index] = Frame::new();
            if tag == EMPTY {
                continue;
            }
            self.frames[index] = Frame::restore(self.ways as u64, states as u64, from)?;
            if let Some(pool) = &mut self.pool {
                if pool.find(tag).is_some() {
                    return Err(Damaged("a line in it occurs twice"));
                }
                pool.insert(tag, index);
            }
        }
        if self.tags.is_empty() {
            // A guess needs a frame to look at.
            let pool = Some(Pool::new(vec![0]));
            (self.tags, self.frames, self.pool) = (vec![EMPTY], vec![Frame::new()], pool);
        }
        self.records = vec![0; self.tags.len()];
        self.guesses.fill(0);
        self.clock = self.ways as u64;
        self.replacement.restore(from)
    }
}
