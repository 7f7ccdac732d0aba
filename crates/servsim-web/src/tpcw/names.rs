//! What TPC-W calls things, and which of them are asked for most: shared by the population and the browsers.

use std::io::Write;

use servsim_driver::nurand::nurand;
use servsim_driver::rng::Stream;

/// Syllables for decimal digits (clause 4.6.2.10).
const SYLLABLES: [&str; 10] = ["BA", "OG", "AL", "RI", "RE", "SE", "AT", "UL", "IN", "NG"];
/// Digits of the words by which titles and authors are searched.
const WORD_DIGITS: usize = 7;

/// The subjects of books (clause 4.7.1).
pub const SUBJECTS: [&str; 24] = [
    "ARTS",
    "BIOGRAPHIES",
    "BUSINESS",
    "CHILDREN",
    "COMPUTERS",
    "COOKING",
    "HEALTH",
    "HISTORY",
    "HOME",
    "HUMOR",
    "LITERATURE",
    "MYSTERY",
    "NON-FICTION",
    "PARENTING",
    "POLITICS",
    "REFERENCE",
    "RELIGION",
    "ROMANCE",
    "SELF-HELP",
    "SCIENCE-NATURE",
    "SCIENCE-FICTION",
    "SPORTS",
    "YOUTH",
    "TRAVEL",
];
/// Ways of shipping.
pub const SHIPPING: [&str; 6] = ["AIR", "UPS", "FEDEX", "SHIP", "COURIER", "MAIL"];
/// Kinds of credit cards.
pub const CARDS: [&str; 5] = ["VISA", "MASTERCARD", "DISCOVER", "AMEX", "DINERS"];
/// Countries.
pub const COUNTRIES: u32 = 92;

/// Appends a number in syllables, with leading zeros to `digits`; without any for 0.
pub fn syllables(out: &mut Vec<u8>, number: u32, digits: usize) {
    // Writing to memory does not fail.
    let start = out.len();
    let _ = write!(out, "{number:0digits$}");
    let mut text = [0; 10];
    let length = out.len() - start;
    text[..length].copy_from_slice(&out[start..]);
    out.truncate(start);
    for digit in &text[..length] {
        out.extend_from_slice(SYLLABLES[usize::from(digit - b'0')].as_bytes());
    }
}

/// Appends the word of a title or an author.
pub fn word(out: &mut Vec<u8>, number: u32) {
    syllables(out, number, WORD_DIGITS);
}

/// How large the shop is (clause 4.3): books, and browsers for which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::Args)]
pub struct Size {
    /// Books.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub items: u32,
    /// Browsers that the shop is made for: 2,880 customers each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub browsers: u32,
    /// Images of each kind; books share them.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=99_999))]
    pub images: u32,
}

impl Size {
    /// Customers of the population.
    pub fn customers(self) -> u32 {
        self.browsers * 2880
    }

    /// Authors.
    pub fn authors(self) -> u32 {
        self.items / 4
    }

    /// Orders of the population.
    pub fn orders(self) -> u32 {
        self.customers() / 10 * 9
    }

    /// How many words titles are searched by: five books have each.
    pub fn title_words(self) -> u32 {
        self.items / 5
    }

    /// How many words authors are searched by: ten authors have each.
    pub fn author_words(self) -> u32 {
        (self.authors() / 10).max(1)
    }

    /// A customer, unevenly (clause 2.3.4).
    pub fn customer(self, stream: &mut Stream) -> u32 {
        let a = match self.customers() {
            0..10_000 => 1023,
            10_000..40_000 => 4095,
            40_000..160_000 => 16_383,
            160_000..640_000 => 65_535,
            _ => 262_143,
        };
        nurand(stream, a, 0, 1, self.customers() as i32) as u32
    }

    /// A book, unevenly.
    pub fn item(self, stream: &mut Stream) -> u32 {
        let a = match self.items {
            0..10_000 => 63,
            10_000..100_000 => 511,
            100_000..1_000_000 => 4095,
            1_000_000..10_000_000 => 32_767,
            _ => 524_287,
        };
        nurand(stream, a, 0, 1, self.items as i32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    fn spelled(number: u32, digits: usize) -> String {
        let mut out = Vec::new();
        syllables(&mut out, number, digits);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_are_spelled_digit_by_digit() {
        assert_eq!(spelled(0, 0), "BA");
        assert_eq!(spelled(1_234_567, 7), "OGALRIRESEATUL");
        assert_eq!(spelled(89, 7), "BABABABABAINNG");
        assert_eq!(spelled(u32::MAX, 0), "REALNGRENGATULALNGSE");
    }

    #[test]
    fn the_paper_s_shop_has_the_numbers_of_the_specification() {
        let paper = Size { items: 100_000, browsers: 20, images: 1000 };
        assert_eq!((paper.customers(), paper.authors(), paper.orders()), (57_600, 25_000, 51_840));
        let mut stream = Stream::new(1, Purpose::Measured, 0);
        for _ in 0..10_000 {
            assert!((1..=57_600).contains(&paper.customer(&mut stream)));
            assert!((1..=100_000).contains(&paper.item(&mut stream)));
        }
    }
}
