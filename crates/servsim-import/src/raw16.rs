//! raw16: 16-byte little-endian records `u64 address, u8 type (0 read, 1 write, 2 fetch; bit 7 set:
//! kernel mode), u8 size, u16 zero, u16 cpu, u16 pid`. The `cpu` field is the processor, `pid` the
//! task.

use crate::io_error;
use crate::survey::Survey;
use servsim_core::reference::KERNEL;
use servsim_core::{Batch, GlobalSource, Op, Privacy, Record, SourceError, TaskInfo, TaskKind};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes per record.
const RECORD: usize = 16;
/// Bytes read at a time: a batch and its decoded form fit a host's second-level cache.
const CHUNK: usize = 8192 * RECORD;
const NO_TASK: u32 = u32::MAX;

/// Opens `path` after a first pass that checks every record.
///
/// # Errors
/// When the file cannot be read, is truncated or holds a malformed record.
pub fn open(path: &Path, processors: usize) -> Result<Box<dyn GlobalSource>, SourceError> {
    Ok(Box::new(Raw16::open(path, processors)?))
}

/// A raw16 file being read.
pub struct Raw16 {
    path: PathBuf,
    file: File,
    buffer: Vec<u8>,
    tasks: Vec<TaskInfo>,
    task_of_pid: Vec<u32>,
    privacy: Privacy,
}

impl Raw16 {
    /// See [`open`].
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(path: &Path, processors: usize) -> Result<Self, SourceError> {
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
            buffer: vec![0; CHUNK],
            tasks: Vec::new(),
            task_of_pid: vec![NO_TASK; 1 << 16],
            privacy: Privacy::default(),
        };
        source.survey(processors)?;
        source.file = File::open(path).map_err(|e| io_error(path, &e))?;
        Ok(source)
    }

    fn survey(&mut self, processors: usize) -> Result<(), SourceError> {
        let mut survey = Survey::default();
        let mut number = 0_u64;
        loop {
            let filled = self.read_chunk()?;
            if filled == 0 {
                break;
            }
            for index in 0..filled / RECORD {
                let bytes = &self.buffer[index * RECORD..(index + 1) * RECORD];
                if let Some(fault) = fault_in(bytes, processors) {
                    return Err(SourceError(format!(
                        "{}: record {number} (byte {}): {fault}",
                        self.path.display(),
                        number * RECORD as u64
                    )));
                }
                let pid = pid_of(bytes);
                let mut task = self.task_of_pid[usize::from(pid)];
                if task == NO_TASK {
                    task = self.tasks.len() as u32;
                    self.task_of_pid[usize::from(pid)] = task;
                    self.tasks.push(TaskInfo {
                        name: format!("pid {pid}"),
                        pid: u32::from(pid),
                        kind: TaskKind::User,
                        client: false,
                    });
                }
                let address = address_of(bytes);
                survey.touch(task, address, address + (u64::from(bytes[9]) - 1));
                number += 1;
            }
        }
        self.privacy = survey.privacy();
        Ok(())
    }

    /// Fills the buffer as far as the file goes, in whole records.
    fn read_chunk(&mut self) -> Result<usize, SourceError> {
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.file.read(&mut self.buffer[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(io_error(&self.path, &e)),
            }
        }
        Ok(filled - filled % RECORD)
    }
}

fn address_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

fn pid_of(bytes: &[u8]) -> u16 {
    u16::from_le_bytes([bytes[14], bytes[15]])
}

#[inline]
fn fault_in(bytes: &[u8], processors: usize) -> Option<String> {
    let cpu = u16::from_le_bytes([bytes[12], bytes[13]]);
    if bytes[8] & 0x7F > 2 {
        return Some(format!("type {:#x} is none of 0 read, 1 write, 2 fetch (bit 7: kernel)", bytes[8]));
    }
    if bytes[9] == 0 {
        return Some("size 0; a reference touches at least one byte".into());
    }
    if address_of(bytes).checked_add(u64::from(bytes[9]) - 1).is_none() {
        return Some("the access runs past the end of the address space".into());
    }
    if (bytes[10], bytes[11]) != (0, 0) {
        return Some("the reserved field is not zero; is this a raw16 file?".into());
    }
    if usize::from(cpu) >= processors {
        return Some(format!(
            "processor {cpu}, but the machine has {processors}; set processors={} or more",
            cpu + 1
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
        batch.clear();
        let filled = self.read_chunk()?;
        let (task_of_pid, buffer) = (&self.task_of_pid, &self.buffer[..filled]);
        batch.records.extend(buffer.chunks_exact(RECORD).map(|bytes| Record {
            address: address_of(bytes),
            task: task_of_pid[usize::from(pid_of(bytes))],
            size: bytes[9],
            op: [Op::Load, Op::Store, Op::Fetch, Op::Fetch][usize::from(bytes[8] & 3)],
            flags: if bytes[8] & 0x80 != 0 { KERNEL } else { 0 },
            cpu: bytes[12],
        }));
        // The file may have been replaced since the first pass checked it.
        if batch.records.iter().any(|r| r.task == NO_TASK || r.size == 0) {
            return Err(SourceError(format!("{}: changed while being read", self.path.display())));
        }
        Ok(filled != 0)
    }
}
