//! Records the activity of a run, for pictures of it: which task ran where, and when disk requests were
//! under way. Only the measured window is kept, and at most [`MOST`] entries of each; the rest is
//! counted. Nothing here changes what the engine does.

use crate::activity_log::{ActivityLog, DiskSpan, RunSpan};
use servsim_core::{CpuId, TaskId};

/// Most entries of each kind; a picture of more is unreadable, and results stay small.
const MOST: usize = 20_000;

/// Keeps the spans of one run.
#[derive(Debug)]
pub struct Recorder {
    running: Vec<Option<(TaskId, u64)>>,
    activity_log: ActivityLog,
}

impl Recorder {
    /// For `processors` processors.
    pub fn new(processors: usize) -> Self {
        Self { running: vec![None; processors], activity_log: ActivityLog::default() }
    }

    /// The measured window begins: what ended before it is forgotten.
    pub fn restart(&mut self) {
        self.activity_log = ActivityLog::default();
    }

    /// `task` gets `processor` at `now`.
    pub fn begin(&mut self, processor: CpuId, task: TaskId, now: u64) {
        self.end(processor, now);
        self.running[processor] = Some((task, now));
    }

    /// `processor` is left at `now` by whatever ran on it.
    pub fn end(&mut self, processor: CpuId, now: u64) {
        let Some((task, start)) = self.running[processor].take() else { return };
        if now <= start {
            return;
        }
        if self.activity_log.schedule.len() < MOST {
            self.activity_log.schedule.push(RunSpan { processor, task, start, end: now });
        } else {
            self.activity_log.dropped += 1;
        }
    }

    /// A disk request is under way from `start` to `end`.
    pub fn disk(&mut self, start: u64, end: u64, write: bool) {
        if self.activity_log.disk.len() < MOST {
            self.activity_log.disk.push(DiskSpan { start, end, write });
        } else {
            self.activity_log.dropped += 1;
        }
    }

    /// The spans within `start..end`, in cycles from `start`.
    pub fn finish(mut self, start: u64, end: u64) -> ActivityLog {
        for processor in CpuId::all(self.running.len()) {
            self.end(processor, end);
        }
        let mut log = self.activity_log;
        let shift = |time: u64| time.clamp(start, end) - start;
        for span in &mut log.schedule {
            (span.start, span.end) = (shift(span.start), shift(span.end));
        }
        for span in &mut log.disk {
            (span.start, span.end) = (shift(span.start), shift(span.end));
        }
        log.schedule.retain(|span| span.end > span.start);
        log.schedule.sort_by_key(|span| (span.start, span.processor));
        log
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_cut_to_the_window_and_a_processor_runs_one_task_at_a_time() {
        let mut recorder = Recorder::new(2);
        recorder.begin(CpuId(0), 7, 10);
        recorder.begin(CpuId(1), 8, 40);
        recorder.begin(CpuId(0), 9, 120);
        recorder.end(CpuId(1), 130);
        recorder.disk(90, 400, true);
        let log = recorder.finish(100, 200);
        let spans: Vec<_> = log.schedule.iter().map(|s| (s.processor.0, s.task, s.start, s.end)).collect();
        assert_eq!(spans, [(0, 7, 0, 20), (1, 8, 0, 30), (0, 9, 20, 100)]);
        assert_eq!(log.disk, [DiskSpan { start: 0, end: 100, write: true }]);
    }

    #[test]
    fn more_spans_than_fit_are_counted() {
        let mut recorder = Recorder::new(1);
        for step in 0..=(MOST as u64) {
            recorder.begin(CpuId(0), 1, step * 2);
            recorder.end(CpuId(0), step * 2 + 1);
        }
        assert_eq!(recorder.finish(0, u64::MAX).dropped, 1);
    }
}
