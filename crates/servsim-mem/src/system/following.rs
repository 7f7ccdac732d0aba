//! How shadows ([`crate::shadow`]) follow their caches: a hit costs them nothing, because the frame of the copy tells when it
//! was used last.

use super::{Access, CoherentSystem};
use crate::array::{Array, Frame, UNSHADOWED};
use crate::observer::Observer;
use crate::protocol::INVALID;
use crate::snapshot::{Damaged, Reader, Writer};
use crate::words::WordMask;
use servsim_core::{CacheId, LineAddr};

/// When the frame of a cache that has this node used its line last; 0 without one.
fn last_use<W: WordMask>(array: &Array<W>, line: LineAddr, node: u32) -> u64 {
    let index = array.find(line).filter(|&index| array.cold[index].shadow == node);
    index.map_or(0, |index| array.frames[index].stamp)
}

impl<W: WordMask, O: Observer> CoherentSystem<W, O> {
    /// The access has used the copy in frame `index`, and stamped it.
    #[inline]
    pub(super) fn follow_use(&mut self, access: &Access<W, CacheId>, index: usize) {
        let Some(shadow) = self.shadows.get(access.at.0) else { return };
        let array = &self.arrays[access.at];
        if !shadow.is_at(access.line, array.cold[index].shadow) || array.frames[index].flags & UNSHADOWED != 0
        {
            self.enter_in_shadow(access.at, index);
        }
    }

    /// Has the shadow hold the line of frame `index`, whose stamp tells when it was used.
    fn enter_in_shadow(&mut self, cache: CacheId, index: usize) {
        let (array, shadow) = (&mut self.arrays[cache], &mut self.shadows[cache]);
        let Frame { line, stamp, .. } = array.frames[index];
        let node = shadow.find(line).unwrap_or_else(|| {
            let (node, left) = shadow.insert(line, stamp, |line, node| last_use(array, line, node));
            if let Some(place) = left.and_then(|left| array.find(left)) {
                let frame = &mut array.frames[place];
                frame.flags |= if frame.state == INVALID { 0 } else { UNSHADOWED };
            }
            node
        });
        array.cold[index].shadow = node;
        array.frames[index].flags &= !UNSHADOWED;
    }

    /// The stamp of frame `index` will not tell any more when its line was used last.
    #[inline]
    pub(super) fn note_last_use(&mut self, cache: CacheId, index: usize) {
        if let Some(shadow) = self.shadows.get_mut(cache.0) {
            let Array { frames, cold, .. } = &self.arrays[cache];
            shadow.note_use(frames[index].line, cold[index].shadow, frames[index].stamp);
        }
    }

    /// Writes the lines of the shadows.
    pub(crate) fn save_shadows(&self, out: &mut Writer) {
        for (shadow, array) in self.shadows.iter().zip(&self.arrays) {
            shadow.save(|line, node| last_use(array, line, node), out);
        }
    }

    /// Takes over the lines of other shadows; the arrays have theirs already, and nobody has used them since.
    ///
    /// # Errors
    /// When the bytes are no such lines.
    pub(crate) fn restore_shadows(&mut self, from: &mut Reader<'_>) -> Result<(), Damaged> {
        for (shadow, array) in self.shadows.iter_mut().zip(&mut self.arrays) {
            // The stamps of frames are ranks within a set, all of them before this clock.
            array.clock = shadow.restore(array.clock, from)?;
            for (frame, cold) in array.frames.iter_mut().zip(&mut array.cold) {
                match shadow.find(frame.line) {
                    Some(node) => cold.shadow = node,
                    None if frame.state != INVALID => frame.flags |= UNSHADOWED,
                    None => {}
                }
            }
        }
        Ok(())
    }
}
