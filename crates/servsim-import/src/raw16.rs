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
//! Plain reads, not a mapping: mapping windows of 64 KiB to 1 MiB makes the whole command 6 to 17 % slower on one thread,
//! more on two, though copying takes a sixth of its time; and a file that shrinks while it is read ends in an error instead
//! of a signal.

mod first_pass;
mod records;

use crate::survey::Survey;
use crate::{io_error, no_reference, FirstPass};
use first_pass::{summed, Checked, Filter};
use records::{decode_each, fault_in, All, Asked, Odd, Words, RECORD};
use servsim_core::{
    Batch, BytesOfShard, GlobalSource, Privacy, Record, Shard, SourceError, TaskInfo, TaskKind,
};
use std::cell::RefCell;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at a time: a batch and its decoded form fit a host's second-level cache.
const CHUNK: usize = 4096 * RECORD;
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
#[derive(Clone)]
pub struct Raw16 {
    path: PathBuf,
    file: Arc<File>,
    /// Of the machine.
    processors: usize,
    tasks: Vec<TaskInfo>,
    processes: Processes,
    privacy: Arc<Privacy>,
    /// Of every chunk, as the first pass checked it; nothing without one.
    sums: Option<Arc<[u64]>>,
    /// The chunk that comes next.
    chunk: usize,
    /// What is asked for, if not all.
    shard: Option<BytesOfShard>,
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
        if length == 0 {
            return Err(no_reference(path.display()));
        }
        Ok(Self {
            path: path.to_owned(),
            file: Arc::new(file),
            processors,
            tasks: Vec::new(),
            processes: Processes::default(),
            privacy: Arc::default(),
            sums: None,
            chunk: 0,
            shard: None,
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
        self.sums = Some(all_sums.into());
        self.privacy = Arc::new(whole.privacy());
        self.name_tasks();
        Ok(())
    }

    fn survey_stretch(&self, chunks: Range<usize>) -> Result<Surveyed, SourceError> {
        let mut surveyed = Surveyed::default();
        let mut filter = Filter::new();
        let mut buffer = vec![0; CHUNK];
        for number in chunks {
            let filled = self.read_chunk(number, &mut buffer)?;
            let mut checked = Checked::default();
            let mut chunk = &buffer[..filled];
            while let Some(words) = checked.next_unknown(&mut chunk, self.processors, &mut filter) {
                let task = surveyed.processes.number(words.pid());
                let last = words.address.saturating_add(words.bytes_after_first());
                surveyed.survey.touch(task, words.address, last);
            }
            if checked.any_odd() {
                self.fault_in_chunk(&buffer[..filled], number).map_or(Ok(()), Err)?;
            }
            surveyed.sums.push(checked.sum);
        }
        Ok(surveyed)
    }

    /// The first fault in `chunk`, which is that with this number, if it has one.
    fn fault_in_chunk(&self, chunk: &[u8], number: usize) -> Option<SourceError> {
        let first = (number * (CHUNK / RECORD)) as u64;
        chunk.as_chunks().0.iter().zip(first..).find_map(|(bytes, number)| {
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

    /// Decodes what is `asked` for of `bytes`, the chunk with this number.
    fn decode(
        &mut self,
        bytes: &[u8],
        number: usize,
        asked: impl Asked,
        records: &mut Vec<Record>,
    ) -> Result<(), SourceError> {
        let Some(sums) = &self.sums else { return self.check_and_decode(bytes, number, asked, records) };
        let (mut sum, numbers) = (0, &self.processes.numbers);
        let task_of = |words: Words| numbers[usize::from(words.pid())];
        decode_each(bytes, records, asked, task_of, |words, _| sum = summed(sum, words));
        // The file may have been replaced since the first pass checked it.
        if sum != sums.get(number).copied().unwrap_or(0) {
            return Err(SourceError(format!("{}: changed while being read", self.path.display())));
        }
        Ok(())
    }

    /// The same where nobody has read the chunk before.
    fn check_and_decode(
        &mut self,
        bytes: &[u8],
        number: usize,
        asked: impl Asked,
        records: &mut Vec<Record>,
    ) -> Result<(), SourceError> {
        let (mut odd, mut of_nobody, mut unnumbered) = (Odd::default(), false, false);
        let (numbers, processors) = (&self.processes.numbers, self.processors);
        let task_of = |words: Words| {
            let task = numbers[usize::from(words.pid())];
            of_nobody |= words.of_nobody(processors);
            unnumbered |= task == NO_TASK;
            task
        };
        decode_each(bytes, records, asked, task_of, |words, form| odd.note(words, form));
        if of_nobody || odd.any() {
            self.fault_in_chunk(bytes, number).map_or(Ok(()), Err)?;
        }
        if unnumbered {
            let processes = &mut self.processes;
            decode_each(bytes, records, asked, |words| processes.number(words.pid()), |_, _| {});
            self.name_tasks();
        }
        Ok(())
    }
}

thread_local! {
    /// The bytes of the chunk that a thread decodes.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; CHUNK]);
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

/// Processes, numbered as they come: their numbers are those of tasks.
#[derive(Clone)]
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
        batch.events.clear();
        BUFFER.with_borrow_mut(|buffer| {
            let filled = self.read_chunk(number, buffer)?;
            match self.shard {
                None => self.decode(&buffer[..filled], number, All, &mut batch.records)?,
                Some(shard) => self.decode(&buffer[..filled], number, shard, &mut batch.records)?,
            }
            batch.beyond = (filled / RECORD).saturating_sub(batch.records.len()) as u64;
            Ok(filled != 0)
        })
    }

    /// A record is decoded in less time than another thread would take to hand it over.
    fn in_shards(&mut self, count: usize, shift: u32) -> Option<Vec<Box<dyn GlobalSource + Send>>> {
        let shard = |index| Some(Shard::new(index, count).bytes(shift));
        self.shard = shard(0);
        let others = (1..count).map(|index| {
            Box::new(Self { shard: shard(index), ..self.clone() }) as Box<dyn GlobalSource + Send>
        });
        Some(others.collect())
    }
}
