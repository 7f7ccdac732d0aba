//! The client against a server of the test, which sends what it is told.

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

const LETTER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";

/// Sends so many requests at once to a server with these replies, and reads as many; what came of the last.
fn ask_at_once(replies: Vec<&'static [u8]>) -> Result<(Reply, Vec<u8>)> {
    let (count, mut client) = (replies.len(), Client::connect(&server(vec![replies])).unwrap());
    client.send(&b"GET / HTTP/1.1\r\n\r\n".repeat(count), count).unwrap();
    let mut body = Vec::new();
    let mut reply = Err(Error::Check("nothing was read".to_owned()));
    for _ in 0..count {
        reply = client.receive(|part| body.extend_from_slice(part));
        reply.as_ref().map_err(|error| Error::Check(error.to_string()))?;
    }
    assert!(client.receive(|_| {}).unwrap_err().to_string().contains("no reply is awaited"));
    Ok((reply?, body))
}

#[test]
fn replies_to_requests_sent_at_once_are_read_in_turn() {
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbc\r\n0\r\n\r\n";
    let none = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nde";
    let read = ask_at_once(vec![LETTER, chunked, none, LETTER, last]);
    assert_eq!(read.unwrap(), (Reply { status: 200, bytes: 2 }, b"abcade".to_vec()));
}

#[test]
fn a_connection_closed_before_all_replies_came_and_more_than_all_are_refused() {
    let closes = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\na";
    let more = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab";
    for (replies, said) in [
        (vec![LETTER, closes, LETTER], "closes a connection that awaits 1 more"),
        (vec![LETTER, more], "followed by more"),
        (vec![more, LETTER], "does not begin a reply"),
    ] {
        let error = ask_at_once(replies).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_body_that_is_dropped_is_counted_and_what_follows_it_is_found() {
    // Longer than what is read at once, and than the buffer; a body that comes with its head; none; chunks, which are read.
    let long = |bytes: usize| -> &'static [u8] {
        let mut reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").into_bytes();
        reply.resize(reply.len() + bytes, b'x');
        reply.leak()
    };
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbc\r\n0\r\n\r\n";
    let replies = vec![long(5000), long(3 * BUFFER), LETTER, long(0), chunked, long(4096), LETTER];
    let count = replies.len();
    let mut client = Client::connect(&server(vec![replies])).unwrap();
    client.send(&b"GET / HTTP/1.1\r\n\r\n".repeat(count), count).unwrap();
    for bytes in [5000, 3 * BUFFER as u64, 1, 0, 2, 4096] {
        assert_eq!(client.receive_head().unwrap(), Reply { status: 200, bytes });
    }
    let mut body = Vec::new();
    assert_eq!(client.receive(|part| body.extend_from_slice(part)).unwrap().bytes, 1);
    assert_eq!(body, b"a");
}

#[test]
fn a_body_that_breaks_off_while_it_is_dropped_is_refused() {
    let mut reply = b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n".to_vec();
    reply.resize(9000, b'x');
    let mut client = Client::connect(&server(vec![vec![reply.leak()]])).unwrap();
    client.send(b"GET / HTTP/1.1\r\n\r\n", 1).unwrap();
    let error = client.receive_head().unwrap_err();
    assert!(error.to_string().contains("in the middle of a reply"), "{error}");
}

#[test]
fn chunks_are_put_together_and_their_extensions_and_trailers_left_out() {
    let address = server(vec![vec![
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n\
          5;a=b\r\nhello\r\n00B\r\n, world\r\n!!\r\n0\r\nDate: never\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ]]);
    let mut client = Client::connect(&address).unwrap();
    assert_eq!(ask(&mut client).unwrap(), (Reply { status: 200, bytes: 16 }, b"hello, world\r\n!!".to_vec()));
    assert_eq!(ask(&mut client).unwrap(), (Reply { status: 200, bytes: 0 }, Vec::new()));
}

#[test]
fn chunks_may_end_anywhere_in_the_buffer() {
    // Each chunk is a little shorter than the one before, so that sizes and ends meet the buffer's end everywhere.
    let chunks: Vec<usize> = (0..400).map(|index| 1500 - index).collect();
    let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for &size in &chunks {
        reply.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        reply.extend(std::iter::repeat_n(b'a' + (size % 26) as u8, size));
        reply.extend_from_slice(b"\r\n");
    }
    reply.extend_from_slice(b"0\r\n\r\n");
    let whole: Vec<u8> =
        chunks.iter().flat_map(|&size| std::iter::repeat_n(b'a' + (size % 26) as u8, size)).collect();
    let mut client = Client::connect(&server(vec![vec![reply.leak()]])).unwrap();
    let (read, body) = ask(&mut client).unwrap();
    assert_eq!(read.bytes, whole.len() as u64);
    assert!(body == whole);
}

#[test]
fn the_last_cookie_is_kept_until_it_is_forgotten() {
    let address = server(vec![vec![
        b"HTTP/1.1 200 OK\r\nSet-Cookie: session=7; Path=/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nset-cookie:session=12\r\nContent-Length: 0\r\n\r\n",
    ]]);
    let mut client = Client::connect(&address).unwrap();
    assert_eq!(client.cookie(), b"");
    for cookie in [b"session=7".as_slice(), b"session=7", b"session=12"] {
        ask(&mut client).unwrap();
        assert_eq!(client.cookie(), cookie);
    }
    client.forget_cookie();
    assert_eq!(client.cookie(), b"");
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
        (b"HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na", "how long it is"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "cannot read"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+2\r\nab\r\n", "instead of its size"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
            "chunk of 2 bytes is followed",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", "in the middle of a reply"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nmore", "followed by more"),
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
