//! What lies in memory that processes or threads share: the structures of a database server and the relation in
//! each of its buffers, the arrays of a kernel, the spaces of a heap.

use servsim_core::{PageOrigin, TaskInfo, PAGE_SHIFT};

/// Whose addresses they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    /// All processes of a name map the memory at the same addresses.
    Program(String),
    /// One process, by its number: its first thread, which has the program's name, may be in no trace.
    Process(u32),
}

impl Owner {
    fn parse(line: &str) -> Option<Self> {
        match line.split_once(' ')? {
            ("program", name) => Some(Self::Program(name.to_owned())),
            ("process", number) => number.parse().ok().map(Self::Process),
            _ => None,
        }
    }
}

/// Named ranges of memory, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SharedData {
    /// Nobody where nothing is known.
    owner: Option<Owner>,
    ranges: Vec<(u64, u64, String)>,
}

impl SharedData {
    /// Reads a line `program NAME` or `process NUMBER`, then lines `ADDRESS SIZE NAME` (hexadecimal).
    ///
    /// # Errors
    /// With the number of the first line that is neither, or not in order.
    pub fn parse(text: &str) -> Result<Self, String> {
        let fault = |number: usize| {
            format!("shared data of the trace, line {}: not `ADDRESS SIZE NAME`, ascending", number + 1)
        };
        let mut lines = text.lines().enumerate();
        let owner = lines.next().and_then(|(_, line)| Owner::parse(line)).ok_or_else(|| fault(0))?;
        let mut shared = Self { owner: Some(owner), ranges: Vec::new() };
        let mut end = 0;
        for (number, line) in lines {
            let mut words = line.splitn(3, ' ');
            let mut hexadecimal = || words.next().and_then(|word| u64::from_str_radix(word, 16).ok());
            let (start, size) = (hexadecimal(), hexadecimal());
            let (Some(start), Some(size), Some(name)) = (start, size, words.next()) else {
                return Err(fault(number));
            };
            if start < end || size == 0 {
                return Err(fault(number));
            }
            end = start.checked_add(size).ok_or_else(|| fault(number))?;
            shared.ranges.push((start, end, name.to_owned()));
        }
        Ok(shared)
    }

    /// The parts of `place`'s page, as offsets, that lie in the data called `name`; of these only the bytes
    /// `range` from their beginning, if it is given. Empty when the page is none of theirs.
    pub fn parts(
        &self,
        place: PageOrigin,
        name: &str,
        range: Option<(u64, u64)>,
        tasks: &[TaskInfo],
    ) -> Vec<(u64, u64)> {
        if !self.is_owners(place, tasks) {
            return Vec::new();
        }
        let named = || self.ranges.iter().filter(|(.., known)| known == name);
        let Some((first, ..)) = named().next() else { return Vec::new() };
        let (from, to) =
            range.map_or((0, u64::MAX), |(from, to)| (first.saturating_add(from), first.saturating_add(to)));
        let part =
            |(start, end, _): &(u64, u64, String)| on_page(place.address, *start.max(&from), *end.min(&to));
        named().filter_map(part).collect()
    }

    /// The names, in the order of addresses.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.ranges.iter().map(|(.., name)| name.as_str())
    }

    /// How far `place` lies behind the first byte of the data that it belongs to, as [`Self::parts`] counts.
    pub fn offset(&self, place: PageOrigin, tasks: &[TaskInfo]) -> Option<u64> {
        let name = self.at(place, tasks)?;
        let (first, ..) = self.ranges.iter().find(|(.., known)| known == name)?;
        Some(place.address - first)
    }

    fn is_owners(&self, place: PageOrigin, tasks: &[TaskInfo]) -> bool {
        match &self.owner {
            Some(Owner::Program(name)) => {
                tasks.iter().any(|task| Some(task.pid) == place.process && task.name == *name)
            }
            Some(Owner::Process(number)) => Some(*number) == place.process,
            None => false,
        }
    }

    /// What lies at `place`, if it is memory of the owner.
    pub fn at(&self, place: PageOrigin, tasks: &[TaskInfo]) -> Option<&str> {
        if !self.is_owners(place, tasks) {
            return None;
        }
        let after = self.ranges.partition_point(|(start, ..)| *start <= place.address);
        let (_, end, name) = self.ranges[..after].last()?;
        (place.address < *end).then_some(name)
    }
}

/// The part of the page that begins at `page` which lies between two addresses, as offsets.
pub fn on_page(page: u64, from: u64, to: u64) -> Option<(u64, u64)> {
    let (from, to) =
        (from.max(page) - page, to.min(page.saturating_add(1 << PAGE_SHIFT)).saturating_sub(page));
    (from < to).then_some((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_core::TaskKind;

    fn place(address: u64, process: Option<u32>) -> PageOrigin {
        PageOrigin { area: "shared memory", address, process }
    }

    #[test]
    fn only_the_programs_processes_see_its_ranges() {
        let shared = SharedData::parse("program postgres\n1000 40 LOCK hash\n2000 4000 item\n").unwrap();
        let task = |pid, name: &str| TaskInfo { name: name.into(), pid, kind: TaskKind::User, client: false };
        let tasks = [task(7, "postgres"), task(8, "servsim-oltp")];
        assert_eq!(shared.at(place(0x103f, Some(7)), &tasks), Some("LOCK hash"));
        assert_eq!(shared.at(place(0x1040, Some(7)), &tasks), None);
        assert_eq!(shared.at(place(0x5fff, Some(7)), &tasks), Some("item"));
        assert_eq!(shared.at(place(0xfff, Some(7)), &tasks), None);
        assert_eq!(shared.at(place(0x2000, Some(8)), &tasks), None);
        assert_eq!(shared.at(place(0x2000, None), &tasks), None);
    }

    #[test]
    fn a_process_by_number_needs_no_task_of_its_name() {
        let shared = SharedData::parse("process 7\n1000 40 java.eden\n").unwrap();
        let thread = TaskInfo { name: "warehouse-1".into(), pid: 9, kind: TaskKind::User, client: false };
        assert_eq!(shared.at(place(0x1000, Some(7)), std::slice::from_ref(&thread)), Some("java.eden"));
        assert_eq!(shared.at(place(0x1000, Some(9)), &[thread]), None);
        assert_eq!(SharedData::default().at(place(0x1000, None), &[]), None);
    }

    #[test]
    fn a_page_has_the_parts_of_a_name_that_lie_on_it() {
        let shared = SharedData::parse("program db\n1800 1000 a\n2800 1000 b\n3800 100 a\n").unwrap();
        let tasks = [TaskInfo { name: "db".into(), pid: 7, kind: TaskKind::User, client: false }];
        let parts = |page, name, range| shared.parts(place(page, Some(7)), name, range, &tasks);
        assert_eq!(parts(0x2000, "a", None), [(0, 0x800)]);
        assert_eq!(parts(0x2000, "b", None), [(0x800, 0x1000)]);
        assert_eq!(parts(0x3000, "a", None), [(0x800, 0x900)]);
        assert_eq!(parts(0x1000, "a", Some((0x100, 0x200))), [(0x900, 0xa00)]);
        assert_eq!(parts(0x2000, "a", Some((0x100, 0x200))), []);
        assert_eq!(shared.parts(place(0x2000, Some(8)), "a", None, &tasks), []);
        let offset = |address| shared.offset(place(address, Some(7)), &tasks);
        assert_eq!([0x1800, 0x3880, 0x2900, 0x3900].map(offset), [Some(0), Some(0x2080), Some(0x100), None]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        for text in [
            "",
            "postgres\n",
            "process x\n",
            "program a\n10 1 x\n10 1 y\n",
            "program a\n10 0 x\n",
            "program a\n10 1\n",
        ] {
            assert!(SharedData::parse(text).unwrap_err().contains("line "), "{text:?}");
        }
    }
}
