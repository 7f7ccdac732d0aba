//! Where references come from: one order for all (`GlobalSource`, for the functional engine) or
//! one stream per task (`TaskSource`, for the timing engine), and which pages are private.

use crate::code::Instruction;
use crate::drive::FileRange;
use crate::event::{TaskId, TaskInfo, WakeId};
use crate::reference::{Batch, Record, PER_CPU, PRIVATE, SHARED};
use crate::steps::Steps;
use std::collections::{BTreeMap, HashSet};

/// log2 of the page size: 4 KiB, as Foglia et al. 2004 section 4.
pub const PAGE_SHIFT: u32 = 12;

/// Most address spaces of a trace whose page walks are simulated: what the reserved area of their tables
/// holds beside the kernel's.
pub const MAX_SPACES: u32 = (1 << 20) - 1;

/// How many transactions end in the stream of each task, for each user that its marks name (0 where they
/// name nobody).
pub type TransactionEnds = BTreeMap<(TaskId, u32), u64>;

/// A trace that cannot be read: one sentence with the place and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// What a reading ends with that was stopped.
const STOPPED: &str = "the reading was stopped";

impl SourceError {
    /// Of a reading that was stopped by who waits for it.
    #[must_use]
    pub fn stopped() -> Self {
        Self(STOPPED.into())
    }

    /// Whether it is of such a reading.
    pub fn is_stopped(&self) -> bool {
        self.0 == STOPPED
    }
}

/// What a source must tell that is made of no other.
const OWN: &str = "a source that is made of no other tells tasks, transaction kinds and privacy itself";

/// A trace in the order it was recorded.
pub trait GlobalSource {
    /// The source that this one changes, if it is made of another; what that one tells of the trace as a
    /// whole then holds here too, unless it is told otherwise. So a source made of another says what it
    /// changes and nothing else; one that is not tells tasks, kinds and privacy itself.
    fn inner(&self) -> Option<&dyn GlobalSource> {
        None
    }

    /// The tasks; complete before the first batch.
    fn tasks(&self) -> &[TaskInfo] {
        self.inner().expect(OWN).tasks()
    }

    /// Names of the transaction kinds, in the order of their numbers.
    fn transaction_kinds(&self) -> Vec<String> {
        self.inner().expect(OWN).transaction_kinds()
    }

    /// Which pages are private.
    fn privacy(&self) -> &Privacy {
        self.inner().expect(OWN).privacy()
    }

    /// As [`TaskSource::transaction_ends`].
    fn transaction_ends(&self) -> TransactionEnds {
        self.inner().map_or_else(TransactionEnds::new, GlobalSource::transaction_ends)
    }

    /// What was left out or assumed when the trace was read, one sentence each.
    fn notes(&self) -> Vec<String> {
        self.inner().map_or_else(Vec::new, GlobalSource::notes)
    }

    /// Whether the trace tells what lies on its pages.
    fn knows_places(&self) -> bool {
        self.inner().is_some_and(GlobalSource::knows_places)
    }

    /// Symbols of the kernel's data, as lines `ADDRESS TYPE NAME`, where the trace has them.
    fn kernel_symbols(&self) -> Option<&str> {
        self.inner()?.kernel_symbols()
    }

    /// What lies in memory that processes or threads share, where the trace has it: a first line
    /// `program NAME` or `process NUMBER`, then lines `ADDRESS SIZE NAME`, hexadecimal, ascending.
    fn shared_data(&self) -> Option<&str> {
        self.inner()?.shared_data()
    }

    /// What lies on the physical page with this number, where the trace tells.
    fn page_origin(&self, page: u64) -> Option<PageOrigin> {
        self.inner()?.page_origin(page)
    }

    /// Asks for [`Batch::pages`] from the first batch on; `false` from a trace without virtual addresses.
    fn record_pages(&mut self) -> bool {
        false
    }

    /// Asks for consecutive fetches of a task within one line of so many bytes as one record, from the first batch
    /// on: `true` from a source that does so. Then [`Record::cpu`] says how many fetches a record stands for, and no
    /// reference is bound to a processor.
    fn join_fetches(&mut self, _line: u64) -> bool {
        false
    }

    /// The address space of each task, by number below [`MAX_SPACES`]; `None` for streams that run in
    /// the space they find (kernel threads, interrupt handlers). Empty if all tasks share one.
    fn spaces(&self) -> Vec<Option<u32>> {
        self.inner().map_or_else(Vec::new, GlobalSource::spaces)
    }

    /// Whether whoever reads it has to find out which pages are private, because no first pass was made: then it is a
    /// trace in which a page is private where one task touches it, it knows its tasks as they come, and nobody may ask
    /// for its privacy.
    fn is_unsurveyed(&self) -> bool {
        self.inner().is_some_and(GlobalSource::is_unsurveyed)
    }

    /// Replaces `batch` by the next records; `false` at the end.
    ///
    /// # Errors
    /// When the trace is damaged or cannot be read further.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;

    /// Asks for what concerns the first of `count` shards alone, and for a source of each other one, for a thread of its own: from
    /// the first batch on, references that touch lines of `1 << shift` bytes of the shard, and [`SWITCH`]es to tasks that
    /// begin to run with others. All sources know the same tasks at the end, and meet the same faults. `None` from a source
    /// that one thread reads faster than many.
    ///
    /// [`SWITCH`]: crate::reference::SWITCH
    fn in_shards(&mut self, _count: usize, _shift: u32) -> Option<Vec<Box<dyn GlobalSource + Send>>> {
        None
    }
}

/// Where a page was in the captured system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOrigin {
    /// Name of the area, for people.
    pub area: &'static str,
    /// Virtual address of the page in the captured system.
    pub address: u64,
    /// Process (Linux `tgid`) that was first to reach it by this address; none for the kernel's.
    pub process: Option<u32>,
}

/// A trace as one stream per task.
pub trait TaskSource: Sync {
    /// As [`GlobalSource::inner`].
    fn inner(&self) -> Option<&dyn TaskSource> {
        None
    }

    /// The tasks.
    fn tasks(&self) -> &[TaskInfo] {
        self.inner().expect(OWN).tasks()
    }

    /// Names of the transaction kinds, in the order of their numbers.
    fn transaction_kinds(&self) -> Vec<String> {
        self.inner().expect(OWN).transaction_kinds()
    }

    /// Which pages are private.
    fn privacy(&self) -> &Privacy {
        self.inner().expect(OWN).privacy()
    }

    /// How many transactions end for whom; empty in a trace without their marks.
    fn transaction_ends(&self) -> TransactionEnds {
        self.inner().map_or_else(TransactionEnds::new, TaskSource::transaction_ends)
    }

    /// What was left out or assumed when the trace was read, one sentence each.
    fn notes(&self) -> Vec<String> {
        self.inner().map_or_else(Vec::new, TaskSource::notes)
    }

    /// The instructions that `Batch::code` points to; empty where the code is not known.
    fn code(&self) -> &[Instruction] {
        self.inner().map_or(&[], |inner| inner.code())
    }

    /// Opens the stream of `task` at its beginning.
    ///
    /// # Errors
    /// When the trace cannot be read.
    fn open(&self, task: TaskId) -> Result<Box<dyn TaskCursor + '_>, SourceError>;

    /// Opens the stream of `task` at a batch whose place its cursor told ([`TaskCursor::place`]); `None` from
    /// a source that has to be read from the beginning.
    ///
    /// # Errors
    /// When the trace cannot be read, or has no such place.
    fn open_at(
        &self,
        _task: TaskId,
        _place: BatchPosition,
    ) -> Result<Option<Box<dyn TaskCursor + '_>>, SourceError> {
        Ok(None)
    }

    /// What `task` does from the beginning to the end of its stream, the last run left open; `None` from a source
    /// that has to be read for it.
    ///
    /// # Errors
    /// When the trace cannot be read.
    fn steps(&self, _task: TaskId) -> Result<Option<Steps>, SourceError> {
        Ok(None)
    }

    /// The task whose stream causes wake-up `wake`; `None` when an interrupt does, or nobody.
    fn waker(&self, wake: WakeId) -> Option<TaskId> {
        self.inner()?.waker(wake)
    }

    /// The task whose stream submits disk request `request`.
    fn submitter(&self, request: u64) -> Option<TaskId> {
        self.inner()?.submitter(request)
    }

    /// Where files lie on the disks, by device and sector; empty where the trace does not tell.
    fn files(&self) -> &[FileRange] {
        self.inner().map_or(&[], |inner| inner.files())
    }

    /// Names of the disks, by number; empty where the trace does not tell.
    fn devices(&self) -> &[String] {
        self.inner().map_or(&[], |inner| inner.devices())
    }

    /// Asks for [`Batch::pages`] in every stream and handler; `false` from a trace without virtual
    /// addresses.
    ///
    /// # Errors
    /// When the trace cannot be read.
    fn record_pages(&mut self) -> Result<bool, SourceError> {
        Ok(false)
    }

    /// As [`GlobalSource::spaces`].
    fn spaces(&self) -> Vec<Option<u32>> {
        self.inner().map_or_else(Vec::new, TaskSource::spaces)
    }

    /// Interrupt handlers that run when disk requests complete, in captured order.
    fn interrupts(&self) -> &[Interrupt] {
        self.inner().map_or(&[], |inner| inner.interrupts())
    }
}

/// One run of an interrupt handler.
#[derive(Debug, Default)]
pub struct Interrupt {
    /// It runs when all of these requests are complete.
    pub requests: Vec<u64>,
    /// What it does.
    pub batch: Batch,
}

/// Where a batch of a task's stream begins, in numbers that mean something to its source alone.
pub type BatchPosition = [u64; 4];

/// A position in the stream of one task.
pub trait TaskCursor {
    /// Where the batch that was read last begins; `None` where it can only be reached from the beginning.
    fn place(&self) -> Option<BatchPosition> {
        None
    }

    /// Replaces `batch` by the next records of the task; `false` at the end.
    ///
    /// # Errors
    /// When the trace is damaged or cannot be read further.
    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError>;
}

/// Which pages belong to one task only.
///
/// A reference may state it ([`PRIVATE`], [`SHARED`]); without such a statement a page touched by
/// one task only in the whole trace is private.
#[derive(Debug, Default, Clone)]
pub struct Privacy {
    shared_pages: HashSet<u64, PageHash>,
    user_pages: Option<HashSet<u64, PageHash>>,
}

impl Privacy {
    /// From the set of pages that more than one task touches.
    pub fn from_shared_pages(pages: impl IntoIterator<Item = u64>) -> Self {
        Self { shared_pages: pages.into_iter().collect(), user_pages: None }
    }

    /// The same, and of all pages these are the users'; the others are the kernel's.
    #[must_use]
    pub fn with_user_pages(self, pages: impl IntoIterator<Item = u64>) -> Self {
        Self { user_pages: Some(pages.into_iter().collect()), ..self }
    }

    /// The same knowledge of pages that have other numbers: `frame` of each.
    #[must_use]
    pub fn renamed(&self, frame: impl Fn(u64) -> u64) -> Self {
        let renamed = |pages: &HashSet<u64, PageHash>| pages.iter().map(|&page| frame(page)).collect();
        Self { shared_pages: renamed(&self.shared_pages), user_pages: self.user_pages.as_ref().map(renamed) }
    }

    /// Whether the page of `record` is the kernel's; `None` where the trace does not tell.
    pub fn is_kernels(&self, record: &Record) -> Option<bool> {
        if record.flags & PER_CPU != 0 {
            return Some(true);
        }
        self.user_pages.as_ref().map(|pages| !pages.contains(&(record.address >> PAGE_SHIFT)))
    }

    /// Whether the page of `record` is private.
    #[inline]
    pub fn is_private(&self, record: &Record) -> bool {
        match record.flags & (PRIVATE | SHARED) {
            // A processor's own data belong to no process.
            0 if record.flags & PER_CPU != 0 => false,
            0 => !self.shared_pages.contains(&(record.address >> PAGE_SHIFT)),
            flags => flags & PRIVATE != 0,
        }
    }
}

/// Hashes numbers of pages, lock words, wake-ups and addresses of code: one multiplication, since they are already well spread.
#[derive(Debug, Default, Clone, Copy)]
pub struct PageHash;

/// State of [`PageHash`].
#[derive(Debug, Default)]
pub struct PageHasher(u64);

impl std::hash::BuildHasher for PageHash {
    type Hasher = PageHasher;
    fn build_hasher(&self) -> PageHasher {
        PageHasher(0)
    }
}

impl std::hash::Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9E37_79B9_7F4A_7C15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
