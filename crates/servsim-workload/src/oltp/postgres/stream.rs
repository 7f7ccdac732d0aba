//! A connection to the server that wakes its user for what can be read, and for nothing else.
//!
//! The client library's own streams also watch for room to write. Room comes back whenever the server has taken a request,
//! so that a user would wake twice in each round trip: once for the room, which it does not want, and once for the reply.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{ready, Context, Poll};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A connected socket of either kind. It blocks by itself, for [`super::calls`]; whatever is done here asks it not to.
#[derive(Debug)]
pub struct Stream(AsyncFd<File>);

impl Stream {
    /// Connects to a socket in a folder (a path), or to a numeric address.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(host: &str, port: u16) -> io::Result<Self> {
        let socket: OwnedFd = if host.starts_with('/') {
            UnixStream::connect(format!("{host}/.s.PGSQL.{port}"))?.into()
        } else {
            let socket = TcpStream::connect((host, port))?;
            socket.set_nodelay(true)?;
            socket.into()
        };
        // SAFETY: the file owns its descriptor and is never exchanged for another.
        Ok(Stream(unsafe { AsyncFd::register_with_interest(File::from(socket), Interest::READABLE) }?))
    }
}

impl Stream {
    /// Another handle of the same socket.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub fn handle(&self) -> io::Result<File> {
        self.0.get_ref().try_clone()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let wanted = buffer.remaining();
            match ready.try_io(|socket| receive(socket.as_raw_fd(), buffer)) {
                Ok(Ok(count)) => {
                    if count > 0 && count < wanted {
                        // All there was: the next look would only find out that there is no more.
                        ready.clear_ready();
                    }
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            match send(self.0.as_raw_fd(), bytes) {
                // A request larger than the socket's room: its user has nothing else to do than to wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for_room(self.0.as_raw_fd())?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return Poll::Ready(done),
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // SAFETY: the descriptor is open; the call reads nothing else.
        let failed = unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_WR) };
        Poll::Ready(if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })
    }
}

/// Reads into what is left of a buffer, which need not be cleared for that: it is much larger than most replies.
fn receive(descriptor: RawFd, buffer: &mut ReadBuf<'_>) -> io::Result<usize> {
    // SAFETY: nothing is taken for initialised that the kernel has not written.
    let space = unsafe { buffer.unfilled_mut() };
    // SAFETY: the kernel writes at most as many bytes as there is space.
    let told = unsafe { libc::recv(descriptor, space.as_mut_ptr().cast(), space.len(), libc::MSG_DONTWAIT) };
    let count = usize::try_from(told).map_err(|_| io::Error::last_os_error())?;
    // SAFETY: the kernel has written so many.
    unsafe { buffer.assume_init(count) };
    buffer.advance(count);
    Ok(count)
}

/// Writes what there is room for.
fn send(descriptor: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the bytes given and no others.
    let told = unsafe { libc::send(descriptor, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(told).map_err(|_| io::Error::last_os_error())
}

/// Blocks until the socket takes more, or has failed, which the next write tells.
fn wait_for_room(descriptor: RawFd) -> io::Result<()> {
    let mut wanted = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure is given, and its number says so.
    let told = unsafe { libc::poll(&raw mut wanted, 1, -1) };
    let error = io::Error::last_os_error();
    if told < 0 && error.kind() != io::ErrorKind::Interrupted {
        return Err(error);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// More than a socket has room for, both ways at once: nothing is lost or reordered, and nobody waits for ever.
    #[test]
    fn more_than_the_room_arrives_whole_both_ways() {
        const BYTES: usize = 3 << 20;
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.7")).unwrap();
        let sent: Vec<u8> = (0..BYTES).map(|index| (index % 251) as u8).collect();
        let server = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut received = vec![0; BYTES];
            client.read_exact(&mut received).unwrap();
            client.write_all(&received).unwrap();
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = runtime.block_on(async {
            let mut stream = Stream::connect(folder.path().to_str().unwrap(), 7).unwrap();
            stream.write_all(&sent).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut received = Vec::new();
            stream.read_to_end(&mut received).await.unwrap();
            received
        });
        server.join().unwrap();
        assert!(received == sent, "{} bytes of {BYTES}", received.len());
    }
}
