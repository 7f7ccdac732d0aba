//! Opens a trace: checks the frame of every chunk, loads the tables, hands out epochs.

use crate::budget::{Budget, Claim};
use crate::chunk::{
    read_chunk_header, read_file_header, read_payload, ChunkKind, ChunkLocation, Found, FILE_HEADER,
};
use crate::dictionary::Dictionary;
use crate::epoch::Epoch;
use crate::error::{Fault, TraceError};
use crate::model::{Counts, Meta, TaskId, TaskInfo};
use crate::validate;
use crate::writer::{io_error, Footer, WriterTotals};
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Directory entry of an epoch, without its streams.
#[derive(Debug, Clone)]
pub struct EpochSummary {
    /// Guest time at which the epoch begins, in nanoseconds since the trace began.
    pub start_ns: u64,
    /// Items and counts of every task that ran.
    pub tasks: Vec<(TaskId, u64, Counts)>,
}

/// Epochs kept in memory: cursors of different tasks move through them at about the same pace.
const CACHED_EPOCHS: usize = 4;

struct State {
    file: File,
    cached: Vec<(usize, Arc<Epoch>)>,
}

/// A trace opened for reading. Cheap to share between threads behind an [`Arc`].
pub struct TraceReader {
    path: PathBuf,
    meta: Meta,
    dictionary: Dictionary,
    budget: Arc<Budget>,
    /// Memory of the dictionary.
    tables: Claim,
    tasks: Vec<TaskInfo>,
    epochs: Vec<ChunkLocation>,
    totals: Option<WriterTotals>,
    /// Where the footer begins.
    footer: u64,
    truncated: Option<String>,
    file_bytes: u64,
    state: Mutex<State>,
}

impl TraceReader {
    /// Opens the trace at `path` and reads its tables.
    ///
    /// A trace that ends early is opened up to its last good chunk; [`TraceReader::truncated`]
    /// then says so.
    ///
    /// # Errors
    /// When the file cannot be read, is not a trace, has another version, is damaged before its end, claims what
    /// cannot be, or takes more memory than one file may.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        TraceReader::open_within(path, Budget::of_environment().map_err(TraceError::Request)?)
    }

    /// The same, with so much memory for what the file holds.
    ///
    /// # Errors
    /// As [`TraceReader::open`].
    pub fn open_within(path: &Path, budget: Arc<Budget>) -> Result<Self, TraceError> {
        let mut file = File::open(path).map_err(|source| io_error(path, source))?;
        let file_bytes = file.metadata().map_err(|source| io_error(path, source))?.len();
        read_file_header(&mut file, path)?;
        let (locations, end) = scan(&mut file, file_bytes, path)?;
        let tables = budget.claim(0).map_err(TraceError::Request)?;
        let mut reader = TraceReader {
            budget,
            tables,
            path: path.to_owned(),
            meta: Meta::default(),
            dictionary: Dictionary::default(),
            tasks: Vec::new(),
            epochs: Vec::new(),
            totals: None,
            footer: end,
            truncated: None,
            file_bytes,
            state: Mutex::new(State { file, cached: Vec::new() }),
        };
        for (index, location) in locations.iter().enumerate() {
            reader.check_order(location, index, locations.len())?;
            reader.load(location)?;
        }
        if locations.is_empty() {
            let what = "it has no content".to_owned();
            return Err(TraceError::Corrupt { path: path.to_owned(), offset: FILE_HEADER, what });
        }
        match &reader.totals {
            None => {
                reader.truncated = Some(format!(
                    "{} is not whole: it ends after its last good chunk at byte {end} of {file_bytes}",
                    path.display()
                ));
            }
            Some(totals) if totals.epochs != reader.epochs.len() as u64 => {
                let what =
                    format!("it has {} epochs, its footer states {}", reader.epochs.len(), totals.epochs);
                return Err(reader.footer_fault(Fault(what)));
            }
            Some(_) => {}
        }
        Ok(reader)
    }

    /// The description is the first chunk and the footer the last; of each there is one.
    fn check_order(&self, location: &ChunkLocation, index: usize, count: usize) -> Result<(), TraceError> {
        let what = match location.kind {
            ChunkKind::Meta if index > 0 => "a second description",
            ChunkKind::Footer if index + 1 < count => "a chunk behind the footer",
            kind if kind != ChunkKind::Meta && index == 0 => "its first chunk is not its description",
            _ => return Ok(()),
        };
        Err(self.contradicts(location.offset, Fault::from(what)))
    }

    /// Loads and checks the tables that the chunk at `location` holds; epochs are only noted.
    fn load(&mut self, location: &ChunkLocation) -> Result<(), TraceError> {
        if location.kind == ChunkKind::Epoch {
            self.epochs.push(*location);
            return Ok(());
        }
        let known_shapes = self.dictionary.len();
        let payload = read_payload(&mut self.lock().file, location);
        payload
            .and_then(|payload| self.load_table(location.kind, &payload))
            .map_err(|fault| self.corrupt(location, fault))?;
        let checked = match location.kind {
            ChunkKind::Meta => validate::meta(&self.meta),
            ChunkKind::Tasks => validate::tasks(&self.tasks),
            ChunkKind::Dictionary => {
                self.dictionary.shapes()[known_shapes..].iter().try_for_each(validate::shape)
            }
            ChunkKind::Footer => {
                self.footer = location.offset;
                Ok(())
            }
            ChunkKind::Epoch => Ok(()),
        };
        checked.map_err(|fault| self.contradicts(location.offset, fault))
    }

    fn load_table(&mut self, kind: ChunkKind, payload: &[u8]) -> Result<(), Fault> {
        let json = |error: serde_json::Error| Fault(format!("a table does not parse ({error})"));
        match kind {
            ChunkKind::Meta => self.meta = serde_json::from_slice(payload).map_err(json)?,
            ChunkKind::Tasks => self.tasks = serde_json::from_slice(payload).map_err(json)?,
            ChunkKind::Footer => {
                let footer: Footer = serde_json::from_slice(payload).map_err(json)?;
                self.totals = Some(WriterTotals { file_bytes: self.file_bytes, ..footer.totals });
            }
            ChunkKind::Dictionary => {
                let (length, stored) = payload
                    .split_first_chunk::<8>()
                    .ok_or_else(|| Fault::from("the dictionary has no length"))?;
                let length = u64::from_le_bytes(*length).min(u64::MAX >> 1) as usize;
                let claim = self.budget.claim(length as u64).map_err(Fault)?;
                let raw = crate::chunk::decompress(stored, length)?;
                self.dictionary.decode_into(&raw, &mut self.tables)?;
                drop(claim);
            }
            ChunkKind::Epoch => {}
        }
        Ok(())
    }

    /// The file this trace was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known about the trace as a whole.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// All tasks, indexed by [`TaskId`].
    pub fn tasks(&self) -> &[TaskInfo] {
        &self.tasks
    }

    /// All block shapes.
    pub fn dictionary(&self) -> &Dictionary {
        &self.dictionary
    }

    /// Totals stated by the writer; `None` when the trace is not whole.
    pub fn totals(&self) -> Option<&WriterTotals> {
        self.totals.as_ref()
    }

    /// Why the trace, or one that it was made from, is not whole, as a sentence; `None` when all were.
    pub fn truncated(&self) -> Option<&str> {
        self.truncated.as_deref().or(self.meta.truncated.as_deref())
    }

    /// Length of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// What of the memory that one file may take is left.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// How many epochs there are.
    pub fn epoch_count(&self) -> usize {
        self.epochs.len()
    }

    /// The directory of epoch `index`.
    ///
    /// # Errors
    /// When the epoch is damaged.
    pub fn epoch_summary(&self, index: usize) -> Result<EpochSummary, TraceError> {
        let epoch = self.epoch(index)?;
        let tasks = epoch.entries.iter().map(|entry| (entry.task, entry.items, entry.counts)).collect();
        Ok(EpochSummary { start_ns: epoch.start_ns, tasks })
    }

    /// Epoch `index`, from memory when it was read recently.
    pub(crate) fn epoch(&self, index: usize) -> Result<Arc<Epoch>, TraceError> {
        let mut state = self.lock();
        if let Some((_, epoch)) = state.cached.iter().find(|(cached, _)| *cached == index) {
            return Ok(epoch.clone());
        }
        let location = &self.epochs[index];
        let epoch = read_payload(&mut state.file, location);
        let epoch = epoch.and_then(|payload| Epoch::decode(payload, self.budget.clone()));
        let epoch = Arc::new(epoch.map_err(|fault| self.corrupt(location, fault))?);
        let mut ran = HashSet::new();
        for entry in &epoch.entries {
            if entry.task as usize >= self.tasks.len() {
                let what = format!("task {} is not in the task table", entry.task);
                return Err(self.contradicts(location.offset, Fault(what)));
            }
            if !ran.insert(entry.task) {
                let what = format!("task {} has two streams in one epoch", entry.task);
                return Err(self.contradicts(location.offset, Fault(what)));
            }
        }
        if state.cached.len() == CACHED_EPOCHS {
            state.cached.remove(0);
        }
        state.cached.push((index, epoch.clone()));
        Ok(epoch)
    }

    /// The error for a fault found while decoding epoch `index`.
    pub(crate) fn epoch_fault(&self, index: usize, fault: Fault) -> TraceError {
        self.corrupt(&self.epochs[index], fault)
    }

    /// The error for a rule that an item of epoch `index` does not keep.
    pub(crate) fn contradiction(&self, index: usize, fault: Fault) -> TraceError {
        self.contradicts(self.epochs[index].offset, fault)
    }

    /// The error for a footer that states other figures than the streams hold.
    pub(crate) fn footer_fault(&self, fault: Fault) -> TraceError {
        self.contradicts(self.footer, fault)
    }

    fn contradicts(&self, offset: u64, fault: Fault) -> TraceError {
        TraceError::Contradiction { path: self.path.clone(), offset, what: fault.0 }
    }

    fn corrupt(&self, location: &ChunkLocation, fault: Fault) -> TraceError {
        TraceError::Corrupt { path: self.path.clone(), offset: location.offset, what: fault.0 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Finds all chunks that are whole, and where the last of them ends.
fn scan(file: &mut File, file_bytes: u64, path: &Path) -> Result<(Vec<ChunkLocation>, u64), TraceError> {
    let mut locations: Vec<ChunkLocation> = Vec::new();
    let mut offset = FILE_HEADER;
    loop {
        let found = read_chunk_header(file, offset, file_bytes);
        match found.map_err(|fault| TraceError::Corrupt { path: path.to_owned(), offset, what: fault.0 })? {
            Found::Chunk(location) => {
                offset = location.end();
                locations.push(location);
            }
            Found::CutShort | Found::End => return Ok((locations, offset)),
        }
    }
}
