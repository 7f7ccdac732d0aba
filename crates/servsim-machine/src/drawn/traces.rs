//! Traces drawn at random: tasks that take turns as on a captured system, with locks that cross, handlers whose requests are late
//! or never made, sleeps, and tasks that nobody wakes.

use servsim_core::code::Class;
use servsim_core::reference::{ATOMIC, KERNEL, MISPREDICTED, PER_CPU};
use servsim_core::{
    Batch, Event, Instruction, Interrupt, LockClass, Op, RandomStream, Record, TaskId, TaskInfo, TaskKind,
    WakeId, PAGE_SHIFT,
};
use servsim_import::InMemory;

#[path = "../../tests/it/support/handlers.rs"]
mod handlers;
use handlers::WithHandlers;

/// Locks of tasks; handlers have one more.
const WORDS: u64 = 6;
/// Instructions of the code, where it is known.
const INSTRUCTIONS: u64 = 40;

/// A trace in the making: tasks that take turns as on a captured system.
struct Trace<'a> {
    random: &'a mut RandomStream,
    streams: Vec<Batch>,
    handlers: Vec<Interrupt>,
    handler_task: TaskId,
    /// By task: locks that it holds.
    held: Vec<Vec<u64>>,
    /// Who sleeps until which wake-up.
    sleepers: Vec<(usize, WakeId)>,
    wakes: WakeId,
    /// Requests under way.
    requests: Vec<u64>,
    submitted: u64,
    code: bool,
}

impl Trace<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    /// Some references of `task`, which all tasks or only it use.
    fn references(&mut self, task: TaskId) -> Vec<Record> {
        let mut records = Vec::new();
        let (count, kernel) = (1 + self.below(12), self.one_in(3));
        let mut code = self.below(4) << 12 | self.below(64) << 6;
        for _ in 0..count {
            let op = [Op::Fetch, Op::Load, Op::Load, Op::Store][self.below(4) as usize];
            let size = 1 + self.below(8);
            let address = if op == Op::Fetch {
                code += size;
                1 << 20 | code
            } else {
                let own = u64::from(!self.one_in(3)) * (1 + u64::from(task));
                let spread = [64, 640, 4096, 1 << 15][self.below(4) as usize];
                own << 24 | self.below(spread) & !(u64::from(self.one_in(2)) * 7)
            };
            let mut record = Record::new(task, op, address, size as u8);
            record.cpu = 1;
            if op == Op::Fetch && address % 16 == 0 && self.one_in(2) {
                (record.cpu, record.size) = (1 + self.below(4) as u8, 16);
            }
            record.flags = if kernel { KERNEL } else { 0 };
            record.flags |= if op == Op::Fetch && self.one_in(12) { MISPREDICTED } else { 0 };
            record.flags |= if op != Op::Fetch && self.one_in(12) { PER_CPU } else { 0 };
            record.flags |= if op == Op::Store && self.one_in(12) { ATOMIC } else { 0 };
            records.push(record);
        }
        records
    }

    fn add_references(&mut self, batch: &mut Batch, task: TaskId) {
        for record in self.references(task) {
            if self.code {
                batch.code.resize(batch.records.len(), u32::MAX);
                batch.code.push(self.random.below(INSTRUCTIONS) as u32);
            }
            batch.records.push(record);
        }
    }

    fn class(&mut self, word: u64) -> LockClass {
        // Of readers and writers of one lock there are both.
        match LockClass::ALL[(word % 5) as usize] {
            LockClass::LightweightExclusive | LockClass::LightweightShared if self.one_in(2) => {
                LockClass::LightweightShared
            }
            class => class,
        }
    }

    fn word(number: u64) -> u64 {
        (9 << 24) + number * 72
    }

    fn is_asleep(&self, task: usize) -> bool {
        self.sleepers.iter().any(|&(other, _)| other == task)
    }

    /// What `task` does next.
    fn act(&mut self, task: usize) {
        let mut batch = std::mem::take(&mut self.streams[task]);
        let number = task as TaskId;
        self.add_references(&mut batch, number);
        match self.below(14) {
            0 | 1 => {
                let lock = self.below(WORDS);
                let (word, class) = (Self::word(lock), self.class(lock));
                // Seldom one that is held: its holder gives it up later, by whatever order.
                if self.one_in(20) || !self.held.iter().flatten().any(|&held| held == word) {
                    batch.push_event(number, Event::LockAcquire { class, word });
                    self.held[task].push(word);
                }
            }
            2..=4 => {
                if let Some(word) = self.held[task].pop() {
                    batch.push_event(number, Event::LockRelease { word });
                }
            }
            5 => {
                self.wakes += 1;
                let wake = self.wakes;
                let class = LockClass::ALL[self.below(6) as usize];
                let event = if self.one_in(3) {
                    Event::LockWait { wake, class }
                } else {
                    Event::Block { wake: Some(wake) }
                };
                batch.push_event(number, event);
                self.sleepers.push((task, wake));
            }
            6 => {
                let nanos = self.below(40_000);
                batch.push_event(number, Event::Sleep { nanos });
            }
            7 => {
                self.submitted += 1;
                let request = self.submitted;
                let (write, bytes) = (self.one_in(3), 512 * self.below(9) as u32);
                let sector = self.below(1000);
                batch.push_event(number, Event::IoSubmit { request, device: 0, sector, bytes, write });
                self.requests.push(request);
            }
            8 => {
                let user = self.below(2) as u32 * (1 + number);
                batch.push_event(number, Event::TransactionEnd { kind: self.below(2) as u32, user });
            }
            9..=11 => {
                if let Some((_, wake)) = self.take_sleeper() {
                    batch.push_event(number, Event::Wake { wake });
                }
            }
            _ => {}
        }
        self.streams[task] = batch;
    }

    fn take_sleeper(&mut self) -> Option<(usize, WakeId)> {
        let many = self.sleepers.len() as u64;
        (many > 0).then(|| {
            let which = self.below(many) as usize;
            self.sleepers.swap_remove(which)
        })
    }

    /// A handler runs, for requests that are complete or for none.
    fn interrupt(&mut self) {
        let mut handler = Interrupt::default();
        for _ in 0..self.below(3).min(self.requests.len() as u64) {
            let which = self.below(self.requests.len() as u64) as usize;
            handler.requests.push(self.requests.swap_remove(which));
        }
        if self.one_in(15) {
            // One that nobody makes.
            handler.requests.push(u64::MAX);
        }
        let mut batch = Batch::default();
        for _ in 0..=self.below(2) {
            let task = self.handler_task;
            self.add_references(&mut batch, task);
            if let Some((_, wake)) = self.take_sleeper() {
                batch.push_event(task, Event::Wake { wake });
            }
            if self.one_in(4) {
                let word = Self::word(WORDS);
                batch.push_event(task, Event::LockAcquire { class: LockClass::KernelSpin, word });
                self.add_references(&mut batch, task);
                batch.push_event(task, Event::LockRelease { word });
            }
        }
        handler.batch = batch;
        self.handlers.push(handler);
    }
}

fn info(kind: TaskKind) -> TaskInfo {
    TaskInfo { name: "t".into(), pid: 0, kind, client: false }
}

/// A trace of some tasks; some of what they wait for never comes.
pub fn trace(random: &mut RandomStream) -> WithHandlers {
    let (tasks, acts, code) = (1 + random.below(7) as usize, 4 + random.below(400), random.below(2) == 0);
    let mut trace = Trace {
        random,
        streams: vec![Batch::default(); tasks + 1],
        handlers: Vec::new(),
        handler_task: tasks as TaskId,
        held: vec![Vec::new(); tasks],
        sleepers: Vec::new(),
        wakes: 0,
        requests: Vec::new(),
        submitted: 0,
        code,
    };
    let mut running = 0;
    for _ in 0..acts {
        if trace.one_in(3) {
            running = trace.below(tasks as u64) as usize;
        }
        if trace.one_in(12) {
            trace.interrupt();
        }
        if !trace.is_asleep(running) {
            trace.act(running);
        }
    }
    // Mostly all that sleep are woken, and all that wait for requests see them.
    while !(trace.one_in(8) || trace.sleepers.is_empty() && trace.requests.is_empty()) {
        trace.interrupt();
    }
    let Trace { streams, mut handlers, .. } = trace;
    // Who translates addresses is told the pages of tasks from these; of handlers they are taken as they are.
    for Interrupt { batch, .. } in &mut handlers {
        batch.pages = batch.records.iter().map(|record| record.address >> PAGE_SHIFT).collect();
    }
    let mut infos = vec![info(TaskKind::User); tasks];
    infos[0].client = random.below(3) == 0;
    infos.push(info(TaskKind::Interrupt));
    let mut inner = InMemory::from_streams(infos, vec!["a".into(), "b".into()], streams);
    if code {
        inner = inner.with_code((0..INSTRUCTIONS).map(|_| instruction(random)).collect());
    }
    WithHandlers { inner, handlers }
}

fn instruction(random: &mut RandomStream) -> Instruction {
    let mut register = || if random.below(3) == 0 { 0 } else { 1 << random.below(6) };
    let (address, reads, writes) = (register(), register(), register());
    let class = [Class::None, Class::Integer, Class::Multiply, Class::Divide][random.below(4) as usize];
    Instruction { address, reads, writes, class }
}
