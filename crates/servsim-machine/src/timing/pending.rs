//! An access that waits: for the bus, for its data, or for its turn in the store buffer.

use crate::place::page_of;
use servsim_core::reference::KERNEL;
use servsim_core::{CpuId, LineAddr, Op, Privacy, Record};
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

impl<W> Pending<W> {
    /// `record` of `cpu`, put aside: its bytes are the words `words` of `line`, from `address` on.
    pub fn aside(
        cpu: CpuId,
        record: &Record,
        (address, line, words): (u64, LineAddr, W),
        privacy: &Privacy,
    ) -> Self {
        let access = Access {
            at: cpu,
            line,
            words,
            write: record.op == Op::Store,
            kernel: record.flags & KERNEL != 0,
            task: record.task,
            slot: record.op as usize,
        };
        Self { access, page: page_of(privacy, &Record { address, ..*record }), fetching: false }
    }
}
