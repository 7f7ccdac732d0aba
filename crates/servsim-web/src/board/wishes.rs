//! What a member of the board asks for next, and what it writes.
//!
//! It depends on seed, mix and the number of the user alone: stories and comments are drawn from those that the board began with,
//! not from the page before, whose comments depend on what others have posted.

use servsim_driver::rng::{Purpose, Stream};

use super::mix::{Mix, Request};
use super::population::name;
use super::size::{Favourites, Size, LISTED, SECTIONS};
use super::texts::{encode, write, Kind};
use crate::rows::put;

/// Of a hundred posts, how many answer a comment and not the story; of a hundred points, how many are given, not taken.
const ANSWERS: u64 = 60;
const GIVEN: u64 = 75;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The request.
    pub request: Request,
    /// Which section, page of older stories, story, comment or member; of replies the comment, 0 for one on a story.
    pub of: u32,
}

/// A user's mind.
#[derive(Debug)]
pub struct Wishes {
    size: Size,
    index: u64,
    choice: Stream,
    /// Members that it has entered.
    entered: u32,
    /// The fields of the next request.
    pub form: Vec<u8>,
    /// Who it is in the next request; empty for anybody.
    pub name: Vec<u8>,
    /// The text that it posts.
    pub text: Vec<u8>,
}

impl Wishes {
    /// The mind of user `index`.
    pub fn new(size: Size, index: u64) -> Self {
        Wishes {
            size,
            index,
            choice: Stream::new(0, Purpose::WarmUp, index),
            entered: 0,
            form: Vec::with_capacity(32 << 10),
            name: Vec::with_capacity(64),
            text: Vec::with_capacity(8 << 10),
        }
    }

    /// Goes on with the choices of a seed and a purpose.
    pub fn begin(&mut self, seed: u64, purpose: Purpose) {
        self.choice = Stream::new(seed, purpose, self.index);
    }

    /// Appends name and password.
    fn identity(&mut self) {
        put!(self.form, "&user=");
        self.form.extend_from_slice(&self.name);
        put!(self.form, "&password=");
        self.form.extend(self.name.iter().map(u8::to_ascii_uppercase));
    }

    fn somebody(&mut self) {
        name(&mut self.name, self.size.member(&mut self.choice));
        self.identity();
    }

    /// Appends a field with a text of its kind, which is kept.
    fn field(&mut self, name: &str, kind: Kind) {
        self.text.clear();
        write(&mut self.text, &mut self.choice, kind);
        put!(self.form, "&{name}=");
        encode(&mut self.form, &self.text);
    }

    /// Draws the next request and writes its fields.
    pub fn next(&mut self, mix: &Mix, favourites: &Favourites) -> Wish {
        self.form.clear();
        self.name.clear();
        let request = mix.draw(&mut self.choice);
        let of = match request {
            Request::Front | Request::Register => 0,
            Request::Section | Request::Submit => self.choice.below(u64::from(SECTIONS)) as u32 + 1,
            Request::Older => {
                // The page before the last story is always there, whatever was posted since.
                self.choice.below(u64::from(self.size.stories.div_ceil(LISTED))) as u32
            }
            Request::Story => favourites.story(&mut self.choice),
            Request::Reply if !self.choice.percent(ANSWERS) => {
                put!(self.form, "story={}&", favourites.story(&mut self.choice));
                0
            }
            Request::Comment | Request::Reply | Request::Moderate => self.size.comment(&mut self.choice),
            Request::Member => self.size.member(&mut self.choice),
        };
        put!(self.form, "id={of}");
        match request {
            Request::Reply => {
                self.somebody();
                self.field("subject", Kind::Title);
                self.field("text", Kind::Comment);
            }
            Request::Submit => {
                self.somebody();
                self.field("title", Kind::Title);
                self.field("lead", Kind::Lead);
                self.field("text", Kind::Story);
            }
            Request::Register => {
                self.entered += 1;
                put!(self.name, "new{}x{}", self.index, self.entered);
                self.identity();
            }
            Request::Moderate => {
                self.somebody();
                let up = u8::from(self.choice.percent(GIVEN));
                put!(self.form, "&up={up}");
            }
            _ => {}
        }
        Wish { request, of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a user asks for.
    fn asked(seed: u64, index: u64, writes: u64) -> Vec<(Wish, Vec<u8>)> {
        let size = Size { stories: 20, comments: 380, members: 50 };
        let (mix, favourites) = (Mix::with(writes).unwrap(), Favourites::of(size.stories));
        let mut wishes = Wishes::new(size, index);
        wishes.begin(seed, Purpose::Measured);
        (0..500).map(|_| (wishes.next(&mix, &favourites), wishes.form.clone())).collect()
    }

    #[test]
    fn what_is_asked_for_is_the_seed_s_and_the_user_s_alone() {
        assert_eq!(asked(5, 0, 40), asked(5, 0, 40));
        assert!(asked(5, 0, 40) != asked(6, 0, 40) && asked(5, 0, 40) != asked(5, 1, 40));
    }

    #[test]
    fn forms_name_what_there_is_and_new_members_have_names_of_their_own() {
        let mut names = std::collections::BTreeSet::new();
        for (wish, form) in asked(1, 0, 50).into_iter().chain(asked(1, 1, 50)) {
            let form = String::from_utf8(form).unwrap();
            let field = |name: &str| {
                let fields = form.split('&').filter_map(|field| field.split_once('='));
                fields.into_iter().find(|(found, _)| *found == name).map(|(_, value)| value.to_owned())
            };
            assert_eq!(field("id"), Some(wish.of.to_string()));
            let most = match wish.request {
                Request::Front | Request::Register => 0,
                Request::Section | Request::Submit => SECTIONS,
                Request::Older => 1,
                Request::Story => 20,
                Request::Comment | Request::Reply | Request::Moderate => 380,
                Request::Member => 50,
            };
            assert!(wish.of <= most, "{wish:?}");
            assert_eq!(field("user").is_some(), wish.request.writes());
            assert_eq!(field("story").is_some(), wish.request == Request::Reply && wish.of == 0);
            if wish.request == Request::Register {
                assert!(names.insert(field("user").unwrap()), "{form}");
            }
        }
        assert!(names.len() > 20);
        assert!(asked(1, 0, 0).iter().all(|(wish, _)| !wish.request.writes()), "who only reads");
    }
}
