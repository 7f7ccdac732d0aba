//! Which task is in its quantum at which processor: what tells where quanta begin, to the caches and to those
//! who divide a trace for them.

use servsim_core::CpuId;

/// No task, or no processor.
pub(crate) const NONE: u32 = u32::MAX;

/// Which task is in its quantum at which processor. A task is in one place: where it turns up, its
/// quantum elsewhere is over, though nobody may have followed it there.
#[derive(Debug, Clone)]
pub struct RunningTasks {
    /// By processor.
    pub(crate) running: Vec<u32>,
    /// By task: the processor of its current or last quantum.
    pub(crate) processors: Vec<u32>,
}

impl RunningTasks {
    /// Idle processors.
    pub fn new(processors: usize) -> Self {
        Self { running: vec![NONE; processors], processors: Vec::new() }
    }

    /// Whether `task` is in its quantum at `cpu`.
    #[inline]
    pub fn runs(&self, cpu: CpuId, task: u32) -> bool {
        self.running[cpu] == task
    }

    /// `task` begins a quantum at `cpu`; returns the processor of the one before, if there was one.
    pub fn begin(&mut self, cpu: CpuId, task: u32) -> Option<CpuId> {
        let index = task as usize;
        if self.processors.len() <= index {
            self.processors.resize(index + 1, NONE);
        }
        let before = std::mem::replace(&mut self.processors[index], cpu.0 as u32);
        self.running[cpu] = task;
        let before = (before != NONE).then_some(CpuId(before as usize))?;
        if before != cpu && self.running[before] == task {
            self.running[before] = NONE;
        }
        Some(before)
    }

    /// The processor of the current or last quantum of `task`.
    #[inline]
    pub(crate) fn processor_of(&self, task: u32) -> Option<CpuId> {
        self.processors.get(task as usize).filter(|&&cpu| cpu != NONE).map(|&cpu| CpuId(cpu as usize))
    }
}
