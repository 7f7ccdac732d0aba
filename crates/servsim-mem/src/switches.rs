//! Context-switch misses: those that a process would not have made, had it kept its processor to
//! itself.
//!
//! A *quantum* is a maximal run of one task on one processor; interrupt handlers neither begin nor
//! end one. A cold, capacity or conflict miss is a context-switch miss when the task used the line
//! in an earlier quantum, and one of these holds: another task's fill took this cache's copy; the
//! task came to this processor from another one, and this cache has not had a copy since it came;
//! the copy was flushed when the task left the processor. (Foglia et al. 2004 sections 2 and 5 name
//! these misses without a test for them; this is one.)
//!
//! Kept per task and line: the quantum of first use. Kept per cache and line: who took the last
//! copy, and when. Both change on first uses and losses only, so a hit costs one comparison. But
//! every miss does both, nearly always in a place that the host's caches have lost; so they lie in
//! blocks of neighbouring lines, one host line per look-up, made when they are first touched.

use crate::snapshot::{Damaged, Reader, Writer};

const NONE: u32 = u32::MAX;

/// Why a miss is a context-switch miss, in the order of the counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum SwitchCause {
    /// Another task's fill took the copy.
    Evicted = 0,
    /// The task came from another processor.
    Migrated = 1,
    /// The copy was flushed at the switch.
    Flushed = 2,
}

impl SwitchCause {
    /// Names in results, in order.
    pub const NAMES: [&'static str; 3] = ["evicted", "migrated", "flushed"];
}

/// Who ended a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taker {
    /// The fill of a task.
    Fill(u32),
    /// A transaction of another cache.
    Snoop,
    /// The flush at a switch.
    Flush,
}

#[derive(Debug, Clone, Copy)]
struct Task {
    cpu: u32,
    /// Number of its current or last quantum.
    quantum: u32,
    /// Number of the quantum in which it came to `cpu` from elsewhere.
    arrived: Option<u32>,
}

/// Lines per block: a page of 64-byte lines, whose users are mostly the same.
const BLOCK: usize = 64;

/// One value per line, 0 where none was set.
#[derive(Debug, Default)]
struct PerLine<T>(Vec<Option<Box<[T; BLOCK]>>>);

impl<T: Copy + Default> PerLine<T> {
    fn get(&self, line_id: u32) -> T {
        let block = self.0.get(line_id as usize / BLOCK).and_then(Option::as_ref);
        block.map_or_else(T::default, |block| block[line_id as usize % BLOCK])
    }

    fn at(&mut self, line_id: u32) -> &mut T {
        let index = line_id as usize / BLOCK;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        let block = self.0[index].get_or_insert_with(|| Box::new([T::default(); BLOCK]));
        &mut block[line_id as usize % BLOCK]
    }

    /// Writes the blocks that exist; `put` writes a value.
    fn save(&self, out: &mut Writer, put: impl Fn(T, &mut Writer)) {
        let Self(blocks) = self;
        out.put(blocks.len() as u64);
        for block in blocks {
            out.put(u64::from(block.is_some()));
            block.iter().flat_map(|block| block.iter()).for_each(|&value| put(value, out));
        }
    }

    /// For at most `lines` lines.
    fn restore(
        lines: usize,
        from: &mut Reader<'_>,
        take: impl Fn(&mut Reader<'_>) -> Result<T, Damaged>,
    ) -> Result<Self, Damaged> {
        let mut blocks = Vec::new();
        for _ in 0..from.below(lines.div_ceil(BLOCK) as u64 + 1)? {
            let mut block = (from.below(2)? == 1).then(|| Box::new([T::default(); BLOCK]));
            for value in block.iter_mut().flat_map(|block| block.iter_mut()) {
                *value = take(from)?;
            }
            blocks.push(block);
        }
        Ok(Self(blocks))
    }

    fn bytes(&self) -> usize {
        let blocks = self.0.iter().flatten().count();
        self.0.capacity() * size_of::<usize>() + blocks * size_of::<[T; BLOCK]>()
    }
}

/// Who took a copy, and the number of quanta begun by then; all 0 for a copy that was never lost.
#[derive(Debug, Clone, Copy, Default)]
struct Loss {
    taker: u32,
    quantum: u32,
}

const BY_SNOOP: u32 = 1;
const BY_FLUSH: u32 = 2;
/// And up from here, the fills of tasks.
const BY_TASK: u32 = 3;

impl Loss {
    fn new(taker: Taker, quantum: u32) -> Self {
        let taker = match taker {
            Taker::Snoop => BY_SNOOP,
            Taker::Flush => BY_FLUSH,
            Taker::Fill(task) => BY_TASK + task,
        };
        Self { taker, quantum }
    }

    fn taker(self) -> Option<Taker> {
        match self.taker {
            0 => None,
            BY_SNOOP => Some(Taker::Snoop),
            BY_FLUSH => Some(Taker::Flush),
            task => Some(Taker::Fill(task - BY_TASK)),
        }
    }
}

/// Who runs where, who used what, who took what.
#[derive(Debug)]
pub struct Switches {
    running: Vec<u32>,
    tasks: Vec<Task>,
    quanta: u32,
    /// Per task and line: the quantum of first use.
    first_use: Vec<PerLine<u32>>,
    /// Per cache and line.
    losses: Vec<PerLine<Loss>>,
}

impl Switches {
    /// Idle processors.
    pub fn new(processors: usize) -> Self {
        Self {
            running: vec![NONE; processors],
            tasks: Vec::new(),
            quanta: 0,
            first_use: Vec::new(),
            losses: (0..processors).map(|_| PerLine::default()).collect(),
        }
    }

    /// The task in its quantum at `cpu`, if there is one.
    #[inline]
    pub fn running(&self, cpu: usize) -> Option<u32> {
        Some(self.running[cpu]).filter(|&task| task != NONE)
    }

    /// Begins a quantum of `task` at `cpu`.
    pub fn begin(&mut self, cpu: usize, task: u32) {
        self.running[cpu] = task;
        self.quanta += 1;
        let index = task as usize;
        if self.tasks.len() <= index {
            self.tasks.resize(index + 1, Task { cpu: NONE, quantum: 0, arrived: None });
        }
        let state = &mut self.tasks[index];
        if state.cpu != cpu as u32 {
            state.arrived = (state.cpu != NONE).then_some(self.quanta);
            state.cpu = cpu as u32;
        }
        state.quantum = self.quanta;
    }

    /// `task` uses a line; called at least when it was not the last to use the copy.
    pub fn used(&mut self, task: u32, line_id: u32) {
        if let Some(quantum) = self.tasks.get(task as usize).map(|t| t.quantum).filter(|&q| q != 0) {
            let index = task as usize;
            if self.first_use.len() <= index {
                self.first_use.resize_with(index + 1, PerLine::default);
            }
            let first = self.first_use[index].at(line_id);
            if *first == 0 {
                *first = quantum;
            }
        }
    }

    /// A cache lost its copy.
    pub fn lost(&mut self, cache: usize, line_id: u32, taker: Taker) {
        *self.losses[cache].at(line_id) = Loss::new(taker, self.quanta);
    }

    /// Why a miss of `task` that is no invalidation miss is a context-switch miss, if it is one.
    /// `cache` is the cache of `cpu` that misses.
    pub fn cause(&self, (cpu, cache): (usize, usize), task: u32, line_id: u32) -> Option<SwitchCause> {
        let state = self.tasks.get(task as usize).filter(|t| t.cpu == cpu as u32)?;
        let first = self.first_use.get(task as usize).map_or(0, |lines| lines.get(line_id));
        if first == 0 || first >= state.quantum {
            return None;
        }
        let loss = self.losses[cache].get(line_id);
        match loss.taker() {
            Some(Taker::Fill(other)) if other != task && self.has_quanta(other) => {
                return Some(SwitchCause::Evicted)
            }
            Some(Taker::Flush) => return Some(SwitchCause::Flushed),
            _ => {}
        }
        let arrived = state.arrived?;
        (loss.taker().is_none() || loss.quantum < arrived).then_some(SwitchCause::Migrated)
    }

    /// Writes who runs where, who used what, who took what.
    pub fn save(&self, out: &mut Writer) {
        let Self { running, tasks, quanta, first_use, losses } = self;
        running.iter().for_each(|&task| out.put(u64::from(task)));
        out.put(u64::from(*quanta));
        out.put(tasks.len() as u64);
        for &Task { cpu, quantum, arrived } in tasks {
            out.put(u64::from(cpu));
            out.put(u64::from(quantum));
            out.put(arrived.map_or(0, |quantum| u64::from(quantum) + 1));
        }
        out.put(first_use.len() as u64);
        first_use.iter().for_each(|lines| lines.save(out, |quantum, out| out.put(u64::from(quantum))));
        for lines in losses {
            lines.save(out, |Loss { taker, quantum }, out| {
                out.put(u64::from(taker));
                out.put(u64::from(quantum));
            });
        }
    }

    /// Takes over what others knew of `lines` lines.
    ///
    /// # Errors
    /// When the bytes are no such state.
    pub fn restore(&mut self, lines: usize, from: &mut Reader<'_>) -> Result<(), Damaged> {
        for task in &mut self.running {
            *task = from.short()?;
        }
        self.quanta = from.short()?;
        self.tasks.clear();
        for _ in 0..from.length()? {
            let (cpu, quantum) = (from.short()?, from.short()?);
            let arrived = from.take()?.checked_sub(1).map(|quantum| quantum as u32);
            self.tasks.push(Task { cpu, quantum, arrived });
        }
        self.first_use.clear();
        for _ in 0..from.length()? {
            let quantum = |from: &mut Reader<'_>| from.below(1 << 32).map(|quantum| quantum as u32);
            self.first_use.push(PerLine::restore(lines, from, quantum)?);
        }
        for losses in &mut self.losses {
            let loss = |from: &mut Reader<'_>| Ok(Loss { taker: from.short()?, quantum: from.short()? });
            *losses = PerLine::restore(lines, from, loss)?;
        }
        Ok(())
    }

    /// Host memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        let uses: usize = self.first_use.iter().map(PerLine::bytes).sum();
        uses + self.losses.iter().map(PerLine::bytes).sum::<usize>()
    }

    /// Whether `task` is a process: handlers have no quanta.
    fn has_quanta(&self, task: u32) -> bool {
        self.tasks.get(task as usize).is_some_and(|t| t.cpu != NONE)
    }
}
