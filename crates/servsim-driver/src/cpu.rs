//! Processor time of this process and of the server, from `/proc`.
//!
//! `/proc/PID/schedstat` gives nanoseconds, of a process's first thread alone; for a process of several
//! threads, and where a kernel has no such file, `/proc/PID/stat` gives clock ticks (of a hundredth of a
//! second) of all threads, those that have ended included.
//! The server is every child of its first process, so background writers count as server work;
//! processes that ended in between do not.

use serde_json::{json, Value};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seconds of processor time used so far.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// This process.
    pub client_seconds: f64,
    /// The server's processes; `None` when they are not on this host.
    pub server_seconds: Option<f64>,
}

impl Times {
    /// What a report says of them; `share` is the client's of both, `ratio` the client's to the server's.
    pub fn report(self, transactions: u64) -> Value {
        let client = self.client_seconds;
        let of_server = self.server_seconds.filter(|&server| server > 0.0);
        json!({
            "client_seconds": client,
            "server_seconds": self.server_seconds,
            "share": self.server_seconds.map(|server| client / (client + server)),
            "ratio": of_server.map(|server| client / server),
            "client_microseconds_per_transaction": client * 1e6 / transactions.max(1) as f64,
        })
    }

    /// What was used since an earlier reading.
    #[must_use]
    pub fn since(self, before: Times) -> Times {
        Times {
            client_seconds: self.client_seconds - before.client_seconds,
            server_seconds: self.server_seconds.zip(before.server_seconds).map(|(now, then)| now - then),
        }
    }
}

/// Which processes the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The children of the parent of this process: any process that serves this client.
    Siblings(u32),
    /// This process, its children, theirs, and so on.
    Family(u32),
    /// None that can be seen from here.
    Elsewhere,
}

impl Server {
    /// Reads the processor times of this process and of the server. What reading costs, on a host of many processes some
    /// milliseconds, is nobody's.
    pub fn times(self) -> Times {
        static READING: AtomicU64 = AtomicU64::new(0);
        let begin = thread_nanoseconds();
        let of_children =
            |parent| processes().filter(move |&id| fields(id).is_some_and(|found| found.parent == parent));
        let server_seconds = match self {
            Server::Siblings(one) => {
                fields(one).map(|found| of_children(found.parent).filter_map(seconds).sum())
            }
            Server::Family(first) => seconds(first)
                .map(|own| own + descendants(first).into_iter().filter_map(seconds).sum::<f64>()),
            Server::Elsewhere => None,
        };
        let cost = thread_nanoseconds() - begin;
        let all = READING.fetch_add(cost, Ordering::Relaxed) + cost;
        Times { client_seconds: own_seconds() - all as f64 / 1e9, server_seconds }
    }
}

/// The children of a process, theirs, and so on.
fn descendants(first: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|id| fields(id).map(|found| (id, found.parent))).collect();
    let mut family = vec![first];
    let mut next = 0;
    while let Some(&parent) = family.get(next) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(id, _)| id));
        next += 1;
    }
    family.split_off(1)
}

/// Reads the processor times; `backend` is any server process that serves this client.
pub fn read(backend: u32) -> Times {
    Server::Siblings(backend).times()
}

/// Processor time of this process: all its threads, those that have ended included. Files in `/proc`
/// tell either the first thread's alone or no more than ticks.
fn own_seconds() -> f64 {
    nanoseconds_of(libc::CLOCK_PROCESS_CPUTIME_ID) as f64 / 1e9
}

/// Lets the calling thread, and those that it starts from here on, wake without taking the processor from whoever runs
/// (`SCHED_BATCH`). Every reply wakes a user: of a load generator on the server's own machine each would interrupt the server,
/// and cost a switch of tasks more. Where the kernel refuses, only that is not saved.
pub fn give_way() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the structure it is given; 0 is the calling thread.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

/// Nanoseconds of processor time of the calling thread.
pub fn thread_nanoseconds() -> u64 {
    nanoseconds_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// What a clock of the kernel shows; zero where there is none.
fn nanoseconds_of(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock writes to the structure it is given.
    let failed = unsafe { libc::clock_gettime(clock, &raw mut time) };
    if failed == 0 {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    } else {
        0
    }
}

struct Fields {
    parent: u32,
    ticks: u64,
}

/// The parent and the user plus system ticks of a process (proc(5): fields 4, 14 and 15).
fn fields(process: u32) -> Option<Fields> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The command name may hold blanks and parentheses: fields count from its last parenthesis.
    let rest: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |index: usize| rest.get(index).and_then(|field| field.parse::<u64>().ok());
    Some(Fields { parent: number(1)? as u32, ticks: number(11)? + number(12)? })
}

fn seconds(process: u32) -> Option<f64> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).ok()?.count();
    let nanoseconds = || -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{process}/schedstat")).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    };
    if let Some(nanoseconds) = (threads == 1).then(nanoseconds).flatten() {
        return Some(nanoseconds as f64 / 1e9);
    }
    // SAFETY: sysconf only reads its argument.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Some(fields(process)?.ticks as f64 / per_second as f64)
}

/// The processor time of one process, for frequent reading.
#[derive(Debug)]
pub struct ProcessTime(Option<File>);

impl ProcessTime {
    /// Of the process with this identifier.
    pub fn of(process: u32) -> Self {
        ProcessTime(File::open(format!("/proc/{process}/schedstat")).ok())
    }

    /// Nanoseconds so far; zero where the kernel does not tell.
    pub fn nanoseconds(&self) -> u64 {
        let mut text = [0; 64];
        let length = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let first = text[..length].split(|byte| *byte == b' ').next();
        first.and_then(|word| std::str::from_utf8(word).ok()?.parse().ok()).unwrap_or(0)
    }
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_time_grows_with_work() {
        let before = read(std::process::id()).client_seconds;
        let start = std::time::Instant::now();
        let mut sum = 0u64;
        while start.elapsed().as_millis() < 60 {
            sum = sum.wrapping_add(std::hint::black_box(1));
        }
        assert!(sum > 0 && read(std::process::id()).client_seconds > before);
    }

    #[test]
    fn work_of_a_thread_that_has_ended_is_the_process_s_own() {
        let before = own_seconds();
        let work = || {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 60 {
                std::hint::black_box(1);
            }
            own_seconds()
        };
        let inside = std::thread::spawn(work).join().unwrap();
        assert!(inside > before && own_seconds() >= inside);
    }

    #[test]
    fn reading_the_times_costs_the_client_nothing() {
        let own = || nanoseconds_of(libc::CLOCK_PROCESS_CPUTIME_ID);
        let (before, begin, thread) = (read(std::process::id()), own(), thread_nanoseconds());
        for _ in 0..50 {
            read(std::process::id());
        }
        // Other tests may work meanwhile: what this thread has spent is no part of what is told, theirs is.
        let (spent, reading) = ((own() - begin) as f64, (thread_nanoseconds() - thread) as f64);
        let told = read(std::process::id()).since(before).client_seconds * 1e9;
        assert!(
            told < spent - reading / 2.0,
            "{told} ns are told of {spent}, of which reading took {reading}"
        );
    }

    #[test]
    fn who_gives_way_does_so_with_the_threads_that_it_starts() {
        // SAFETY: 0 is the calling thread; nothing is written.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        let of_others = policy();
        let of_a_child = std::thread::spawn(move || {
            give_way();
            std::thread::spawn(policy).join().unwrap()
        });
        assert_eq!(of_a_child.join().unwrap(), libc::SCHED_BATCH);
        assert_eq!(policy(), of_others, "whoever started it does not");
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_time() {
        assert!(read(u32::MAX).server_seconds.is_none());
    }
}
