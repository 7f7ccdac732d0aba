//! raw16 records (see the importer). `pid` is the task's number where those are distinct and fit,
//! its index otherwise.

use super::{Holds, Reference, Writer};
use servsim_core::{Op, TaskInfo};
use std::collections::HashSet;

/// What raw16 holds.
pub const HOLDS: Holds = Holds {
    size: Some(255),
    tasks: true,
    processors: true,
    kernel: true,
    private: false,
    transactions: false,
    single: true,
};

/// Writes raw16.
#[derive(Default)]
pub struct Raw16 {
    pids: Vec<u16>,
}

impl Writer for Raw16 {
    fn begin(&mut self, tasks: &[TaskInfo], _: &mut Vec<u8>) -> Result<(), String> {
        let numbers: HashSet<u16> = tasks.iter().filter_map(|t| u16::try_from(t.pid).ok()).collect();
        let distinct = numbers.len() == tasks.len();
        if !distinct && tasks.len() > usize::from(u16::MAX) {
            return Err(format!("{} tasks are more than raw16 can tell apart; write text", tasks.len()));
        }
        let number =
            |(index, task): (usize, &TaskInfo)| if distinct { task.pid as u16 } else { index as u16 };
        self.pids = tasks.iter().enumerate().map(number).collect();
        Ok(())
    }

    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        let kind = match reference.op {
            Op::Load | Op::Event => 0,
            Op::Store => 1,
            Op::Fetch => 2,
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&reference.address.to_le_bytes());
        bytes[8] = kind | if reference.kernel { 0x80 } else { 0 };
        bytes[9] = reference.size as u8;
        bytes[12..14].copy_from_slice(&(reference.cpu as u16).to_le_bytes());
        bytes[14..].copy_from_slice(&self.pids[reference.task as usize].to_le_bytes());
        out.extend(bytes);
    }
}
