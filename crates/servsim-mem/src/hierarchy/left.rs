//! Accesses of machines that are asked only for what is left ([`crate::late_uses`]): none has private levels.

use super::Hierarchy;
use crate::observer::Observer;
use crate::system::{Access, Page};
use crate::words::WordMask;
use servsim_core::CacheId;

impl<W: WordMask, O: Observer> Hierarchy<W, O> {
    /// Brings nearer what an access will look up where its cache stands.
    #[inline]
    pub fn approach_left(&self, access: &Access<W, CacheId>) {
        if self.system.approach_copy(access.at, access.line) {
            return;
        }
        self.system.approach_room(access);
        if !self.flat {
            self.approach_shared(access.at, access.line);
        }
    }

    /// As [`Hierarchy::access`], at its coherent cache, where all is known of the page and the record of the line is at
    /// `place`.
    #[inline]
    pub fn access_left(&mut self, access: &Access<W, CacheId>, place: usize, page: Page) {
        let found = self.system.arrays[access.at].search(access.line);
        if found.is_some_and(|index| self.system.hit_at(access, index)) {
            self.completed(access);
            return;
        }
        let listed = self.system.copies.place_told(access.line, place);
        let approached = self.system.approach_listed(access, found, listed);
        if !self.transact_missed(access, approached, page) {
            self.access_again(access, page);
        }
    }

    /// The rest of an access that takes more than one transaction.
    #[inline(never)]
    fn access_again(&mut self, access: &Access<W, CacheId>, page: Page) {
        let Access { at, line, words, write, kernel, task, slot } = *access;
        let outer = Access { at: self.system.processor_of(at), line, words, write, kernel, task, slot };
        while !self.transact(&outer, page).0.done {}
    }
}
