//! Page colouring (Kessler & Hill, ACM TOCS 10(4) 1992): a page lies in a frame of the same colour as
//! its virtual page, so that pages which are neighbours in a program never meet in one set. Within a
//! colour, frames are taken in the order of first touch.

use super::{Memory, Touched};
use std::collections::HashMap;

pub(super) fn assign(pages: &[Touched], memory: &Memory) -> Vec<u64> {
    let mut next: HashMap<u64, u64> = HashMap::new();
    let assign = |page: &Touched| {
        let colour = page.virtual_page % memory.colours;
        let taken = next.entry(colour).or_insert(0);
        let frame = *taken * memory.colours + colour;
        *taken += 1;
        frame
    };
    pages.iter().map(assign).collect()
}
