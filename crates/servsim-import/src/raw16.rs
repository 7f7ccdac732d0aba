//! raw16: 16-byte little-endian records `u64 address, u8 type (0 read, 1 write, 2 fetch; bit 7 set:
//! kernel mode), u8 size, u16 zero, u16 cpu, u16 pid`. The `cpu` field is the processor, `pid` the
//! task.
//!
//! Both passes run at the speed of a few host instructions per record, because an engine that hits
//! needs little more: a record is two 64-bit words; a chunk is checked as a whole and searched for
//! its fault only if there is one; and the first pass looks a page up only when a small filter does
//! not know that this task has touched it (0.1-2 % of the references of commercial traces).
//! Plain reads, not a mapping: copying a chunk costs half a nanosecond per record, and a file that
//! shrinks while it is read ends in an error instead of a signal.

use crate::io_error;
use crate::survey::Survey;
use servsim_core::reference::KERNEL;
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

/// Opens `path` after a first pass that checks every record, on so many threads.
///
/// # Errors
/// When the file cannot be read, is truncated or holds a malformed record.
pub fn open(path: &Path, processors: usize, threads: usize) -> Result<Box<dyn GlobalSource>, SourceError> {
    Ok(Box::new(Raw16::open_on(path, processors, threads)?))
}

/// A raw16 file being read.
pub struct Raw16 {
    path: PathBuf,
    file: File,
    tasks: Vec<TaskInfo>,
    processes: Processes,
    privacy: Privacy,
    /// Of every chunk, as the first pass checked it.
    sums: Vec<u64>,
    /// The chunk that comes next.
    chunk: usize,
}

impl Raw16 {
    /// See [`open`]; on this thread alone.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, processors: usize) -> Result<Self, SourceError> {
        Self::open_on(path, processors, 1)
    }

    /// See [`open`].
    ///
    /// # Errors
    /// As [`open`].
    pub fn open_on(path: &Path, processors: usize, threads: usize) -> Result<Self, SourceError> {
        let file = File::open(path).map_err(|e| io_error(path, &e))?;
        let length = file.metadata().map_err(|e| io_error(path, &e))?.len();
        if length % RECORD as u64 != 0 {
            return Err(SourceError(format!(
                "{}: truncated: {length} bytes is not a multiple of the 16-byte raw16 record",
                path.display()
            )));
        }
        let mut source = Self {
            path: path.to_owned(),
            file,
            tasks: Vec::new(),
            processes: Processes::default(),
            privacy: Privacy::default(),
            sums: Vec::new(),
            chunk: 0,
        };
        let chunks = length.div_ceil(CHUNK as u64) as usize;
        source.survey(processors, chunks, threads.clamp(1, chunks.max(1)))?;
        Ok(source)
    }

    /// The first pass, each thread over a stretch of the file.
    fn survey(&mut self, processors: usize, chunks: usize, threads: usize) -> Result<(), SourceError> {
        let reader: &Self = self;
        let stretch = |index: usize| index * chunks / threads..(index + 1) * chunks / threads;
        let surveyed: Vec<_> = std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|index| scope.spawn(move || reader.survey_stretch(processors, stretch(index))))
                .collect();
            let first = reader.survey_stretch(processors, stretch(0));
            let joined =
                others.into_iter().map(|other| other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            std::iter::once(first).chain(joined).collect()
        });
        let mut whole = Survey::default();
        for stretch in surveyed {
            let Surveyed { survey, processes, sums } = stretch?;
            let numbers: Vec<u32> = processes.come.iter().map(|&pid| self.processes.number(pid)).collect();
            whole.add(survey, |task| numbers[task as usize]);
            self.sums.extend(sums);
        }
        self.privacy = whole.privacy();
        self.tasks = self.processes.come.iter().map(|&pid| task_info(pid)).collect();
        Ok(())
    }

    fn survey_stretch(&self, processors: usize, chunks: Range<usize>) -> Result<Surveyed, SourceError> {
        let mut surveyed = Surveyed::default();
        let mut filter = Filter::new();
        let mut buffer = vec![0; CHUNK];
        for number in chunks {
            let filled = self.read_chunk(number, &mut buffer)?;
            let mut checked = Checked { limit: (processors as u64) << 32, faults: 0, sum: 0 };
            let mut chunk = &buffer[..filled];
            while let Some((address, rest)) = checked.next_unknown(&mut chunk, &mut filter) {
                let task = surveyed.processes.number(pid_of(rest));
                surveyed.survey.touch(task, address, address.saturating_add(bytes_after_first(rest)));
            }
            if checked.faults != 0 {
                let first = number as u64 * (CHUNK / RECORD) as u64;
                return Err(self.fault_in_chunk(&buffer[..filled], first, processors));
            }
            surveyed.sums.push(checked.sum);
        }
        Ok(surveyed)
    }

    /// The first fault of the chunk, which begins with record `number`.
    fn fault_in_chunk(&self, chunk: &[u8], number: u64, processors: usize) -> SourceError {
        let faults = chunk.chunks_exact(RECORD).zip(number..).find_map(|(bytes, number)| {
            let fault = fault_in(bytes, processors)?;
            let byte = number * RECORD as u64;
            Some(SourceError(format!("{}: record {number} (byte {byte}): {fault}", self.path.display())))
        });
        faults.expect("a chunk found faulty has a fault")
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

    /// Decodes `bytes`, whose sum it returns.
    fn decode(&self, bytes: &[u8], records: &mut Vec<Record>) -> u64 {
        let mut sum = 0;
        records.resize(bytes.len() / RECORD, Record::new(0, Op::Load, 0, 1));
        let mut chunks = bytes.chunks_exact(RECORD);
        for record in records {
            let Some(bytes) = chunks.next() else { break };
            let (address, rest) = words_of(bytes);
            sum = summed(sum, address, rest);
            record.address = address;
            record.task = self.processes.numbers[usize::from(pid_of(rest))];
            record.size = (rest >> 8) as u8;
            record.op = [Op::Load, Op::Store, Op::Fetch, Op::Fetch][rest as usize & 3];
            record.flags = (rest >> 7) as u8 & KERNEL;
            record.cpu = (rest >> 32) as u8;
        }
        sum
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

/// Processes, numbered as they come: their numbers are those of tasks.
struct Processes {
    /// By process, [`NO_TASK`] of those that have not come.
    numbers: Vec<u32>,
    /// In the order in which they came.
    come: Vec<u16>,
}

impl Default for Processes {
    fn default() -> Self {
        Self { numbers: vec![NO_TASK; 1 << 16], come: Vec::new() }
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
        &self.privacy
    }

    fn next_batch(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let any = self.part(self.chunk, batch)?;
        self.chunk += 1;
        Ok(any)
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }
}

impl Parts for Raw16 {
    fn part(&self, number: usize, batch: &mut Batch) -> Result<bool, SourceError> {
        batch.events.clear();
        BUFFER.with_borrow_mut(|buffer| {
            let filled = self.read_chunk(number, buffer)?;
            let sum = self.decode(&buffer[..filled], &mut batch.records);
            // The file may have been replaced since the first pass checked it.
            let expected = self.sums.get(number).copied().unwrap_or(0);
            if sum != expected {
                return Err(SourceError(format!("{}: changed while being read", self.path.display())));
            }
            Ok(filled != 0)
        })
    }
}
