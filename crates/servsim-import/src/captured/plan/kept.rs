//! The plan as bytes and back.

use super::{BlockEnd, EpisodePlacement, LockWait, LockWords, Pages, Plan};
use crate::captured::packed::{put, put_table, Packed};
use servsim_core::LockClass;
use servsim_trace::TraceReader;

/// Placements in the order of their numbers.
const PLACEMENTS: [EpisodePlacement; 3] =
    [EpisodePlacement::Device, EpisodePlacement::Inline, EpisodePlacement::Dropped];

impl Plan {
    /// All of it. Taken apart by name: a new field does not compile until it is kept too.
    pub(in crate::captured) fn pack(&self) -> Vec<u8> {
        let Self {
            pages,
            ends,
            placements,
            inline,
            first_wait,
            submitted,
            locks,
            wakers,
            completions,
            lock_waits,
            transaction_ends,
            ran,
        } = self;
        let mut out = Vec::new();
        pages.pack(&mut out);
        put_table(&mut out, ends.iter().map(|(&wake, end)| (wake, end)), |out, end| match *end {
            BlockEnd::Stream => put(out, 0),
            BlockEnd::Disk => put(out, 1),
            BlockEnd::Sleep(nanos) => {
                put(out, 2);
                put(out, nanos);
            }
        });
        put(&mut out, placements.len() as u64);
        placements.iter().for_each(|&placement| put(&mut out, placement as u64));
        put(&mut out, inline.len() as u64);
        for episodes in inline {
            put(&mut out, episodes.len() as u64);
            for &(items, episode) in episodes {
                put(&mut out, items);
                put(&mut out, episode as u64);
            }
        }
        put(&mut out, first_wait.len() as u64);
        for wait in first_wait {
            put(&mut out, u64::from(wait.is_some()));
            wait.iter().for_each(|&wake| put(&mut out, wake));
        }
        put_table(&mut out, submitted.iter().map(|(&request, at)| (request, at)), |out, &(place, task)| {
            put(out, place as u64);
            put(out, u64::from(task));
        });
        locks.pack(&mut out);
        put_table(&mut out, wakers.iter().map(|(&wake, &task)| (wake, u64::from(task))), put);
        put_table(&mut out, completions.iter().map(|(&wake, requests)| (wake, requests)), |out, requests| {
            put(out, requests.len() as u64);
            requests.iter().for_each(|&request| put(out, request));
        });
        put_table(&mut out, lock_waits.iter().map(|(&wake, wait)| (wake, wait)), |out, wait| {
            put(out, wait.class as u64);
            put(out, wait.address);
        });
        put(&mut out, transaction_ends.len() as u64);
        for (&(task, user), &count) in transaction_ends {
            put(&mut out, u64::from(task));
            put(&mut out, u64::from(user));
            put(&mut out, count);
        }
        put(&mut out, ran.len() as u64);
        for epochs in ran {
            put(&mut out, epochs.len() as u64);
            epochs.iter().for_each(|&epoch| put(&mut out, u64::from(epoch)));
        }
        out
    }

    /// The plan of `reader`'s trace that [`Plan::pack`] made; `None` for bytes that are none, or that take more memory
    /// than the trace may.
    pub(in crate::captured) fn unpack(bytes: &[u8], reader: &TraceReader) -> Option<Self> {
        let from = &mut Packed::new(bytes);
        let plan = Self {
            pages: Pages::unpack(from, reader.tasks())?,
            ends: from.table(block_end)?.into_iter().collect(),
            placements: from.list(|from| PLACEMENTS.get(from.narrow::<usize>()?).copied())?,
            inline: from.list(|from| from.list(|from| Some((from.number()?, from.narrow()?))))?,
            first_wait: from.list(first_wait)?,
            submitted: from.table(|from| Some((from.narrow()?, from.narrow()?)))?.into_iter().collect(),
            locks: LockWords::unpack(from, reader.meta().per_cpu_area)?,
            wakers: from.table(Packed::narrow)?.into_iter().collect(),
            completions: from.table(|from| from.list(Packed::number))?.into_iter().collect(),
            lock_waits: from.table(lock_wait)?.into_iter().collect(),
            transaction_ends: from
                .list(|from| Some(((from.narrow()?, from.narrow()?), from.number()?)))?
                .into_iter()
                .collect(),
            ran: from.list(|from| Some(from.list(Packed::narrow)?.into()))?,
        };
        let tasks = reader.tasks().len();
        let whole = from.is_empty()
            && plan.inline.len() == tasks
            && plan.first_wait.len() == tasks
            && plan.ran.len() == tasks;
        (whole && reader.budget().claim(plan.memory()).is_ok()).then_some(plan)
    }
}

fn block_end(from: &mut Packed<'_>) -> Option<BlockEnd> {
    Some(match from.number()? {
        0 => BlockEnd::Stream,
        1 => BlockEnd::Disk,
        2 => BlockEnd::Sleep(from.number()?),
        _ => return None,
    })
}

#[allow(clippy::option_option)] // No wait, as against no more bytes.
fn first_wait(from: &mut Packed<'_>) -> Option<Option<u64>> {
    match from.number()? {
        0 => Some(None),
        1 => Some(Some(from.number()?)),
        _ => None,
    }
}

fn lock_wait(from: &mut Packed<'_>) -> Option<LockWait> {
    let class = LockClass::ALL.get(from.narrow::<usize>()?).copied()?;
    Some(LockWait { class, address: from.number()? })
}
