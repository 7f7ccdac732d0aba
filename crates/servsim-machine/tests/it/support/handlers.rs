//! Streams in memory beside interrupt handlers.

use servsim_core::{Interrupt, TaskSource};
use servsim_import::InMemory;

/// A source with handlers for the completion of disk requests.
pub struct WithHandlers {
    pub inner: InMemory,
    pub handlers: Vec<Interrupt>,
}

impl TaskSource for WithHandlers {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(&self.inner)
    }
    fn open(&self, task: u32) -> Result<Box<dyn servsim_core::TaskCursor + '_>, servsim_core::SourceError> {
        self.inner.open(task)
    }
    fn interrupts(&self) -> &[Interrupt] {
        &self.handlers
    }
}
