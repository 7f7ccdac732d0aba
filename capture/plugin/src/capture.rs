//! The capture's state: which task runs, which block is running, what was recorded.
//!
//! One processor is captured, and the emulator calls back from its one thread; the state is
//! therefore a plain structure behind one global pointer. A block is recorded when the next one
//! begins, because only then is it known how far it ran and which accesses it made.

use crate::block::{prefetch, AccessKey, Block, Site};
use crate::clock::Clock;
use crate::facts::Facts;
use crate::ffi;
use crate::guest::Guest;
use crate::hooks::{FunctionId, HookTable};
use crate::io::Requests;
use crate::kinds::Kinds;
use crate::operands::Flush;
use crate::spin::Spinlocks;
use crate::summary::Summary;
use crate::tasks::Tasks;
use crate::translation::Translations;
use servsim_files::Special;
use servsim_trace::{
    Event, EventKind, LockClass, Ref, ShapeId, TaskId, TaskInfo, TaskKind, TraceError, TraceWriter,
    WriterOptions,
};
use std::collections::HashMap;
use std::time::Instant;

/// Kernel text is mapped at this address from physical address zero on
/// (Linux, `Documentation/arch/x86/x86_64/mm.rst`; `nokaslr`).
const KERNEL_TEXT: u64 = 0xffff_ffff_8000_0000;
const KERNEL_TEXT_BYTES: u64 = 512 << 20;

/// What the capture is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for the load generator's start mark.
    Waiting,
    /// The start mark was executed; recording begins with the next block.
    Starting,
    /// Recording.
    Recording,
    /// The trace is written, or given up.
    Done,
}

/// Identity of a shape across retranslations of the same code.
type ShapeKey = (u64, u64, Box<[u8]>, Box<[AccessKey]>);

/// Everything the callbacks work on.
pub struct Capture {
    pub facts: Facts,
    pub hooks: HookTable,
    pub guest: Guest,
    pub phase: Phase,
    pub tasks: Tasks,
    pub requests: Requests,
    pub clock: Clock,
    pub summary: Summary,
    pub transactions_ended: u64,
    pub writer: Option<TraceWriter>,
    /// The running task's `task_struct` and stream, and whether it is the idle task.
    pub current: Running,
    /// Depth of exception and interrupt frames of the current interrupt episode; zero outside.
    pub interrupt_depth: u32,
    pub interrupt_stream: TaskId,
    /// Locks that tasks are trying to take, by stream.
    pub attempts: HashMap<TaskId, Attempt>,
    pub spinlocks: Spinlocks,
    pub pending_switch: Option<(u64, u64)>,
    pub progress: *mut u64,
    pub id: ffi::PluginId,
    started: Option<Instant>,
    block: *mut Block,
    keys: Vec<AccessKey>,
    refs: Vec<Ref>,
    guessed: Vec<usize>,
    kinds: Kinds,
    translations: Translations,
    shapes: HashMap<ShapeKey, ShapeId>,
    ram_base: u64,
}

/// Called when the instrumentation is gone.
extern "C" fn nothing_left_to_do(_id: ffi::PluginId) {}

/// A lock that a task is trying to take, in a function whose return tells the outcome.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub function: FunctionId,
    pub class: LockClass,
    pub address: u64,
}

/// The task that has the processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Running {
    pub address: u64,
    pub stream: TaskId,
    pub idle: bool,
}

impl Capture {
    /// Ready to wait for the start mark.
    pub fn new(facts: Facts) -> Result<Self, String> {
        Ok(Capture {
            hooks: HookTable::new(&facts)?,
            tasks: Tasks::new(&facts)?,
            requests: Requests::new(&facts)?,
            guest: Guest::new(),
            phase: Phase::Waiting,
            clock: Clock::default(),
            summary: Summary::default(),
            transactions_ended: 0,
            writer: None,
            current: Running::default(),
            interrupt_depth: 0,
            interrupt_stream: 0,
            attempts: HashMap::new(),
            spinlocks: Spinlocks::default(),
            pending_switch: None,
            progress: std::ptr::null_mut(),
            id: 0,
            started: None,
            block: std::ptr::null_mut(),
            keys: Vec::with_capacity(1 << 12),
            refs: Vec::with_capacity(1 << 12),
            guessed: Vec::new(),
            kinds: Kinds::new(),
            translations: Translations::new(),
            shapes: HashMap::new(),
            ram_base: 0,
            facts,
        })
    }

    /// A block was translated: remember where guest memory lies in the emulator's.
    pub fn translated(&mut self, block: &Block) {
        self.summary.blocks += 1;
        let insn = &block.insns[0];
        if self.ram_base == 0 && (KERNEL_TEXT..KERNEL_TEXT + KERNEL_TEXT_BYTES).contains(&insn.vaddr) {
            self.ram_base = insn.host - (insn.vaddr - KERNEL_TEXT);
        }
    }

    /// A block begins: the previous one is complete.
    #[inline]
    pub fn begin_block(&mut self, block: *mut Block) {
        if self.phase == Phase::Recording {
            self.record();
        } else {
            self.discard();
        }
        self.block = block;
        prefetch(block);
        if let Some((previous, next)) = self.pending_switch.take() {
            self.switch(previous, next);
        }
    }

    /// Before the trace only the translations and the clock are kept up to date.
    fn discard(&mut self) {
        self.flush_after_block();
        self.clear();
        if self.phase == Phase::Starting {
            self.start();
        }
    }

    fn clear(&mut self) {
        self.keys.clear();
        self.refs.clear();
        self.guessed.clear();
        // SAFETY: the counter belongs to the one processor, whose thread this is.
        unsafe { *self.progress = 0 };
    }

    fn flush_after_block(&mut self) {
        // SAFETY: blocks live as long as the process.
        if let Some(block) = unsafe { self.block.as_ref() } {
            if block.flush != Flush::Nothing {
                self.translations.flush(block.flush);
            }
        }
    }

    /// Records the block that has just run.
    #[inline]
    fn record(&mut self) {
        // SAFETY: blocks live as long as the process; the counter belongs to this thread.
        let (block, begun) = unsafe { (&mut *self.block, *self.progress) };
        self.clock.advance(begun);
        if self.current.idle && self.interrupt_depth == 0 {
            self.summary.idle_instructions += begun;
        } else if begun > 0 {
            if !self.guessed.is_empty() {
                self.settle_guesses();
            }
            let shape = match block.known_shape(begun, &self.keys) {
                Some(shape) => shape,
                None => self.new_shape(block, begun),
            };
            let written = self.writer.as_mut().map(|writer| writer.block(shape, &self.refs));
            if let Some(Err(error)) = written {
                self.give_up(&error);
            }
            if let Some(address) = self.spinlocks.given_up() {
                self.event(EventKind::LockRelease { class: LockClass::UserSpin, address });
            }
        }
        self.flush_after_block();
        self.clear();
    }

    #[cold]
    fn new_shape(&mut self, block: &mut Block, begun: u64) -> ShapeId {
        let shape = block.shape(begun, &self.keys, self.ram_base);
        let key = (shape.vaddr, shape.paddr, shape.code.clone(), self.keys.clone().into());
        let id = match (self.shapes.get(&key), &mut self.writer) {
            (Some(id), _) => *id,
            (None, Some(writer)) => writer.add_shape(shape),
            (None, None) => 0,
        };
        self.shapes.insert(key, id);
        block.remember(begun, &self.keys, id);
        id
    }

    /// An access is being made.
    #[inline]
    pub fn access(&mut self, info: ffi::MemInfo, vaddr: u64, site: Site) {
        let insn = if std::ptr::eq(site.block(), self.block) { site.insn() } else { self.stray(site) };
        let key = AccessKey::new(insn, self.kinds.of(info));
        let physical = self.translations.translate(info, vaddr);
        let mut reference = Ref { vaddr, paddr: physical * 4096 + vaddr % 4096, next_page: 0 };
        if vaddr % 4096 + u64::from(key.size()) > 4096 {
            reference.next_page = (physical + 1) * 4096;
            self.guessed.push(self.refs.len());
        }
        self.keys.push(key);
        self.refs.push(reference);
        if site.exchanges_byte() {
            if !key.store() {
                self.exchange(info, vaddr);
            }
        } else if key.store() {
            self.spinlocks.stored(vaddr);
        }
    }

    /// An instruction exchanges a byte with memory, which it has just read.
    #[cold]
    fn exchange(&mut self, info: ffi::MemInfo, address: u64) {
        // SAFETY: called from the memory callback of this very access, as the interface demands.
        let before = unsafe { ffi::qemu_plugin_mem_get_value(info) }.data[0] as u8;
        let recording = self.phase == Phase::Recording && self.interrupt_depth == 0 && address >> 63 == 0;
        if recording && self.runs_hooked_program() && self.spinlocks.exchanged(address, before) {
            self.event(EventKind::LockAcquire { class: LockClass::UserSpin, address });
        }
    }

    /// The emulator translated an instruction again by itself (device access under instruction
    /// counting) and runs it as a continuation of the block: find its place there.
    #[cold]
    fn stray(&mut self, site: Site) -> u16 {
        // SAFETY: blocks live as long as the process.
        let (running, owner) = unsafe { (self.block.as_ref(), &*site.block()) };
        let vaddr = owner.insns[site.insn() as usize].vaddr;
        let place = running.and_then(|block| block.insns.iter().position(|insn| insn.vaddr == vaddr));
        self.summary.stray_accesses += u64::from(place.is_none());
        // SAFETY: the counter belongs to this thread.
        let last = unsafe { (*self.progress).saturating_sub(1) };
        place.map_or(last as u16, |place| place as u16)
    }

    /// The emulator tells only the first page of an access that crosses into a second one.
    fn settle_guesses(&mut self) {
        for &index in &self.guessed {
            let reference = &mut self.refs[index];
            match self.translations.known(reference.vaddr / 4096 + 1) {
                Some(physical) => reference.next_page = physical * 4096,
                None => self.summary.guessed_second_pages += 1,
            }
        }
    }

    /// The stream that runs now.
    pub fn stream(&self) -> TaskId {
        if self.interrupt_depth > 0 {
            self.interrupt_stream
        } else {
            self.current.stream
        }
    }

    /// What follows belongs to the stream that runs now.
    pub fn select_stream(&mut self) {
        let stream = self.stream();
        if let Some(writer) = &mut self.writer {
            writer.switch_to(stream);
        }
    }

    /// Records an event in the stream that runs now.
    pub fn event(&mut self, kind: EventKind) {
        let time_ns = self.clock.now_ns();
        if let (Phase::Recording, Some(writer)) = (self.phase, &mut self.writer) {
            writer.event(Event { time_ns, kind });
        }
    }

    /// The address of the running task's `task_struct`, from the kernel's per-CPU variable.
    fn running_task(&mut self) -> Result<u64, String> {
        let base = self.guest.read(self.facts.symbol("__per_cpu_offset")?, 8);
        Ok(self.guest.read(base + self.facts.symbol("current_task")?, 8))
    }

    /// Opens the trace.
    fn start(&mut self) {
        let opened = self.open();
        if let Err(error) = opened {
            self.fail(error);
        }
    }

    fn open(&mut self) -> Result<(), String> {
        if self.ram_base == 0 {
            return Err("no kernel code ran before the start mark".to_owned());
        }
        let base = self.guest.read(self.facts.symbol("__per_cpu_offset")?, 8);
        let size = self.guest.read(self.facts.symbol("pcpu_unit_size")?, 4);
        let mut meta = self.facts.meta.clone();
        meta.per_cpu_area = (base.wrapping_add(self.facts.symbol("__per_cpu_start")?), size);
        let mut writer = TraceWriter::create(&self.facts.output, &meta, WriterOptions::default())
            .map_err(|error| error.to_string())?;
        let name = "interrupts".to_owned();
        self.interrupt_stream =
            writer.add_task(TaskInfo { pid: 0, tgid: 0, name, kind: TaskKind::Interrupt, client: false });
        self.writer = Some(writer);
        self.clock = Clock::default();
        self.started = Some(Instant::now());
        self.phase = Phase::Recording;
        let address = self.running_task()?;
        self.enter(address);
        Ok(())
    }

    /// The task at `address` gets the processor.
    pub fn enter(&mut self, address: u64) {
        let Some(writer) = &mut self.writer else { return };
        let stream = self.tasks.id(&mut self.guest, writer, address);
        let name = self.tasks.name(&mut self.guest, address);
        if writer.tasks()[stream as usize].name != name {
            writer.update_task(stream, |task| task.name = name);
        }
        let idle = writer.tasks()[stream as usize].kind == TaskKind::Idle;
        self.tasks.running(address);
        self.spinlocks.switch(self.current.stream, stream);
        self.current = Running { address, stream, idle };
        self.select_stream();
    }

    /// Closes the trace.
    pub fn stop(&mut self) {
        self.phase = Phase::Done;
        self.summary.recording_seconds = self.started.map_or(0.0, |start| start.elapsed().as_secs_f64());
        if let Some(writer) = self.writer.take() {
            self.summary.shapes = writer.shapes() as u64;
            match writer.finish() {
                Ok(totals) => self.summary.totals = totals,
                Err(error) => self.summary.error = Some(error.to_string()),
            }
            self.report();
        }
    }

    fn give_up(&mut self, error: &TraceError) {
        self.fail(error.to_string());
    }

    /// Ends the capture without a trace; the guest runs on, unobserved.
    pub fn fail(&mut self, error: String) {
        self.phase = Phase::Done;
        self.writer = None;
        self.summary.error = Some(error);
        self.report();
    }

    /// Writes the summary; its absence is noticed by the capture command.
    fn report(&mut self) {
        self.summary.checked_translations = self.translations.checked;
        self.summary.stale_translations = self.translations.stale;
        if let Ok(json) = serde_json::to_string_pretty(&self.summary) {
            let _ = servsim_files::write(self.facts.summary.as_ref(), json.as_bytes(), Special::Refuse);
        }
        // The guest goes on without instrumentation, at the emulator's full speed.
        // SAFETY: called from the processor's thread; takes effect when the block has ended.
        unsafe { ffi::qemu_plugin_reset(self.id, nothing_left_to_do) };
    }
}
