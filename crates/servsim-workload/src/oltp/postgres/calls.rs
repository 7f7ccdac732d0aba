//! Prepared statements over a connection that nobody else uses meanwhile: a write, a read that waits, and nothing between.
//!
//! The client library drives a connection by an event loop and hands replies from task to task, which costs the user more than
//! half of its processor time; a user has nothing to do but to wait. So the library connects, proves who we are and asks what
//! is asked between phases, and the transactions themselves go over the same socket, in the messages of `postgres-protocol`.

use std::cell::{RefCell, RefMut};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{DataRowBody, ErrorFields, Message};
use postgres_protocol::message::frontend;
use postgres_protocol::IsNull;
use tokio_postgres::types::{FromSql, IsNull as Null, ToSql, Type};

/// Bytes that are read at once: most replies are smaller.
const ROOM: usize = 8 << 10;
/// Parameters and columns are sent as the server keeps them, not as text.
const BINARY: i16 = 1;

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server answered, and refused.
    #[error("the server says \"{message}\" (SQLSTATE {code})")]
    Refused {
        /// In its own words.
        message: String,
        /// The kind of refusal.
        code: String,
    },
    /// The connection broke.
    #[error("the connection to the server broke: {0}")]
    Broken(#[from] std::io::Error),
    /// A parameter does not fit, or what came cannot be understood.
    #[error("{0}")]
    Unfit(String),
}

/// A statement that the server has prepared.
#[derive(Clone, Debug)]
pub struct Statement {
    name: String,
    parameters: Vec<Type>,
    columns: Arc<[Type]>,
}

/// A row of a reply.
#[derive(Debug)]
pub struct Row {
    columns: Arc<[Type]>,
    bytes: Bytes,
    places: Vec<Option<Range<usize>>>,
}

impl Row {
    /// The value of a column, which must have the type asked for, as with the client library's rows.
    ///
    /// # Panics
    /// When there is no such column, or it holds something else: the statements are ours.
    pub fn get<'a, T: FromSql<'a>>(&'a self, column: usize) -> T {
        let kind = self.kind(column);
        assert!(T::accepts(kind), "column {column} is {kind}");
        let value = T::from_sql_nullable(kind, self.places[column].clone().map(|place| &self.bytes[place]));
        value.unwrap_or_else(|error| panic!("column {column}: {error}"))
    }

    /// The type of a column.
    pub fn kind(&self, column: usize) -> &Type {
        &self.columns[column]
    }
}

/// The socket with what has been read of it and not used.
#[derive(Debug)]
struct Line {
    socket: File,
    sent: BytesMut,
    /// Where the kernel writes; cleared once, so that a read costs no more than what it brings.
    read: Box<[u8]>,
    received: BytesMut,
    prepared: usize,
    is_broken: bool,
}

/// A connection between two uses of the client library.
#[derive(Debug)]
pub struct Calls(RefCell<Line>);

impl Calls {
    /// Takes another handle of a connected socket, on which nothing is under way.
    pub fn over(socket: File) -> Self {
        let (sent, received) = (BytesMut::with_capacity(ROOM), BytesMut::new());
        let read = vec![0; ROOM].into_boxed_slice();
        Calls(RefCell::new(Line { socket, sent, read, received, prepared: 0, is_broken: false }))
    }

    /// Whether the server ended the connection while it was asked.
    pub fn is_broken(&self) -> bool {
        self.0.borrow().is_broken
    }

    /// The line with nothing to be sent: a call that did not fit may have left its beginning.
    fn begun(&self) -> RefMut<'_, Line> {
        let mut line = self.0.borrow_mut();
        line.sent.clear();
        line
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// When the server refuses it, or the connection breaks.
    pub fn prepare(&self, sql: &str) -> Result<Statement, CallError> {
        let line = &mut *self.begun();
        line.prepared += 1;
        let name = format!("servsim{}", line.prepared);
        frontend::parse(&name, sql, [], &mut line.sent)?;
        frontend::describe(b'S', &name, &mut line.sent)?;
        frontend::sync(&mut line.sent);
        let (mut parameters, mut columns) = (Vec::new(), Vec::new());
        line.exchange(|message| {
            match message {
                Message::ParameterDescription(body) => {
                    parameters = body.parameters().map(|oid| Ok(known(oid))).collect()?;
                }
                Message::RowDescription(body) => {
                    columns = body.fields().map(|field| Ok(known(field.type_oid()))).collect()?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(Statement { name, parameters, columns: columns.into() })
    }

    /// Executes a prepared statement and reads the whole reply.
    ///
    /// # Errors
    /// When the server refuses, a parameter does not fit, or the connection breaks.
    pub fn execute(
        &self,
        statement: &Statement,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, CallError> {
        if values.len() != statement.parameters.len() {
            let (given, wanted) = (values.len(), statement.parameters.len());
            return Err(CallError::Unfit(format!("{given} parameters for a statement of {wanted}")));
        }
        let line = &mut *self.begun();
        let pairs = values.iter().zip(&statement.parameters);
        let encoded = |(value, kind): (&&(dyn ToSql + Sync), &Type), out: &mut BytesMut| {
            value.to_sql_checked(kind, out).map(|null| match null {
                Null::Yes => IsNull::Yes,
                Null::No => IsNull::No,
            })
        };
        let bound = frontend::bind("", &statement.name, [BINARY], pairs, encoded, [BINARY], &mut line.sent);
        bound.map_err(|error| match error {
            frontend::BindError::Conversion(error) => CallError::Unfit(error.to_string()),
            frontend::BindError::Serialization(error) => CallError::Broken(error),
        })?;
        frontend::execute("", 0, &mut line.sent)?;
        frontend::sync(&mut line.sent);
        let mut rows = Vec::new();
        line.exchange(|message| {
            if let Message::DataRow(body) = message {
                rows.push(row(&statement.columns, &body)?);
            }
            Ok(())
        })?;
        Ok(rows)
    }

    /// Executes statements whose rows nobody wants.
    ///
    /// # Errors
    /// When the server refuses one, or the connection breaks.
    pub fn batch(&self, sql: &str) -> Result<(), CallError> {
        let line = &mut *self.begun();
        frontend::query(sql, &mut line.sent)?;
        line.exchange(|_| Ok(()))
    }
}

impl Line {
    /// Sends what is to be sent, and takes messages until the server is ready for more.
    fn exchange(&mut self, mut take: impl FnMut(Message) -> Result<(), CallError>) -> Result<(), CallError> {
        let done = self.exchanged(&mut take);
        self.is_broken |= matches!(done, Err(CallError::Broken(_)));
        done
    }

    fn exchanged(
        &mut self,
        take: &mut impl FnMut(Message) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        self.socket.write_all(&self.sent)?;
        let mut refusal = None;
        loop {
            match self.next()? {
                Message::ReadyForQuery(_) => return refusal.map_or(Ok(()), Err),
                // The server skips the rest of what it was asked, and gets ready.
                Message::ErrorResponse(body) => refusal = Some(refused(body.fields())?),
                message => take(message)?,
            }
        }
    }

    fn next(&mut self) -> Result<Message, CallError> {
        loop {
            if let Some(message) = Message::parse(&mut self.received)? {
                return Ok(message);
            }
            wait_for_more(&self.socket)?;
            let count = loop {
                match self.socket.read(&mut self.read) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    read => break read?,
                }
            };
            if count == 0 {
                return Err(CallError::Broken(std::io::ErrorKind::UnexpectedEof.into()));
            }
            self.received.extend_from_slice(&self.read[..count]);
        }
    }
}

/// Sleeps until there is something to read, or the connection has ended. A read that waits by itself is woken also when the
/// server has taken the request, which makes room to write (`unix_write_space` in the kernel): twice in each round trip.
fn wait_for_more(socket: &File) -> std::io::Result<()> {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure is given, and its number says so.
        if unsafe { libc::poll(&raw mut wanted, 1, -1) } >= 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A type of the server's own; ours has no others.
fn known(oid: u32) -> Type {
    Type::from_oid(oid).unwrap_or(Type::UNKNOWN)
}

fn row(columns: &Arc<[Type]>, body: &DataRowBody) -> Result<Row, CallError> {
    let mut places = Vec::with_capacity(columns.len());
    body.ranges().for_each(|place| {
        places.push(place);
        Ok(())
    })?;
    if places.len() != columns.len() {
        let (found, wanted) = (places.len(), columns.len());
        return Err(CallError::Unfit(format!("a row of {found} columns instead of {wanted}")));
    }
    Ok(Row { columns: Arc::clone(columns), bytes: body.buffer_bytes().clone(), places })
}

/// Message and code of a refusal (PostgreSQL, "Error and Notice Message Fields").
fn refused(mut fields: ErrorFields<'_>) -> Result<CallError, CallError> {
    let (mut message, mut code) = (String::new(), String::new());
    while let Some(field) = fields.next()? {
        let text = || String::from_utf8_lossy(field.value_bytes()).into_owned();
        match field.type_() {
            b'M' => message = text(),
            b'C' => code = text(),
            _ => {}
        }
    }
    Ok(CallError::Refused { message, code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    const ROUND_TRIPS: i64 = 50;

    /// How often the calling thread has gone to sleep.
    fn sleeps() -> i64 {
        // SAFETY: all zeros are a structure of this kind; the kernel writes to the one it is given.
        unsafe {
            let mut used: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut used), 0);
            used.ru_nvcsw
        }
    }

    #[test]
    fn a_user_wakes_once_in_a_round_trip() {
        let (ours, mut server) = UnixStream::pair().unwrap();
        let mut ours = File::from(OwnedFd::from(ours));
        let answering = std::thread::spawn(move || {
            let mut byte = [0];
            // The user sleeps before its request is taken, and between that and the reply.
            let pause = || std::thread::sleep(Duration::from_millis(1));
            for _ in 0..ROUND_TRIPS {
                pause();
                server.read_exact(&mut byte).unwrap();
                pause();
                server.write_all(&byte).unwrap();
            }
        });
        let before = sleeps();
        for _ in 0..ROUND_TRIPS {
            ours.write_all(b"?").unwrap();
            wait_for_more(&ours).unwrap();
            ours.read_exact(&mut [0]).unwrap();
        }
        let slept = sleeps() - before;
        answering.join().unwrap();
        assert!((1..ROUND_TRIPS * 3 / 2).contains(&slept), "{slept} sleeps in {ROUND_TRIPS} round trips");
    }

    #[test]
    fn a_connection_that_ends_is_no_endless_wait() {
        let (ours, server) = UnixStream::pair().unwrap();
        let mut ours = File::from(OwnedFd::from(ours));
        drop(server);
        wait_for_more(&ours).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);
    }
}
