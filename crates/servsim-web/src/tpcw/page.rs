//! A page of the shop as a browser reads it: its session, images, carts and bills.

use super::population::sums;
use crate::page::{wrong, Page};
use crate::Result;

/// A line of a cart or an order: book and copies.
pub type Line = (u32, u32);

/// Cents of an amount with two decimals.
fn cents(amount: &str) -> Option<u64> {
    let (whole, rest) = amount.split_once('.')?;
    Some(whole.parse::<u64>().ok()? * 100 + rest.parse::<u64>().ok().filter(|_| rest.len() == 2)?)
}

impl<'a> Page<'a> {
    /// Addresses of the images.
    pub fn images(self) -> impl Iterator<Item = &'a str> + Clone {
        self.between("<img src=\"", b'"')
    }

    /// Looks at what every page has: title, end, the session of the `cookie` (`session=NUMBER`), and as many books as it says;
    /// returns how many.
    ///
    /// # Errors
    /// [`crate::Error::Check`] naming the first that is wrong.
    pub fn complete(self, title: &str, cookie: &[u8]) -> Result<usize> {
        let books = self.whole("Servsim Books", title, "books")?;
        let session = self.mark(" data-session=\"").unwrap_or_default();
        if cookie.strip_prefix(b"session=") != Some(session.as_bytes()) {
            let cookie = String::from_utf8_lossy(cookie);
            return Err(wrong(format!("is of session {session:?}, for the cookie {cookie:?}")));
        }
        Ok(books)
    }

    /// Looks at a bill: its lines are `lines` if they are given, and subtotal, tax and total are what lines and discount come
    /// to. Returns the total in cents.
    ///
    /// # Errors
    /// [`crate::Error::Check`] naming what is wrong.
    pub fn bill(self, lines: Option<&[Line]>) -> Result<u64> {
        let mut expected = lines.map(|lines| lines.iter());
        let (mut goods, mut copies) = (0, 0);
        let amounts = self.between(" data-quantity=\"", b'"').zip(self.between(" data-cost=\"", b'"'));
        for (book, (quantity, cost)) in self.items().zip(amounts) {
            let quantity: u32 = quantity.parse().map_err(|_| wrong(format!("sells {quantity:?} copies")))?;
            let cost = cents(cost).ok_or_else(|| wrong(format!("sells a book for {cost:?}")))?;
            if let Some(line) =
                expected.as_mut().map(Iterator::next).filter(|line| *line != Some(&(book, quantity)))
            {
                return Err(wrong(format!(
                    "has {quantity} copies of book {book}, where the cart has {line:?}"
                )));
            }
            goods += u64::from(quantity) * cost;
            copies += u64::from(quantity);
        }
        if let Some(left) = expected.as_mut().and_then(Iterator::next) {
            return Err(wrong(format!("lacks the line {left:?} of the cart")));
        }
        let discount = self
            .mark(" data-discount=\"")
            .and_then(|text| text.parse().ok())
            .filter(|&percent| percent <= 50);
        let discount = discount.ok_or_else(|| wrong("tells no discount".to_owned()))?;
        let amount = |begin| self.mark(begin).and_then(cents);
        let found = (amount(" data-subtotal=\""), amount(" data-tax=\""), amount(" data-total=\""));
        let (subtotal, tax, total) = sums(goods, copies, discount);
        if found != (Some(subtotal), Some(tax), Some(total)) {
            return Err(wrong(format!("comes to {found:?} cents instead of {:?}", (subtotal, tax, total))));
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CART: &str = "<!DOCTYPE html>\n<html><head><title>Servsim Books: Shopping Cart</title></head>\n\
        <body data-session=\"17\" data-items=\"2\">\n<a href=\"x\"><img src=\"/thumb/00003.gif\"></a>\n\
        <tr data-item=\"5\" data-quantity=\"2\" data-cost=\"10.50\"><tr data-item=\"9\" data-quantity=\"1\" data-cost=\"0.99\">\
        <p data-discount=\"10\" data-subtotal=\"19.79\" data-tax=\"1.63\" data-total=\"27.42\">To pay: 27.42</p></body></html>\n";

    fn said(page: &str, lines: &[Line]) -> String {
        let page = Page(page.as_bytes());
        let outcome = page.complete("Shopping Cart", b"session=17").and_then(|_| page.bill(Some(lines)));
        outcome.map_or_else(|error| error.to_string(), |total| total.to_string())
    }

    #[test]
    fn a_cart_is_right_to_the_cent() {
        // 2 x 10.50 + .99 = 21.99; less 10 % 19.791; 8.25 % of 19.79 are 1.632675; 3 and 3 x 1 for shipping.
        assert_eq!(said(CART, &[(5, 2), (9, 1)]), "2742");
        assert_eq!(Page(CART.as_bytes()).images().collect::<Vec<_>>(), ["/thumb/00003.gif"]);
    }

    #[test]
    fn whatever_is_wrong_with_a_page_is_named() {
        for (from, to, names) in [
            (
                "Books: Shopping Cart",
                "Books: Home",
                "the title \"Servsim Books: Home\" instead of \"Servsim Books: Shopping",
            ),
            ("</body></html>", "</body></htm", "does not end"),
            ("session=\"17\"", "session=\"18\"", "is of session \"18\""),
            ("items=\"2\"", "items=\"3\"", "says that it has \"3\" books, and shows 2"),
            ("item=\"5\"", "item=\"6\"", "2 copies of book 6, where the cart has Some((5, 2))"),
            ("quantity=\"1\"", "quantity=\"2\"", "2 copies of book 9"),
            ("cost=\"0.99\"", "cost=\"0.98\"", "comes to"),
            ("subtotal=\"19.79\"", "subtotal=\"19.80\"", "comes to"),
            ("tax=\"1.63\"", "tax=\"1.64\"", "comes to"),
            ("total=\"27.42\"", "total=\"27.43\"", "comes to"),
            ("discount=\"10\"", "discount=\"51\"", "no discount"),
        ] {
            let page = CART.replacen(from, to, 1);
            assert_ne!(page, CART);
            let said = said(&page, &[(5, 2), (9, 1)]);
            assert!(said.contains(names), "{from}: {said}");
        }
        assert!(said(CART, &[(5, 2)]).contains("where the cart has None"));
        assert!(said(CART, &[(5, 2), (9, 1), (10, 1)]).contains("lacks the line (10, 1)"));
    }
}
