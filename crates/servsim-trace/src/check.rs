//! Everything that is wrong with a trace: the checks of a first walk, not stopping at the first finding, and what
//! no reader needs to know, the figures beside each stream.

use crate::cursor::GlobalCursor;
use crate::error::TraceError;
use crate::item::Item;
use crate::model::Counts;
use crate::reader::TraceReader;
use crate::validate::Validator;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Findings told one by one; a trace with more is told by their number.
const TOLD: usize = 100;

/// What a check found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct CheckReport {
    /// One sentence for each of the first findings; none when the trace keeps every rule.
    pub findings: Vec<String>,
    /// Findings beyond those.
    pub more_findings: u64,
    /// Items (blocks and events) looked at.
    pub items: u64,
    /// Epochs of the trace.
    pub epochs: u64,
    /// Tasks of the trace.
    pub tasks: u64,
}

impl CheckReport {
    fn add(&mut self, finding: String) {
        if self.findings.len() < TOLD {
            self.findings.push(finding);
        } else {
            self.more_findings += 1;
        }
    }
}

/// Walks over the whole trace at `path` and lists what is wrong with it.
///
/// # Errors
/// When the file cannot be read, or is no trace of this version.
pub fn check(path: &Path) -> Result<CheckReport, TraceError> {
    let mut report = CheckReport::default();
    let reader = match TraceReader::open(path) {
        Ok(reader) => Arc::new(reader),
        Err(error @ (TraceError::Corrupt { .. } | TraceError::Contradiction { .. })) => {
            report.add(error.to_string());
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    report.epochs = reader.epoch_count() as u64;
    report.tasks = reader.tasks().len() as u64;
    if let Some(sentence) = reader.truncated() {
        report.add(sentence.to_owned());
    }
    match walk(&reader, &mut report) {
        Ok(()) => Ok(report),
        Err(error @ (TraceError::Corrupt { .. } | TraceError::Contradiction { .. })) => {
            report.add(error.to_string());
            Ok(report)
        }
        Err(error) => Err(error),
    }
}

fn walk(reader: &Arc<TraceReader>, report: &mut CheckReport) -> Result<(), TraceError> {
    let mut validator = Validator::new(reader.meta(), reader.tasks());
    let mut cursor = GlobalCursor::unchecked(reader.clone());
    let mut found: Vec<(u64, Counts)> = vec![(0, Counts::default()); reader.tasks().len()];
    while let Some(step) = cursor.next()? {
        report.items += 1;
        let (items, counts) = &mut found[step.task as usize];
        *items += 1;
        let checked = match step.item {
            Item::Block(block) => {
                reader.dictionary().count(block.shape, counts);
                validator.block(step.task, reader.dictionary(), block.shape)
            }
            Item::Event(event) => validator.event(step.task, &event),
        };
        if let Err(fault) = checked {
            let at = report.items;
            report.add(format!("item {at}: {}", fault.0));
        }
    }
    if let Some(Err(fault)) = reader.totals().map(|totals| validator.compare(totals)) {
        report.add(fault.0);
    }
    for (task, (stated, found)) in stated(reader)?.iter().zip(&found).enumerate() {
        if stated != found {
            report.add(format!(
                "the directories of the epochs state other figures for task {task} than its stream"
            ));
        }
    }
    Ok(())
}

/// Items and counts that the directories state, per task.
fn stated(reader: &TraceReader) -> Result<Vec<(u64, Counts)>, TraceError> {
    let mut sums = vec![(0_u64, [0_u64; 6]); reader.tasks().len()];
    for epoch in 0..reader.epoch_count() {
        for (task, items, counts) in reader.epoch_summary(epoch)?.tasks {
            let (all, sum) = &mut sums[task as usize];
            *all = all.wrapping_add(items);
            sum.iter_mut().zip(counts.to_array()).for_each(|(sum, count)| *sum = sum.wrapping_add(count));
        }
    }
    Ok(sums.into_iter().map(|(items, sum)| (items, Counts::from_array(sum))).collect())
}
