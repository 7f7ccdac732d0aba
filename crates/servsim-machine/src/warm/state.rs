//! What is known of software and caches where a warm-up ended.

use crate::software::{Bookmark, PendingIo};
use servsim_core::{CpuId, TaskId, WakeId};
use servsim_mem::snapshot::{Damaged, Reader, Writer};
use servsim_os::SchedulerState;

/// Where a timing run begins instead of at the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WarmStart {
    /// References made during the warm-up.
    pub references: u64,
    /// Transactions that ended in it.
    pub transactions: u64,
    /// Per task: records of its stream that are done.
    pub positions: Vec<u64>,
    /// Per task: where the batch of that record begins, from sources that can begin there.
    pub bookmarks: Vec<Option<Bookmark>>,
    /// Per task: whether its stream is over.
    pub ended: Vec<bool>,
    /// Who is ready, and who ran where.
    pub scheduler: SchedulerState,
    /// Per processor: the task that it runs, and the references left of the time slice.
    pub running: Vec<Option<(TaskId, u64)>>,
    /// Who waits for which wake-up.
    pub waiting: Vec<(TaskId, WakeId)>,
    /// Wake-ups that came before their sleepers.
    pub delivered: Vec<WakeId>,
    /// Who sleeps for how many nanoseconds more.
    pub sleeping: Vec<(TaskId, u64)>,
    /// Disk requests under way, in the order they were asked.
    pub requests: Vec<PendingIo>,
    /// Requests that were asked, under way or not, and that a handler with others to come waits for.
    pub submitted: Vec<u64>,
    /// Per interrupt handler: requests it waits for, or `None` when it has run.
    pub handlers: Vec<Option<usize>>,
    /// Whether the trace begins again, in the caches that it has warmed.
    pub again: bool,
    /// State of all caches, as [`servsim_mem::Hierarchy::save`] writes it.
    pub caches: Vec<u8>,
}

impl WarmStart {
    /// This beginning of a trace, in the caches that were `warmed` by all of it.
    #[must_use]
    pub fn begun_again(self, warmed: Self) -> Self {
        let Self { references, transactions, caches, .. } = warmed;
        Self { references, transactions, caches, again: true, ..self }
    }

    /// Writes everything but the caches.
    pub fn save(&self, out: &mut Writer) {
        let Self {
            references,
            transactions,
            positions,
            bookmarks,
            ended,
            scheduler: SchedulerState { ready, last_processor, previous },
            running,
            waiting,
            delivered,
            sleeping,
            requests,
            submitted,
            handlers,
            again,
            caches: _,
        } = self;
        out.put(*references);
        out.put(*transactions);
        out.list(positions.iter().copied());
        out.list(bookmarks.iter().map(|bookmark| u64::from(bookmark.is_some())));
        for (records, place) in bookmarks.iter().flatten() {
            out.put(*records);
            place.iter().for_each(|&number| out.put(number));
        }
        out.list(ended.iter().map(|&ended| u64::from(ended)));
        out.list(ready.iter().map(|&task| u64::from(task)));
        out.list(last_processor.iter().map(|cpu| cpu.map_or(0, |cpu| cpu.0 as u64 + 1)));
        out.list(previous.iter().map(|task| task.map_or(0, |task| u64::from(task) + 1)));
        out.list(running.iter().map(|task| task.map_or(0, |(task, _)| u64::from(task) + 1)));
        out.list(running.iter().map(|task| task.map_or(0, |(_, slice)| slice)));
        for (tasks, other) in [unzip(waiting), unzip(sleeping)] {
            out.list(tasks.into_iter());
            out.list(other.into_iter());
        }
        out.list(delivered.iter().copied());
        out.put(requests.len() as u64);
        for &PendingIo { request, device, sector, bytes, write } in requests {
            let numbers = [request, u64::from(device), sector, u64::from(bytes), u64::from(write)];
            numbers.iter().for_each(|&number| out.put(number));
        }
        out.list(submitted.iter().copied());
        out.list(handlers.iter().map(|left| left.map_or(0, |left| left as u64 + 1)));
        out.put(u64::from(*again));
    }

    /// Reads what [`WarmStart::save`] wrote, for a source with so many tasks and handlers and a machine
    /// with so many processors.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub fn restore(
        (tasks, handlers, processors): (usize, usize, usize),
        from: &mut Reader<'_>,
    ) -> Result<Self, Damaged> {
        let other = Damaged("its tasks, handlers or processors are not those of the run");
        let (references, transactions) = (from.take()?, from.take()?);
        let list = |length: usize, from: &mut Reader<'_>| {
            let list = from.list()?;
            (list.len() == length).then_some(list).ok_or(other.clone())
        };
        let task = |task: u64| if task < tasks as u64 { Ok(task as TaskId) } else { Err(other.clone()) };
        let optional = |task_and_one: u64| task_and_one.checked_sub(1).map(task).transpose();
        let positions = list(tasks, from)?;
        let marked = list(tasks, from)?;
        let mut bookmark = |known: u64| -> Result<Option<Bookmark>, Damaged> {
            let mut number = || from.take();
            (known == 1).then(|| Ok((number()?, [number()?, number()?, number()?, number()?]))).transpose()
        };
        let bookmarks = marked.into_iter().map(&mut bookmark).collect::<Result<_, _>>()?;
        let ended = list(tasks, from)?.iter().map(|&ended| ended != 0).collect();
        let ready = from.list()?.into_iter().map(task).collect::<Result<_, _>>()?;
        let last_processor: Vec<Option<CpuId>> =
            list(tasks, from)?.iter().map(|cpu| cpu.checked_sub(1).map(|cpu| CpuId(cpu as usize))).collect();
        if last_processor.iter().flatten().any(|&cpu| cpu.0 >= processors) {
            return Err(other);
        }
        let previous = list(processors, from)?.into_iter().map(optional).collect::<Result<_, _>>()?;
        let (runs, slices) = (list(processors, from)?, list(processors, from)?);
        let mut running = Vec::new();
        for (task, slice) in runs.into_iter().zip(slices) {
            running.push(optional(task)?.map(|task| (task, slice)));
        }
        let mut pairs = || -> Result<Vec<(TaskId, u64)>, Damaged> {
            let who = from.list()?;
            let what = list(who.len(), from)?;
            who.into_iter().map(task).zip(what).map(|(who, what)| Ok((who?, what))).collect()
        };
        let (waiting, sleeping) = (pairs()?, pairs()?);
        let delivered = from.list()?;
        let mut requests = Vec::new();
        for _ in 0..from.length()? {
            requests.push(PendingIo {
                request: from.take()?,
                device: from.short()?,
                sector: from.take()?,
                bytes: from.short()?,
                write: from.below(2)? == 1,
            });
        }
        let submitted = from.list()?;
        let handlers = list(handlers, from)?;
        let handlers = handlers.iter().map(|left| left.checked_sub(1).map(|left| left as usize)).collect();
        let again = from.below(2)? == 1;
        Ok(Self {
            references,
            transactions,
            positions,
            bookmarks,
            ended,
            scheduler: SchedulerState { ready, last_processor, previous },
            running,
            waiting,
            delivered,
            sleeping,
            requests,
            submitted,
            handlers,
            again,
            caches: Vec::new(),
        })
    }
}

fn unzip(pairs: &[(TaskId, u64)]) -> (Vec<u64>, Vec<u64>) {
    pairs.iter().map(|&(task, other)| (u64::from(task), other)).unzip()
}
