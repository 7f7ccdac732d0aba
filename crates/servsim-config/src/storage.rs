//! The I/O system of a machine: how many disks and buses, what hangs where, and which data lie on
//! which disk.

use servsim_units::nearest::suggestion;
use servsim_units::{Bytes, Picos};

/// Disks, buses and the placement of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// Single disks; 0 for the pool of fixed-time servers.
    pub disks: usize,
    /// `fixed`, a known drive, or the path of a model file.
    pub model: String,
    /// Order of service: `as-model`, or a discipline's name.
    pub scheduler: String,
    /// Bytes a second over the medium, for the fixed model; 0 if its fixed time holds everything.
    pub medium: u64,
    /// I/O buses; 0 for none in the way.
    pub buses: usize,
    /// Bus of each disk, from 0; empty without buses.
    pub bus_of: Vec<usize>,
    /// Bytes a second on a bus.
    pub bus_rate: u64,
    /// Time of a command on a bus.
    pub bus_overhead: Picos,
    /// Reads hold the bus while the disk positions.
    pub hold_on_read: bool,
    /// Writes hold the bus while the disk positions.
    pub hold_on_write: bool,
    /// Which data lie where.
    pub placement: Placement,
}

/// Which data lie on which disk; disks count from 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Placement {
    /// Relations by name.
    pub relations: Vec<Named>,
    /// Files by name.
    pub files: Vec<Named>,
    /// Ranges of sectors of a captured disk.
    pub sectors: Vec<Range>,
    /// Disk of everything else; striped over all without one.
    pub rest: Option<usize>,
    /// Striping unit.
    pub stripe: Bytes,
}

/// A name and its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Relation or file.
    pub name: String,
    /// Disk, from 0.
    pub disk: usize,
    /// Where it was written, for messages.
    pub place: String,
}

/// A range of sectors and its disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// Name of the captured disk.
    pub device: String,
    /// First sector, 512 bytes each.
    pub first: u64,
    /// Last sector.
    pub last: u64,
    /// Disk, from 0.
    pub disk: usize,
    /// Where it was written, for messages.
    pub place: String,
}

/// Says what is wrong with a setting: its key and a sentence.
pub(crate) type Fault<'a> = dyn FnMut(&str, String) + 'a;

impl Storage {
    /// Reads the bus of each disk: `even` (neighbours share a bus) or a list of buses.
    pub(crate) fn attach(&mut self, text: &str, fault: &mut Fault<'_>) {
        const KEY: &str = "io.attach";
        if self.buses == 0 {
            return;
        }
        if self.buses > self.disks {
            let what = format!("{} buses for {} disks; give at most one each", self.buses, self.disks);
            fault("io.buses", what);
            return;
        }
        if text == "even" {
            self.bus_of = (0..self.disks).map(|disk| disk * self.buses / self.disks).collect();
            return;
        }
        for word in text.split_whitespace() {
            match word.parse::<usize>() {
                Ok(bus) if (1..=self.buses).contains(&bus) => self.bus_of.push(bus - 1),
                _ => fault(
                    KEY,
                    format!(
                        "`{word}` is not the number of an I/O bus, 1 to {} (io.buses); or write `even`",
                        self.buses
                    ),
                ),
            }
        }
        let given = text.split_whitespace().count();
        if given != self.disks {
            let what = format!("{given} buses named for {} disks; name one for each, or `even`", self.disks);
            fault(KEY, what);
        }
    }

    /// Reads `DISK: NAME NAME; DISK: NAME` of `key`.
    pub(crate) fn names(&self, key: &str, text: &str, place: &str, fault: &mut Fault<'_>) -> Vec<Named> {
        let mut found: Vec<Named> = Vec::new();
        for (disk, names) in self.groups(key, text, fault) {
            for name in names.split_whitespace() {
                if let Some(other) = found.iter().find(|other| other.name == name) {
                    fault(key, format!("`{name}` lies on disk {} already", other.disk + 1));
                    continue;
                }
                found.push(Named { name: name.to_owned(), disk, place: format!("{place}: {key}") });
            }
        }
        found
    }

    /// Reads `DISK: DEVICE FIRST-LAST; …` of `placement.sectors`.
    pub(crate) fn ranges(&self, text: &str, place: &str, fault: &mut Fault<'_>) -> Vec<Range> {
        const KEY: &str = "placement.sectors";
        let mut found: Vec<Range> = Vec::new();
        for (disk, range) in self.groups(KEY, text, fault) {
            let parsed = range.split_once(' ').and_then(|(device, sectors)| {
                let (first, last) = sectors.trim().split_once('-')?;
                Some((device, first.trim().parse().ok()?, last.trim().parse().ok()?))
            });
            let Some((device, first, last)) =
                parsed.filter(|&(_, first, last): &(&str, u64, u64)| first <= last)
            else {
                fault(KEY, format!("`{range}` is not DEVICE FIRST-LAST, for example `vda 0-2047`"));
                continue;
            };
            let overlaps =
                |other: &&Range| other.device == device && other.first <= last && first <= other.last;
            if let Some(other) = found.iter().find(overlaps) {
                let (device, first, last) = (&other.device, other.first, other.last);
                fault(KEY, format!("`{range}` overlaps `{device} {first}-{last}`"));
            }
            let place = format!("{place}: {KEY}");
            found.push(Range { device: device.to_owned(), first, last, disk, place });
        }
        found
    }

    /// Splits `1: a b; 2: c` into disks, from 0, and what follows them.
    fn groups<'t>(&self, key: &str, text: &'t str, fault: &mut Fault<'_>) -> Vec<(usize, &'t str)> {
        let mut groups = Vec::new();
        let stated = |group: &&str| !group.is_empty() && *group != "none";
        for group in text.split(';').map(str::trim).filter(stated) {
            let Some((number, rest)) = group.split_once(':') else {
                fault(key, format!("`{group}` is not DISK: WHAT, for example `1: stock item; 2: customer`"));
                continue;
            };
            if let Some(disk) = self.disk(number.trim(), key, fault) {
                groups.push((disk, rest.trim()));
            }
        }
        groups
    }

    /// Reads the number of a disk; from 0.
    pub(crate) fn disk(&self, number: &str, key: &str, fault: &mut Fault<'_>) -> Option<usize> {
        match number.parse::<usize>() {
            Ok(disk) if (1..=self.disks).contains(&disk) => Some(disk - 1),
            _ => {
                fault(
                    key,
                    format!("`{number}` is not the number of a disk, 1 to {} (disk.count)", self.disks),
                );
                None
            }
        }
    }
}

impl Placement {
    /// Names in the description that the trace does not know, one sentence each with the nearest.
    pub fn unknown(&self, relations: &[&str], files: &[&str], devices: &[&str]) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |what: &str, name: &str, place: &str, known: &[&str]| {
            if known.is_empty() {
                let fault = format!(
                    "{place}: the trace does not tell where its {what}s lie; capture it again with this \
                     version, or use placement.sectors"
                );
                if faults.last() != Some(&fault) {
                    faults.push(fault);
                }
            } else if !known.contains(&name) {
                let hint = suggestion(name, known.iter().copied());
                faults.push(format!("{place}: no {what} of the trace is called `{name}`{hint}"));
            }
        };
        self.relations.iter().for_each(|n| check("relation", &n.name, &n.place, relations));
        self.files.iter().for_each(|n| check("file", &n.name, &n.place, files));
        self.sectors.iter().for_each(|r| check("disk", &r.device, &r.place, devices));
        faults
    }
}
