//! Simulated times on their way into a file: CSV, a line a request, made and written by a thread of its own while requests are
//! served.

use super::Outcome;
use servsim_disk::lines::Lines;
use servsim_files::{AtomicFile, Special, WriteError};
use std::io::{Result, Write};
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::thread::JoinHandle;

/// Requests that are handed on together: few enough to stay in the nearest caches.
const BATCH: usize = 1024;
/// Batches that may wait to be written.
const BEHIND: usize = 16;

/// Arrival and response, ns, of some requests.
type Times = Vec<(u64, u64)>;

/// What the writing thread is told.
enum Piece {
    /// The names of the columns.
    Heading(String),
    /// Whose the times are that follow.
    Device(String),
    Times(Times),
}

/// The file, and what has not been handed on yet.
pub(super) struct Written<'a> {
    path: &'a str,
    can_be_undone: bool,
    times: Times,
    pieces: Option<SyncSender<Piece>>,
    /// Batches to be used again.
    empty: Receiver<Times>,
    writer: Option<JoinHandle<Result<AtomicFile>>>,
}

impl<'a> Written<'a> {
    /// Begins the file that will be `path`.
    pub(super) fn create(path: &'a str) -> Outcome<Self> {
        let file = AtomicFile::create(Path::new(path), Special::WriteTo);
        let file = file.map_err(|error| WriteError::new(Path::new(path), error))?;
        let (pieces, told) = sync_channel(BEHIND);
        let (taken, empty) = channel();
        Ok(Written {
            path,
            can_be_undone: file.can_be_undone(),
            times: Vec::with_capacity(BATCH),
            pieces: Some(pieces),
            empty,
            writer: Some(std::thread::spawn(move || write(file, told, &taken))),
        })
    }

    /// Begins anew.
    pub(super) fn again(self) -> Outcome<Self> {
        let path = self.path;
        drop(self);
        Written::create(path)
    }

    /// Names the columns; the last is that of the device where there are several.
    pub(super) fn heading(&mut self, several: bool) {
        let device = if several { ",device" } else { "" };
        self.tell(Piece::Heading(format!("arrival_ns,response_ns{device}\n")));
    }

    /// Whether nothing is there unless it is committed: what went into a pipe cannot be taken back.
    pub(super) fn can_be_undone(&self) -> bool {
        self.can_be_undone
    }

    /// What follows is of the device called `name`.
    pub(super) fn device(&mut self, name: &str) {
        self.hand_on();
        self.tell(Piece::Device(name.to_owned()));
    }

    #[inline]
    pub(super) fn push(&mut self, arrival_ns: u64, response_ns: u64) {
        self.times.push((arrival_ns, response_ns));
        if self.times.len() == BATCH {
            self.hand_on();
        }
    }

    #[cold]
    fn hand_on(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let times = std::mem::replace(&mut self.times, next);
        self.tell(Piece::Times(times));
    }

    fn tell(&self, piece: Piece) {
        if let Some(pieces) = &self.pieces {
            // Where writing has failed nobody listens, and `commit` says why.
            let _ = pieces.send(piece);
        }
    }

    /// Gives the file its name.
    pub(super) fn commit(mut self) -> Outcome<()> {
        self.hand_on();
        self.pieces = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let written = writer.join().unwrap_or_else(|panic| resume_unwind(panic));
        let done = written.and_then(AtomicFile::commit);
        Ok(done.map(drop).map_err(|error| WriteError::new(Path::new(self.path), error))?)
    }
}

impl Drop for Written<'_> {
    /// What was not committed is gone before anything else goes on.
    fn drop(&mut self) {
        self.pieces = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Writes what it is told, until nobody tells any more.
fn write(mut file: AtomicFile, told: Receiver<Piece>, taken: &Sender<Times>) -> Result<AtomicFile> {
    let mut lines = Lines::new("");
    for piece in told {
        match piece {
            Piece::Heading(text) => file.write_all(text.as_bytes())?,
            Piece::Device(name) => {
                file.write_all(lines.take())?;
                lines = Lines::new(&format!(",\"{}\"", name.replace('"', "\"\"")));
            }
            Piece::Times(mut times) => {
                for (arrival_ns, response_ns) in times.drain(..) {
                    if lines.push(arrival_ns, response_ns) {
                        file.write_all(lines.take())?;
                    }
                }
                // Whoever served may have ended.
                let _ = taken.send(times);
            }
        }
    }
    file.write_all(lines.take())?;
    Ok(file)
}
