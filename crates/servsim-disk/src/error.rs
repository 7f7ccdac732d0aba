//! Errors of this crate: each says what happened, where, and what to do next.

/// A trace that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The bytes could not be had.
    #[error("cannot read the trace: {0}")]
    Io(#[from] std::io::Error),
    /// One line or record does not have the format's form.
    #[error("{format} trace, {place}: {problem}")]
    Malformed {
        /// Name of the format.
        format: &'static str,
        /// `line 12` or `record 3`.
        place: String,
        /// What is wrong and what was expected.
        problem: String,
    },
    /// No importer recognises the beginning of the input.
    #[error("the format was not recognised; name it with --format (one of {known})")]
    Unrecognised {
        /// Names of all formats.
        known: String,
    },
    /// Text in an encoding that no format uses.
    #[error("the file is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// Several files in one.
    #[error("the file is a tar archive; unpack it (tar -xf) and name a trace that is in it")]
    Tar,
    /// A format name that does not exist.
    #[error("no trace format is called `{name}`{nearest}; accepted: {known}")]
    UnknownFormat {
        /// What was asked for.
        name: String,
        /// A suggestion, ready to print, or empty.
        nearest: String,
        /// Names of all formats.
        known: String,
    },
    /// The columns of a CSV trace do not determine a request.
    #[error("CSV columns: {0}")]
    Columns(String),
    /// The input holds no complete request.
    #[error("the trace holds no completed request ({0}); capture both issue and completion events")]
    Empty(String),
    /// The format tells arrivals only, and more is needed.
    #[error(
        "{format} traces tell when requests arrive and not when they complete: they can be simulated on a fitted \
         device (`servsim disk simulate`), not fitted, evaluated or imported"
    )]
    NoCompletions {
        /// Name of the format.
        format: &'static str,
    },
    /// Most requests have times or places that no device has.
    #[error("most requests have times or places that no device has ({0}); check the format and the units of its columns")]
    Implausible(String),
    /// Arrivals and completions that both go down from line to line.
    #[error("arrivals run backwards: {backward} requests arrive and complete before the one before them, the first at {place}; check which column is the arrival, and if it is, sort the trace by it")]
    Backward {
        /// How many do.
        backward: u64,
        /// `line 12` or `record 3`.
        place: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// A model that could not be built, read or used.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Fewer requests than the model needs.
    #[error("the trace is too short to fit a `{model}` model: {have} requests, {missing} more are needed (at least {need})")]
    TooShort {
        /// Model kind.
        model: &'static str,
        /// Requests given.
        have: usize,
        /// Requests needed.
        need: usize,
        /// The difference.
        missing: usize,
    },
    /// A model kind that does not exist.
    #[error("no disk model is called `{name}`{nearest}; accepted: {known}")]
    UnknownKind {
        /// What was asked for.
        name: String,
        /// A suggestion, ready to print, or empty.
        nearest: String,
        /// Names of all kinds.
        known: String,
    },
    /// The bytes are not a model file of this program.
    #[error("not a usable model file: {0}")]
    BadFile(String),
    /// The model was made for another class of device.
    #[error("the model was fitted to a {model} but the trace is of a {trace}; fit a model to this device, or pass --allow-other-device to see how wrong it is")]
    OtherDevice {
        /// Class the model was fitted to.
        model: String,
        /// Class the trace shows.
        trace: String,
    },
    /// The model says times of these requests that are nothing like those they took.
    #[error("the requests of `{device}` took {had_ms:.3} ms each, waits apart, and the model says {said_ms:.3} ms: it was fitted to another device, or to requests unlike these; fit a model to this device, or pass --allow-other-device to see how wrong it is")]
    UnlikeTimes {
        /// The device of the trace.
        device: String,
        /// Mean service time in the trace, ms.
        had_ms: f64,
        /// Mean service time by the model, ms.
        said_ms: f64,
    },
    /// Nothing to judge a model by.
    #[error("no request of `{device}` takes any time: check the units of the trace's columns; nothing can be fitted or judged")]
    NoTime {
        /// The device.
        device: String,
    },
    /// The model failed its trial on requests that it had not seen.
    #[error("the model of `{device}` is not worth using: run freely on the last quarter of its trace, {problem}; fit it to a longer trace, or pass --allow-unskilled to see what it says")]
    NotWorthUsing {
        /// The device.
        device: String,
        /// What was found.
        problem: String,
    },
    /// Explanations of a trace, all as good, that differ at the load asked for.
    #[error("the trace that the model of `{device}` was fitted to does not tell what happens at load {load}: the model says {said_ms:.3} ms, and {how}, which explains that trace as well, {other_ms:.3} ms; fit a trace of a busier time, or pass --allow-unskilled to see what the model says")]
    TraceDoesNotTell {
        /// The device.
        device: String,
        /// The load.
        load: f64,
        /// Mean response of the model, ms.
        said_ms: f64,
        /// Mean response of the other explanation, ms.
        other_ms: f64,
        /// What it is.
        how: String,
    },
    /// Waits that are longer than all that the trace held, and told by it only from afar.
    #[error("at load {load} the model of `{device}` says {said_ms:.3} ms where its trace had {had_ms:.3} ms: requests would wait longer for channels than all that they took there, and few of them show how many channels there are; fit a trace of a busier time, or pass --allow-unskilled to see what the model says")]
    WaitsBeyond {
        /// The device.
        device: String,
        /// The load.
        load: f64,
        /// Mean response of the model, ms.
        said_ms: f64,
        /// Mean response of its trace, ms.
        had_ms: f64,
    },
    /// A value out of range.
    #[error("{0}")]
    Invalid(String),
}

/// `" (did you mean `x`?)"` for the known name nearest to `name`, or an empty text.
pub fn suggestion(name: &str, known: &[&str]) -> String {
    servsim_units::nearest::suggestion(name, known.iter().copied())
}
