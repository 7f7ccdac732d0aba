//! raw16: 16-byte little-endian records `u64 address, u8 type (0 read, 1 write, 2 fetch; bit 7 set:
//! kernel mode), u8 size, u16 zero, u16 cpu, u16 pid`. The `cpu` field is the processor, `pid` the
//! task.
//!
//! A functional run on most machines needs no first pass ([`FirstPass::LeftOut`]): records are checked as they are
//! decoded, processes numbered as they come, and which pages are private is found out by the run itself.
//!
//! Either pass runs at the speed of a few host instructions per record, because an engine that hits
//! needs little more: a record is two 64-bit words; a chunk is checked as a whole and searched for
//! its fault only if there is one; and the first pass looks a page up only when a small filter does
//! not know that this task has touched it (0.1-2 % of the references of commercial traces).
//! Plain reads, not a mapping: copying a chunk costs half a nanosecond per record, and a file that
//! shrinks while it is read ends in an error instead of a signal.

// The loops over records are one function each.
#![allow(clippy::inline_always)]

use crate::io_error;
use crate::survey::Survey;
use crate::FirstPass;
use servsim_core::reference::{CPU_SHIFT, FLAGS_SHIFT, KERNEL, OP_SHIFT, SIZE_SHIFT};
use servsim_core::{
    Batch, GlobalSource, Op, Parts, Privacy, Record, SourceError, TaskInfo, TaskKind, PAGE_SHIFT,
};
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

/// Bytes per record.
const RECORD: usize = 16;
/// Bytes read at a time: a batch and its decoded form fit a host's second-level cache.
const CHUNK: usize = 4096 * RECORD;
/// Entries of the filter of the first pass: 32 KiB.
const FILTER: usize = 1 << 12;
const NO_TASK: u32 = u32::MAX;

/// Opens `path`; a first pass checks every record.
///
/// # Errors
/// When the file cannot be read or is truncated, or a first pass finds a malformed record.
pub fn open(
    path: &Path,
    processors: usize,
    first_pass: FirstPass,
) -> Result<Box<dyn GlobalSource>, SourceError> {
    Ok(Box::new(match first_pass {
        FirstPass::On(threads) => Raw16::open_on(path, processors, threads)?,
        FirstPass::LeftOut => Raw16::unsurveyed(path, processors)?,
    }))
}

/// A raw16 file being read.
pub struct Raw16 {
    path: PathBuf,
    file: File,
    /// Of the machine.
    processors: usize,
    tasks: Vec<TaskInfo>,
    processes: Processes,
    privacy: Privacy,
    /// Of every chunk, as the first pass checked it; nothing without one.
    sums: Option<Vec<u64>>,
    /// The chunk that comes next.
    chunk: usize,
}

impl Raw16 {
    /// See [`open`]; the first pass on this thread alone.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, processors: usize) -> Result<Self, SourceError> {
        Self::open_on(path, processors, 1)
    }

    /// See [`open`]; the first pass on so many threads.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_on(path: &Path, processors: usize, threads: usize) -> Result<Self, SourceError> {
        let mut source = Self::unsurveyed(path, processors)?;
        let length = source.file.metadata().map_err(|e| io_error(path, &e))?.len();
        let chunks = length.div_ceil(CHUNK as u64) as usize;
        source.survey(chunks, threads.clamp(1, chunks.max(1)))?;
        Ok(source)
    }

    /// See [`open`]; without a first pass.
    ///
    /// # Errors
    /// As [`open`].
    pub fn unsurveyed(path: &Path, processors: usize) -> Result<Self, SourceError> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        let length = file.metadata().map_err(|e| io_error(path, &e))?.len();
        if length % RECORD as u64 != 0 {
            return Err(SourceError(format!(
                "{}: truncated: {length} bytes is not a multiple of the 16-byte raw16 record",
                path.display()
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            processors,
            tasks: Vec::new(),
            processes: Processes::default(),
            privacy: Privacy::default(),
            sums: None,
            chunk: 0,
        })
    }

    /// The first pass, each thread over a stretch of the file.
    fn survey(&mut self, chunks: usize, threads: usize) -> Result<(), SourceError> {
        let reader: &Self = self;
        let stretch = |index: usize| index * chunks / threads..(index + 1) * chunks / threads;
        let surveyed: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|index| scope.spawn(move || reader.survey_stretch(stretch(index))))
                .collect();
            let first = reader.survey_stretch(stretch(0));
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(first).chain(joined).collect()
        });
        let (mut whole, mut all_sums) = (Survey::default(), Vec::new());
        for stretch in surveyed {
            let Surveyed { survey, processes, sums } = stretch?;
            let numbers: Vec<u32> = processes.come.iter().map(|&pid| self.processes.number(pid)).collect();
            whole.add(survey, |task| numbers[task as usize]);
            all_sums.extend(sums);
        }
        self.sums = Some(all_sums);
        self.privacy = whole.privacy();
        self.name_tasks();
        Ok(())
    }

    fn survey_stretch(&self, chunks: Range<usize>) -> Result<Surveyed, SourceError> {
        let mut surveyed = Surveyed::default();
        let mut filter = Filter::new();
        let mut buffer = vec![0; CHUNK];
        for number in chunks {
            let filled = self.read_chunk(number, &mut buffer)?;
            let mut checked = Checked { limit: self.limit(), faults: 0, sum: 0 };
            let mut chunk = &buffer[..filled];
            while let Some((address, rest)) = checked.next_unknown(&mut chunk, &mut filter) {
                let task = surveyed.processes.number(pid_of(rest));
                surveyed.survey.touch(task, address, address.saturating_add(bytes_after_first(rest)));
            }
            if checked.faults != 0 {
                let fault = self.fault_in_chunk(&buffer[..filled], number);
                return Err(fault.expect("a chunk found faulty has a fault"));
            }
            surveyed.sums.push(checked.sum);
        }
        Ok(surveyed)
    }

    /// The number of processors in the place of the field.
    fn limit(&self) -> u64 {
        (self.processors as u64) << 32
    }

    /// The first fault in `chunk`, which is that with this number, if it has one.
    fn fault_in_chunk(&self, chunk: &[u8], number: usize) -> Option<SourceError> {
        let first = (number * (CHUNK / RECORD)) as u64;
        chunk.chunks_exact(RECORD).zip(first..).find_map(|(bytes, number)| {
            let fault = fault_in(bytes, self.processors)?;
            let byte = number * RECORD as u64;
            Some(SourceError(format!("{}: record {number} (byte {byte}): {fault}", self.path.display())))
        })
    }

    /// Fills the buffer from chunk `chunk` on as far as the file goes, in whole records.
    fn read_chunk(&self, chunk: usize, buffer: &mut [u8]) -> Result<usize, SourceError> {
        let start = chunk as u64 * CHUNK as u64;
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], start + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_error(&self.path, &e)),
            }
        }
        Ok(filled - filled % RECORD)
    }

    /// Tells the tasks of the processes that have come.
    fn name_tasks(&mut self) {
        let named = self.tasks.len();
        self.tasks.extend(self.processes.come[named..].iter().map(|&pid| task_info(pid)));
    }

    /// Decodes `bytes`, which a first pass has checked; returns their sum.
    fn decode(&self, bytes: &[u8], records: &mut Vec<Record>) -> u64 {
        let (mut sum, numbers) = (0, &self.processes.numbers);
        for_each_record(bytes, records, |bytes| {
            let (address, rest) = words_of(bytes);
            sum = summed(sum, address, rest);
            let fields = Fields::of(bytes);
            fields.record(fields.upper(), numbers[usize::from(fields.pid)])
        });
        sum
    }

    /// Checks and decodes `bytes`, the chunk with this number, which nobody has read before.
    fn check_and_decode(
        &mut self,
        bytes: &[u8],
        number: usize,
        records: &mut Vec<Record>,
    ) -> Result<(), SourceError> {
        let mut odd = Odd::default();
        let numbers = &self.processes.numbers;
        for_each_record(bytes, records, |bytes| {
            let fields = Fields::of(bytes);
            let (upper, task) = (fields.upper(), numbers[usize::from(fields.pid)]);
            odd.note(fields, upper, task);
            fields.record(upper, task)
        });
        if odd.any(self.processors) {
            if let Some(fault) = self.fault_in_chunk(bytes, number) {
                return Err(fault);
            }
            let processes = &mut self.processes;
            for_each_record(bytes, records, |bytes| {
                let fields = Fields::of(bytes);
                fields.record(fields.upper(), processes.number(fields.pid))
            });
            self.name_tasks();
        }
        Ok(())
    }
}

/// Has `decode` make every one of `records` of the bytes of one.
#[inline(always)]
fn for_each_record(bytes: &[u8], records: &mut Vec<Record>, mut decode: impl FnMut(&[u8; RECORD]) -> Record) {
    let (bytes, _) = bytes.as_chunks();
    records.resize(bytes.len(), Record::new(0, Op::Load, 0, 1));
    records.iter_mut().zip(bytes).for_each(|(record, bytes)| *record = decode(bytes));
}

/// In [`KINDS`]: no type has this number.
const NO_KIND: u32 = 0x80 << FLAGS_AT;
/// Where the operation and the flags lie in the upper half of [`Record::rest`].
const OP_AT: u32 = OP_SHIFT - SIZE_SHIFT;
const FLAGS_AT: u32 = FLAGS_SHIFT - SIZE_SHIFT;

/// By type: operation and flags in their places in the upper half of [`Record::rest`].
static KINDS: [u32; 256] = {
    let mut kinds = [NO_KIND; 256];
    let mut kernel = 0;
    while kernel < 2 {
        let flags = (kernel as u32 * KERNEL as u32) << FLAGS_AT;
        kinds[kernel << 7] = flags | (Op::Load as u32) << OP_AT;
        kinds[kernel << 7 | 1] = flags | (Op::Store as u32) << OP_AT;
        kinds[kernel << 7 | 2] = flags | (Op::Fetch as u32) << OP_AT;
        kernel += 1;
    }
    kinds
};

/// A record's fields, from the first byte on.
#[derive(Clone, Copy)]
struct Fields {
    address: u64,
    kind: u8,
    size: u8,
    reserved: u16,
    cpu: u16,
    pid: u16,
}

impl Fields {
    #[inline(always)]
    fn of(r: &[u8; RECORD]) -> Self {
        let who = u32::from_le_bytes([r[12], r[13], r[14], r[15]]);
        Self {
            address: u64::from_le_bytes([r[0], r[1], r[2], r[3], r[4], r[5], r[6], r[7]]),
            kind: r[8],
            size: r[9],
            reserved: u16::from_le_bytes([r[10], r[11]]),
            cpu: who as u16,
            pid: (who >> 16) as u16,
        }
    }

    /// The upper half of [`Record::rest`]; with [`NO_KIND`], if there is no such type.
    #[inline(always)]
    fn upper(self) -> u32 {
        KINDS[usize::from(self.kind)] | u32::from(self.size) | u32::from(self.cpu) << (CPU_SHIFT - SIZE_SHIFT)
    }

    /// The record, whose process is task `task`.
    #[inline(always)]
    fn record(self, upper: u32, task: u32) -> Record {
        Record::of_words(self.address, u64::from(upper) << SIZE_SHIFT | u64::from(task))
    }
}

thread_local! {
    /// The bytes of the chunk that a thread decodes.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
}

/// A record as its address and the rest: type, size, reserved, processor and process from the
/// lowest byte up.
#[inline]
fn words_of(bytes: &[u8]) -> (u64, u64) {
    let both = bytes.first_chunk::<RECORD>().map_or(0, |record| u128::from_le_bytes(*record));
    (both as u64, (both >> 64) as u64)
}

#[inline]
fn pid_of(rest: u64) -> u16 {
    (rest >> 48) as u16
}

/// Size less one; a size of 0 counts as 256 here and is a fault elsewhere.
#[inline]
fn bytes_after_first(rest: u64) -> u64 {
    (rest >> 8).wrapping_sub(1) & 0xFF
}

/// A sum that depends on the order within a record, to notice a file that was replaced.
#[inline]
fn summed(sum: u64, address: u64, rest: u64) -> u64 {
    sum.wrapping_add(address).wrapping_add(rest.rotate_left(23))
}

/// What the first pass learns of a stretch of the file.
#[derive(Default)]
struct Surveyed {
    /// By the numbers of `processes`.
    survey: Survey,
    processes: Processes,
    /// Of every chunk.
    sums: Vec<u64>,
}

/// What the first pass learns of a chunk beside its pages.
struct Checked {
    /// The number of processors in the place of the field.
    limit: u64,
    /// Not 0 once a record had a fault.
    faults: u64,
    /// As [`summed`].
    sum: u64,
}

impl Checked {
    /// Checks records of `chunk` up to the first that `filter` does not know, which it returns; the rest is left. One loop of
    /// its own, so that the compiler keeps all of it in registers.
    #[inline(never)]
    fn next_unknown(&mut self, chunk: &mut &[u8], filter: &mut Filter) -> Option<(u64, u64)> {
        let Self { limit, mut faults, mut sum } = *self;
        let mut records = chunk.chunks_exact(RECORD);
        let mut unknown = None;
        for bytes in records.by_ref() {
            let (address, rest) = words_of(bytes);
            faults |= faults_of(address, rest, limit);
            sum = summed(sum, address, rest);
            if !filter.knows(address, rest) {
                unknown = Some((address, rest));
                break;
            }
        }
        let left = records.len() * RECORD;
        *chunk = &chunk[chunk.len() - left..];
        (self.faults, self.sum) = (faults, sum);
        unknown
    }
}

/// Not 0 if the record has a fault; `limit` is the number of processors in the place of the field. Arithmetic alone,
/// since nearly no record has one: what is taken from less sets the highest bit.
#[inline]
fn faults_of(address: u64, rest: u64, limit: u64) -> u64 {
    let kind = (rest & 0x7C) | (rest & (rest >> 1) & 1);
    let size = (rest >> 8 & 0xFF).wrapping_sub(1) >> 63;
    let reserved = rest & 0xFFFF_0000;
    let processor = limit.wrapping_sub(1).wrapping_sub(rest & 0xFFFF_0000_0000) >> 63;
    let end = (address & !address.wrapping_add(bytes_after_first(rest))) >> 63;
    kind | size | reserved | processor | end
}

/// What a chunk has that is to be looked at: faults, and processes without a number. Kept with as few instructions a
/// record as can be; so an access near the end of the address space is noted too, though it may be none.
#[derive(Default)]
struct Odd {
    /// Every bit that some record has: in the upper half of its rest, in its reserved field, in the number of its task.
    bits: (u32, u16, u32),
    /// The highest bit is set where a size is 0.
    sizes: u32,
    highest_cpu: u16,
    highest_address: u64,
}

impl Odd {
    #[inline(always)]
    fn note(&mut self, fields: Fields, upper: u32, task: u32) {
        self.bits.0 |= upper;
        self.bits.1 |= fields.reserved;
        self.bits.2 |= task;
        self.sizes |= u32::from(fields.size).wrapping_sub(1);
        self.highest_cpu = self.highest_cpu.max(fields.cpu);
        self.highest_address = self.highest_address.max(fields.address);
    }

    fn any(&self, processors: usize) -> bool {
        let (upper, reserved, tasks) = self.bits;
        let unknown = tasks > u32::from(u16::MAX);
        let near_end = self.highest_address > u64::MAX - u64::from(u8::MAX);
        let processor = usize::from(self.highest_cpu) >= processors;
        upper & NO_KIND != 0 || reserved != 0 || self.sizes >> 31 != 0 || unknown || near_end || processor
    }
}

/// Processes, numbered as they come: their numbers are those of tasks.
struct Processes {
    /// By process, [`NO_TASK`] of those that have not come.
    numbers: Box<[u32; 1 << 16]>,
    /// In the order in which they came.
    come: Vec<u16>,
}

impl Default for Processes {
    fn default() -> Self {
        let numbers = vec![NO_TASK; 1 << 16].into_boxed_slice();
        Self { numbers: numbers.try_into().expect("a number for each process"), come: Vec::new() }
    }
}

impl Processes {
    /// The number of a process, the next one if it has none.
    fn number(&mut self, pid: u16) -> u32 {
        let number = &mut self.numbers[usize::from(pid)];
        if *number == NO_TASK {
            *number = self.come.len() as u32;
            self.come.push(pid);
        }
        *number
    }
}

fn task_info(pid: u16) -> TaskInfo {
    TaskInfo { name: format!("pid {pid}"), pid: u32::from(pid), kind: TaskKind::User, client: false }
}

/// Pairs of page and process that were seen lately: direct-mapped, one word each. A word holds the
/// page and the low 12 bits of the process; the other 4 follow from its place.
struct Filter(Box<[u64; FILTER]>);

impl Filter {
    fn new() -> Self {
        // A word belongs to 16 places with the same low 8 bits; these words are not in theirs.
        let unused = |index: usize| if index as u8 == 0 { 1 << PAGE_SHIFT } else { 0 };
        let words: Vec<u64> = (0..FILTER).map(unused).collect();
        debug_assert!(Self::spread(0) == 0 && Self::spread(1 << PAGE_SHIFT) & 0xFF != 0);
        Self(words.into_boxed_slice().try_into().expect("the size of the filter"))
    }

    /// 12 bits that depend on all of the word: regions begin at round addresses.
    #[inline]
    fn spread(word: u64) -> usize {
        (word.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52) as usize
    }

    /// Whether the record's page is known to be touched by its process; it is from now on. Never
    /// for accesses that leave the page.
    #[inline]
    fn knows(&mut self, address: u64, rest: u64) -> bool {
        const OFFSET: u64 = (1 << PAGE_SHIFT) - 1;
        let word = (address & !OFFSET) | (rest >> 48 & OFFSET);
        let index = Self::spread(word) ^ (rest >> 60 << 8) as usize;
        let known = self.0[index] == word && (address & OFFSET) + bytes_after_first(rest) <= OFFSET;
        self.0[index] = word;
        known
    }
}

#[inline]
fn fault_in(bytes: &[u8], processors: usize) -> Option<String> {
    let (address, rest) = words_of(bytes);
    let cpu = u16::from_le_bytes([bytes[12], bytes[13]]);
    if bytes[8] & 0x7F > 2 {
        return Some(format!(
            "unknown type {:#x}; accepted are 0 read, 1 write, 2 fetch, each with bit 7 in kernel mode",
            bytes[8]
        ));
    }
    if bytes[9] == 0 {
        return Some("size 0; a reference touches at least one byte".into());
    }
    if address.checked_add(bytes_after_first(rest)).is_none() {
        return Some("the access runs past the end of the address space".into());
    }
    if (bytes[10], bytes[11]) != (0, 0) {
        return Some("the reserved field is not zero; is this a raw16 file?".into());
    }
    if usize::from(cpu) >= processors {
        return Some(format!(
            "processor {cpu}, but the machine has {processors}; set processors={} or more",
            u32::from(cpu) + 1
        ));
    }
    None
}

impl GlobalSource for Raw16 {
    fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    fn transaction_kinds(&self) -> Vec<String> {
        Vec::new()
    }

    fn privacy(&self) -> &Privacy {
        assert!(!self.is_unsurveyed(), "nobody knows the pages of a trace without a first pass");
        &self.privacy
    }

    fn is_unsurveyed(&self) -> bool {
        self.sums.is_none()
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let number = self.chunk;
        self.chunk += 1;
        if self.sums.is_some() {
            return self.part(number, batch);
        }
        batch.events.clear();
        BUFFER.with_borrow_mut(|buffer| {
            let filled = self.read_chunk(number, buffer)?;
            self.check_and_decode(&buffer[..filled], number, &mut batch.records)?;
            Ok(filled != 0)
        })
    }

    fn parts(&self) -> Option<&dyn Parts> {
        self.sums.as_ref().map(|_| self as &dyn Parts)
    }
}

impl Parts for Raw16 {
    fn part(&self, number: usize, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.events.clear();
        BUFFER.with_borrow_mut(|buffer| {
            let filled = self.read_chunk(number, buffer)?;
            let sum = self.decode(&buffer[..filled], &mut batch.records);
            // The file may have been replaced since the first pass checked it.
            let expected = self.sums.as_ref().and_then(|sums| sums.get(number)).copied().unwrap_or(0);
            if sum != expected {
                return Err(SourceError(format!("{}: changed while being read", self.path.display())));
            }
            Ok(filled != 0)
        })
    }
}
