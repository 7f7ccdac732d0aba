//! The order of the requests: temporal locality by distances in an LRU stack, and pages.
//!
//! All files lie in a stack; each step draws a distance from the top, asks for a file near it, and
//! moves it to the top. A file that has been asked for as often as it should leaves the stack. Of the
//! neighbours of the place that was drawn, one is taken in proportion to the requests it still waits for,
//! so that files which are wanted often are not used up last (as in SURGE). The stack begins in an
//! order that leaves every file about the time that it needs.
//!
//! A page is a file and the embedded references behind it. SURGE fixes which files a page embeds; here
//! the references are those that follow in the order, so that popularity and locality hold exactly.

use servsim_driver::rng::{Purpose, Stream};

use super::Model;

/// Neighbours on either side of the place that was drawn, among which one is chosen.
const WINDOW: usize = 1;
/// Random streams.
const START: u64 = 3;
const STEPS: u64 = 4;
const PAGES: u64 = 5;

/// All requests of one round: each file as often as it should be asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Files in the order in which they are asked for.
    pub requests: Vec<u32>,
    /// Where each page begins in `requests`, and the end of the last.
    pub pages: Vec<u32>,
}

impl Sequence {
    /// The files of a page: its own, then those it embeds.
    pub fn page(&self, index: usize) -> &[u32] {
        &self.requests[self.pages[index] as usize..self.pages[index + 1] as usize]
    }

    /// Number of pages.
    pub fn page_count(&self) -> usize {
        self.pages.len().saturating_sub(1)
    }
}

/// The sequence for files that are asked for so often.
pub fn sequence(model: &Model, requests: &[u32], seed: u64) -> Sequence {
    let requests = ordered(model, requests, seed);
    let pages = pages(model, requests.len(), seed);
    Sequence { requests, pages }
}

fn ordered(model: &Model, wanted: &[u32], seed: u64) -> Vec<u32> {
    let total: u64 = wanted.iter().map(|&count| u64::from(count)).sum();
    let mut left = wanted.to_vec();
    let mut stack = beginning(wanted, total, seed);
    let mut stream = Stream::new(seed, Purpose::Load, STEPS);
    let law = model.stack_distance.law();
    let mut order = Vec::with_capacity(total as usize);
    while !stack.is_empty() {
        let top = stack.len() - 1;
        let distance = (law.draw(&mut stream).round() as usize).clamp(1, stack.len());
        let drawn = top - (distance - 1);
        let nearby = drawn.saturating_sub(WINDOW)..=(drawn + WINDOW).min(top);
        let weight: u64 = stack[nearby.clone()].iter().map(|&file| u64::from(left[file as usize])).sum();
        let mut chosen = stream.below(weight);
        let place = nearby
            .into_iter()
            .find(|&place| {
                let count = u64::from(left[stack[place] as usize]);
                let here = chosen < count;
                chosen = chosen.saturating_sub(count);
                here
            })
            .expect("the weights add up to their sum");
        let file = stack.remove(place);
        order.push(file);
        left[file as usize] -= 1;
        if left[file as usize] > 0 {
            stack.push(file);
        }
    }
    order
}

/// The files from the bottom of the stack to its top. A file of n requests that is near the top is asked for about
/// as often as the most popular one: it needs as much of the round as n is of that one's requests, and so begins
/// somewhere in what that leaves.
fn beginning(wanted: &[u32], total: u64, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed, Purpose::Load, START);
    let most = wanted.iter().max().copied().unwrap_or(1);
    let mut starts: Vec<(f64, u32)> = (0u32..)
        .zip(wanted)
        .map(|(file, &count)| {
            let needs = f64::from(count) / f64::from(most);
            (stream.unit() * (1.0 - needs) * total as f64, file)
        })
        .collect();
    starts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    starts.into_iter().map(|(_, file)| file).collect()
}

fn pages(model: &Model, requests: usize, seed: u64) -> Vec<u32> {
    let mut stream = Stream::new(seed, Purpose::Load, PAGES);
    let law = model.embedded.law();
    let mut pages = vec![0];
    let mut end = 0;
    while end < requests {
        // The page's own file, and its whole number of embedded references.
        end = (end + 1 + law.draw(&mut stream).floor() as usize).min(requests);
        pages.push(end as u32);
    }
    pages
}

/// The distance of each request in an LRU stack of the files asked for before it, from 1; first requests for a file
/// have none. Takes as many steps as the distances add up to.
///
/// # Panics
/// Never: a file that was seen lies in the stack.
pub fn stack_distances(requests: &[u32]) -> Vec<u32> {
    let mut stack: Vec<u32> = Vec::new();
    let mut distances = Vec::with_capacity(requests.len());
    let mut seen = vec![false; requests.iter().max().map_or(0, |&most| most as usize + 1)];
    for &file in requests {
        if std::mem::replace(&mut seen[file as usize], true) {
            let place = stack.iter().rposition(|&other| other == file).expect("seen files lie in the stack");
            distances.push((stack.len() - place) as u32);
            stack.remove(place);
        }
        stack.push(file);
    }
    distances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surge::popularity::requests_by_rank;

    #[test]
    fn every_file_is_asked_for_as_often_as_it_should() {
        let wanted = requests_by_rank(500, 1.0);
        let made = sequence(&Model::published(), &wanted, 7);
        let mut found = vec![0; 500];
        made.requests.iter().for_each(|&file| found[file as usize] += 1);
        assert_eq!(found, wanted);
        assert_eq!(made, sequence(&Model::published(), &wanted, 7));
        assert_ne!(made, sequence(&Model::published(), &wanted, 8));
        let of_pages: Vec<u32> = (0..made.page_count()).flat_map(|page| made.page(page).to_vec()).collect();
        assert_eq!(of_pages, made.requests);
    }

    #[test]
    fn distances_count_the_files_between_two_requests_for_one() {
        assert_eq!(stack_distances(&[1, 2, 3, 1, 1, 2]), [3, 1, 3]);
        assert!(stack_distances(&[]).is_empty());
    }
}
