//! A connection to a web server: HTTP/1.1 with connections kept alive, as RFC 9112 has it.
//!
//! One buffer for each connection, made when it is opened: nothing is allocated for a request. Replies
//! need a `Content-Length`; others are refused, because a reply whose end is the connection's cannot be
//! told from one that broke off.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use memchr::memmem;

use crate::{Error, Result};

/// Bytes read at once, and the longest head of a reply.
const BUFFER: usize = 64 << 10;
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

/// The head of a reply, as far as the client needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    bytes: u64,
    closes: bool,
}

/// A client's connection to one server, opened anew when the server announces that it closes it.
#[derive(Debug)]
pub struct Client {
    address: String,
    stream: Option<TcpStream>,
    buffer: Box<[u8]>,
}

impl Client {
    /// A client of the server at `address` (`HOST:PORT`), connected.
    ///
    /// # Errors
    /// [`Error::Environment`] when nothing answers there.
    pub fn connect(address: &str) -> Result<Self> {
        let stream = Some(open(address)?);
        Ok(Client { address: address.to_owned(), stream, buffer: vec![0; BUFFER].into_boxed_slice() })
    }

    /// The server's address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and reads the whole reply, whose body `take` gets in pieces.
    ///
    /// # Errors
    /// [`Error::Check`] when the connection breaks, or what comes is no complete reply.
    pub fn exchange(&mut self, request: &[u8], mut take: impl FnMut(&[u8])) -> Result<Reply> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => open(&self.address)?,
        };
        stream.write_all(request).map_err(|error| broken(&error))?;
        let mut filled = 0;
        let (head, begin) = loop {
            filled += self.more(&mut stream, filled, "before the head of a reply was complete")?;
            if let Some(end) = memmem::find(&self.buffer[..filled], b"\r\n\r\n") {
                break (head(&self.buffer[..end])?, end + 4);
            }
            if filled == self.buffer.len() {
                return Err(Error::Check(format!("the head of a reply is longer than {BUFFER} bytes")));
            }
        };
        let here = (filled - begin) as u64;
        if here > head.bytes {
            return Err(Error::Check(format!("a reply of {} bytes is followed by more", head.bytes)));
        }
        take(&self.buffer[begin..filled]);
        let mut left = head.bytes - here;
        while left > 0 {
            let count = self.more(&mut stream, 0, "in the middle of a reply")?;
            if count as u64 > left {
                return Err(Error::Check(format!("a reply of {} bytes is followed by more", head.bytes)));
            }
            take(&self.buffer[..count]);
            left -= count as u64;
        }
        if !head.closes {
            self.stream = Some(stream);
        }
        Ok(Reply { status: head.status, bytes: head.bytes })
    }

    fn more(&mut self, stream: &mut TcpStream, filled: usize, when: &str) -> Result<usize> {
        loop {
            match stream.read(&mut self.buffer[filled..]) {
                Ok(0) => return Err(Error::Check(format!("the server closed a connection {when}"))),
                Ok(count) => return Ok(count),
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
        first.strip_prefix(b"HTTP/1.1 ").and_then(|rest| number(rest.get(..3)?)).ok_or_else(wrong)?;
    let (mut bytes, mut closes) = (None, false);
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else { return Err(wrong()) };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"content-length") {
            bytes = number(value);
        } else if name.eq_ignore_ascii_case(b"connection") {
            closes = value.eq_ignore_ascii_case(b"close");
        }
    }
    let bytes = bytes.ok_or_else(|| Error::Check("a reply does not say how long it is".to_owned()))?;
    Ok(Head { status: status as u16, bytes, closes })
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Answers each request of a connection with the next of `replies`, then closes it.
    fn server(connections: Vec<Vec<&'static [u8]>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for replies in connections {
                let (mut stream, _) = listener.accept().unwrap();
                for reply in replies {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        let mut byte = [0];
                        if stream.read(&mut byte).unwrap() == 0 {
                            return;
                        }
                        request.push(byte[0]);
                    }
                    // In two writes, so that heads and bodies arrive in parts.
                    let (one, other) = reply.split_at(reply.len() / 2);
                    stream.write_all(one).unwrap();
                    stream.write_all(other).unwrap();
                }
            }
        });
        address
    }

    fn ask(client: &mut Client) -> Result<(Reply, Vec<u8>)> {
        let mut body = Vec::new();
        let reply = client.exchange(b"GET / HTTP/1.1\r\n\r\n", |part| body.extend_from_slice(part))?;
        Ok((reply, body))
    }

    #[test]
    fn replies_on_one_connection_are_kept_apart() {
        let address = server(vec![vec![
            b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
            b"HTTP/1.1 404 Not Found\r\nContent-Length:0\r\n\r\n",
        ]]);
        let mut client = Client::connect(&address).unwrap();
        assert_eq!(ask(&mut client).unwrap(), (Reply { status: 200, bytes: 5 }, b"hello".to_vec()));
        assert_eq!(ask(&mut client).unwrap(), (Reply { status: 404, bytes: 0 }, Vec::new()));
    }

    #[test]
    fn an_announced_close_is_followed_by_a_new_connection() {
        let address = server(vec![
            vec![b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na"],
            vec![b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nb"],
        ]);
        let mut client = Client::connect(&address).unwrap();
        assert_eq!(ask(&mut client).unwrap().1, b"a");
        assert_eq!(ask(&mut client).unwrap().1, b"b");
    }

    #[test]
    fn what_is_no_complete_reply_is_refused() {
        for (reply, said) in [
            (&b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort"[..], "in the middle of a reply"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nlong", "followed by more"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "how long it is"),
            (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", "does not begin a reply"),
            (b"HTTP/1.1 200 OK\r\nContent-", "before the head"),
        ] {
            let mut client = Client::connect(&server(vec![vec![reply]])).unwrap();
            let error = ask(&mut client).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.exit_code(), 1);
        }
    }

    #[test]
    fn a_server_that_is_not_there_is_an_environment_problem() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        assert_eq!(Client::connect(&free).unwrap_err().exit_code(), 3);
    }
}
