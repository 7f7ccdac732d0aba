//! A connection to a web server: HTTP/1.1 with connections kept alive, as RFC 9112 has it.
//!
//! One buffer for each connection, made when it is opened: nothing is allocated for a request. Replies
//! need a `Content-Length` or come in chunks; others are refused, because a reply whose end is the connection's
//! cannot be told from one that broke off. The last cookie that the server has set is kept, without its attributes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::time::Duration;

use memchr::memmem::Finder;

use crate::rows::put;
use crate::{Error, Result};

/// Bytes read at once, and the longest head of a reply.
const BUFFER: usize = 64 << 10;
/// Bytes read at once where a body is to be dropped: a head, and most of what comes with it.
const HEAD_ROOM: usize = 4 << 10;
/// Places in [`Client::ends`]: what ends a head, and a line.
const HEAD: usize = 0;
const LINE: usize = 1;
/// The longest cookie that is kept.
const COOKIE: usize = 4096;
/// A server that says nothing for so long has failed.
const PATIENCE_SECONDS: u64 = 60;

/// What a reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Bytes of its body.
    pub bytes: u64,
}

/// Writes a request for the page at `path` and `name`, whose fields are part of its address, or else a form that is `sent`.
pub fn write_request(
    out: &mut Vec<u8>,
    (path, name): (&str, &str),
    (sent, fields): (bool, &[u8]),
    cookie: &[u8],
) {
    out.clear();
    if sent {
        put!(out, "POST {path}{name} HTTP/1.1\r\nHost: servsim\r\nContent-Length: {}\r\n", fields.len());
    } else {
        put!(out, "GET {path}{name}?");
        out.extend_from_slice(fields);
        put!(out, " HTTP/1.1\r\nHost: servsim\r\n");
    }
    if !cookie.is_empty() {
        put!(out, "Cookie: ");
        out.extend_from_slice(cookie);
        put!(out, "\r\n");
    }
    put!(out, "\r\n");
    if sent {
        out.extend_from_slice(fields);
    }
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Bytes(u64),
    Chunks,
}

/// The head of a reply, as far as the client needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body: Body,
    closes: bool,
    /// Where in the head the cookie stands that it sets.
    cookie: Option<Range<usize>>,
}

/// A client's connection to one server, opened anew when the server announces that it closes it.
#[derive(Debug)]
pub struct Client {
    address: String,
    stream: Option<TcpStream>,
    buffer: Box<[u8]>,
    /// What of the buffer has been read and not used.
    unused: Range<usize>,
    /// Most bytes that are read at once.
    at_once: usize,
    /// Replies to what was sent that have not been read.
    awaited: usize,
    cookie: Vec<u8>,
    /// What ends a head, and a line.
    ends: [Finder<'static>; 2],
}

impl Client {
    /// A client of the server at `address` (`HOST:PORT`), connected.
    ///
    /// # Errors
    /// [`Error::Environment`] when nothing answers there.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = Some(open(address)?);
        let buffer = vec![0; BUFFER].into_boxed_slice();
        let cookie = Vec::with_capacity(COOKIE);
        let ends = [Finder::new(b"\r\n\r\n"), Finder::new(b"\r\n")];
        Ok(Client {
            address: address.to_owned(),
            stream,
            buffer,
            unused: 0..0,
            at_once: BUFFER,
            awaited: 0,
            cookie,
            ends,
        })
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The last cookie that the server has set, as `NAME=VALUE`; empty if there is none.
    pub fn cookie(&self) -> &[u8] {
        &self.cookie
    }

    /// Forgets the cookie: whoever asks next is somebody else.
    pub fn forget_cookie(&mut self) {
        self.cookie.clear();
    }

    /// Sends a request and reads the whole reply, whose body `take` gets in pieces.
    ///
    /// # Errors
    /// [`Error::Check`] when the connection breaks, or what comes is no complete reply.
    pub fn exchange(&mut self, request: &[u8], take: impl FnMut(&[u8])) -> Result<Reply> {
        self.send(request, 1)?;
        self.receive(take)
    }

    /// Sends `count` requests, one behind the other without waiting (RFC 9112, 9.3.2): as many replies are to be received before the
    /// next. They must be so short that the connection takes them while the server's replies wait.
    ///
    /// # Errors
    /// [`Error::Check`] when the connection breaks.
    pub fn send(&mut self, requests: &[u8], count: usize) -> Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(&self.address)?,
        };
        stream.write_all(requests).map_err(|error| broken(&error))?;
        (self.stream, self.unused, self.awaited) = (Some(stream), 0..0, count);
        Ok(())
    }

    /// Reads the whole reply to the next request that was sent, whose body `take` gets in pieces.
    ///
    /// # Errors
    /// As for [`Client::exchange`], and when no reply is awaited.
    pub fn receive(&mut self, take: impl FnMut(&[u8])) -> Result<Reply> {
        self.at_once = BUFFER;
        self.reply(take, false)
    }

    /// Reads the head of the next reply, and counts its body, most of which the kernel drops instead of copying it.
    ///
    /// # Errors
    /// As for [`Client::receive`].
    pub fn receive_head(&mut self) -> Result<Reply> {
        self.at_once = HEAD_ROOM;
        self.reply(|_| {}, true)
    }

    fn reply(&mut self, mut take: impl FnMut(&[u8]), drops: bool) -> Result<Reply> {
        let (Some(left), Some(mut stream)) = (self.awaited.checked_sub(1), self.stream.take()) else {
            return Err(Error::Check("no reply is awaited".to_owned()));
        };
        self.awaited = left;
        let text =
            self.until(&mut stream, HEAD, "the head of a reply", "before the head of a reply was complete")?;
        let head = head(&self.buffer[text.clone()])?;
        if let Some(cookie) = head.cookie {
            if cookie.len() > COOKIE {
                return Err(Error::Check(format!("a cookie is longer than {COOKIE} bytes")));
            }
            self.cookie.clear();
            self.cookie.extend_from_slice(&self.buffer[text][cookie]);
        }
        let bytes = match head.body {
            Body::Bytes(bytes) if drops => {
                let there = bytes.min(self.unused.len() as u64);
                self.unused.start += there as usize;
                self.dropped(&stream, bytes - there)?;
                bytes
            }
            Body::Bytes(bytes) => {
                self.pass(&mut stream, bytes, &mut take)?;
                bytes
            }
            Body::Chunks => self.chunks(&mut stream, &mut take)?,
        };
        if left == 0 && !self.unused.is_empty() {
            return Err(Error::Check(format!("a reply of {bytes} bytes is followed by more")));
        }
        if !head.closes {
            self.stream = Some(stream);
        } else if left > 0 {
            return Err(Error::Check(format!(
                "the server closes a connection that awaits {left} more replies"
            )));
        }
        Ok(Reply { status: head.status, bytes })
    }

    /// Passes the chunks of a body on, and returns how many bytes they have together (RFC 9112, 7.1).
    fn chunks(&mut self, stream: &mut TcpStream, take: &mut impl FnMut(&[u8])) -> Result<u64> {
        let mut bytes = 0;
        loop {
            let line = self.line(stream)?;
            let size = chunk_size(&self.buffer[line])?;
            if size == 0 {
                break;
            }
            self.pass(stream, size, take)?;
            if !self.line(stream)?.is_empty() {
                return Err(Error::Check(format!("a chunk of {size} bytes is followed by more")));
            }
            bytes += size;
        }
        // Trailers end with an empty line.
        while !self.line(stream)?.is_empty() {}
        Ok(bytes)
    }

    /// The next line without its end.
    fn line(&mut self, stream: &mut TcpStream) -> Result<Range<usize>> {
        self.until(stream, LINE, "a line between chunks", "in the middle of a reply")
    }

    /// What comes before an end, which is used up with it.
    fn until(&mut self, stream: &mut TcpStream, end: usize, what: &str, when: &str) -> Result<Range<usize>> {
        loop {
            let end = &self.ends[end];
            if let Some(found) = end.find(&self.buffer[self.unused.clone()]) {
                let text = self.unused.start..self.unused.start + found;
                self.unused.start = text.end + end.needle().len();
                return Ok(text);
            }
            if self.unused.len() == self.buffer.len() {
                return Err(Error::Check(format!("{what} is longer than {BUFFER} bytes")));
            }
            self.more(stream, when)?;
        }
    }

    /// Passes on the next `left` bytes.
    fn pass(&mut self, stream: &mut TcpStream, mut left: u64, take: &mut impl FnMut(&[u8])) -> Result<()> {
        while left > 0 {
            if self.unused.is_empty() {
                self.more(stream, "in the middle of a reply")?;
            }
            let start = self.unused.start;
            let end = start + left.min(self.unused.len() as u64) as usize;
            take(&self.buffer[start..end]);
            left -= (end - start) as u64;
            self.unused.start = end;
        }
        Ok(())
    }

    /// Lets the kernel drop the next `left` bytes, of which none has been read.
    fn dropped(&mut self, stream: &TcpStream, mut left: u64) -> Result<()> {
        while left > 0 {
            let most = left.min(self.buffer.len() as u64) as usize;
            // SAFETY: there is room for as many bytes as are asked for; with this flag (tcp(7)) the kernel writes none of them.
            let told = unsafe {
                libc::recv(stream.as_raw_fd(), self.buffer.as_mut_ptr().cast(), most, libc::MSG_TRUNC)
            };
            match u64::try_from(told) {
                Ok(0) => return Err(closed("in the middle of a reply")),
                Ok(count) => left -= count,
                Err(_) => match std::io::Error::last_os_error() {
                    error if error.kind() == ErrorKind::Interrupted => {}
                    error => return Err(broken(&error)),
                },
            }
        }
        Ok(())
    }

    /// Reads more behind what is unused, which moves to the beginning of a full buffer.
    fn more(&mut self, stream: &mut TcpStream, when: &str) -> Result<()> {
        if self.unused.is_empty() {
            self.unused = 0..0;
        } else if self.unused.end == self.buffer.len() {
            self.buffer.copy_within(self.unused.clone(), 0);
            self.unused = 0..self.unused.len();
        }
        loop {
            let end = self.buffer.len().min(self.unused.end + self.at_once);
            match stream.read(&mut self.buffer[self.unused.end..end]) {
                Ok(0) => return Err(closed(when)),
                Ok(count) => {
                    self.unused.end += count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&error)),
            }
        }
    }
}

fn open(address: &str) -> Result<TcpStream> {
    let failed = |error| Error::Environment(format!("no web server answers at {address}: {error}"));
    let stream = TcpStream::connect(address).map_err(failed)?;
    // A request is one write: it must not wait for the acknowledgement of the one before.
    stream.set_nodelay(true).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_secs(PATIENCE_SECONDS))).map_err(failed)?;
    Ok(stream)
}

fn closed(when: &str) -> Error {
    Error::Check(format!("the server closed a connection {when}"))
}

fn broken(error: &std::io::Error) -> Error {
    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
        return Error::Check(format!("the server has not answered for {PATIENCE_SECONDS} s"));
    }
    Error::Check(format!("a connection to the server broke: {error}"))
}

/// Reads status and headers; `text` ends before the empty line.
fn head(text: &[u8]) -> Result<Head> {
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let first = lines.next().unwrap_or_default();
    let wrong =
        || Error::Check(format!("{:?} does not begin a reply of HTTP/1.1", String::from_utf8_lossy(first)));
    let status =
        first.strip_prefix(b"HTTP/1.1 ").and_then(|rest| number(rest.get(..3)?, 10)).ok_or_else(wrong)?;
    let (mut bytes, mut chunks, mut closes, mut cookie) = (None, false, false, None);
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return Err(wrong()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            bytes = number(value, 10);
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if !value.eq_ignore_ascii_case(b"chunked") {
                let coding = String::from_utf8_lossy(value);
                return Err(Error::Check(format!(
                    "a reply is coded as {coding:?}, which the client cannot read"
                )));
            }
            chunks = true;
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        } else if name.eq_ignore_ascii_case(b"set-cookie") {
            let pair = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
            let start = pair.as_ptr() as usize - text.as_ptr() as usize;
            cookie = Some(start..start + pair.len());
        }
    }
    // Chunks go before a length (RFC 9112, 6.3).
    let length = || {
        bytes.map(Body::Bytes).ok_or_else(|| Error::Check("a reply does not say how long it is".to_owned()))
    };
    let body = if chunks { Body::Chunks } else { length()? };
    Ok(Head { status: status as u16, body, closes, cookie })
}

/// The size of a chunk, before extensions (RFC 9112, 7.1.1).
fn chunk_size(line: &[u8]) -> Result<u64> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    number(digits, 16).ok_or_else(|| {
        let line = String::from_utf8_lossy(line);
        Error::Check(format!("a chunk of a reply begins with {line:?} instead of its size"))
    })
}

/// A number of digits alone.
fn number(text: &[u8], base: u32) -> Option<u64> {
    // The library would take a sign as well.
    let text = text.first().is_some_and(u8::is_ascii_hexdigit).then(|| std::str::from_utf8(text).ok())??;
    u64::from_str_radix(text, base).ok()
}

#[cfg(test)]
mod tests;
