//! Users who ask one server for static files and for pages of a message board: of a hundred requests 70 and 30.
//!
//! Each user deals its requests from a deck of its own, so that every run has the shares, whatever the server is faster at: the files
//! are those of [`crate::surge`], in the order of that site's requests, the pages those of [`crate::board`].

use std::hash::Hasher;

use serde_json::{json, Value};
use servsim_driver::rng::{Purpose, Stream};

use crate::board::member::{Deeds, Habits, Mind as Member};
use crate::board::mix::{Request, KINDS as PAGES};
use crate::board::run::{counts, told};
use crate::crew::{Plan, Tally, User, Work};
use crate::http::Client;
use crate::log::Log;
use crate::report::{self, About};
use crate::surge::files::Set;
use crate::surge::run::contents;
use crate::surge::visitor::{Mind as Reader, Off, Sample, KINDS as FILES};
use crate::visit::{consistent, visit, Site, Visited, Visitor};
use crate::{Error, Result};

/// What reports say of the workload.
pub const NOTICE: &str =
    "webmix: static files after the published model of SURGE, not SURGE, and a message board of its own, on one server";
/// Requests of a deck.
const DECK: u64 = 10;
/// Names of the kinds of transactions: files, then pages of the board.
pub const KINDS: [&str; FILES.len() + PAGES.len()] = {
    let mut names = [""; FILES.len() + PAGES.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = if at < FILES.len() { FILES[at] } else { PAGES[at - FILES.len()] };
        at += 1;
    }
    names
};

/// What a run needs beside its plan.
#[derive(Clone, Copy, Debug)]
pub struct Mixed<'a> {
    /// The static site.
    pub set: &'a Set,
    /// What the users of the board have in common.
    pub habits: Habits<'a>,
    /// Of a hundred requests of the board, how many write.
    pub writes: u64,
    /// Of ten requests, how many are for files.
    pub files_of_ten: u64,
    /// Who is visited.
    pub site: Site<'a>,
}

/// A user of both.
#[derive(Debug)]
struct Surfer<'a> {
    reader: Reader<'a>,
    member: Member<'a>,
    client: Client,
    index: u64,
    files_of_ten: u64,
    dealer: Stream,
    /// What is left of the deck: whether each request is for a file.
    deck: Vec<bool>,
}

impl<'a> Surfer<'a> {
    fn connect(mixed: Mixed<'a>, sample: &'a Sample, index: u64, users: u64) -> Result<Self> {
        Ok(Surfer {
            reader: Reader::new(mixed.set, sample, index as usize, users as usize, Off::scaled(0.0)),
            member: Member::new(mixed.habits, index),
            client: Client::connect(mixed.habits.address)?,
            index,
            files_of_ten: mixed.files_of_ten,
            dealer: Stream::new(0, Purpose::WarmUp, index),
            deck: Vec::with_capacity(DECK as usize),
        })
    }
}

impl User for Surfer<'_> {
    fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.reader.begin(seed, purpose);
        self.member.begin(seed, purpose);
        // Streams of the board's requests have the numbers of the users; those of decks are far from them.
        self.dealer = Stream::new(seed, purpose, self.index | 1 << 33);
        self.deck.clear();
    }

    fn page(&mut self, work: &Work<'_>) -> Result<()> {
        if self.deck.is_empty() {
            self.deck.extend((0..DECK).map(|card| card < self.files_of_ten));
            self.dealer.shuffle(&mut self.deck);
        }
        if self.deck.pop() == Some(true) {
            let (kind, bytes, took) = self.reader.asks(&mut self.client)?;
            work.ended(kind, bytes, took)
        } else {
            let (request, bytes, took) = self.member.asks(&mut self.client)?;
            work.ended(FILES.len() as u8 + request as u8, bytes, took)
        }
    }
}

impl Visitor for Surfer<'_> {
    /// What users did on the board; replies for files that were looked at in full, and all of them.
    type Deeds = (Deeds, [u64; 2]);

    fn log(&self) -> Log {
        let mut both = self.reader.log();
        both.write_u64(self.member.log().0);
        both
    }

    fn tell(&self, (deeds, [looked_at, files]): &mut Self::Deeds) {
        self.member.tell(deeds);
        *looked_at += self.reader.looked_at();
        *files += self.reader.requests();
    }

    fn requests(&self) -> u64 {
        self.reader.requests() + self.member.requests()
    }
}

/// What of a part was measured.
fn part(tallies: &[Tally], total: u64) -> Value {
    let (count, bytes) = tallies.iter().fold((0, 0), |(c, b), tally| (c + tally.count, b + tally.bytes));
    json!({"transactions": count, "percent": count as f64 / total.max(1) as f64 * 100.0, "bytes": bytes})
}

/// Why so many of `total` requests cannot be for files, where `of_ten` should be: off by more than one point, and by more than what
/// `users` have left of a deck at either end can make.
fn unfit(files: u64, total: u64, of_ten: u64, users: u64) -> Option<String> {
    let off = (files as f64 - total as f64 * of_ten as f64 / DECK as f64).abs();
    // Of a deck cut anywhere, the files are off by a variance of at most .6 at each end; five standard deviations.
    let decks = 5.0 * (users as f64 * 1.2).sqrt();
    (off > (total as f64 / 100.0).max(decks)).then(|| {
        let percent = files as f64 / total as f64 * 100.0;
        format!("{percent:.1} % of the requests were for files instead of {} %", of_ten * 100 / DECK)
    })
}

/// Runs, and returns the report; an error of a user makes it invalid.
///
/// # Errors
/// When the server does not answer at the beginning.
pub fn run(mixed: Mixed<'_>, plan: Plan<'_>) -> Result<Value> {
    if mixed.files_of_ten > DECK {
        return Err(Error::Usage(format!("--files-of-ten must be from 0 to {DECK}")));
    }
    let sample = Sample::of(mixed.set);
    let connect = |index| Surfer::connect(mixed, &sample, index, plan.users);
    let Visited { mut done, deeds: (deeds, of_files), seen } = visit(mixed.site, plan, KINDS.len(), connect)?;
    let (files, pages) = done.tallies.split_at(FILES.len());
    let total: u64 = done.tallies.iter().map(|tally| tally.count).sum();
    let parts = json!({"static": part(files, total), "dynamic": part(pages, total)});
    let read: u64 = files.iter().map(|tally| tally.count).sum();
    let (mix, problems) =
        mixed.habits.mix.judged(Request::ALL.map(|request| pages[request as usize - 1].count));
    done.problems.extend(unfit(read, total, mixed.files_of_ten, plan.users).filter(|_| total > 0));
    done.problems.extend(problems);
    let found = consistent(mixed.site, &counts(mixed.habits.size, deeds), &mut done);
    let about = About {
        workload: "webmix",
        notice: NOTICE,
        kinds: &KINDS,
        options: json!({
            "files_of_ten": mixed.files_of_ten,
            "writes": mixed.writes,
            "think_scale": mixed.habits.think_scale,
        }),
        scale: json!({"static": mixed.set.wanted, "dynamic": mixed.habits.size}),
    };
    let mut report = report::json(&about, &plan, &done, &seen);
    let [looked_at, files] = of_files;
    report["parts"] = parts;
    report["contents"] = contents(looked_at, files);
    report["mix"] = mix;
    report["posted"] = told(deeds);
    report["conditions"] = json!(found);
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_those_of_files_then_of_pages() {
        assert_eq!(KINDS[..3], ["Page", "Embedded", "Front-Page"]);
        assert_eq!((KINDS.len(), KINDS[11]), (12, "Moderate"));
    }

    #[test]
    fn shares_off_by_more_than_a_point_are_found_out() {
        assert_eq!(unfit(1400, 2000, 7, 8), None);
        assert_eq!(unfit(1419, 2000, 7, 8), None);
        let told = unfit(1421, 2000, 7, 8).unwrap();
        assert_eq!(told, "71.0 % of the requests were for files instead of 70 %");
        assert!(unfit(1200, 2000, 7, 8).is_some() && unfit(60, 100, 7, 8).is_none());
        assert!(unfit(50, 100, 7, 8).is_some());
    }

    #[test]
    fn decks_cut_anywhere_are_not_further_off_than_allowed() {
        // Every place of a deck, exactly: the variance of the files among the first k of ten cards of which seven are files.
        let worst = (0..=10).map(|k| f64::from(k) * 0.7 * 0.3 * f64::from(10 - k) / 9.0).fold(0.0, f64::max);
        assert!(worst < 0.6, "{worst}");
    }
}
