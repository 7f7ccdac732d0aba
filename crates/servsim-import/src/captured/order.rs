//! A captured trace in captured order, for the functional engine: exactly the recorded references.

use super::findings::Findings;
use super::pages::Pages;
use super::plan::Plan;
use super::template::{Expansion, Templates};
use super::{error, open, spaces_of, tasks_of};
use servsim_core::{
    Batch, Event, GlobalSource, PageOrigin, Privacy, SourceError, TaskInfo, TransactionEnds, Watch,
};
use servsim_trace::{EventKind, GlobalCursor, MarkKind, Ref, ShapeId, Sink, TaskId, TraceReader};
use std::path::Path;
use std::sync::Arc;

const BATCH: usize = 16_384;

/// A captured trace in captured order.
pub struct CapturedOrder {
    tasks: Vec<TaskInfo>,
    kinds: Vec<String>,
    privacy: Privacy,
    pages: Pages,
    symbols: String,
    shared_data: String,
    truncated: Option<String>,
    reader: Arc<TraceReader>,
    /// Made when the first batch is asked for: it is known then how.
    templates: Option<Templates>,
    /// Bytes of a line whose fetches are joined.
    line: Option<u64>,
    cursor: GlobalCursor,
    spaces: Vec<Option<u32>>,
    with_pages: bool,
    transaction_ends: TransactionEnds,
}

impl CapturedOrder {
    /// Opens the trace at `path`; one pass learns which pages are private.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        Self::open_with(path, None, None)
    }

    /// The same, without the pass where `findings` keep what it found; they keep it from then on. `watch` is told how far
    /// it is, and may stop it.
    ///
    /// # Errors
    /// As [`CapturedOrder::open`], and when it was stopped.
    pub fn open_with(
        path: &Path,
        findings: Option<Findings<'_>>,
        watch: Option<&Watch>,
    ) -> Result<Self, SourceError> {
        let reader = open(path)?;
        let Plan { pages, transaction_ends, .. } = Plan::of(&reader, findings, watch)?;
        Ok(Self {
            transaction_ends,
            tasks: tasks_of(&reader),
            kinds: reader.meta().transaction_kinds.clone(),
            privacy: pages.privacy(false),
            symbols: reader.meta().kernel_symbols.clone(),
            shared_data: reader.meta().shared_data.clone(),
            truncated: reader.truncated().map(str::to_owned),
            pages,
            templates: None,
            line: None,
            spaces: spaces_of(&reader),
            with_pages: false,
            cursor: GlobalCursor::unchecked(reader.clone()),
            reader,
        })
    }

    /// The same; if `yes`, the kernel's data of one process are private.
    #[must_use]
    pub fn with_private_kernel(mut self, yes: bool) -> Self {
        self.privacy = self.pages.privacy(yes);
        self
    }
}

impl GlobalSource for CapturedOrder {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        self.kinds.clone()
    }

    fn transaction_ends(&self) -> TransactionEnds {
        self.transaction_ends.clone()
    }

    fn privacy(&self) -> &Privacy {
        &self.privacy
    }

    fn notes(&self) -> Vec<String> {
        self.truncated.iter().cloned().collect()
    }

    fn knows_places(&self) -> bool {
        true
    }

    fn kernel_symbols(&self) -> Option<&str> {
        Some(self.symbols.as_str()).filter(|symbols| !symbols.is_empty())
    }

    fn shared_data(&self) -> Option<&str> {
        Some(self.shared_data.as_str()).filter(|text| !text.is_empty())
    }

    fn page_origin(&self, page: u64) -> Option<PageOrigin> {
        self.pages.page_origin(page)
    }

    fn record_pages(&mut self) -> bool {
        self.with_pages = true;
        true
    }

    fn join_fetches(&mut self, line: u64) -> bool {
        self.line = Some(line);
        true
    }

    fn spaces(&self) -> Vec<Option<u32>> {
        self.spaces.clone()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.clear();
        let reader = &self.reader;
        let made = || Templates::new(reader.dictionary(), reader.meta().per_cpu_area, self.line);
        let templates = self.templates.get_or_insert_with(made);
        let mut sink = Records { expansion: Expansion::new(templates), batch, with_pages: self.with_pages };
        while sink.batch.records.len() < BATCH && self.cursor.run(&mut sink).map_err(|e| error(&e))? {}
        if self.with_pages {
            batch.pages.resize(batch.records.len(), 0);
        }
        Ok(!batch.records.is_empty())
    }
}

/// Makes records of what is decoded.
struct Records<'a> {
    expansion: Expansion<'a>,
    batch: &'a mut Batch,
    with_pages: bool,
}

impl Sink for Records<'_> {
    #[inline]
    fn block(&mut self, task: TaskId, shape: ShapeId) {
        let Batch { records, pages, beyond, .. } = &mut *self.batch;
        *beyond += self.expansion.begin(shape, task, records, self.with_pages.then_some(pages));
    }

    #[inline]
    fn reference(&mut self, index: usize, reference: Ref) {
        let Batch { records, pages, .. } = &mut *self.batch;
        self.expansion.reference(index, reference, records, self.with_pages.then_some(pages));
    }

    #[inline]
    fn end_block(&mut self) -> bool {
        let Batch { records, pages, .. } = &mut *self.batch;
        self.expansion.end(records, self.with_pages.then_some(pages));
        records.len() < BATCH
    }

    fn event(&mut self, task: TaskId, event: servsim_trace::Event) -> bool {
        if let EventKind::Mark { kind: MarkKind::TransactionEnd, transaction, server: user, .. } = event.kind
        {
            let kind = u32::from(transaction & 0x7F);
            self.batch.push_event(task, Event::TransactionEnd { kind, user });
        }
        true
    }
}
