//! What the tests of importers and exporters share.

use servsim_core::{Batch, GlobalSource, Op, Record};
use servsim_import::{format_of, FirstPass};
use std::path::{Path, PathBuf};

/// One reference as tests compare it: task, operation, address, size, flags.
pub type Plain = (u32, Op, u64, u8, u8);

/// A folder that vanishes with the test.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    /// A new one.
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// A file of it with these bytes.
    pub fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

/// Every record of a source, events left out.
pub fn records(source: &mut dyn GlobalSource) -> Vec<Record> {
    let (mut all, mut batch) = (Vec::new(), Batch::default());
    while source.next_batch(&mut batch).unwrap() {
        all.extend(batch.records.iter().filter(|r| r.op != Op::Event));
    }
    all
}

/// Every reference of the trace at `path`.
pub fn read(path: &Path, format: Option<&str>) -> Vec<Plain> {
    let mut source =
        (format_of(path, format).unwrap().open)(path, 4, FirstPass::ALONE).unwrap_or_else(|e| panic!("{e}"));
    records(source.as_mut()).iter().map(plain).collect()
}

/// What tests compare of a record.
pub fn plain(r: &Record) -> Plain {
    (r.task, r.op, r.address, r.size, r.flags)
}

/// Why the trace at `path` is refused.
pub fn refusal(path: &Path, format: &str) -> String {
    match (format_of(path, Some(format)).unwrap().open)(path, 4, FirstPass::ALONE) {
        Ok(_) => panic!("{} was accepted as {format}", path.display()),
        Err(error) => error.0,
    }
}

/// A drmemtrace record.
pub fn entry(kind: u16, size: u16, address: u64) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&kind.to_le_bytes());
    bytes[2..4].copy_from_slice(&size.to_le_bytes());
    bytes[4..].copy_from_slice(&address.to_le_bytes());
    bytes
}

/// Types of drmemtrace records, by the names of its documentation.
pub mod drm {
    pub const READ: u16 = 0;
    pub const WRITE: u16 = 1;
    pub const PREFETCHT0: u16 = 3;
    pub const INSTR: u16 = 10;
    pub const BUNDLE: u16 = 17;
    pub const DATA_FLUSH: u16 = 20;
    pub const THREAD: u16 = 22;
    pub const THREAD_EXIT: u16 = 23;
    pub const PID: u16 = 24;
    pub const HEADER: u16 = 25;
    pub const FOOTER: u16 = 26;
    pub const MARKER: u16 = 28;
    pub const NO_FETCH: u16 = 29;
    pub const ENCODING: u16 = 47;
    pub const TAKEN_JUMP: u16 = 48;
    pub const TIMESTAMP: u16 = 2;
    pub const FILETYPE: u16 = 9;
    pub const VERSION: u16 = 12;
    pub const SYSCALL_START: u16 = 27;
    pub const SYSCALL_END: u16 = 28;
}

/// The beginning of a thread's file.
pub fn head(version: u64, pid: u64, tid: u64) -> Vec<[u8; 12]> {
    vec![
        entry(drm::HEADER, 0, version),
        entry(drm::MARKER, drm::VERSION, version),
        entry(drm::MARKER, drm::FILETYPE, 0x240),
        entry(drm::THREAD, 4, tid),
        entry(drm::PID, 4, pid),
    ]
}

/// A timestamp.
pub fn at(microseconds: u64) -> [u8; 12] {
    entry(drm::MARKER, drm::TIMESTAMP, microseconds)
}

/// A ChampSim record.
pub fn instruction(ip: u64, stores: &[u64], loads: &[u64]) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..8].copy_from_slice(&ip.to_le_bytes());
    for (index, address) in stores.iter().enumerate() {
        bytes[16 + 8 * index..24 + 8 * index].copy_from_slice(&address.to_le_bytes());
    }
    for (index, address) in loads.iter().enumerate() {
        bytes[32 + 8 * index..40 + 8 * index].copy_from_slice(&address.to_le_bytes());
    }
    bytes
}
