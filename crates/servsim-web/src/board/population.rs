//! The board's first rows, as a script for `psql`.
//!
//! Threads grow as they do: a comment is on a story that is read much, and answers an earlier comment of that story or the story
//! itself. Counters stand in the rows as the board would have kept them.

use std::io::Write;

use servsim_driver::rng::Stream;

use super::size::{Favourites, Size, SECTIONS};
use super::texts::{self, Kind};
use crate::rows::{put, stream, table, Day};
use crate::Result;

/// The day of the first story, in days since 1970: 2003-01-01. Stories come one a day, comments one a minute behind the last.
const FIRST_DAY: i32 = 12_053;
/// Of a hundred comments, how many are on the story itself.
const ON_STORY: u64 = 35;
/// The points a comment begins with.
pub const FIRST_SCORE: i32 = 1;

/// Name of a member of the population; its password is the same in capitals.
pub fn name(out: &mut Vec<u8>, member: u32) {
    put!(out, "member{member}");
}

/// A comment of the population.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Comment {
    story: u32,
    parent: u32,
    member: u32,
    children: u32,
}

/// The rows of a board.
#[derive(Clone, Copy, Debug)]
pub struct Population {
    /// How large it is.
    pub size: Size,
    /// Seed of every row.
    pub seed: u64,
}

impl Population {
    /// Writes the script.
    ///
    /// # Errors
    /// When the reader does not take it.
    pub fn write(self, to: &mut impl Write) -> Result<()> {
        let Population { size, seed } = self;
        let comments = self.comments();
        let count = |of: &dyn Fn(&Comment) -> u32, most: u32| {
            let mut counts = vec![0u32; most as usize + 1];
            comments.iter().for_each(|comment| counts[of(comment) as usize] += 1);
            counts
        };
        let (of_stories, of_members) =
            (count(&|comment| comment.story, size.stories), count(&|comment| comment.member, size.members));
        table(to, ("sections", "sections", seed), SECTIONS, |out, _, id| {
            // Stories are in the sections by turns.
            put!(out, "{id}\tSection {id}\t{}\n", (size.stories + SECTIONS - id) / SECTIONS);
        })?;
        table(to, ("members", "members", seed), size.members, |out, _, id| {
            put!(out, "{id}\t");
            name(out, id);
            put!(out, "\tMEMBER{id}\t0\t{}\t{}\n", of_members[id as usize], Day(FIRST_DAY - 1));
        })?;
        table(to, ("stories", "stories", seed), size.stories, |out, stream, id| {
            put!(out, "{id}\t{}\t{}\t", (id - 1) % SECTIONS + 1, size.member(stream));
            for kind in [Kind::Title, Kind::Lead, Kind::Story] {
                texts::write(out, stream, kind);
                out.push(b'\t');
            }
            put!(out, "{}\t{}\n", Day(FIRST_DAY + id as i32), of_stories[id as usize]);
        })?;
        table(to, ("comments", "texts", seed), size.comments, |out, stream, id| {
            let Comment { story, parent, member, children } = comments[id as usize - 1];
            put!(out, "{id}\t{story}\t{parent}\t{member}\t");
            for kind in [Kind::Title, Kind::Comment] {
                texts::write(out, stream, kind);
                out.push(b'\t');
            }
            let (day, minute) = ((id / 1440) as i32, id % 1440);
            let day = Day(FIRST_DAY + 1 + size.stories as i32 + day);
            put!(out, "{day} {:02}:{:02}:00\t{FIRST_SCORE}\t{children}\n", minute / 60, minute % 60);
        })
    }

    /// What each comment is on, and whose it is.
    fn comments(self) -> Vec<Comment> {
        let favourites = Favourites::of(self.size.stories);
        let mut of_story: Vec<Vec<u32>> = vec![Vec::new(); self.size.stories as usize + 1];
        let mut comments: Vec<Comment> = Vec::with_capacity(self.size.comments as usize);
        for id in 1..=self.size.comments {
            let stream: &mut Stream = &mut stream(self.seed, "comments", id);
            let story = favourites.story(stream);
            let earlier = &mut of_story[story as usize];
            let on_story = stream.percent(ON_STORY) || earlier.is_empty();
            let parent = if on_story { 0 } else { earlier[stream.below(earlier.len() as u64) as usize] };
            earlier.push(id);
            if parent > 0 {
                comments[parent as usize - 1].children += 1;
            }
            comments.push(Comment { story, parent, member: self.size.member(stream), children: 0 });
        }
        comments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { stories: 20, comments: 380, members: 50 };

    fn script(seed: u64) -> String {
        let mut out = Vec::new();
        Population { size: SIZE, seed }.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn rows<'a>(script: &'a str, table: &str) -> Vec<Vec<&'a str>> {
        let begin = format!("COPY {table} FROM stdin (FREEZE);");
        let lines = script.lines().skip_while(|line| *line != begin).skip(1);
        lines.take_while(|line| *line != "\\.").map(|line| line.split('\t').collect()).collect()
    }

    #[test]
    fn every_table_has_its_rows_and_counters_count_them() {
        let script = script(42);
        let number = |text: &str| text.parse::<usize>().unwrap();
        let (comments, stories) = (rows(&script, "comments"), rows(&script, "stories"));
        for (table, count, columns) in
            [("sections", 8, 3), ("members", 50, 6), ("stories", 20, 8), ("comments", 380, 9)]
        {
            let rows = rows(&script, table);
            assert_eq!(rows.len(), count, "{table}");
            assert!(rows.iter().all(|row| row.len() == columns), "{table}");
            assert!(rows.iter().zip(1..).all(|(row, id)| row[0] == id.to_string()), "{table}");
        }
        for comment in &comments {
            assert!(number(comment[2]) < number(comment[0]), "a comment answers an earlier one: {comment:?}");
            if comment[2] != "0" {
                assert_eq!(comments[number(comment[2]) - 1][1], comment[1], "of the same story");
            }
            let children = comments.iter().filter(|other| other[2] == comment[0]).count();
            assert_eq!(number(comment[8]), children, "{comment:?}");
        }
        for story in &stories {
            let found = comments.iter().filter(|comment| comment[1] == story[0]).count();
            assert_eq!(number(story[7]), found, "{story:?}");
        }
        for (table, column, of, place) in [("sections", 2, &stories, 1), ("members", 4, &comments, 3)] {
            for row in rows(&script, table) {
                let found = of.iter().filter(|other| other[place] == row[0]).count();
                assert_eq!(number(row[column]), found, "{table} {row:?}");
            }
        }
        assert_eq!(script, self::script(42));
        assert_ne!(script, self::script(43));
    }

    #[test]
    fn three_thousand_messages_are_five_megabytes() {
        let mut out = Vec::new();
        let size = Size { stories: 150, comments: 2850, members: 1000 };
        Population { size, seed: 42 }.write(&mut out).unwrap();
        assert!((4_700_000..5_300_000).contains(&out.len()), "{}", out.len());
    }
}
