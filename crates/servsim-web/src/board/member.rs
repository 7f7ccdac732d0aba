//! A user of the board: draws requests, sends them, and looks whether the pages are right.

use std::hash::Hasher;
use std::time::{Duration, Instant};

use servsim_driver::rng::{Purpose, Stream};

use super::mix::{Mix, Request};
use super::page::Reader;
use super::size::{Favourites, Size};
use super::wishes::Wishes;
use crate::crew::{User, Work};
use crate::http::{write_request, Client};
use crate::log::Log;
use crate::page::answered;
use crate::tpcw::browser::think;
use crate::visit::Visitor;
use crate::{Error, Result};

/// Longest page that needs no more memory.
const PAGE: usize = 256 << 10;

/// What users have in common.
#[derive(Clone, Copy, Debug)]
pub struct Habits<'a> {
    /// The server (`HOST:PORT`).
    pub address: &'a str,
    /// Size of the board.
    pub size: Size,
    /// Which of its stories are asked for.
    pub favourites: &'a Favourites,
    /// The mix of requests.
    pub mix: &'a Mix,
    /// Factor on the times to think; 0 for none.
    pub think_scale: f64,
}

/// What users have done together, warm-up included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deeds {
    /// Comments posted.
    pub comments: u64,
    /// Stories posted.
    pub stories: u64,
    /// Members entered.
    pub members: u64,
    /// Points given or taken.
    pub moderations: u64,
}

/// A user without its connection.
#[derive(Debug)]
pub struct Mind<'a> {
    habits: Habits<'a>,
    index: u64,
    wishes: Wishes,
    waiting: Stream,
    reader: Reader,
    request: Vec<u8>,
    page: Vec<u8>,
    log: Log,
    deeds: Deeds,
    requests: u64,
}

impl<'a> Mind<'a> {
    /// That of user `index`.
    pub fn new(habits: Habits<'a>, index: u64) -> Self {
        Mind {
            habits,
            index,
            wishes: Wishes::new(habits.size, index),
            waiting: Stream::new(0, Purpose::Waiting, index),
            reader: Reader::new(habits.size),
            request: Vec::with_capacity(32 << 10),
            page: Vec::with_capacity(PAGE),
            log: Log::default(),
            deeds: Deeds::default(),
            requests: 0,
        }
    }

    /// Goes on with the requests of a seed and a purpose.
    pub fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.wishes.begin(seed, purpose);
        self.waiting = Stream::new(seed, Purpose::Waiting, self.index);
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

    /// Adds what it has done.
    pub fn tell(&self, deeds: &mut Deeds) {
        deeds.comments += self.deeds.comments;
        deeds.stories += self.deeds.stories;
        deeds.members += self.deeds.members;
        deeds.moderations += self.deeds.moderations;
    }

    /// Thinks, asks for one page by a connection, and looks at it; returns what it was, its bytes and how long it took.
    ///
    /// # Errors
    /// When the page is not what it should be.
    pub fn asks(&mut self, client: &mut Client) -> Result<(Request, u64, Duration)> {
        let Habits { mix, favourites, think_scale, .. } = self.habits;
        if think_scale > 0.0 {
            std::thread::sleep(Duration::from_secs_f64(think(&mut self.waiting) * think_scale));
        }
        let begin = Instant::now();
        let wish = self.wishes.next(mix, favourites);
        let Wishes { form, text, name, .. } = &self.wishes;
        let path = wish.request.name();
        self.log.write_u8(wish.request as u8);
        self.log.write(form);
        write_request(&mut self.request, ("/board/", path), (wish.request.writes(), form), &[]);
        self.page.clear();
        let page = &mut self.page;
        let reply = client.exchange(&self.request, |part| page.extend_from_slice(part))?;
        self.requests += 1;
        let right = answered(reply).and_then(|()| self.reader.read(&self.page, wish, text, name));
        let deed = right.map_err(|error| Error::Check(format!("the page {path} {error}")))?;
        let count = match wish.request {
            Request::Submit => &mut self.deeds.stories,
            Request::Register => &mut self.deeds.members,
            Request::Moderate => &mut self.deeds.moderations,
            _ => &mut self.deeds.comments,
        };
        *count += u64::from(deed.entered || deed.applied);
        Ok((wish.request, reply.bytes, begin.elapsed()))
    }
}

/// A user of the board.
#[derive(Debug)]
pub struct Member<'a> {
    mind: Mind<'a>,
    client: Client,
}

impl<'a> Member<'a> {
    /// User `index`, connected.
    ///
    /// # Errors
    /// When nothing answers.
    pub fn connect(habits: Habits<'a>, index: u64) -> Result<Self> {
        Ok(Member { mind: Mind::new(habits, index), client: Client::connect(habits.address)? })
    }
}

impl User for Member<'_> {
    fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.mind.begin(seed, purpose);
    }

    fn page(&mut self, work: &Work<'_>) -> Result<()> {
        let (request, bytes, took) = self.mind.asks(&mut self.client)?;
        work.ended(request as u8, bytes, took)
    }
}

impl Visitor for Member<'_> {
    type Deeds = Deeds;

    fn log(&self) -> Log {
        self.mind.log()
    }

    fn tell(&self, deeds: &mut Deeds) {
        self.mind.tell(deeds);
    }

    fn requests(&self) -> u64 {
        self.mind.requests()
    }
}
