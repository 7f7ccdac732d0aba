//! A page of the board as a member reads it: every text with its checksum, every thread in order, every count right.

use std::str::FromStr;

use memchr::memmem;

use super::mix::Request;
use super::size::{Size, LISTED};
use super::texts::{escape, sound};
use super::wishes::Wish;
use crate::page::{wrong, Page};
use crate::Result;

/// What stands before the numbers of a comment, in their order.
const MARKS: [&[u8]; 4] = [b" data-item=\"", b" data-parent=\"", b" data-depth=\"", b" data-children=\""];
/// What stands before a text.
const TEXT: &[u8] = b" class=\"text\">";

/// Looks at pages; keeps what it needs for that.
#[derive(Debug)]
pub struct Reader {
    size: Size,
    /// What was posted, as HTML shows it.
    posted: Vec<u8>,
    /// The comments from the thread's beginning to where the reader is: number, replies it has, replies seen.
    path: Vec<(u32, u32, u32)>,
}

/// What a page says was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deed {
    /// A comment, a story or a member was entered.
    pub entered: bool,
    /// A point was given or taken.
    pub applied: bool,
}

fn value<T: FromStr>(page: Page<'_>, begin: &'static str) -> Option<T> {
    page.mark(begin)?.parse().ok()
}

impl Reader {
    /// A reader of a board that began with this size.
    pub fn new(size: Size) -> Self {
        Reader { size, posted: Vec::with_capacity(32 << 10), path: Vec::with_capacity(64) }
    }

    /// Looks whether the page is what was wished for, and what it says was done; `posted` is the text that was sent, `name` whose.
    ///
    /// # Errors
    /// [`crate::Error::Check`] naming what is wrong.
    pub fn read(&mut self, page: &[u8], wish: Wish, posted: &[u8], name: &[u8]) -> Result<Deed> {
        let Wish { request, of } = wish;
        let page = Page(page);
        let items = page.whole("Servsim Board", request.title(), "items")?;
        let own = page.items().next().unwrap_or(0);
        let is = |found: Option<u32>, what: &str| {
            if found == Some(of) {
                return Ok(());
            }
            Err(wrong(format!("shows {what} {found:?} instead of {of}")))
        };
        let mut deed = Deed::default();
        let texts = match request {
            Request::Front | Request::Section | Request::Older => {
                let most = LISTED as usize;
                if items > most || items == 0 || (request == Request::Front && items < most) {
                    return Err(wrong(format!("lists {items} stories")));
                }
                if !page.items().zip(page.items().skip(1)).all(|(newer, older)| newer > older) {
                    return Err(wrong("lists stories in another order than the newest first".to_owned()));
                }
                2 * items
            }
            Request::Story => {
                is(value(page, " data-story=\""), "story")?;
                self.thread(page, true)?;
                3 + 2 * items
            }
            Request::Submit => {
                let story: u32 = value(page, " data-story=\"").unwrap_or(0);
                if story <= self.size.stories || items != 0 {
                    return Err(wrong(format!("shows {story} with {items} comments as a new story")));
                }
                self.is_posted(page, 2, posted)?;
                deed.entered = true;
                3
            }
            Request::Comment => {
                is(Some(own), "comment")?;
                self.thread(page, false)?;
                2 * items
            }
            Request::Reply => {
                is(value(page, " data-parent=\""), "a reply to")?;
                if own <= self.size.comments || items != 1 {
                    return Err(wrong(format!("shows {own} of {items} comments as a new one")));
                }
                self.thread(page, false)?;
                self.is_posted(page, 1, posted)?;
                deed.entered = true;
                2
            }
            Request::Moderate => {
                is(Some(own), "comment")?;
                self.thread(page, false)?;
                let applied: u8 = value(page, " data-applied=\"")
                    .ok_or_else(|| wrong("does not say what became of the point".to_owned()))?;
                deed.applied = applied == 1;
                2 * items
            }
            Request::Member => {
                is(value(page, " data-member=\""), "member")?;
                items
            }
            Request::Register => {
                if page.mark(" data-name=\"").map(str::as_bytes) != Some(name) {
                    return Err(wrong(format!(
                        "shows another member than {:?}",
                        String::from_utf8_lossy(name)
                    )));
                }
                deed.entered = true;
                0
            }
        };
        Self::texts(page, texts)?;
        Ok(deed)
    }

    /// Every text is what was written, and there are as many as there should be.
    fn texts(page: Page<'_>, expected: usize) -> Result<()> {
        let mut found = 0;
        for shown in shown(page) {
            if !sound(shown) {
                let begin = String::from_utf8_lossy(&shown[..shown.len().min(30)]);
                return Err(wrong(format!("has the text {begin:?}... whose checksum differs")));
            }
            found += 1;
        }
        if found != expected {
            return Err(wrong(format!("has {found} texts instead of {expected}")));
        }
        Ok(())
    }

    /// The text at a place is the one that was posted.
    fn is_posted(&mut self, page: Page<'_>, place: usize, posted: &[u8]) -> Result<()> {
        self.posted.clear();
        escape(&mut self.posted, posted);
        if shown(page).nth(place) == Some(&self.posted[..]) {
            return Ok(());
        }
        Err(wrong("does not show what was posted".to_owned()))
    }

    /// A thread: each comment behind the one that it answers, in a depth one more, with as many replies as its counter
    /// says unless the page leaves some out. One of a story begins with comments on it, one of a comment is that comment's.
    fn thread(&mut self, page: Page<'_>, of_story: bool) -> Result<()> {
        let more: u32 = value(page, " data-more=\"")
            .ok_or_else(|| wrong("does not say how many comments it leaves out".to_owned()))?;
        self.path.clear();
        let mut first = true;
        for [id, parent, depth, children] in comments(page) {
            let misplaced = || wrong(format!("has comment {id} at another place than behind {parent}"));
            if depth as usize > self.path.len() || (depth == 0 && !of_story && !first) {
                return Err(misplaced());
            }
            self.leave(depth as usize, more)?;
            match self.path.last_mut() {
                Some((before, _, seen)) if *before == parent => *seen += 1,
                None if parent == 0 || (!of_story && first) => {}
                _ => return Err(misplaced()),
            }
            self.path.push((id, children, 0));
            first = false;
        }
        self.leave(0, more)
    }

    /// Goes back to a depth: the comments that it leaves have no further replies.
    fn leave(&mut self, depth: usize, more: u32) -> Result<()> {
        while self.path.len() > depth {
            let Some((id, children, seen)) = self.path.pop() else { break };
            if seen > children || (more == 0 && seen != children) {
                return Err(wrong(format!("counts {children} replies to comment {id} and shows {seen}")));
            }
        }
        Ok(())
    }
}

/// Number, parent, depth and replies of each comment of a page, in one look at it: they stand behind one another. What is not there is
/// no number of a comment.
fn comments(page: Page<'_>) -> impl Iterator<Item = [u32; 4]> + '_ {
    memmem::find_iter(page.0, MARKS[0]).map(move |at| {
        let mut rest = &page.0[at..];
        MARKS.map(|mark| {
            let value = rest
                .strip_prefix(mark)
                .and_then(|value| value.split_at_checked(memchr::memchr(b'"', value)?));
            rest = value.map_or(&[], |(_, behind)| &behind[1..]);
            value.and_then(|(digits, _)| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(u32::MAX)
        })
    })
}

/// The texts of a page as HTML shows them.
fn shown(page: Page<'_>) -> impl Iterator<Item = &[u8]> {
    memmem::find_iter(page.0, TEXT).filter_map(move |at| {
        let rest = &page.0[at + TEXT.len()..];
        Some(&rest[..memchr::memchr(b'<', rest)?])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::texts::{escape, write, Kind};
    use servsim_driver::rng::{Purpose, Stream};

    const SIZE: Size = Size { stories: 20, comments: 380, members: 50 };

    fn text(number: u64) -> Vec<u8> {
        let mut text = Vec::new();
        write(&mut text, &mut Stream::new(7, Purpose::Load, number), Kind::Title);
        text
    }

    fn html(number: u64) -> String {
        let mut shown = Vec::new();
        escape(&mut shown, &text(number));
        String::from_utf8(shown).unwrap()
    }

    fn comment(id: u32, parent: u32, depth: u32, children: u32) -> String {
        format!(
            "<li data-item=\"{id}\" data-parent=\"{parent}\" data-depth=\"{depth}\" data-children=\"{children}\">\
             <b class=\"text\">{}</b><p class=\"text\">{}</p></li>\n",
            html(u64::from(id)),
            html(1000 + u64::from(id))
        )
    }

    fn whole(title: &str, items: usize, body: &str) -> String {
        format!(
            "<html><head><title>Servsim Board: {title}</title></head>\n<body data-items=\"{items}\">\n{body}</body></html>\n"
        )
    }

    /// A story of which comments 3 and 9 are, 5 and 6 answer 3, 7 answers 6.
    fn story() -> String {
        let thread = [(3, 0, 0, 2), (5, 3, 1, 0), (6, 3, 1, 1), (7, 6, 2, 0), (9, 0, 0, 0)];
        let thread: String =
            thread.map(|(id, parent, depth, children)| comment(id, parent, depth, children)).concat();
        let head =
            format!(
            "<h2 data-story=\"12\" class=\"text\">{}</h2><p class=\"text\">{}</p><p class=\"text\">{}</p>",
            html(1), html(2), html(3)
        );
        whole("Story", 5, &format!("{head}<ul data-more=\"0\">\n{thread}</ul>"))
    }

    fn said(page: &str, request: Request, of: u32) -> String {
        let outcome = Reader::new(SIZE).read(page.as_bytes(), Wish { request, of }, &text(1400), b"member3");
        outcome.map_or_else(|error| error.to_string(), |deed| format!("{deed:?}"))
    }

    #[test]
    fn a_story_is_right_with_its_thread_in_order() {
        assert_eq!(said(&story(), Request::Story, 12), format!("{:?}", Deed::default()));
    }

    #[test]
    fn whatever_is_wrong_with_a_story_is_named() {
        let escaped = html(1005);
        let changed = escaped.replacen(char::is_alphabetic, "0", 1);
        let raw = String::from_utf8(text(1005)).unwrap();
        assert!(raw != escaped, "the text has something to escape");
        for (from, to, names) in [
            ("Board: Story", "Board: Front Page", "the title"),
            ("</body></html>", "</body></htm", "does not end"),
            ("items=\"5\"", "items=\"4\"", "says that it has \"4\" items, and shows 5"),
            ("data-story=\"12\"", "data-story=\"13\"", "shows story Some(13) instead of 12"),
            ("children=\"2\"", "children=\"3\"", "counts 3 replies to comment 3 and shows 2"),
            ("children=\"2\"", "children=\"1\"", "counts 1 replies to comment 3 and shows 2"),
            ("parent=\"6\"", "parent=\"5\"", "has comment 7 at another place than behind 5"),
            ("data-depth=\"2\"", "data-depth=\"3\"", "has comment 7 at another place"),
            ("data-more=\"0\"", "", "does not say how many comments it leaves out"),
            (escaped.as_str(), changed.as_str(), "whose checksum differs"),
            (escaped.as_str(), raw.as_str(), "whose checksum differs"),
            ("<p class=\"text\">", "<p>", "texts instead of 13"),
        ] {
            let page = story().replacen(from, to, 1);
            assert_ne!(page, story(), "{from}");
            let said = said(&page, Request::Story, 12);
            assert!(said.contains(names), "{from}: {said}");
        }
        // A page that leaves some out may show fewer than there are.
        let cut =
            story().replacen("more=\"0\"", "more=\"4\"", 1).replacen("children=\"2\"", "children=\"3\"", 1);
        assert_eq!(said(&cut, Request::Story, 12), format!("{:?}", Deed::default()));
    }

    #[test]
    fn what_was_posted_reappears_or_the_page_is_wrong() {
        let reply = |id, parent| {
            whole("Reply", 1, &format!("<ul data-more=\"0\">\n{}</ul>", comment(id, parent, 0, 0)))
        };
        let done = Deed { entered: true, applied: false };
        assert_eq!(said(&reply(400, 17), Request::Reply, 17), format!("{done:?}"));
        assert!(said(&reply(400, 18), Request::Reply, 17).contains("a reply to Some(18) instead of 17"));
        assert!(said(&reply(380, 17), Request::Reply, 17).contains("shows 380 of 1 comments as a new one"));
        assert!(said(&reply(401, 17), Request::Reply, 17).contains("does not show what was posted"));
    }

    #[test]
    fn lists_are_newest_first_and_of_ten_at_most() {
        let list = |ids: &[u32]| {
            let line = |id: &u32| {
                let (title, lead) = (html(u64::from(*id)), html(90 + u64::from(*id)));
                format!(
                    "<li data-item=\"{id}\"><b class=\"text\">{title}</b><p class=\"text\">{lead}</p></li>\n"
                )
            };
            whole("Section", ids.len(), &ids.iter().map(line).collect::<String>())
        };
        assert_eq!(said(&list(&[9, 5, 1]), Request::Section, 1), format!("{:?}", Deed::default()));
        assert!(said(&list(&[9, 1, 5]), Request::Section, 1).contains("newest first"));
        assert!(said(&list(&[]), Request::Section, 1).contains("lists 0 stories"));
        let eleven: Vec<u32> = (1..=11).rev().collect();
        assert!(said(&list(&eleven), Request::Section, 1).contains("lists 11 stories"));
        let front = list(&[9, 5, 1]).replacen("Section", "Front Page", 1);
        assert!(said(&front, Request::Front, 0).contains("lists 3 stories"));
    }
}
