//! Traces with one address per reference as if all their tasks lived in one address space whose virtual
//! addresses are the physical ones: what a page walk needs of a trace that does not tell virtual
//! addresses, and only where the user says so (`tlb.plain_addresses = "identity"`).

use servsim_core::{Batch, GlobalSource, Op, SourceError, TaskCursor, TaskId, TaskSource, PAGE_SHIFT};

/// Virtual addresses of four-level paging have 48 bits, the highest repeated above (Intel SDM volume 1,
/// section 3.3.7.1).
const ADDRESS_BITS: u32 = 48;

/// A source whose batches hold the pages of their addresses.
pub struct Identity<S: ?Sized>(pub Box<S>);

fn add_pages(batch: &mut Batch) -> Result<(), SourceError> {
    batch.pages.clear();
    for record in &batch.records {
        let unused = 64 - ADDRESS_BITS;
        let last = record.address.wrapping_add(u64::from(record.size) - 1);
        let canonical = |a: u64| ((a << unused) as i64 >> unused) as u64 == a;
        if record.op == Op::Event {
            batch.pages.push(0);
        } else if canonical(record.address) && canonical(last) {
            batch.pages.push(record.address >> PAGE_SHIFT);
        } else {
            return Err(SourceError(format!(
                "address {:#x} is not a virtual address of x86-64, which has {ADDRESS_BITS} bits; \
                 leave out [tlb]",
                record.address
            )));
        }
    }
    Ok(())
}

impl GlobalSource for Identity<dyn GlobalSource> {
    fn inner(&self) -> Option<&dyn GlobalSource> {
        Some(self.0.as_ref())
    }
    fn notes(&self) -> Vec<String> {
        with_note(self.0.notes())
    }
    fn record_pages(&mut self) -> bool {
        true
    }
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.next_batch(batch)?;
        add_pages(batch)?;
        Ok(more)
    }
}

impl TaskSource for Identity<dyn TaskSource> {
    fn inner(&self) -> Option<&dyn TaskSource> {
        Some(self.0.as_ref())
    }
    fn notes(&self) -> Vec<String> {
        with_note(self.0.notes())
    }
    fn record_pages(&mut self) -> Result<bool, SourceError> {
        // Only captured traces hold handlers, and those tell virtual addresses.
        Ok(self.0.interrupts().is_empty())
    }
    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError> {
        Ok(Box::new(Paged(self.0.open(task)?)))
    }
}

fn with_note(mut notes: Vec<String>) -> Vec<String> {
    notes.push(
        "page walks take the one address of each reference as its virtual and its physical address, in one \
         address space for all tasks (tlb.plain_addresses = \"identity\")"
            .into(),
    );
    notes
}

struct Paged<'a>(Box<dyn TaskCursor + 'a>);

impl TaskCursor for Paged<'_> {
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let more = self.0.next_batch(batch)?;
        add_pages(batch)?;
        Ok(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InMemory;
    use servsim_core::{Event, TaskInfo, TaskKind};

    #[test]
    fn what_a_source_tells_of_transactions_and_waits_holds_with_pages_too() {
        let info = TaskInfo { name: "t".into(), pid: 1, kind: TaskKind::User, client: false };
        let mut batch = Batch::default();
        batch.push_event(0, Event::Wake { wake: 7 });
        let (device, sector, bytes, write) = (0, 8, 512, false);
        batch.push_event(0, Event::IoSubmit { request: 5, device, sector, bytes, write });
        batch.push_event(0, Event::TransactionEnd { kind: 0, user: 3 });
        let plain: Box<dyn TaskSource> =
            Box::new(InMemory::from_streams(vec![info], vec!["pay".into()], vec![batch]));
        let told =
            |source: &dyn TaskSource| (source.waker(7), source.submitter(5), source.transaction_ends());
        let before = told(plain.as_ref());
        assert_eq!(before, (Some(0), Some(0), [((0, 3), 1)].into()));
        assert_eq!(told(&Identity(plain)), before);
    }
}
