//! What is written on the board: words without meaning, the characters that HTML must not take for its own among them, and behind
//! them the checksum of how HTML shows them. Whoever reads a page knows whether each text is what was written, escaped once.

use servsim_driver::rng::Stream;
use servsim_driver::text::characters;

use crate::rows::put;

/// Sixty-four characters, so that six random bits pick one: letters, blanks, and those that HTML writes as something else.
const ALPHABET: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzetaoinshrdlucmfwypvbgkqj        <>&\"<&";
/// Digits of a checksum, behind a blank.
const SUM: usize = 8;

/// Lengths of texts in bytes: so that 3,000 messages are the 5 MB of Alameldeen et al. (2003).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Title of a story, subject of a comment.
    Title,
    /// What lists show of a story.
    Lead,
    /// The rest of a story.
    Story,
    /// A comment.
    Comment,
}

impl Kind {
    fn lengths(self) -> (i32, i32) {
        match self {
            Kind::Title => (20, 60),
            Kind::Lead => (200, 500),
            Kind::Story => (2000, 5000),
            Kind::Comment => (300, 2700),
        }
    }
}

/// Appends a text of its kind, the checksum at its end.
pub fn write(out: &mut Vec<u8>, stream: &mut Stream, kind: Kind) {
    let (low, high) = kind.lengths();
    let start = out.len();
    let length = stream.between(low, high) - SUM as i32 - 1;
    characters(out, stream, ALPHABET, length);
    let sum = checksum(&out[start..]);
    put!(out, " {sum:08x}");
}

/// What HTML writes for each character that it would take for its own.
const ENTITIES: [(u8, &[u8]); 4] = [(b'&', b"&amp;"), (b'<', b"&lt;"), (b'>', b"&gt;"), (b'"', b"&quot;")];

/// Appends a text as HTML shows it.
pub fn escape(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match ENTITIES.iter().find(|(character, _)| character == byte) {
            Some((_, entity)) => out.extend_from_slice(entity),
            None => out.push(*byte),
        }
    }
}

/// Checksum of a text as HTML shows it: whoever reads a page need not turn it back.
fn checksum(text: &[u8]) -> u32 {
    let shown =
        |byte: &u8| ENTITIES.iter().find(|(character, _)| character == byte).map(|(_, entity)| *entity);
    text.iter()
        .fold(0, |sum, byte| crc32c::crc32c_append(sum, shown(byte).unwrap_or(std::slice::from_ref(byte))))
}

/// Whether what HTML shows is a text with its checksum.
pub fn sound(shown: &[u8]) -> bool {
    let Some((text, [b' ', sum @ ..])) = shown.split_last_chunk::<{ SUM + 1 }>() else { return false };
    let sum = std::str::from_utf8(sum).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok());
    sum == Some(crc32c::crc32c(text))
}

/// Appends a text as a field of a form that is sent.
pub fn encode(out: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        match byte {
            b' ' => out.push(b'+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(byte),
            _ => put!(out, "%{byte:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_driver::rng::Purpose;

    fn written(kind: Kind, seed: u64) -> Vec<u8> {
        let mut text = Vec::new();
        write(&mut text, &mut Stream::new(seed, Purpose::Load, 0), kind);
        text
    }

    #[test]
    fn texts_have_their_lengths_and_hold_what_html_would_take_for_its_own() {
        for kind in [Kind::Title, Kind::Lead, Kind::Story, Kind::Comment] {
            let (low, high) = kind.lengths();
            for seed in 0..50 {
                let text = written(kind, seed);
                assert!((low as usize..=high as usize).contains(&text.len()), "{kind:?}: {}", text.len());
            }
        }
        let text = written(Kind::Story, 1);
        assert!(b"<>&\"".iter().all(|character| text.contains(character)));
    }

    #[test]
    fn a_text_that_was_changed_cut_or_not_escaped_is_not_sound() {
        let text = written(Kind::Comment, 3);
        let mut shown = Vec::new();
        escape(&mut shown, &text);
        assert!(sound(&shown));
        let mut changed = shown.clone();
        changed[0] ^= 1;
        assert!(!sound(&changed), "changed");
        assert!(!sound(&shown[..shown.len() - 1]), "cut");
        assert!(!sound(&text), "not escaped");
        let mut twice = Vec::new();
        escape(&mut twice, &shown);
        assert!(!sound(&twice), "escaped twice");
        assert!(!sound(b"") && !sound(b"short"));
    }

    #[test]
    fn forms_carry_every_character() {
        let mut form = Vec::new();
        encode(&mut form, b"a b&<\"Z9=%");
        assert_eq!(form, b"a+b%26%3C%22Z9%3D%25");
    }
}
