//! What is left of a run that met an internal fault: the fault's name and, for a pair that the
//! protocol table lacks, the shortest trace known that leads there.

use crate::error::SimulateError;
use crate::setup::Setup;
use servsim_files::{Special, WriteError};
use servsim_mem::protocol::checker::{explore, missing, replay, Step};
use servsim_mem::protocol::Table;
use servsim_mem::MissingCell;
use std::any::Any;
use std::fmt::Write as _;
use std::path::PathBuf;

/// Most caches of the search for a trace when the run's own history does not lead to the pair.
const MOST_CACHES: usize = 4;

/// Runs `work` on the machine of `setup`; a panic becomes an internal fault.
///
/// # Errors
/// The fault. For a missing cell it names the pair, and the file with the trace that leads there.
pub fn guarded<T>(setup: &Setup, work: impl FnOnce() -> T) -> Result<T, SimulateError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).map_err(|panic| {
        SimulateError::Internal(match panic.downcast_ref::<MissingCell>() {
            Some(cell) => report(setup, cell),
            None => text_of(&*panic),
        })
    })
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panic").to_owned()
}

fn report(setup: &Setup, cell: &MissingCell) -> String {
    let Some(steps) = shortest(&setup.protocol, cell) else {
        return format!("{cell}; the last references to the line do not lead there again");
    };
    match write(setup, cell, &steps) {
        Ok(path) => format!(
            "{cell}; the {} references that lead there are in {}: replay them with `servsim simulate {} \
             --engine functional` and the same machine",
            steps.len(),
            path.display(),
            path.display()
        ),
        Err(error) => format!("{cell}; the trace that leads there could not be written: {error}"),
    }
}

/// The shortest sequence known that meets the pair: from the run's history, else from a search.
pub fn shortest(table: &Table, cell: &MissingCell) -> Option<Vec<Step>> {
    let wanted = missing(cell.state, cell.event);
    let caches = 1 + cell.steps.iter().map(|step| cache(*step)).max().unwrap_or(0);
    let meets = |steps: &[Step]| matches!(replay(table, caches, steps), Err((_, what)) if what == wanted);
    let mut length = 4;
    while length / 2 < cell.steps.len() {
        let last = &cell.steps[cell.steps.len().saturating_sub(length)..];
        if meets(last) {
            return Some(without_needless(last.to_vec(), meets));
        }
        length *= 2;
    }
    let found = |caches| explore(table, caches).err().filter(|violation| violation.what == wanted);
    (2..=MOST_CACHES).find_map(found).map(|violation| violation.steps)
}

/// Leaves steps out as long as the rest still meets the pair.
fn without_needless(mut steps: Vec<Step>, meets: impl Fn(&[Step]) -> bool) -> Vec<Step> {
    let mut at = 0;
    while at < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(at);
        if meets(&fewer) {
            steps = fewer;
            at = 0;
        } else {
            at += 1;
        }
    }
    steps
}

fn cache(step: Step) -> usize {
    match step {
        Step::Read(cpu, _) | Step::Write(cpu, _) | Step::Evict(cpu) => cpu,
    }
}

fn write(setup: &Setup, cell: &MissingCell, steps: &[Step]) -> Result<PathBuf, WriteError> {
    let name = format!("servsim-missing-{}-{}.txt", cell.protocol, std::process::id());
    let text = text(setup, cell, steps);
    let here = PathBuf::from(&name);
    // Where the user is; where that cannot be written to, where anyone can write.
    if servsim_files::write(&here, text.as_bytes(), Special::Refuse).is_ok() {
        return Ok(here);
    }
    let elsewhere = std::env::temp_dir().join(name);
    servsim_files::write(&elsewhere, text.as_bytes(), Special::Refuse).map(|()| elsewhere)
}

/// The steps as a plain-text trace; the tasks are the processors. An eviction is made by as many
/// loads of other lines of the set as it has ways.
pub fn text(setup: &Setup, cell: &MissingCell, steps: &[Step]) -> String {
    let (line, sets) = (setup.geometry.line, setup.geometry.sets() as u64);
    let mut text = format!("# {cell}\n");
    let address = cell.line.0 % sets * line;
    let p = |private: bool| if private { "p" } else { "s" };
    let mut other = 0;
    for step in steps {
        let _ = match *step {
            Step::Read(cpu, private) => writeln!(text, "{cpu} L {address:x} 4 {}", p(private)),
            Step::Write(cpu, private) => writeln!(text, "{cpu} S {address:x} 4 {}", p(private)),
            Step::Evict(cpu) => (0..setup.geometry.ways).try_for_each(|_| {
                other += 1;
                let address = address + other * sets * line;
                writeln!(text, "{cpu} L {address:x} 4 s # makes processor {cpu} evict the line")
            }),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::{Batch, GlobalSource, SourceError};
    use servsim_mem::protocol::{by_name, OnEvict, OnSnoop, Options, Snoop};
    use servsim_mem::Geometry;

    fn setup(hole: fn(&mut Table)) -> Setup {
        let mut protocol = by_name("mesi", &Options::default()).unwrap();
        hole(&mut protocol);
        Setup { processors: 4, geometry: Geometry { size: 4096, ways: 2, line: 64 }, protocol, shadow: true }
    }

    fn run(setup: &Setup, text: &str) -> MissingCell {
        let mut source = servsim_import::text::read(text.as_bytes(), "test", setup.processors).unwrap();
        let source: &mut dyn GlobalSource = &mut source;
        let work = || crate::functional::run(source, setup, &mut |_| true).map(|_| ());
        let panic =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).expect_err("the hole is met");
        *panic.downcast().expect("by its type")
    }

    /// Much traffic on many lines, in which processor 2 at last invalidates the sharer 3.
    fn traffic(last: &str) -> String {
        let mut text = String::new();
        for n in 0..200_u64 {
            let _ = writeln!(text, "{} L {:x} 4 s", n % 4, 0x4_0000 + n * 64 * (n % 3));
        }
        text + "2 L 1000 4 s\n3 L 1000 4 s\n0 L 8000 4 s\n" + last
    }

    /// The hole, what runs into it, its state and event, and the fewest steps that lead there.
    type Case = (fn(&mut Table), &'static str, (&'static str, &'static str), usize);

    #[test]
    fn a_hole_is_named_and_its_trace_leads_there_again() {
        let sharer = |t: &mut Table| t.rows[1].snoop[Snoop::Invalidate as usize] = OnSnoop::Impossible;
        let cases: [Case; 2] = [
            (sharer, "2 S 1000 4 s\n", ("S", "BusInv"), 3),
            (
                |t| t.rows[3].evict = OnEvict::Impossible,
                "1 S 1000 4 s\n1 L 11000 4 s\n1 L 21000 4 s\n",
                ("M", "Evict"),
                2,
            ),
        ];
        for (hole, last, (state, event), length) in cases {
            let setup = setup(hole);
            let cell = run(&setup, &traffic(last));
            assert_eq!((cell.state, cell.event), (state, event));
            let steps = shortest(&setup.protocol, &cell).expect("the history leads there");
            assert_eq!(steps.len(), length, "{steps:?}");
            let again = run(&setup, &text(&setup, &cell, &steps));
            assert_eq!((again.state, again.event), (state, event));
        }
    }

    #[test]
    fn a_forgotten_history_is_found_by_search() {
        let setup = setup(|t| t.rows[1].snoop[Snoop::Invalidate as usize] = OnSnoop::Impossible);
        let mut cell = run(&setup, &traffic("2 S 1000 4 s\n"));
        cell.steps.clear();
        let steps = shortest(&setup.protocol, &cell).expect("the table itself leads there");
        let again = run(&setup, &text(&setup, &cell, &steps));
        assert_eq!((again.state, again.event), ("S", "BusInv"));
    }

    #[test]
    fn a_fault_of_a_run_is_an_internal_fault() {
        let setup = setup(|_| ());
        let fault: Result<Result<(), SourceError>, _> = guarded(&setup, || panic!("a {}", "bug"));
        assert_eq!(fault, Err(SimulateError::Internal("a bug".into())));
        assert_eq!(guarded(&setup, Batch::default).map(|batch| batch.records.len()), Ok(0));
    }
}
