//! What was seen of the pages, as bytes and back.

use super::{Owner, PageUse, Pages, Users};
use crate::captured::packed::{put, put_table, Packed};
use servsim_trace::TaskInfo;

impl Pages {
    /// All that [`Pages::classify`] leaves; what the table of tasks tells is not kept.
    pub(in crate::captured) fn pack(&self, out: &mut Vec<u8>) {
        let Self { facts, filter: _, tasks: _, programs: _, shared } = self;
        let (mut user_before, mut kernel_before) = (0, 0);
        put_table(out, facts.iter().map(|(&page, facts)| (page, (page, facts))), |out, (page, facts)| {
            let PageUse { processes, first_process, threads, user_page, user, tasks, kernel_page, kernel } =
                *facts;
            put_users(out, processes, |out, process| put(out, u64::from(process)));
            put(out, u64::from(first_process));
            put_users(out, threads, |out, owner| {
                let (client, number) = match owner {
                    Owner::Thread(task) => (0, task),
                    Owner::Client(process) => (1, process),
                };
                put(out, u64::from(number) << 1 | client);
            });
            // Neighbours in physical memory are mostly neighbours in the virtual one.
            put_difference(out, user_page, &mut user_before);
            put_difference(out, kernel_page, &mut kernel_before);
            put(out, u64::from(user) << 3 | u64::from(kernel));
            put_users(out, tasks, |out, task| put(out, u64::from(task)));
            put(out, shared.get(&page).map_or(0, |&shared| 1 + u64::from(shared)));
        });
    }

    /// What [`Pages::pack`] kept of a trace with these tasks; `None` for bytes that are none.
    pub(in crate::captured) fn unpack(from: &mut Packed<'_>, tasks: &[TaskInfo]) -> Option<Self> {
        let mut pages = Self::new(tasks);
        pages.filter = Vec::new();
        let (mut user_before, mut kernel_before) = (0, 0);
        let entries = from.table(|from| {
            let processes = users(from, Packed::narrow)?;
            let first_process = from.narrow()?;
            let threads = users(from, |from| {
                let packed = from.number()?;
                let number = u32::try_from(packed >> 1).ok()?;
                Some(if packed & 1 == 0 { Owner::Thread(number) } else { Owner::Client(number) })
            })?;
            let user_page = difference(from, &mut user_before)?;
            let kernel_page = difference(from, &mut kernel_before)?;
            let marks: u8 = from.narrow()?;
            let (user, kernel) = (marks >> 3, marks & 7);
            let tasks = users(from, Packed::narrow)?;
            let shared = match from.number()? {
                0 => None,
                1 => Some(false),
                2 => Some(true),
                _ => return None,
            };
            let facts =
                PageUse { processes, first_process, threads, user_page, user, tasks, kernel_page, kernel };
            Some((facts, shared))
        })?;
        for (page, (facts, shared)) in entries {
            pages.facts.insert(page, facts);
            if let Some(shared) = shared {
                pages.shared.insert(page, shared);
            }
        }
        Some(pages)
    }
}

fn put_users<T>(out: &mut Vec<u8>, users: Users<T>, put_one: impl Fn(&mut Vec<u8>, T)) {
    match users {
        Users::None => put(out, 0),
        Users::Many => put(out, 1),
        Users::One(one) => {
            put(out, 2);
            put_one(out, one);
        }
    }
}

fn users<'a, T>(from: &mut Packed<'a>, one: impl Fn(&mut Packed<'a>) -> Option<T>) -> Option<Users<T>> {
    Some(match from.number()? {
        0 => Users::None,
        1 => Users::Many,
        2 => Users::One(one(from)?),
        _ => return None,
    })
}

/// Appends how far `value` is from the one before, small distances of either sign as small numbers.
fn put_difference(out: &mut Vec<u8>, value: u64, before: &mut u64) {
    let difference = value.wrapping_sub(*before) as i64;
    put(out, ((difference << 1) ^ (difference >> 63)) as u64);
    *before = value;
}

fn difference(from: &mut Packed<'_>, before: &mut u64) -> Option<u64> {
    let packed = from.number()?;
    *before = before.wrapping_add((packed >> 1) ^ (packed & 1).wrapping_neg());
    Some(*before)
}
