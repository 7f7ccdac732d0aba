//! Plain text (see the importer). Tasks keep their names where all are numbers, since their order is
//! the order of processors; otherwise they are numbered and named in comments.

use super::{decimal, hexadecimal, Holds, Reference, Writer};
use servsim_core::reference::{PRIVATE, SHARED};
use servsim_core::{Op, TaskInfo};
use std::collections::HashSet;

/// What text holds.
pub const HOLDS: Holds = Holds {
    size: Some(255),
    tasks: true,
    processors: false,
    kernel: true,
    private: true,
    transactions: true,
    single: true,
};

/// Writes text.
#[derive(Default)]
pub struct Text {
    names: Vec<String>,
}

impl Writer for Text {
    fn begin(&mut self, tasks: &[TaskInfo], out: &mut Vec<u8>) -> Result<(), String> {
        let numbers: HashSet<u64> = tasks.iter().filter_map(|task| task.name.parse().ok()).collect();
        let named = numbers.len() == tasks.len();
        for (index, task) in tasks.iter().enumerate() {
            self.names.push(if named { task.name.clone() } else { index.to_string() });
            if !named {
                let name = task.name.replace(['\n', '\r'], " ");
                out.extend(format!("# task {index}: {name}\n").bytes());
            }
        }
        Ok(())
    }

    fn reference(&mut self, reference: &Reference, out: &mut Vec<u8>) {
        out.extend(self.names[reference.task as usize].bytes());
        out.extend(match reference.op {
            Op::Fetch => b" I ",
            Op::Store => b" S ",
            Op::Load | Op::Event => b" L ",
        });
        hexadecimal(out, reference.address, 1);
        out.push(b' ');
        decimal(out, reference.size);
        match reference.stated {
            PRIVATE => out.extend(b" p"),
            SHARED => out.extend(b" s"),
            _ => {}
        }
        out.extend(if reference.kernel { &b" k\n"[..] } else { b"\n" });
    }

    fn transaction(&mut self, task: u32, kind: &str, out: &mut Vec<u8>) {
        let kind = kind.replace(|c: char| c.is_whitespace() || c == '#', "_");
        out.extend(format!("{} X {kind}\n", self.names[task as usize]).bytes());
    }
}
