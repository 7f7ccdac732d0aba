//! What a user of the shop wants: who it is, what is in its cart, and the form that it sends next.
//!
//! What is asked for depends on seed, mix and the number of the user alone: books are drawn (unevenly, as the
//! specification has it), not picked from the page before, whose books depend on what others have bought.

use servsim_driver::rng::{Purpose, Stream};
use servsim_driver::text::{digits, text};

use super::browser::Step;
use super::mix::Interaction;
use super::names::{syllables, word, Size, CARDS, COUNTRIES, SHIPPING, SUBJECTS};
use super::page::Line;
use crate::rows::put;

/// Of a hundred sessions, how many are of known customers; of a hundred orders, how many go to another address.
const KNOWN: u64 = 80;
const ELSEWHERE: u64 = 5;

/// A user's mind.
#[derive(Debug)]
pub struct Wishes {
    size: Size,
    choice: Stream,
    before: Option<Interaction>,
    /// The user's name in the shop; empty for a new customer who is not entered yet.
    pub name: Vec<u8>,
    /// What is in its cart, by the numbers of the books.
    pub cart: Vec<Line>,
    /// The fields of the next request.
    pub form: Vec<u8>,
}

impl Wishes {
    /// The mind of user `index`, with the choices of a seed and a purpose and no cart.
    pub fn new(size: Size, seed: u64, purpose: Purpose, index: u64) -> Self {
        let mut wishes = Wishes {
            size,
            // Streams of walks have the numbers of the users; those of choices are far from them.
            choice: Stream::new(seed, purpose, index | 1 << 32),
            before: None,
            name: Vec::with_capacity(64),
            cart: Vec::with_capacity(100),
            form: Vec::with_capacity(2048),
        };
        wishes.comes();
        wishes
    }

    /// A session begins: another user, without a cart.
    fn comes(&mut self) {
        self.cart.clear();
        self.name.clear();
        if self.choice.percent(KNOWN) {
            let customer = self.size.customer(&mut self.choice);
            syllables(&mut self.name, customer, 0);
        }
    }

    /// Puts a book into the cart.
    fn adds(&mut self, book: u32) {
        match self.cart.binary_search_by_key(&book, |line| line.0) {
            Ok(place) => self.cart[place].1 += 1,
            Err(place) => self.cart.insert(place, (book, 1)),
        }
    }

    fn book(&mut self) -> u32 {
        self.size.item(&mut self.choice)
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        of[self.choice.below(of.len() as u64) as usize]
    }

    /// Appends a field with a random text to the form.
    fn field(&mut self, name: &str, low: i32, high: i32) {
        put!(self.form, "&{name}=");
        text(&mut self.form, &mut self.choice, low, high);
    }

    fn address_fields(&mut self) {
        for (name, low, high) in
            [("street1", 15, 40), ("street2", 15, 40), ("city", 4, 30), ("state", 2, 20), ("zip", 5, 10)]
        {
            self.field(name, low, high);
        }
        put!(self.form, "&country={}", self.choice.below(u64::from(COUNTRIES)) + 1);
    }

    /// Appends name and password.
    fn identity(&mut self) {
        if self.name.is_empty() {
            // Whoever asks for a last order without having one is taken for somebody.
            let customer = self.size.customer(&mut self.choice);
            syllables(&mut self.name, customer, 0);
        }
        put!(self.form, "user=");
        self.form.extend_from_slice(&self.name);
        put!(self.form, "&password=");
        self.form.extend(self.name.iter().map(u8::to_ascii_lowercase));
    }

    /// A measurement may begin between cart and order: then a book comes with the form.
    fn fills_cart(&mut self) {
        if self.cart.is_empty() {
            let book = self.book();
            self.adds(book);
            put!(self.form, "&add={book}");
        }
    }

    /// Writes the fields of the next request, and tells whether they are a form that is sent, or else part of the address.
    pub fn fill(&mut self, step: Step) -> bool {
        if step.begins {
            self.comes();
        }
        let before = self.before.replace(step.interaction);
        self.form.clear();
        match step.interaction {
            Interaction::Home => {
                let promo = self.book();
                put!(self.form, "promo={promo}");
                if step.begins && !self.name.is_empty() {
                    put!(self.form, "&customer={}", self.customer_number());
                }
            }
            Interaction::NewProducts | Interaction::BestSellers => {
                let (promo, subject) = (self.book(), self.one(&SUBJECTS));
                put!(self.form, "promo={promo}&subject={subject}");
            }
            Interaction::ProductDetail | Interaction::AdminRequest => {
                let book = self.book();
                put!(self.form, "id={book}");
            }
            Interaction::SearchRequest => {
                let promo = self.book();
                put!(self.form, "promo={promo}");
            }
            Interaction::SearchResults => {
                let promo = self.book();
                put!(self.form, "promo={promo}");
                let (titles, authors) = (self.size.title_words(), self.size.author_words());
                match self.choice.below(3) {
                    0 => {
                        put!(self.form, "&by=title&words=");
                        word(&mut self.form, self.choice.below(u64::from(titles)) as u32);
                    }
                    1 => {
                        put!(self.form, "&by=author&words=");
                        word(&mut self.form, self.choice.below(u64::from(authors)) as u32);
                    }
                    _ => {
                        let subject = self.one(&SUBJECTS);
                        put!(self.form, "&by=subject&words={subject}");
                    }
                }
            }
            Interaction::ShoppingCart => self.changes_cart(before == Some(Interaction::ShoppingCart)),
            Interaction::CustomerRegistration | Interaction::OrderInquiry => {}
            Interaction::BuyRequest => {
                if self.name.is_empty() {
                    put!(self.form, "new=1");
                    for (name, low, high) in
                        [("fname", 8, 15), ("lname", 8, 15), ("email", 10, 20), ("data", 100, 500)]
                    {
                        self.field(name, low, high);
                    }
                    put!(self.form, "&birthdate=1970-01-{:02}&phone=", self.choice.between(1, 28));
                    digits(&mut self.form, &mut self.choice, 12);
                    self.address_fields();
                } else {
                    self.identity();
                }
                self.fills_cart();
                return true;
            }
            Interaction::BuyConfirm => {
                self.identity();
                let (card, shipping) = (self.one(&CARDS), self.one(&SHIPPING));
                put!(self.form, "&card={card}&shipping={shipping}&number=");
                digits(&mut self.form, &mut self.choice, 16);
                self.field("holder", 14, 30);
                put!(self.form, "&expiry=2030-01-{:02}", self.choice.between(1, 28));
                if self.choice.percent(ELSEWHERE) {
                    self.address_fields();
                }
                self.fills_cart();
                return true;
            }
            Interaction::OrderDisplay => {
                self.identity();
                return true;
            }
            Interaction::AdminConfirm => {
                let (book, image) = (self.book(), self.choice.below(u64::from(self.size.images)));
                let (whole, cents) = (self.choice.between(1, 9999), self.choice.between(0, 99));
                put!(self.form, "id={book}&image={image}&cost={whole}.{cents:02}");
                return true;
            }
        }
        false
    }

    /// Adds a book; or, straight behind another look at the cart, changes the copies of a line, of which none may be left.
    fn changes_cart(&mut self, again: bool) {
        let promo = self.book();
        put!(self.form, "promo={promo}");
        if again && !self.cart.is_empty() {
            let place = self.choice.below(self.cart.len() as u64) as usize;
            let copies = self.choice.between(0, 10) as u32;
            put!(self.form, "&item={}&quantity={copies}", self.cart[place].0);
            if copies == 0 {
                self.cart.remove(place);
            } else {
                self.cart[place].1 = copies;
            }
            if self.cart.is_empty() {
                self.adds(promo);
            }
        } else {
            let book = self.book();
            put!(self.form, "&add={book}");
            self.adds(book);
        }
    }

    /// The number that the user's name spells.
    fn customer_number(&self) -> u32 {
        let mut number = 0;
        let mut name = Vec::with_capacity(2);
        for pair in self.name.chunks(2) {
            let digit = (0..10).find(|&digit| {
                name.clear();
                syllables(&mut name, digit, 0);
                name == pair
            });
            number = number * 10 + digit.unwrap_or(0);
        }
        number
    }

    /// Whether a search has found as many books as there are: five have each word of a title, ten authors each word.
    pub fn found(&self, books: usize) -> bool {
        if memchr::memmem::find(&self.form, b"by=title").is_some() {
            return books == 5;
        }
        (1..=50).contains(&books)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn ask(wishes: &mut Wishes, interaction: Interaction, begins: bool) -> String {
        wishes.fill(Step { interaction, begins, think: Duration::ZERO });
        String::from_utf8(wishes.form.clone()).unwrap()
    }

    fn field(form: &str, name: &str) -> Option<u32> {
        form.split('&').find_map(|field| field.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    }

    #[test]
    fn the_cart_follows_every_change_and_is_never_empty() {
        let size = Size { items: 1000, browsers: 1, images: 100 };
        let mut wishes = Wishes::new(size, 4, Purpose::Measured, 0);
        let mut cart = std::collections::BTreeMap::new();
        let mut emptied = 0;
        for round in 0..2000 {
            // Only a cart of few books is ever emptied, so sessions are short.
            if round % 4 == 0 {
                ask(&mut wishes, Interaction::Home, true);
                cart.clear();
            }
            let form = ask(&mut wishes, Interaction::ShoppingCart, false);
            if let Some(book) = field(&form, "add") {
                *cart.entry(book).or_insert(0) += 1;
            } else {
                cart.insert(field(&form, "item").unwrap(), field(&form, "quantity").unwrap());
            }
            cart.retain(|_, copies| *copies > 0);
            if cart.is_empty() {
                emptied += 1;
                cart.insert(field(&form, "promo").unwrap(), 1);
            }
            assert_eq!(wishes.cart, cart.clone().into_iter().collect::<Vec<_>>());
        }
        assert!(emptied > 10, "{emptied}");
    }

    #[test]
    fn a_new_session_is_somebody_else_with_nothing_in_the_cart() {
        let size = Size { items: 1000, browsers: 1, images: 100 };
        let mut wishes = Wishes::new(size, 4, Purpose::Measured, 0);
        ask(&mut wishes, Interaction::ShoppingCart, false);
        let mut new = 0;
        for _ in 0..1000 {
            let form = ask(&mut wishes, Interaction::Home, true);
            assert!(wishes.cart.is_empty());
            // The number that is given is that which the name spells.
            let mut name = Vec::new();
            match field(&form, "customer") {
                Some(customer) => syllables(&mut name, customer, 0),
                None => new += 1,
            }
            assert_eq!(name, wishes.name);
        }
        // A fifth: 200, and four standard deviations.
        assert!((150..=250).contains(&new), "{new}");
    }
}
