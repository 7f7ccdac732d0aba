//! Streams in memory beside interrupt handlers.

use servsim_core::{Interrupt, TaskSource};
use servsim_import::InMemory;

/// A source with handlers for the completion of disk requests.
pub struct WithHandlers {
    pub inner: InMemory,
    pub handlers: Vec<Interrupt>,
}

impl TaskSource for WithHandlers {
    fn tasks(&self) -> &[servsim_core::TaskInfo] {
        self.inner.tasks()
    }
    fn transaction_kinds(&self) -> Vec<String> {
        Vec::new()
    }
    fn privacy(&self) -> &servsim_core::Privacy {
        self.inner.privacy()
    }
    fn open(&self, task: u32) -> Result<Box<dyn servsim_core::TaskCursor + '_>, servsim_core::SourceError> {
        self.inner.open(task)
    }
    fn waker(&self, wake: u64) -> Option<u32> {
        self.inner.waker(wake)
    }
    fn submitter(&self, request: u64) -> Option<u32> {
        self.inner.submitter(request)
    }
    fn interrupts(&self) -> &[Interrupt] {
        &self.handlers
    }
}
