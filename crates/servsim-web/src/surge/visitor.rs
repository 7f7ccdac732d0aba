//! A user of the static site: asks for pages in the order of the set's requests, counts every byte, and looks at those of a
//! sample ([`Sample`]).
//!
//! The users share one order, as in SURGE: of the pages from a place on that the seed draws, user *u* of
//! *n* asks for number *u*, *u* + *n*, *u* + 2 *n* and so on. What a user asks for then depends on the seed,
//! the user and the number of users, never on timing; the server sees the order's locality, thinned only
//! by how far users run ahead of one another.

use std::hash::Hasher;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use servsim_driver::rng::{Purpose, Stream};

use super::files::{write_path, Set};
use super::laws::Law;
use super::run::StaticSite;
use super::Model;
use crate::crew::{User, Work};
use crate::http::Client;
use crate::log::Log;
use crate::visit;
use crate::{Error, Result};

/// Kinds of transactions: a page's own file, and a reference that it embeds.
pub const KINDS: [&str; 2] = ["Page", "Embedded"];

/// Times between requests, multiplied by a factor; none at all with factor 0, as the Wisconsin suite has it.
#[derive(Clone, Copy, Debug)]
pub struct Off {
    /// The factor.
    pub scale: f64,
    active: Law,
    inactive: Law,
}

impl Off {
    /// The published times, multiplied by `scale`.
    pub fn scaled(scale: f64) -> Self {
        let model = Model::published();
        Off { scale, active: model.active_off.law(), inactive: model.inactive_off.law() }
    }
}

/// One reply of so many is looked at in full.
pub const ONE_IN: u64 = 16;

/// Which replies the users of a run look at in full, checksum included: the first for each file, and one in [`ONE_IN`] of each user's.
/// Of others the kernel counts the bytes and drops them: copying a file of 30 KB costs as much as asking for it.
#[derive(Debug)]
pub struct Sample {
    /// Of each file whether a user has looked at it.
    seen: Vec<AtomicBool>,
}

impl Sample {
    /// Of a set of which nothing was seen.
    pub fn of(set: &Set) -> Self {
        Sample::of_files(set.files.len())
    }

    fn of_files(count: usize) -> Self {
        Sample { seen: (0..count).map(|_| AtomicBool::new(false)).collect() }
    }

    /// Whether a user that has had `replies` looks at a file.
    fn holds(&self, file: u32, replies: u64) -> bool {
        let seen = &self.seen[file as usize];
        // Most were: read only, their line stays with every processor.
        (!seen.load(Ordering::Relaxed) && !seen.swap(true, Ordering::Relaxed))
            || replies.is_multiple_of(ONE_IN)
    }
}

/// A user of the static site without its connection.
#[derive(Debug)]
pub struct Mind<'a> {
    set: &'a Set,
    sample: &'a Sample,
    index: usize,
    users: usize,
    /// The next page, and which of its requests comes next.
    next: (usize, usize),
    off: Off,
    waiting: Stream,
    request: Vec<u8>,
    /// Hash of what was asked for since the last beginning.
    log: Log,
    /// Requests that were answered as they should be.
    requests: u64,
    /// Replies that were looked at in full.
    looked_at: u64,
}

/// Writes text to the end of a request.
struct Text<'a>(&'a mut Vec<u8>);

impl std::fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write_all(text.as_bytes()).map_err(|_| std::fmt::Error)
    }
}

impl<'a> Mind<'a> {
    /// That of user `index` of `users`.
    pub fn new(set: &'a Set, sample: &'a Sample, index: usize, users: usize, off: Off) -> Self {
        Mind {
            set,
            sample,
            index,
            users,
            next: (0, 0),
            off,
            waiting: Stream::new(0, Purpose::Waiting, index as u64),
            request: Vec::with_capacity(256),
            log: Log::default(),
            requests: 0,
            looked_at: 0,
        }
    }

    /// Goes on with the requests of a seed and a purpose.
    pub fn begin(&mut self, seed: u64, purpose: Purpose) {
        let pages = self.set.sequence.page_count();
        self.next = ((beginning(seed, purpose, pages) + self.index) % pages, 0);
        self.waiting = Stream::new(seed, Purpose::Waiting, self.index as u64);
        self.log = Log::default();
    }

    /// Hash of what it has asked for in the measurement's requests.
    pub fn log(&self) -> Log {
        self.log
    }

    /// Requests that were answered.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Replies that it has looked at in full.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// Asks for the next file by a connection, and looks at the reply; returns its kind, its bytes and how long it took.
    ///
    /// # Errors
    /// When the reply is not what it should be.
    pub fn asks(&mut self, client: &mut Client) -> Result<(u8, u64, Duration)> {
        if self.next.1 > 0 {
            self.pause(self.off.active);
        }
        let begin = Instant::now();
        self.sends(1, client)?;
        self.looks(begin, client)
    }

    /// Sends requests for the next `count` files of a page.
    fn sends(&mut self, count: usize, client: &mut Client) -> Result<()> {
        let (page, place) = self.next;
        self.request.clear();
        for &file in &self.set.sequence.page(page)[place..place + count] {
            self.log.write_u32(file);
            self.request.extend_from_slice(b"GET ");
            write_path(&mut Text(&mut self.request), file);
            self.request.extend_from_slice(b" HTTP/1.1\r\nHost: servsim\r\n\r\n");
        }
        client.send(&self.request, count)
    }

    /// Reads the reply for the next file, for which it has asked at `begin`.
    fn looks(&mut self, begin: Instant, client: &mut Client) -> Result<(u8, u64, Duration)> {
        let (page, place) = self.next;
        let files = self.set.sequence.page(page);
        let file = files[place];
        let entry = &self.set.files[file as usize];
        let in_full = self.sample.holds(file, self.requests);
        let mut checksum = 0;
        let reply = if in_full {
            client.receive(|part| checksum = crc32c::crc32c_append(checksum, part))
        } else {
            client.receive_head()
        }?;
        let took = begin.elapsed();
        let wrong = if reply.status != 200 {
            format!("is answered with status {}", reply.status)
        } else if reply.bytes != entry.bytes {
            format!("has {} bytes instead of {}", reply.bytes, entry.bytes)
        } else if in_full && checksum != entry.checksum {
            "is not what was written: its checksum differs".to_owned()
        } else {
            self.requests += 1;
            self.looked_at += u64::from(in_full);
            self.next = if place + 1 < files.len() {
                (page, place + 1)
            } else {
                ((page + self.users) % self.set.sequence.page_count(), 0)
            };
            return Ok((if place == 0 { 1 } else { 2 }, reply.bytes, took));
        };
        let mut path = String::new();
        write_path(&mut path, file);
        Err(Error::Check(format!("{path} {wrong}; is the server's file set the one that was loaded?")))
    }

    fn pause(&mut self, law: Law) {
        if self.off.scale > 0.0 {
            // The longest of the Pareto law has no bound: nobody waits for longer than a session lasts.
            let seconds = (law.draw(&mut self.waiting) * self.off.scale).min(3600.0);
            std::thread::sleep(Duration::from_secs_f64(seconds));
        }
    }
}

/// The page at which the users of a seed begin.
fn beginning(seed: u64, purpose: Purpose, pages: usize) -> usize {
    Stream::new(seed, purpose, 0).below(pages as u64) as usize
}

/// A user of the static site.
#[derive(Debug)]
pub struct Visitor<'a> {
    mind: Mind<'a>,
    client: Client,
    /// Whether it asks for all references of a page at once.
    pipelining: bool,
}

impl<'a> Visitor<'a> {
    /// User `index` of `users`, connected to the server of a site.
    ///
    /// # Errors
    /// When nothing answers there.
    pub fn connect(visited: StaticSite<'a>, sample: &'a Sample, index: usize, users: usize) -> Result<Self> {
        let mind = Mind::new(visited.set, sample, index, users, Off::scaled(visited.off_scale));
        // Times between the requests for references keep them apart.
        let pipelining = visited.pipelining && visited.off_scale == 0.0;
        Ok(Visitor { mind, client: Client::connect(visited.site.address)?, pipelining })
    }

    /// Asks for the references of a page at once, and reads all replies: none is left to whatever comes next.
    fn references(&mut self, work: &Work<'_>) -> Result<()> {
        let count = self.mind.set.sequence.page(self.mind.next.0).len() - 1;
        let begin = Instant::now();
        self.mind.sends(count, &mut self.client)?;
        for _ in 0..count {
            let (kind, bytes, took) = self.mind.looks(begin, &mut self.client)?;
            work.ended(kind, bytes, took)?;
        }
        Ok(())
    }
}

impl User for Visitor<'_> {
    fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.mind.begin(seed, purpose);
    }

    fn page(&mut self, work: &Work<'_>) -> Result<()> {
        loop {
            let (kind, bytes, took) = self.mind.asks(&mut self.client)?;
            work.ended(kind, bytes, took)?;
            if !work.goes_on() {
                return Ok(());
            }
            if self.pipelining && self.mind.next.1 > 0 {
                self.references(work)?;
            }
            if self.mind.next.1 == 0 {
                self.mind.pause(self.mind.off.inactive);
                return Ok(());
            }
        }
    }
}

impl visit::Visitor for Visitor<'_> {
    /// Replies that were looked at in full.
    type Deeds = u64;

    fn log(&self) -> Log {
        self.mind.log()
    }

    fn tell(&self, looked_at: &mut u64) {
        *looked_at += self.mind.looked_at();
    }

    fn requests(&self) -> u64 {
        self.mind.requests()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reply_for_each_file_and_one_in_sixteen_are_looked_at() {
        let sample = Sample::of_files(3);
        let files = [1, 2, 1, 1, 0, 2, 0];
        let held: Vec<bool> =
            files.iter().zip(1..).map(|(&file, replies)| sample.holds(file, replies)).collect();
        assert_eq!(held, [true, true, false, false, true, false, false]);
        assert_eq!([31, 32, 33].map(|replies| sample.holds(1, replies)), [false, true, false]);
    }
}
