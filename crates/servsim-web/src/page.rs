//! A page of an application as a browser reads it: what it says of itself, and whether it is whole.

use memchr::memmem;

use crate::http::Reply;
use crate::{Error, Result};

/// A page that was received in full.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a>(pub &'a [u8]);

/// What is wrong with a page, as an error of the run.
pub(crate) fn wrong(what: String) -> Error {
    Error::Check(what)
}

/// Whether a reply is one.
///
/// # Errors
/// [`Error::Check`] with any status but 200.
pub fn answered(reply: Reply) -> Result<()> {
    if reply.status == 200 {
        return Ok(());
    }
    Err(wrong(format!("is answered with status {}", reply.status)))
}

impl<'a> Page<'a> {
    /// Texts between `begin` and the next `end`.
    pub fn between(self, begin: &'static str, end: u8) -> impl Iterator<Item = &'a str> + Clone {
        memmem::find_iter(self.0, begin).filter_map(move |at| {
            let rest = &self.0[at + begin.len()..];
            std::str::from_utf8(&rest[..memchr::memchr(end, rest)?]).ok()
        })
    }

    /// What is shown, by number, each once for each place.
    pub fn items(self) -> impl Iterator<Item = u32> + 'a {
        self.between(" data-item=\"", b'"').filter_map(|text| text.parse().ok())
    }

    /// The first value of a mark of the page, such as ` data-user="`.
    pub fn mark(self, begin: &'static str) -> Option<&'a str> {
        self.between(begin, b'"').next()
    }

    /// Looks at what every page has: the title (`site: title`), an end, and as many `items` as it says; returns how many.
    ///
    /// # Errors
    /// [`Error::Check`] naming the first that is wrong.
    pub fn whole(self, site: &str, title: &str, items: &str) -> Result<usize> {
        let found = self.between("<title>", b'<').next().unwrap_or_default();
        if found.strip_prefix(site).and_then(|rest| rest.strip_prefix(": ")) != Some(title) {
            return Err(wrong(format!(
                "has the title {found:?} instead of {:?}",
                format!("{site}: {title}")
            )));
        }
        if !self.0.ends_with(b"</body></html>\n") {
            return Err(wrong("does not end as a page does".to_owned()));
        }
        let (says, shows) = (self.mark(" data-items=\"").unwrap_or_default(), self.items().count());
        if says.parse() != Ok(shows) {
            return Err(wrong(format!("says that it has {says:?} {items}, and shows {shows}")));
        }
        Ok(shows)
    }
}
