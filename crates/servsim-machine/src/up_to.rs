//! A trace in its own order that ends with a given transaction: what the functional engine runs when it is asked
//! for a number of them.

use servsim_core::{Batch, Event, GlobalSource, Op, SourceError};

/// The beginning of a trace.
pub struct UpTo {
    inner: Box<dyn GlobalSource>,
    left: u64,
}

impl UpTo {
    /// `inner` up to the end of so many transactions, at least one.
    pub fn new(inner: Box<dyn GlobalSource>, transactions: u64) -> Self {
        Self { inner, left: transactions }
    }
}

impl GlobalSource for UpTo {
    fn inner(&self) -> Option<&dyn GlobalSource> {
        Some(self.inner.as_ref())
    }

    fn record_pages(&mut self) -> bool {
        self.inner.record_pages()
    }

    fn join_fetches(&mut self, line: u64) -> bool {
        self.inner.join_fetches(line)
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        if self.left == 0 {
            batch.clear();
            return Ok(false);
        }
        let more = self.inner.next_batch(batch)?;
        for (index, record) in batch.records.iter().enumerate() {
            let ends = record.op == Op::Event
                && matches!(batch.events[record.address as usize], Event::TransactionEnd { .. });
            self.left -= u64::from(ends);
            if self.left == 0 {
                batch.records.truncate(index + 1);
                batch.pages.truncate(index + 1);
                break;
            }
        }
        Ok(more)
    }
}
