//! Changes what a finished trace says about itself, without touching what it recorded.

use crate::chunk::{
    read_chunk_header, read_payload, write_chunk, write_file_header, ChunkKind, Found, FILE_HEADER,
};
use crate::error::TraceError;
use crate::model::Meta;
use crate::reader::TraceReader;
use crate::writer::{io_error, write_error};
use servsim_files::{AtomicFile, Special};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom};
use std::path::Path;

/// Gives the trace at `path` the description that `change` makes of its present one.
///
/// The new trace takes the place of the old one when it is whole.
///
/// # Errors
/// When the trace is not whole, or cannot be read or written; it is left as it was.
pub fn annotate(path: &Path, change: impl FnOnce(&mut Meta)) -> Result<(), TraceError> {
    let reader = TraceReader::open(path)?;
    if let Some(sentence) = reader.truncated() {
        return Err(TraceError::Request(sentence.to_owned()));
    }
    let mut meta = reader.meta().clone();
    change(&mut meta);
    let reading = |source| io_error(path, source);
    let writing = |source| write_error(path, source);
    let json = serde_json::to_vec(&meta).map_err(|error| TraceError::Request(error.to_string()))?;
    let mut from = File::open(path).map_err(reading)?;
    let length = from.metadata().map_err(reading)?.len();
    let damaged = |fault: crate::error::Fault| TraceError::Corrupt {
        path: path.to_owned(),
        offset: FILE_HEADER,
        what: fault.0,
    };
    let old = read_chunk_header(&mut from, FILE_HEADER, length).map_err(damaged)?;
    let Found::Chunk(old) = old else { return Err(damaged("it has no content".into())) };
    read_payload(&mut from, &old).map_err(damaged)?;
    let mut out = BufWriter::new(AtomicFile::create(path, Special::Refuse).map_err(writing)?);
    write_file_header(&mut out).map_err(writing)?;
    write_chunk(&mut out, ChunkKind::Meta, &json).map_err(writing)?;
    from.seek(SeekFrom::Start(old.end())).map_err(reading)?;
    std::io::copy(&mut from, &mut out).map_err(writing)?;
    let file = out.into_inner().map_err(|error| writing(error.into_error()))?;
    file.commit().map(drop).map_err(writing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, EventKind, MarkKind, TaskInfo, TaskKind, TraceWriter, WriterOptions};

    fn write(path: &Path) {
        let meta = Meta { workload: "first".into(), ..Meta::default() };
        let mut writer = TraceWriter::create(path, &meta, WriterOptions::default()).unwrap();
        let info = TaskInfo { pid: 1, tgid: 1, name: "one".into(), kind: TaskKind::User, client: false };
        let task = writer.add_task(info);
        writer.switch_to(task);
        let mark = EventKind::Mark { kind: MarkKind::TransactionEnd, transaction: 1, server: 0, sequence: 0 };
        writer.event(Event { time_ns: 5, kind: mark });
        writer.finish().unwrap();
    }

    #[test]
    fn only_the_description_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svt");
        write(&path);
        annotate(&path, |meta| meta.shared_data = "text longer than before".into()).unwrap();
        let reader = TraceReader::open(&path).unwrap();
        assert_eq!(reader.truncated(), None);
        assert_eq!(reader.meta().workload, "first");
        assert_eq!(reader.meta().shared_data, "text longer than before");
        assert_eq!(reader.totals().unwrap().transactions, 1);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_trace_that_is_not_whole_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.svt");
        write(&path);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        assert!(annotate(&path, |meta| meta.workload.clear()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), bytes[..bytes.len() - 3]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
