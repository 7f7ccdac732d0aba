//! Importers of foreign traces, and exporters to them: one file per format, one entry each in
//! [`FORMATS`]; those that can be written also have a file in [`export`].
//!
//! All are streaming and read the file twice: once to learn the tasks and which pages more than
//! one task touches, once to deliver references; raw16 once, for whoever finds the first out along the way
//! ([`FirstPass`]). Malformed input ends in one sentence that names
//! the place; nothing is guessed.
//!
//! # Rules of all formats
//! * **Size**: a reference touches the bytes `address..address + size`. Where a format cannot say
//!   the size of an access (`din` traditional, `champsim`) the reference touches the one byte at its
//!   address, so it never crosses a line and never claims a word that may not have been touched; on
//!   caches this is Dinero's rule (the word at the address). `text` states its own default. A size
//!   of 0, or one past the end of the address space, is refused.
//! * **Line crossing**: an access stays one reference; the engines touch every line it overlaps, in
//!   ascending order. More than 255 bytes are held as one reference and continuations, which are
//!   touched and not counted again.
//! * **Order**: the fetch of an instruction, then its loads, then its stores, as far as the format
//!   does not give another. A load and a store by one instruction are two references.
//! * **No references**: prefetches, flushes and invalidations are left out and counted in a note.
//! * **Addresses** are the sharing key, physical or virtual as the format has them.

pub mod captured;
pub mod champsim;
pub mod din;
pub mod drmemtrace;
pub mod export;
pub mod footprint;
pub mod foreign;
pub mod identity;
pub mod input;
pub mod lackey;
pub mod memory;
pub mod raw16;
pub mod survey;
pub mod text;

pub use foreign::Foreign;
pub use identity::Identity;
pub use memory::{InMemory, ListSource};
pub use servsim_trace::Budget;
pub use survey::Survey;

use servsim_core::{GlobalSource, SourceError, TaskSource, Watch};
use std::path::Path;

/// The first pass over a trace, which tells its tasks and which pages more than one of them touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstPass {
    /// Made, on so many host threads at most.
    On(usize),
    /// Left out where the format allows that: then whoever reads the trace finds it out
    /// ([`GlobalSource::is_unsurveyed`]).
    LeftOut,
}

impl FirstPass {
    /// Made on one thread.
    pub const ALONE: Self = Self::On(1);
}

/// Opens a file of one format in its own order, for a machine of so many processors.
pub type Open = fn(&Path, usize, FirstPass) -> Result<Box<dyn GlobalSource>, SourceError>;

/// Opens a file of one format as one stream per task.
pub type Split = fn(&Path, usize) -> Result<Box<dyn TaskSource>, SourceError>;

/// A registered format: its names, what it is for, its openers.
pub struct Format {
    /// Name for `--format`.
    pub name: &'static str,
    /// Extensions that imply it.
    pub extensions: &'static [&'static str],
    /// What it is.
    pub about: &'static str,
    /// What a reference of it has.
    pub holds: &'static str,
    /// What it cannot say.
    pub lacks: &'static str,
    /// Opens a file in its own order.
    pub open: Open,
    /// Opens a file as one stream per task.
    pub split: Split,
}

/// The openers of a format whose file gives `survey`.
macro_rules! streaming {
    ($survey:path) => {
        (|path, _, _| Ok(Box::new($survey(path)?.in_order()?)), |path, _| Ok(Box::new($survey(path)?)))
    };
}

/// The openers of a format that the timing engine needs in memory.
macro_rules! in_memory {
    ($open:path) => {
        ($open, |path, processors| {
            Ok(Box::new(InMemory::read($open(path, processors, FirstPass::ALONE)?.as_mut())?))
        })
    };
}

/// An entry of [`FORMATS`].
const fn entry(
    name: &'static str,
    extensions: &'static [&'static str],
    [about, holds, lacks]: [&'static str; 3],
    (open, split): (Open, Split),
) -> Format {
    Format { name, extensions, about, holds, lacks, open, split }
}

/// Every format that is read.
#[rustfmt::skip]
pub const FORMATS: &[Format] = &[
    entry("text", &["txt", "text"], text::ABOUT, (
        |path, processors, _| Ok(Box::new(text::survey(path, processors)?.in_order()?)),
        |path, processors| Ok(Box::new(text::survey(path, processors)?)),
    )),
    entry("raw16", &["raw16", "raw"], RAW16, in_memory!(raw16::open)),
    entry("din", &["din", "xdin"], din::ABOUT, streaming!(din::survey)),
    entry("lackey", &["lackey"], lackey::ABOUT, streaming!(lackey::survey)),
    entry("champsim", &["champsim", "champsimtrace"], champsim::ABOUT, streaming!(champsim::survey)),
    entry("drmemtrace", &["memtrace", "drmemtrace"], drmemtrace::ABOUT, streaming!(drmemtrace::survey)),
];

/// What raw16 is, holds and lacks.
const RAW16: [&str; 3] = [
    "16-byte records, servsim's binary exchange format",
    "fetches, loads, stores, sizes to 255 bytes, processor, task, kernel mode",
    "transactions, names of tasks, statements that a page is private",
];

/// Extension of `path`, without one that only tells the compression.
fn extension_of(path: &Path) -> Option<&str> {
    let extension = path.extension().and_then(|e| e.to_str())?;
    if !input::EXTENSIONS.contains(&extension) {
        return Some(extension);
    }
    Path::new(path.file_stem()?).extension().and_then(|e| e.to_str())
}

/// The format called `name`, or the one that the extension of `path` implies.
///
/// # Errors
/// When neither names a known format.
pub fn format_of(path: &Path, name: Option<&str>) -> Result<&'static Format, SourceError> {
    let names = || FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        return FORMATS.iter().find(|f| f.name == name).ok_or_else(|| {
            let known = FORMATS.iter().map(|f| f.name).chain([captured::NAME]);
            let hint = servsim_units::nearest::suggestion(name, known);
            SourceError(format!(
                "unknown trace format `{name}`{hint}: accepted are {}, {}",
                captured::NAME,
                names()
            ))
        });
    }
    let extension = if path.is_dir() { "drmemtrace" } else { extension_of(path).unwrap_or("") };
    FORMATS.iter().find(|f| f.extensions.contains(&extension)).ok_or_else(|| {
        SourceError(format!(
            "{}: the extension does not tell the trace format; say which with --format ({})",
            path.display(),
            names()
        ))
    })
}

/// Whether `path` is a captured trace, by the format's name or else by the extension.
fn is_captured(path: &Path, name: Option<&str>) -> bool {
    match name {
        Some(name) => name == captured::NAME,
        // Compressed ones, too, which are refused by name.
        None => extension_of(path) == Some(captured::EXTENSION),
    }
}

/// Which trace is opened.
#[derive(Debug, Clone, Copy)]
pub struct TraceFile<'a> {
    /// The file, or the folder.
    pub path: &'a Path,
    /// Name of its format, where the extension does not tell.
    pub format: Option<&'a str>,
    /// Where what a first pass finds of a captured trace is kept; nowhere without.
    pub findings: Option<captured::Findings<'a>>,
    /// The first pass over it.
    pub first_pass: FirstPass,
    /// Who waits for it to be opened: told how far a first pass over a captured trace is, and asked whether to go on.
    pub watch: Option<&'a Watch>,
}

impl<'a> TraceFile<'a> {
    /// The trace at `path`, of this format; nothing is kept.
    pub fn new(path: &'a Path, format: Option<&'a str>) -> Self {
        Self { path, format, findings: None, first_pass: FirstPass::ALONE, watch: None }
    }
}

/// Opens any readable trace, captured ones included, in its own order. With `private_kernel` the
/// kernel's pages of one task are private in a captured trace; other formats do not tell them.
///
/// # Errors
/// When the format is unknown, or the trace cannot be read or is malformed.
pub fn open_in_order(
    trace: &TraceFile<'_>,
    processors: usize,
    private_kernel: bool,
) -> Result<Box<dyn GlobalSource>, SourceError> {
    let &TraceFile { path, format: name, findings, first_pass, watch } = trace;
    if is_captured(path, name) {
        let source = captured::CapturedOrder::open_with(path, findings, watch)?;
        return Ok(Box::new(source.with_private_kernel(private_kernel)));
    }
    if processors > MOST_NAMED {
        return Err(SourceError(format!(
            "{}: its format names at most {MOST_NAMED} processors, and the machine has {processors}; set \
             processors={MOST_NAMED} or fewer, or use the timing engine, which places tasks itself",
            path.display()
        )));
    }
    (format_of(path, name)?.open)(path, processors, first_pass)
}

/// Most processors that the references of a trace can be bound to.
pub const MOST_NAMED: usize = servsim_core::ANY_CPU as usize;

/// How a trace is read as one stream per task.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Most processors accepted of formats with a processor field.
    pub processors: usize,
    /// Bytes per line of the caches: fetches within one line are joined.
    pub line: u64,
    /// Whether the kernel's pages of one task are private; captured traces alone tell them.
    pub private_kernel: bool,
    /// Whether recorded locks are delivered as events; captured traces alone hold them.
    pub locks: bool,
    /// What the records tell of instructions and branches; captured traces alone hold the code.
    pub code: captured::CodeDetail,
}

/// Opens any readable trace as one stream per task.
///
/// # Errors
/// As [`open_in_order`].
pub fn open_by_task(trace: &TraceFile<'_>, reading: &Reading) -> Result<Box<dyn TaskSource>, SourceError> {
    let &TraceFile { path, format: name, findings, first_pass: _, watch } = trace;
    if is_captured(path, name) {
        let source = captured::CapturedTasks::open_with(path, reading.line, reading.locks, findings, watch)?;
        return Ok(Box::new(
            source.with_private_kernel(reading.private_kernel).with_code(reading.code, watch)?,
        ));
    }
    (format_of(path, name)?.split)(path, reading.processors)
}

/// A trace called `name` that nothing can be simulated of.
pub(crate) fn no_reference(name: impl std::fmt::Display) -> SourceError {
    SourceError(format!("{name}: no reference in it; is it a trace of this format?"))
}

/// A file that could not be opened or read.
pub(crate) fn io_error(path: &Path, error: &std::io::Error) -> SourceError {
    SourceError(format!("{}: {error}", path.display()))
}
