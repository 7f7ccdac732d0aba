//! Messages, rows and waiting of [`super::Calls`], against the other end of a pair of sockets.

use super::*;
use std::io::{Read, Write};
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
fn messages_are_put_together_however_they_arrive() {
    const MESSAGES: usize = 40;
    let message = |number: usize| {
        let body = vec![number as u8; number * number * 20];
        let mut message = vec![b'D'];
        message.extend((body.len() as u32 + 4).to_be_bytes());
        message.extend(body);
        message
    };
    let (ours, mut server) = UnixStream::pair().unwrap();
    let sending = std::thread::spawn(move || {
        let all: Vec<u8> = (0..MESSAGES).flat_map(message).collect();
        // The last piece is a message that cannot be.
        all.chunks(1777).for_each(|piece| server.write_all(piece).unwrap());
        server.write_all(&[b'D', 0, 0, 0, 3]).unwrap();
    });
    let calls = Calls::over(File::from(OwnedFd::from(ours)));
    let line = &mut *calls.begun();
    for number in 0..MESSAGES {
        let place = line.next().unwrap();
        assert!(line.received[place] == message(number), "message {number}");
    }
    assert!(line.next().is_err());
    sending.join().unwrap();
}

#[test]
fn a_row_is_read_column_by_column_and_refused_if_it_is_cut() {
    let columns: Arc<[Type]> = [Type::INT4, Type::TEXT, Type::TEXT].into();
    let body = [&[0, 3, 0, 0, 0, 4, 0, 0, 1, 2, 255, 255, 255, 255, 0, 0, 0, 2][..], b"ab"].concat();
    let row = Row::new(&columns, &body).unwrap();
    assert_eq!((row.get::<i32>(0), row.get::<Option<&str>>(1), row.get::<&str>(2)), (258, None, "ab"));
    let longer = [&body[..], b"c"].concat();
    for wrong in [&body[..body.len() - 1], &body[..4], &body[..1], &longer] {
        assert!(matches!(Row::new(&columns, wrong), Err(CallError::Broken(_))), "{wrong:?}");
    }
    let fewer = Row::new(&columns[..2].into(), &body).unwrap_err();
    assert_eq!(fewer.to_string(), "a row of 3 columns instead of 2");
}

#[test]
fn a_connection_that_ends_is_no_endless_wait() {
    let (ours, server) = UnixStream::pair().unwrap();
    let mut ours = File::from(OwnedFd::from(ours));
    drop(server);
    wait_for_more(&ours).unwrap();
    assert_eq!(ours.read(&mut [0]).unwrap(), 0);
}
