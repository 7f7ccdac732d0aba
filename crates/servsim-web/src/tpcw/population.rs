//! The shop's first rows (TPC-W 1.8, clause 4.7), as a script for `psql`: a `COPY` for each table.
//!
//! Every row has a random stream of its own, and dates end at a fixed day: seed and size alone make the rows. Two
//! things are not as the specification has them. An order costs what its lines cost, so that every order can be
//! checked, not only new ones. A title or an author's name holds one word for searches.

use std::io::Write;

use servsim_driver::rng::Stream;
use servsim_driver::text::{digits, text};

use super::names::{syllables, word, Size, CARDS, COUNTRIES, SHIPPING, SUBJECTS};
use crate::rows::{self, put, Day};
use crate::Result;

/// The last day before the shop opens, in days since 1970: 2004-06-30.
const TODAY: i32 = 12_599;
/// The first day a book may have been published, and the first birthday: 1930-01-01 and 1880-01-01.
const FIRST_BOOK: i32 = -14_610;
const FIRST_BIRTHDAY: i32 = -32_872;
const BACKINGS: [&str; 5] = ["HARDBACK", "PAPERBACK", "USED", "AUDIO", "LIMITED-EDITION"];
const STATUSES: [&str; 4] = ["PROCESSING", "SHIPPED", "PENDING", "DENIED"];

/// An amount of money.
#[derive(Clone, Copy)]
struct Cents(u64);

impl std::fmt::Display for Cents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// Appends a tab and a random text of `low` to `high` characters.
fn field(out: &mut Vec<u8>, stream: &mut Stream, low: i32, high: i32) {
    out.push(b'\t');
    text(out, stream, low, high);
}

fn one<'a>(stream: &mut Stream, of: &[&'a str]) -> &'a str {
    of[stream.below(of.len() as u64) as usize]
}

/// Discount of a customer in percent; new customers of the shop have theirs by the same rule.
fn discount(customer: u32) -> u64 {
    u64::from(customer % 51)
}

/// What an order comes to: subtotal, tax of 8.25 %, total with shipping; half a cent is rounded up (clause 2.7.3.3).
pub fn sums(goods: u64, copies: u64, discount: u64) -> (u64, u64, u64) {
    let subtotal = (goods * (100 - discount) + 50) / 100;
    let tax = (subtotal * 825 + 5000) / 10_000;
    (subtotal, tax, subtotal + tax + 300 + 100 * copies)
}

/// The rows of a shop.
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
        let Size { items, .. } = self.size;
        let (customers, authors, orders) = (self.size.customers(), self.size.authors(), self.size.orders());
        let costs: Vec<(u64, u64)> =
            (1..=items).map(|id| prices(&mut rows::stream(self.seed, "cost", id))).collect();
        self.table(to, "country", COUNTRIES, country)?;
        self.table(to, "author", authors, |out, stream, id| self.author(out, stream, id))?;
        self.table(to, "item", items, |out, stream, id| self.item(out, stream, id, &costs))?;
        self.table(to, "address", 2 * customers, address)?;
        self.table(to, "customer", customers, |out, stream, id| {
            self.customer(out, stream, id);
        })?;
        // One stream for all three, from which each draws the same order first.
        for (name, write) in
            [("orders", Order::row as OrderRow), ("order_line", Order::lines), ("cc_xacts", Order::payment)]
        {
            rows::table(to, (name, "orders", self.seed), orders, |out, stream, id| {
                let order = Order::drawn(self.size, stream, &costs);
                write(&order, out, stream, id);
            })?;
        }
        Ok(())
    }

    /// Writes a table, whose streams have its name.
    fn table(
        self,
        to: &mut impl Write,
        name: &str,
        count: u32,
        write: impl FnMut(&mut Vec<u8>, &mut Stream, u32),
    ) -> Result<()> {
        rows::table(to, (name, name, self.seed), count, write)
    }

    fn author(self, out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
        put!(out, "{id}");
        field(out, stream, 3, 20);
        out.push(b'\t');
        word(out, id % self.size.author_words());
        out.push(b' ');
        text(out, stream, 1, 5);
        field(out, stream, 1, 20);
        put!(out, "\t{}", Day(stream.between(FIRST_BIRTHDAY, TODAY - 20 * 365)));
        field(out, stream, 125, 500);
        out.push(b'\n');
    }

    fn item(self, out: &mut Vec<u8>, stream: &mut Stream, id: u32, costs: &[(u64, u64)]) {
        put!(out, "{id}");
        field(out, stream, 1, 20);
        out.push(b' ');
        word(out, id % self.size.title_words());
        out.push(b' ');
        text(out, stream, 1, 20);
        // The first books have an author each, so that every author has one.
        let authors = self.size.authors();
        let author = if id <= authors { id } else { stream.below(u64::from(authors)) as u32 + 1 };
        let published = stream.between(FIRST_BOOK, TODAY);
        put!(out, "\t{author}\t{}", Day(published));
        field(out, stream, 14, 60);
        put!(out, "\t{}", one(stream, &SUBJECTS));
        field(out, stream, 100, 500);
        let mut related = [id; 5];
        for place in 0..5 {
            while related[..place].contains(&related[place]) || related[place] == id {
                related[place] = stream.below(u64::from(self.size.items)) as u32 + 1;
            }
            put!(out, "\t{}", related[place]);
        }
        let image = (id - 1) % self.size.images;
        let (retail, cost) = costs[id as usize - 1];
        let available = Day(published + stream.between(1, 30));
        put!(
            out,
            "\t{image}\t{image}\t{}\t{}\t{available}\t{}",
            Cents(retail),
            Cents(cost),
            stream.between(10, 30)
        );
        field(out, stream, 13, 13);
        put!(out, "\t{}\t{}", stream.between(20, 9999), one(stream, &BACKINGS));
        let mut side = || Cents(stream.between(1, 9999) as u64);
        put!(out, "\t{}x{}x{}\n", side(), side(), side());
    }

    fn customer(self, out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
        put!(out, "{id}\t");
        let start = out.len();
        syllables(out, id, 0);
        let name = out[start..].to_vec();
        out.push(b'\t');
        out.extend(name.to_ascii_lowercase());
        field(out, stream, 8, 15);
        field(out, stream, 8, 15);
        put!(out, "\t{}\t", stream.below(u64::from(2 * self.size.customers())) + 1);
        let length = stream.between(9, 16);
        digits(out, stream, length);
        out.push(b'\t');
        out.extend(&name);
        out.push(b'@');
        text(out, stream, 2, 9);
        let since = stream.between(TODAY - 730, TODAY - 1);
        let last = Day((since + stream.between(0, 60)).min(TODAY));
        put!(out, ".com\t{}\t{last}\t{last}\t{last}", Day(since));
        put!(out, "\t{}\t0.00\t{}", Cents(discount(id)), Cents(stream.below(100_000)));
        put!(out, "\t{}", Day(stream.between(FIRST_BIRTHDAY, TODAY)));
        field(out, stream, 100, 500);
        out.push(b'\n');
    }
}

/// Retail price and cost of a book in cents: half of the one to all of it.
fn prices(stream: &mut Stream) -> (u64, u64) {
    let retail = stream.between(100, 999_999) as u64;
    (retail, retail * stream.between(50, 100) as u64 / 100)
}

fn country(out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
    put!(out, "{id}\tCOUNTRY ");
    syllables(out, id, 2);
    put!(out, "\t{}.{:06}\t", stream.below(10), stream.below(1_000_000));
    syllables(out, id, 2);
    out.push(b'\n');
}

fn address(out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
    put!(out, "{id}");
    for (low, high) in [(15, 40), (15, 40), (4, 30), (2, 20), (5, 10)] {
        field(out, stream, low, high);
    }
    put!(out, "\t{}\n", stream.below(u64::from(COUNTRIES)) + 1);
}

type OrderRow = fn(&Order, &mut Vec<u8>, &mut Stream, u32);

/// An order of the population.
struct Order {
    customer: u32,
    day: i32,
    addresses: (u64, u64),
    /// Books with their costs, and copies.
    books: Vec<(u32, u64, u64)>,
}

impl Order {
    fn drawn(size: Size, stream: &mut Stream, costs: &[(u64, u64)]) -> Order {
        let customer = stream.below(u64::from(size.customers())) as u32 + 1;
        let day = stream.between(TODAY - 60, TODAY - 1);
        let mut address = || stream.below(u64::from(2 * size.customers())) + 1;
        let addresses = (address(), address());
        let count = stream.between(1, 5);
        let mut book = |_| {
            let id = stream.below(u64::from(size.items)) as u32 + 1;
            (id, costs[id as usize - 1].1, stream.between(1, 300) as u64)
        };
        let books = (0..count).map(&mut book).collect();
        Order { customer, day, addresses, books }
    }

    fn sums(&self) -> (u64, u64, u64) {
        let goods = self.books.iter().map(|(_, cost, copies)| cost * copies).sum();
        sums(goods, self.books.iter().map(|(_, _, copies)| copies).sum(), discount(self.customer))
    }

    fn row(&self, out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
        let (subtotal, tax, total) = self.sums();
        put!(
            out,
            "{id}\t{}\t{}\t{}\t{}\t{}",
            self.customer,
            Day(self.day),
            Cents(subtotal),
            Cents(tax),
            Cents(total)
        );
        put!(out, "\t{}\t{}", one(stream, &SHIPPING), Day(self.day + stream.between(0, 7)));
        put!(out, "\t{}\t{}\t{}\n", self.addresses.0, self.addresses.1, one(stream, &STATUSES));
    }

    fn lines(&self, out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
        for (place, (book, cost, copies)) in self.books.iter().enumerate() {
            put!(out, "{id}\t{}\t{book}\t{copies}\t{}", place + 1, Cents(*cost));
            put!(out, "\t{}", Cents(discount(self.customer)));
            field(out, stream, 20, 100);
            out.push(b'\n');
        }
    }

    fn payment(&self, out: &mut Vec<u8>, stream: &mut Stream, id: u32) {
        put!(out, "{id}\t{}\t", one(stream, &CARDS));
        digits(out, stream, 16);
        field(out, stream, 14, 30);
        put!(out, "\t{}", Day(TODAY + stream.between(10, 730)));
        field(out, stream, 15, 15);
        put!(
            out,
            "\t{}\t{}\t{}\n",
            Cents(self.sums().2),
            Day(self.day),
            stream.below(u64::from(COUNTRIES)) + 1
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { items: 1000, browsers: 1, images: 100 };

    fn script(size: Size, seed: u64) -> String {
        let mut out = Vec::new();
        Population { size, seed }.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// The rows of a table, as PostgreSQL would split them.
    fn rows<'a>(script: &'a str, table: &str) -> Vec<Vec<&'a str>> {
        let begin = format!("COPY {table} FROM stdin (FREEZE);");
        let lines = script.lines().skip_while(|line| *line != begin).skip(1);
        lines.take_while(|line| *line != "\\.").map(|line| line.split('\t').collect()).collect()
    }

    #[test]
    fn every_table_has_its_rows_and_columns_and_texts_their_lengths() {
        let script = script(SIZE, 42);
        for (table, count, columns) in [
            ("country", 92, 4),
            ("author", 250, 6),
            ("item", 1000, 22),
            ("address", 5760, 7),
            ("customer", 2880, 17),
            ("orders", 2592, 11),
            ("cc_xacts", 2592, 9),
        ] {
            let rows = rows(&script, table);
            assert_eq!(rows.len(), count, "{table}");
            assert!(rows.iter().all(|row| row.len() == columns), "{table}");
            assert!(rows.iter().zip(1..).all(|(row, id)| row[0] == id.to_string()), "{table}");
        }
        for row in rows(&script, "item") {
            assert!((14..=60).contains(&row[1].len()) && (100..=500).contains(&row[6].len()), "{row:?}");
            assert!(SUBJECTS.contains(&row[5]) && row[18].len() == 13);
            let (retail, cost): (f64, f64) = (row[14].parse().unwrap(), row[15].parse().unwrap());
            assert!(cost <= retail && cost >= retail / 2.0 - 0.01 && row[4].len() >= 14);
        }
        assert_eq!(script, self::script(SIZE, 42));
        assert_ne!(script, self::script(SIZE, 43));
    }

    #[test]
    fn lines_have_a_mean_of_three_and_words_the_books_they_should() {
        let script = script(SIZE, 42);
        let lines = rows(&script, "order_line");
        // From 1 to 5 with equal chances: a variance of 2; four standard errors.
        let mean = lines.len() as f64 / 2592.0;
        assert!((mean - 3.0).abs() < 4.0 * (2.0f64 / 2592.0).sqrt(), "{mean}");
        let mut words = std::collections::BTreeMap::new();
        for row in rows(&script, "item") {
            *words.entry(row[1].split(' ').nth(1).unwrap()).or_insert(0) += 1;
        }
        assert_eq!(words.len(), 200);
        assert!(words.values().all(|&books| books == 5));
        assert_eq!(rows(&script, "customer")[122][1..3], ["OGALRI", "ogalri"]);
    }
}
