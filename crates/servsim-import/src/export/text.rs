//! Plain text (see the importer). Tasks keep their names where all are numbers, since their order is
//! the order of processors; otherwise they are numbered and named in comments.

use super::{Holds, Reference, Writer};
use servsim_core::reference::{PRIVATE, SHARED};
use servsim_core::{Op, TaskInfo};
use std::collections::HashSet;
use std::io::{self, Write};

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
    fn begin(&mut self, tasks: &[TaskInfo], out: &mut dyn Write) -> io::Result<()> {
        let numbers: HashSet<u64> = tasks.iter().filter_map(|task| task.name.parse().ok()).collect();
        let named = numbers.len() == tasks.len();
        for (index, task) in tasks.iter().enumerate() {
            self.names.push(if named { task.name.clone() } else { index.to_string() });
            if !named {
                writeln!(out, "# task {index}: {}", task.name.replace(['\n', '\r'], " "))?;
            }
        }
        Ok(())
    }

    fn reference(&mut self, reference: &Reference, out: &mut dyn Write) -> io::Result<()> {
        let op = match reference.op {
            Op::Fetch => 'I',
            Op::Store => 'S',
            Op::Load | Op::Event => 'L',
        };
        let name = &self.names[reference.task as usize];
        write!(out, "{name} {op} {:x} {}", reference.address, reference.size)?;
        match reference.stated {
            PRIVATE => out.write_all(b" p")?,
            SHARED => out.write_all(b" s")?,
            _ => {}
        }
        out.write_all(if reference.kernel { b" k\n" } else { b"\n" })
    }

    fn transaction(&mut self, task: u32, kind: &str, out: &mut dyn Write) -> io::Result<()> {
        let kind = kind.replace(|c: char| c.is_whitespace() || c == '#', "_");
        writeln!(out, "{} X {kind}", self.names[task as usize])
    }
}
