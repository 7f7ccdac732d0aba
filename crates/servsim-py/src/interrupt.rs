//! Long work without holding the interpreter: it runs on another thread while this one keeps
//! looking for signals, so that Ctrl-C ends the command at once.

use pyo3::prelude::*;
use std::any::Any;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often signals are looked for.
const POLL: Duration = Duration::from_millis(50);

/// What a panic said.
fn said(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast::<String>().map(|text| *text);
    text.or_else(|panic| panic.downcast::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|_| "the work ended without a result".to_owned())
}

/// Runs `work` and returns its result; a pending signal (Ctrl-C) wins, and the work is abandoned to
/// end with the process.
///
/// # Errors
/// The signal's exception, or an internal error when the work panicked.
pub fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    watched(py, work, |_| Ok(()))
}

/// The same, with something to do each time that signals are looked for.
///
/// # Errors
/// As [`interruptible`], and what `look` raises; the work is abandoned then, too.
pub fn watched<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce() -> T + Send + 'static,
    look: impl Fn(Python<'_>) -> PyResult<()>,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    // The lock only makes the receiver shareable with the closure below; nobody contends for it.
    let receiver = Mutex::new(receiver);
    let thread = std::thread::spawn(move || sender.send(work()));
    loop {
        let answer =
            py.allow_threads(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(POLL));
        match answer {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => {
                py.check_signals()?;
                look(py)?;
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(crate::errors::internal(thread.join().err().map_or_else(String::new, said)));
            }
        }
    }
}
