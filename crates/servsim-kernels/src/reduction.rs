//! The largest of what the threads found, known to all of them: exact, so that its order does not matter.

use crate::array::{Array, Structures};
use crate::team::Member;
use crate::Result;

/// Elements of a page: the distance of what two threads write, so that each can lie at home.
pub const PAGE: usize = 512;

/// A place for each thread's value.
#[derive(Debug)]
pub struct Largest {
    values: Array<f64>,
}

impl Largest {
    /// Places for `threads`, as the structure `name`.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn new(name: &str, threads: usize, structures: &mut Structures) -> Result<Self> {
        Ok(Largest { values: structures.array(name, (threads * PAGE) as u64)? })
    }

    /// First touch.
    pub fn init(&self, me: &Member<'_>) {
        for thread in me.init_share(me.threads()) {
            self.values.fill(thread * PAGE..(thread + 1) * PAGE, 0.0);
        }
    }

    /// The largest of the values that the threads give, which are not negative; not a number if one is
    /// none. Ends with a barrier.
    pub fn of(&self, me: &Member<'_>, own: f64) -> f64 {
        self.values.set(me.id * PAGE, own);
        me.barrier();
        let most = crate::kernel::largest((0..me.threads()).map(|thread| self.values.get(thread * PAGE)));
        me.barrier();
        most
    }
}
