//! A user of the shop: walks through a mix, asks for each page and its images, and looks whether they are right.
//!
//! A user knows what is in its cart, and every page that shows the cart must agree: no session sees another's.

use std::hash::Hasher;
use std::time::Instant;

use servsim_driver::rng::Purpose;

use super::browser::{Browser, Step};
use super::images::whole;
use super::mix::{Interaction, Mix};
use super::names::Size;
use super::wishes::Wishes;
use crate::crew::{User, Work};
use crate::http::{write_request, Client};
use crate::log::Log;
use crate::page::{answered, Page};
use crate::rows::put;
use crate::visit::Visitor;
use crate::{Error, Result};

/// Longest page that needs no more memory.
const PAGE: usize = 64 << 10;
/// Largest image.
const IMAGE: usize = 250_000;
/// What users have in common.
#[derive(Clone, Copy, Debug)]
pub struct Habits<'a> {
    /// The server (`HOST:PORT`).
    pub address: &'a str,
    /// Size of the shop.
    pub size: Size,
    /// The mix of interactions.
    pub mix: &'a Mix,
    /// Factor on the times to think; 0 for none.
    pub think_scale: f64,
    /// Whether a page's images are asked for one behind the other without waiting, or each when the one before has come.
    pub pipelining: bool,
}

/// What a user has done, warm-up included.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deeds {
    /// Orders placed.
    pub orders: u64,
    /// Customers entered.
    pub customers: u64,
}

/// A user.
#[derive(Debug)]
pub struct Shopper<'a> {
    habits: Habits<'a>,
    index: u64,
    browser: Browser<'a>,
    wishes: Wishes,
    pages: Client,
    /// A second connection, for images; without it they come by the first.
    images: Option<Client>,
    request: Vec<u8>,
    page: Vec<u8>,
    image: Vec<u8>,
    log: Log,
    deeds: Deeds,
    /// Requests that were answered, those for images included.
    requests: u64,
}

/// The address of an interaction, and the title of its page.
fn place(interaction: Interaction) -> (&'static str, &'static str) {
    match interaction {
        Interaction::Home => ("home", "Home"),
        Interaction::NewProducts => ("new", "New Products"),
        Interaction::BestSellers => ("best", "Best Sellers"),
        Interaction::ProductDetail => ("item", "Product Detail"),
        Interaction::SearchRequest => ("search", "Search Request"),
        Interaction::SearchResults => ("results", "Search Results"),
        Interaction::ShoppingCart => ("cart", "Shopping Cart"),
        Interaction::CustomerRegistration => ("register", "Customer Registration"),
        Interaction::BuyRequest => ("buy", "Buy Request"),
        Interaction::BuyConfirm => ("confirm", "Buy Confirm"),
        Interaction::OrderInquiry => ("inquiry", "Order Inquiry"),
        Interaction::OrderDisplay => ("order", "Order Display"),
        Interaction::AdminRequest => ("admin", "Admin Request"),
        Interaction::AdminConfirm => ("admin-confirm", "Admin Confirm"),
    }
}

impl<'a> Shopper<'a> {
    /// User `index`, connected; its images come by a connection of their own if `second`.
    ///
    /// # Errors
    /// When nothing answers.
    pub fn connect(habits: Habits<'a>, index: u64, second: bool) -> Result<Self> {
        Ok(Shopper {
            habits,
            index,
            browser: Browser::new(habits.mix, 0, Purpose::WarmUp, index),
            wishes: Wishes::new(habits.size, 0, Purpose::WarmUp, index),
            pages: Client::connect(habits.address)?,
            images: second.then(|| Client::connect(habits.address)).transpose()?,
            request: Vec::with_capacity(4096),
            page: Vec::with_capacity(PAGE),
            image: Vec::with_capacity(IMAGE),
            log: Log::default(),
            deeds: Deeds::default(),
            requests: 0,
        })
    }

    fn asks(&mut self, step: Step) -> Result<u64> {
        if step.begins {
            self.pages.forget_cookie();
        }
        let sent = self.wishes.fill(step);
        let form = &self.wishes.form;
        let (path, title) = place(step.interaction);
        self.log.write_u8(step.interaction as u8);
        // Names of customers that the shop has numbered depend on who came first.
        if !matches!(
            step.interaction,
            Interaction::BuyRequest | Interaction::BuyConfirm | Interaction::OrderDisplay
        ) {
            self.log.write(form);
        }
        write_request(&mut self.request, ("/shop/", path), (sent, form), self.pages.cookie());
        self.page.clear();
        let page = &mut self.page;
        let reply = self.pages.exchange(&self.request, |part| page.extend_from_slice(part))?;
        self.requests += 1;
        let right = answered(reply).and_then(|()| {
            let books = Page(&self.page).complete(title, self.pages.cookie())?;
            self.is_right(step.interaction, books)
        });
        right.map_err(|error| Error::Check(format!("the page {path} {error}")))?;
        let images = self.asks_for_images()?;
        Ok(reply.bytes + images)
    }

    /// Looks at what only the page of an interaction has.
    fn is_right(&mut self, interaction: Interaction, books: usize) -> Result<()> {
        let page = Page(&self.page);
        let promotion = || page.images().filter(|path| path.starts_with("/thumb/")).count();
        let wrong = |what: String| Err(Error::Check(what));
        match interaction {
            Interaction::Home | Interaction::SearchRequest if promotion() != 5 => {
                wrong(format!("promotes {} books", promotion()))
            }
            Interaction::NewProducts | Interaction::BestSellers
                if promotion() != 5 || !(1..=50).contains(&books) =>
            {
                wrong(format!("promotes {} books and lists {books}", promotion()))
            }
            Interaction::SearchResults if promotion() != 5 || !self.wishes.found(books) => {
                wrong(format!("promotes {} books and finds {books}", promotion()))
            }
            Interaction::ProductDetail | Interaction::AdminRequest | Interaction::AdminConfirm => {
                let (found, asked) = (page.items().next(), self.wishes.form.strip_prefix(b"id="));
                let asked = asked.and_then(|text| text.split(|&byte| byte == b'&').next());
                let asked = asked.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
                if found == asked && page.images().next().is_some() {
                    return Ok(());
                }
                wrong(format!("shows book {found:?} instead of {asked:?}, or no image"))
            }
            Interaction::ShoppingCart => page.bill(Some(&self.wishes.cart)).map(drop),
            Interaction::BuyRequest => {
                page.bill(Some(&self.wishes.cart))?;
                let user = page.mark(" data-user=\"").unwrap_or_default().as_bytes();
                if self.wishes.name.is_empty() && !user.is_empty() {
                    self.deeds.customers += 1;
                    self.wishes.name.extend_from_slice(user);
                }
                if user == self.wishes.name {
                    return Ok(());
                }
                wrong(format!("is for {:?}", String::from_utf8_lossy(user)))
            }
            Interaction::BuyConfirm => {
                page.bill(Some(&self.wishes.cart))?;
                if page.mark(" data-order=\"").is_none() {
                    return wrong("names no order".to_owned());
                }
                self.deeds.orders += 1;
                self.wishes.cart.clear();
                Ok(())
            }
            Interaction::OrderDisplay => {
                // A customer may have no order.
                if page.mark(" data-order=\"").is_none() && books == 0 {
                    return Ok(());
                }
                let (total, paid) = (page.bill(None)?, page.mark(" data-paid=\"").unwrap_or_default());
                if format_args!("{}.{:02}", total / 100, total % 100).to_string() == paid {
                    return Ok(());
                }
                wrong(format!("says that {paid} was paid for {total} cents"))
            }
            _ => Ok(()),
        }
    }

    fn asks_for_images(&mut self) -> Result<u64> {
        let at_once = if self.habits.pipelining { usize::MAX } else { 1 };
        let client = self.images.as_mut().unwrap_or(&mut self.pages);
        let mut bytes = 0;
        let mut left = Page(&self.page).images();
        loop {
            let next = left.clone();
            self.request.clear();
            let mut count = 0;
            for path in left.by_ref().take(at_once) {
                put!(self.request, "GET {path} HTTP/1.1\r\nHost: servsim\r\n\r\n");
                count += 1;
            }
            if count == 0 {
                return Ok(bytes);
            }
            client.send(&self.request, count)?;
            for path in next.take(count) {
                self.image.clear();
                let image = &mut self.image;
                let reply = client.receive(|part| image.extend_from_slice(part))?;
                self.requests += 1;
                bytes += reply.bytes;
                answered(reply).map_err(|error| Error::Check(format!("the image {path} {error}")))?;
                if !whole(&self.image) {
                    return Err(Error::Check(format!("the image {path} is not whole: its checksum differs")));
                }
            }
        }
    }
}

impl User for Shopper<'_> {
    fn begin(&mut self, seed: u64, purpose: Purpose) {
        let Habits { mix, .. } = self.habits;
        self.browser = if purpose == Purpose::Measured {
            Browser::midway(mix, seed, purpose, self.index)
        } else {
            Browser::new(mix, seed, purpose, self.index)
        };
        self.wishes = Wishes::new(self.habits.size, seed, purpose, self.index);
        self.pages.forget_cookie();
        self.log = Log::default();
    }

    fn page(&mut self, work: &Work<'_>) -> Result<()> {
        let step = self.browser.step();
        if self.habits.think_scale > 0.0 {
            std::thread::sleep(step.think.mul_f64(self.habits.think_scale));
        }
        let begin = Instant::now();
        let bytes = self.asks(step)?;
        work.ended(step.interaction as u8, bytes, begin.elapsed())
    }
}

impl Visitor for Shopper<'_> {
    type Deeds = Deeds;

    fn log(&self) -> Log {
        self.log
    }

    fn tell(&self, deeds: &mut Deeds) {
        deeds.orders += self.deeds.orders;
        deeds.customers += self.deeds.customers;
    }

    fn requests(&self) -> u64 {
        self.requests
    }
}
