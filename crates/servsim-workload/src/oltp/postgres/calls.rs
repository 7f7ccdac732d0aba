//! Prepared statements over a connection that nobody else uses meanwhile: a write, a read that waits, and nothing between.
//!
//! The client library drives a connection by an event loop and hands replies from task to task, which costs the user more than
//! half of its processor time; a user has nothing to do but to wait. So the library connects, proves who we are and asks what
//! is asked between phases, and the transactions themselves go over the same socket, in the messages of `postgres-protocol`.

use std::cell::{RefCell, RefMut};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::{
    ErrorFields, Message, DATA_ROW_TAG, ERROR_RESPONSE_TAG, PARAMETER_DESCRIPTION_TAG, READY_FOR_QUERY_TAG,
    ROW_DESCRIPTION_TAG,
};
use postgres_protocol::message::frontend;
use postgres_protocol::IsNull;
use tokio_postgres::types::{FromSql, IsNull as Null, ToSql, Type};

/// Bytes that are read at once: most replies are smaller.
const ROOM: usize = 8 << 10;
/// Bytes of a message before its body: what it is, and how long.
const HEAD: usize = 5;
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
    Broken(#[from] Error),
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
    /// Of each column its length, -1 for no value, and so many bytes.
    fields: Box<[u8]>,
}

impl Row {
    /// Takes the body of a message: the number of columns, and the columns.
    fn new(columns: &Arc<[Type]>, body: &[u8]) -> Result<Self, CallError> {
        let (count, fields) = body.split_first_chunk().ok_or_else(cut)?;
        let found = usize::from(u16::from_be_bytes(*count));
        if found != columns.len() {
            let wanted = columns.len();
            return Err(CallError::Unfit(format!("a row of {found} columns instead of {wanted}")));
        }
        let mut rest = fields;
        for _ in 0..found {
            (_, rest) = field(rest).ok_or_else(cut)?;
        }
        if rest.is_empty() {
            Ok(Row { columns: Arc::clone(columns), fields: fields.into() })
        } else {
            Err(cut())
        }
    }

    /// The value of a column, which must have the type asked for, as with the client library's rows.
    ///
    /// # Panics
    /// When there is no such column, or it holds something else: the statements are ours.
    pub fn get<'a, T: FromSql<'a>>(&'a self, column: usize) -> T {
        let kind = self.kind(column);
        assert!(T::accepts(kind), "column {column} is {kind}");
        let mut rest = &*self.fields;
        for _ in 0..column {
            rest = field(rest).expect("looked at before").1;
        }
        let value = T::from_sql_nullable(kind, field(rest).expect("looked at before").0);
        value.unwrap_or_else(|error| panic!("column {column}: {error}"))
    }

    /// The type of a column.
    pub fn kind(&self, column: usize) -> &Type {
        &self.columns[column]
    }
}

/// The value of a row's next column, if it has one, and what follows; none if the bytes are cut off.
fn field(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Some((None, rest)) };
    rest.split_at_checked(length).map(|(value, rest)| (Some(value), rest))
}

/// The socket with what has been read of it and not used.
#[derive(Debug)]
struct Line {
    socket: File,
    sent: BytesMut,
    /// Where the kernel writes; cleared once, so that a read costs no more than what it brings.
    received: Vec<u8>,
    /// What of it has been read and not used.
    unused: Range<usize>,
    prepared: usize,
    is_broken: bool,
}

/// A connection between two uses of the client library.
#[derive(Debug)]
pub struct Calls(RefCell<Line>);

impl Calls {
    /// Takes another handle of a connected socket, on which nothing is under way.
    pub fn over(socket: File) -> Self {
        let (sent, received) = (BytesMut::with_capacity(ROOM), vec![0; ROOM]);
        Calls(RefCell::new(Line { socket, sent, received, unused: 0..0, prepared: 0, is_broken: false }))
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
        line.exchange(|tag, message| {
            if ![PARAMETER_DESCRIPTION_TAG, ROW_DESCRIPTION_TAG].contains(&tag) {
                return Ok(());
            }
            match parsed(message)? {
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
        line.exchange(|tag, message| {
            if tag == DATA_ROW_TAG {
                rows.push(Row::new(&statement.columns, &message[HEAD..])?);
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
        line.exchange(|_, _| Ok(()))
    }
}

impl Line {
    /// Sends what is to be sent, and takes messages, each with its tag, until the server is ready for more.
    fn exchange(
        &mut self,
        mut take: impl FnMut(u8, &[u8]) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let done = self.exchanged(&mut take);
        self.is_broken |= matches!(done, Err(CallError::Broken(_)));
        done
    }

    fn exchanged(
        &mut self,
        take: &mut impl FnMut(u8, &[u8]) -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        send(&self.socket, &self.sent)?;
        let mut refusal = None;
        loop {
            let place = self.next()?;
            let message = &self.received[place];
            match message[0] {
                READY_FOR_QUERY_TAG => return refusal.map_or(Ok(()), Err),
                // The server skips the rest of what it was asked, and gets ready.
                ERROR_RESPONSE_TAG => {
                    if let Message::ErrorResponse(body) = parsed(message)? {
                        refusal = Some(refused(body.fields())?);
                    }
                }
                tag => take(tag, message)?,
            }
        }
    }

    /// Where the next message stands, which is used up.
    fn next(&mut self) -> Result<Range<usize>, CallError> {
        loop {
            let unused = &self.received[self.unused.clone()];
            let mut wanted = HEAD;
            if let Some((head, _)) = unused.split_first_chunk::<HEAD>() {
                let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
                // The length counts itself.
                wanted = (length > 3).then_some(length + 1).ok_or_else(cut)?;
                if wanted <= unused.len() {
                    let place = self.unused.start..self.unused.start + wanted;
                    self.unused.start = place.end;
                    return Ok(place);
                }
            }
            self.more(wanted)?;
        }
    }

    /// Reads more of a message of `wanted` bytes, which moves to the beginning if there is no room behind it.
    fn more(&mut self, wanted: usize) -> Result<(), CallError> {
        if self.received.len() - self.unused.start < wanted.max(ROOM / 2) {
            self.received.copy_within(self.unused.clone(), 0);
            self.unused = 0..self.unused.len();
            if self.received.len() < wanted {
                self.received.resize(wanted, 0);
            }
        }
        wait_for_more(&self.socket)?;
        let count = receive(&self.socket, &mut self.received[self.unused.end..])?;
        if count == 0 {
            return Err(CallError::Broken(ErrorKind::UnexpectedEof.into()));
        }
        self.unused.end += count;
        Ok(())
    }
}

/// A message as the library reads it: for what is not read in each call.
fn parsed(message: &[u8]) -> Result<Message, CallError> {
    Message::parse(&mut BytesMut::from(message))?.ok_or_else(cut)
}

/// What came is no whole message, or no whole row.
fn cut() -> CallError {
    CallError::Broken(ErrorKind::InvalidData.into())
}

/// Sends all, as a socket's own call does it: a file's goes through more hands.
fn send(socket: &File, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the kernel reads the bytes given and no others.
        let told =
            unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        if let Some(count) = counted(told)? {
            bytes = &bytes[count..];
        }
    }
    Ok(())
}

/// Reads what there is; 0 at the connection's end.
fn receive(socket: &File, room: &mut [u8]) -> std::io::Result<usize> {
    loop {
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        let told = unsafe { libc::recv(socket.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), 0) };
        if let Some(count) = counted(told)? {
            return Ok(count);
        }
    }
}

/// How many bytes a call has moved; none if it was interrupted.
fn counted(told: isize) -> std::io::Result<Option<usize>> {
    usize::try_from(told).map(Some).or_else(|_| {
        let error = Error::last_os_error();
        (error.kind() == ErrorKind::Interrupted).then_some(None).ok_or(error)
    })
}

/// Sleeps until there is something to read, or the connection has ended. A read that waits by itself is woken also when the
/// server has taken the request, which makes room to write (`unix_write_space` in the kernel): twice in each round trip.
fn wait_for_more(socket: &File) -> std::io::Result<()> {
    let mut wanted = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    loop {
        // SAFETY: one structure is given, and its number says so.
        if counted(unsafe { libc::poll(&raw mut wanted, 1, -1) } as isize)?.is_some() {
            return Ok(());
        }
    }
}

/// A type of the server's own; ours has no others.
fn known(oid: u32) -> Type {
    Type::from_oid(oid).unwrap_or(Type::UNKNOWN)
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
#[path = "calls_tests.rs"]
mod tests;
