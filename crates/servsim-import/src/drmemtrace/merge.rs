//! The files of a drmemtrace trace as one: always the file whose references have the earliest
//! timestamp, of equal ones the first by name. Tasks are numbered in the order of their first
//! reference.

use super::file::{Stop, ThreadFile};
use crate::foreign::Pass;
use servsim_core::{Batch, Record, SourceError, TaskId, TaskInfo, TaskKind};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// References read at a time.
const BATCH: usize = 8192;
/// User addresses of 64-bit programs leave bits 48 and up zero.
const USER_BITS: u32 = 48;
/// Ranks of processes that fit above the address and below the sign.
const MOST_PROCESSES: usize = 1 << 15;

/// Process and thread number.
type Thread = (u64, u64);

/// A trace: its files, and what the first whole pass learnt.
pub struct Trace {
    files: Vec<PathBuf>,
    known: OnceLock<Known>,
}

impl Trace {
    /// Of `files`.
    pub fn new(files: Vec<PathBuf>) -> Self {
        Self { files, known: OnceLock::new() }
    }
}

/// Who is in the trace.
#[derive(Debug, Default, Clone)]
struct Known {
    threads: Vec<Thread>,
    processes: Vec<u64>,
    /// Per task, the files that hold references of it.
    files_of: Vec<Vec<usize>>,
    task_of: HashMap<Thread, TaskId>,
}

/// A pass over a trace.
pub struct Merge {
    trace: Arc<Trace>,
    files: Vec<Option<ThreadFile>>,
    /// Files still to be read, by the timestamp of their next reference.
    waiting: BinaryHeap<Reverse<(u64, usize)>>,
    /// The file being read.
    current: Option<usize>,
    known: Known,
    notes: Vec<String>,
    summary: super::file::Summary,
    no_footer: Vec<usize>,
    finished: bool,
}

impl Merge {
    /// Begins a pass over all files, or over those that hold references of one task.
    pub fn begin(trace: &Arc<Trace>, only: Option<TaskId>) -> Result<Self, SourceError> {
        let known = trace.known.get().cloned().unwrap_or_default();
        let needed = |index: &usize| only.is_none_or(|task| known.files_of[task as usize].contains(index));
        let mut files: Vec<Option<ThreadFile>> = trace.files.iter().map(|_| None).collect();
        let mut waiting = BinaryHeap::new();
        for index in (0..files.len()).filter(needed) {
            files[index] = Some(ThreadFile::open(&trace.files[index])?);
            waiting.push(Reverse((0, index)));
        }
        Ok(Self {
            trace: trace.clone(),
            files,
            waiting,
            current: None,
            known,
            notes: Vec::new(),
            summary: super::file::Summary::default(),
            no_footer: Vec::new(),
            finished: false,
        })
    }

    /// Gives the references from `begin` on their task and their process's address space.
    fn claim(&mut self, out: &mut [Record], index: usize, thread: Thread) -> Result<(), SourceError> {
        if out.is_empty() {
            return Ok(());
        }
        let task = self.task(thread);
        let files = &mut self.known.files_of[task as usize];
        if !files.contains(&index) {
            files.push(index);
        }
        let rank = self.process(thread.0);
        if rank >= MOST_PROCESSES {
            return Err(SourceError(format!(
                "more than {MOST_PROCESSES} processes; split the trace by process"
            )));
        }
        let space = (rank as u64) << USER_BITS;
        for record in out {
            record.task = task;
            let last = record.address + (u64::from(record.size) - 1);
            if last >> USER_BITS == 0 {
                record.address |= space;
            }
        }
        Ok(())
    }

    fn task(&mut self, thread: Thread) -> TaskId {
        let known = &mut self.known;
        *known.task_of.entry(thread).or_insert_with(|| {
            known.threads.push(thread);
            known.files_of.push(Vec::new());
            known.threads.len() as TaskId - 1
        })
    }

    fn process(&mut self, pid: u64) -> usize {
        let processes = &mut self.known.processes;
        processes.iter().position(|&p| p == pid).unwrap_or_else(|| {
            processes.push(pid);
            processes.len() - 1
        })
    }

    /// Takes leave of a file at its end.
    fn close(&mut self, index: usize) {
        let Some(file) = self.files[index].take() else { return };
        self.summary.prefetches += file.summary.prefetches;
        self.summary.flushes += file.summary.flushes;
        self.summary.empty += file.summary.empty;
        self.summary.unknown_markers += file.summary.unknown_markers;
        self.summary.filtered |= file.summary.filtered;
        self.summary.no_data |= file.summary.no_data;
        if file.summary.no_footer {
            self.no_footer.push(index);
        }
        self.current = None;
    }

    /// Says what was left out; at the end of the first whole pass, keeps what it learnt.
    fn finish(&mut self) {
        if std::mem::replace(&mut self.finished, true) {
            return;
        }
        let summary = self.summary;
        let mut note = |really: bool, text: String| self.notes.extend(really.then_some(text));
        let left_out = |n: u64, what: &str| format!("{n} {what} of the trace were left out");
        note(summary.prefetches > 0, left_out(summary.prefetches, "prefetches"));
        note(summary.flushes > 0, left_out(summary.flushes, "cache flushes"));
        note(summary.empty > 0, left_out(summary.empty, "loads and stores of no bytes"));
        let unknown = left_out(summary.unknown_markers, "markers of types unknown here");
        note(summary.unknown_markers > 0, format!("{unknown}; markers are no references"));
        note(
            summary.filtered,
            "references were filtered while tracing: counts are of what the filter left".into(),
        );
        note(summary.no_data, "the trace holds instructions only".into());
        let processes = self.known.processes.len();
        note(
            processes > 1,
            format!(
                "equal addresses of the {processes} processes are taken as different memory: the trace \
                 does not tell what they share"
            ),
        );
        for &index in &self.no_footer {
            let name = self.trace.files[index].display();
            self.notes.push(format!("{name}: cut short (no footer); what is there was used"));
        }
        // The first whole pass; the later ones only repeat it.
        let _ = self.trace.known.set(self.known.clone());
    }
}

impl Pass for Merge {
    fn read(&mut self, batch: &mut Batch) -> Result<bool, SourceError> {
        let out = &mut batch.records;
        let begin = out.len();
        while out.len() < begin + BATCH {
            let next = || self.waiting.pop().map(|Reverse((_, index))| index);
            let Some(index) = self.current.or_else(next) else {
                self.finish();
                return Ok(out.len() > begin);
            };
            self.current = Some(index);
            let first = out.len();
            let Some(file) = self.files[index].as_mut() else {
                self.current = None;
                continue;
            };
            let thread = file.thread;
            let stop = file.read(out, begin + BATCH - first)?;
            let time = file.time;
            self.claim(&mut out[first..], index, (thread.0.unwrap_or(0), thread.1.unwrap_or(0)))?;
            match stop {
                Stop::Time => {
                    self.waiting.push(Reverse((time, index)));
                    self.current = None;
                }
                Stop::End => self.close(index),
                Stop::Thread | Stop::Enough => {}
            }
        }
        Ok(true)
    }

    fn tasks(&self) -> Vec<TaskInfo> {
        let info = |&(pid, tid): &Thread| TaskInfo {
            name: format!("process {pid}, thread {tid}"),
            pid: tid as u32,
            kind: TaskKind::User,
            client: false,
        };
        self.known.threads.iter().map(info).collect()
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
