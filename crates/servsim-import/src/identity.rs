//! Traces with one address per reference as if all their tasks lived in one address space whose virtual
//! addresses are the physical ones: what a page walk needs of a trace that does not tell virtual
//! addresses, and only where the user says so (`tlb.plain_addresses = "identity"`).

use servsim_core::{
    Batch, GlobalSource, Interrupt, Op, PageOrigin, Privacy, SourceError, TaskCursor, TaskId, TaskInfo,
    TaskSource, PAGE_SHIFT,
};

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

impl<S: GlobalSource + ?Sized> GlobalSource for Identity<S> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }
    fn transaction_kinds(&self) -> Vec<String> {
        self.0.transaction_kinds()
    }
    fn privacy(&self) -> &Privacy {
        self.0.privacy()
    }
    fn notes(&self) -> Vec<String> {
        with_note(self.0.notes())
    }
    fn knows_places(&self) -> bool {
        self.0.knows_places()
    }
    fn kernel_symbols(&self) -> Option<&str> {
        self.0.kernel_symbols()
    }
    fn page_origin(&self, page: u64) -> Option<PageOrigin> {
        self.0.page_origin(page)
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

impl<S: TaskSource + ?Sized> TaskSource for Identity<S> {
    fn tasks(&self) -> &[TaskInfo] {
        self.0.tasks()
    }
    fn transaction_kinds(&self) -> Vec<String> {
        self.0.transaction_kinds()
    }
    fn privacy(&self) -> &Privacy {
        self.0.privacy()
    }
    fn notes(&self) -> Vec<String> {
        with_note(self.0.notes())
    }
    fn record_pages(&mut self) -> Result<bool, SourceError> {
        // Only captured traces hold handlers, and those tell virtual addresses.
        Ok(self.0.interrupts().is_empty())
    }
    fn interrupts(&self) -> &[Interrupt] {
        self.0.interrupts()
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
