//! An access that waits: for the bus, for its data, or for its turn in the store buffer.

use servsim_mem::{Access, Page};

/// An access with its page.
#[derive(Debug, Clone, Copy)]
pub struct Pending<W> {
    /// The access.
    pub access: Access<W>,
    /// What is known of its page.
    pub page: Page,
    /// In the store buffer: the block is on its way, so its other words cannot be read yet.
    pub fetching: bool,
}
