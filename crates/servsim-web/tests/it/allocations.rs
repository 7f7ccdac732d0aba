//! A client of a web server allocates nothing once it is warm: what it costs is the server's work, not its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use servsim_web::http::Client;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread allocates.
struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as demanded of our caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as demanded of our caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What a piece of work allocates on this thread.
fn allocations(mut work: impl FnMut()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    work();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_warm_client_allocates_nothing_for_chunks_and_cookies() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        let replies = [
            "HTTP/1.1 200 OK\r\nSet-Cookie: session=1234\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        ];
        for (_, reply) in lines.map_while(Result::ok).filter(String::is_empty).zip(replies.iter().cycle()) {
            stream.write_all(reply.as_bytes()).unwrap();
        }
    });
    let mut client = Client::connect(&address).unwrap();
    let mut body = Vec::with_capacity(100);
    let mut ask = |times| {
        for _ in 0..times {
            body.clear();
            let reply =
                client.exchange(b"GET / HTTP/1.1\r\n\r\n", |part| body.extend_from_slice(part)).unwrap();
            assert_eq!((reply.bytes, body.as_slice()), (3, b"abc".as_slice()));
        }
    };
    ask(2);
    assert_eq!(allocations(|| ask(100)), 0);
    assert!(allocations(|| drop(vec![0; 10])) > 0, "the count counts");
}
