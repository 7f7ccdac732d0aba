//! Which disk of the simulated server holds which sector of the captured one. Sector ranges go before
//! files, files before relations, and the rest is striped or lies on one disk. Placed data keep their
//! sector numbers on the disk they are placed on; striped data get those of a striped array.

use servsim_config::{Placement, Range, Storage};
use servsim_core::{DiskRequest, FileRange, SECTOR};

/// Files, by device and sector, with what the description says of them.
#[derive(Debug, Clone)]
struct Extent {
    device: u32,
    first: u64,
    /// First sector after it.
    end: u64,
    disk: Option<usize>,
    name: usize,
}

/// The map.
#[derive(Debug, Clone)]
pub(super) struct Map {
    ranges: Vec<(u32, Range)>,
    extents: Vec<Extent>,
    names: Vec<String>,
    rest: Option<usize>,
    /// Striping unit in sectors.
    stripe: u64,
    disks: u64,
}

impl Map {
    /// The map of `storage` for data that lie as `files` say, and what is wrong with it.
    pub(super) fn new(storage: &Storage, files: &[FileRange], devices: &[String]) -> (Self, Vec<String>) {
        let placement = &storage.placement;
        let mut relations: Vec<&str> = files.iter().filter_map(|f| f.relation.as_deref()).collect();
        relations.sort_unstable();
        relations.dedup();
        let mut known: Vec<&str> = files.iter().flat_map(|f| folders(&f.file)).collect();
        known.sort_unstable();
        known.dedup();
        let names: Vec<&str> = devices.iter().map(String::as_str).collect();
        let faults = placement.unknown(&relations, &known, &names);
        let device =
            |range: &Range| devices.iter().position(|name| *name == range.device).unwrap_or(0) as u32;
        let mut map = Self {
            ranges: placement.sectors.iter().map(|range| (device(range), range.clone())).collect(),
            extents: Vec::new(),
            names: Vec::new(),
            rest: placement.rest,
            stripe: (placement.stripe.0 / SECTOR).max(1),
            disks: storage.disks as u64,
        };
        map.ranges.sort_by_key(|(device, range)| (*device, range.first));
        for file in files {
            map.add(file, placement);
        }
        map.extents.sort_by_key(|extent| (extent.device, extent.first));
        (map, faults)
    }

    fn add(&mut self, file: &FileRange, placement: &Placement) {
        let by_file = placement.files.iter().find(|named| folders(&file.file).any(|name| name == named.name));
        let by_relation = || {
            let relation = file.relation.as_ref()?;
            placement.relations.iter().find(|named| named.name == *relation)
        };
        let disk = by_file.or_else(by_relation).map(|named| named.disk);
        let label = file
            .relation
            .clone()
            .unwrap_or_else(|| file.file.split('/').next().unwrap_or(&file.file).to_owned());
        let name = self.names.iter().position(|name| *name == label).unwrap_or_else(|| {
            self.names.push(label);
            self.names.len() - 1
        });
        let (device, first, end) = (file.device, file.sector, file.sector + file.sectors);
        self.extents.push(Extent { device, first, end, disk, name });
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The file at a sector, as a number of [`Map::names`].
    pub(super) fn file_at(&self, device: u32, sector: u64) -> Option<usize> {
        self.extent_at(device, sector).0.map(|extent| extent.name)
    }

    /// The extent at a sector if there is one, and where that changes.
    fn extent_at(&self, device: u32, sector: u64) -> (Option<&Extent>, u64) {
        let after = self.extents.partition_point(|e| (e.device, e.first) <= (device, sector));
        let next = self.extents.get(after).filter(|e| e.device == device).map_or(u64::MAX, |e| e.first);
        let here = after.checked_sub(1).map(|at| &self.extents[at]);
        match here.filter(|e| e.device == device && sector < e.end) {
            Some(extent) => (Some(extent), extent.end.min(next)),
            None => (None, next),
        }
    }

    /// Disk and sector there of one captured sector, and where the rule changes.
    fn place(&self, device: u32, sector: u64) -> (usize, u64, u64) {
        let ranges = || self.ranges.iter().filter(|(d, _)| *d == device).map(|(_, range)| range);
        if let Some(range) = ranges().find(|range| (range.first..=range.last).contains(&sector)) {
            return (range.disk, sector, range.last + 1);
        }
        let next =
            ranges().map(|range| range.first).filter(|first| *first > sector).min().unwrap_or(u64::MAX);
        let (extent, end) = self.extent_at(device, sector);
        let end = end.min(next);
        if let Some(disk) = extent.and_then(|extent| extent.disk).or(self.rest) {
            return (disk, sector, end);
        }
        let (row, within) = (sector / self.stripe, sector % self.stripe);
        let there = row / self.disks * self.stripe + within;
        ((row % self.disks) as usize, there, end.min((row + 1) * self.stripe))
    }

    /// The parts of a request, in ascending order of its sectors; none for a flush.
    pub(super) fn locate(
        &self,
        device: u32,
        sector: u64,
        bytes: u64,
        write: bool,
    ) -> Vec<(usize, DiskRequest)> {
        let (mut sector, mut left) = (sector, bytes);
        let mut parts: Vec<(usize, DiskRequest)> = Vec::new();
        while left > 0 {
            let (disk, there, end) = self.place(device, sector);
            let bytes = left.min((end - sector).saturating_mul(SECTOR));
            match parts.last_mut() {
                Some((last, part)) if *last == disk && part.sector + part.bytes / SECTOR == there => {
                    part.bytes += bytes;
                }
                _ => parts.push((disk, DiskRequest { sector: there, bytes, write })),
            }
            sector += bytes.div_ceil(SECTOR);
            left -= bytes;
        }
        parts
    }
}

/// The names under which a file can be placed: its own, and those of the folders it lies in.
fn folders(file: &str) -> impl Iterator<Item = &str> {
    let ends = file.match_indices('/').map(|(at, _)| at);
    ends.chain(std::iter::once(file.len())).map(|end| &file[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use servsim_config::Machine;

    fn map(settings: &[&str], files: &[(u64, u64, &str, Option<&str>)]) -> Map {
        let overrides: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        let machine = Machine::from_toml("", "m.toml", &overrides).unwrap();
        let range = |&(sector, sectors, file, relation): &(u64, u64, &str, Option<&str>)| FileRange {
            device: 0,
            sector,
            sectors,
            file: file.to_owned(),
            relation: relation.map(str::to_owned),
        };
        let files: Vec<_> = files.iter().map(range).collect();
        let (map, faults) = Map::new(&machine.storage, &files, &["vda".to_owned()]);
        assert_eq!(faults, Vec::<String>::new());
        map
    }

    fn parts(map: &Map, sector: u64, bytes: u64) -> Vec<(usize, u64, u64)> {
        let located = map.locate(0, sector, bytes, false);
        located.into_iter().map(|(disk, part)| (disk, part.sector, part.bytes)).collect()
    }

    #[test]
    fn striped_data_lie_in_rows_and_a_long_request_is_divided() {
        let map = map(&["disk.count=2", "placement.stripe=4 KiB"], &[]);
        // Units of 8 sectors: 0 on disk 1, 1 on disk 2, 2 on disk 1 behind the first.
        assert_eq!(parts(&map, 4, 8192), [(0, 4, 2048), (1, 0, 4096), (0, 8, 2048)]);
        assert_eq!(parts(&map, 0, 0), []);
    }

    #[test]
    fn one_disk_gets_whole_requests_with_their_own_sectors() {
        let map = map(&["disk.count=1", "placement.stripe=4 KiB"], &[]);
        assert_eq!(parts(&map, 5, 20_000), [(0, 5, 20_000)]);
    }

    #[test]
    fn sectors_go_before_files_and_files_before_relations() {
        let files =
            [(100, 50, "base/1", Some("stock")), (150, 50, "pg_wal/0001", None), (300, 10, "base/2", None)];
        let settings = [
            "disk.count=4",
            "placement.relations=1: stock",
            "placement.files=2: pg_wal",
            "placement.sectors=3: vda 120-129",
            "placement.rest=4",
        ];
        let map = map(&settings, &files);
        assert_eq!(
            parts(&map, 110, 50 * 512),
            [(0, 110, 10 * 512), (2, 120, 10 * 512), (0, 130, 20 * 512), (1, 150, 10 * 512)]
        );
        assert_eq!(parts(&map, 300, 512), [(3, 300, 512)]);
        let name = |sector| map.file_at(0, sector).map(|at| map.names()[at].as_str());
        assert_eq!(
            [name(120), name(199), name(305), name(200)],
            [Some("stock"), Some("pg_wal"), Some("base"), None]
        );
    }
}
