//! The typed machine, built from the values of a description, with the checks that involve more
//! than one setting.

use crate::components::{
    Bus, Cache, Clients, Core, Interconnect, Locks, Mapping, OuterLevel, Prefetch, Protocol, Tlb,
};
use crate::groups::{self, Groups};
use crate::levels;
use crate::nodes::{self, Nodes};
use crate::parts;
use crate::read::{read, read_overrides, Faults, Given};
use crate::settings::SETTINGS;
use crate::storage::{Placement, Storage};
use crate::translation_and_prefetch;
use crate::values::{differs, written, Values};
use serde_json::{Map, Value as Json};
use servsim_units::{Bytes, Cycles, Hertz, Picos};

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // independent choices of two
pub struct Machine {
    /// Name in results.
    pub name: String,
    /// Processors.
    pub processors: usize,
    /// Clock.
    pub clock: Hertz,
    /// The processor core.
    pub core: Core,
    /// Time of a reference that hits.
    pub cycles_per_reference: Cycles,
    /// Store buffer entries.
    pub store_buffer: usize,
    /// Fetches under way per cache.
    pub outstanding_misses: usize,
    /// Entries of each processor's write buffer; 0 for none.
    pub write_buffer: usize,
    /// Every processor's cache.
    pub cache: Cache,
    /// Whether the first level is an instruction and a data cache of that shape each.
    pub split: bool,
    /// Registered replacement policy of the first level.
    pub replacement: String,
    /// Stores that miss the first level leave it as it is.
    pub write_around: bool,
    /// The levels outside the first, from the inside out.
    pub levels: Vec<OuterLevel>,
    /// What processors prefetch, if anything.
    pub prefetch: Option<Prefetch>,
    /// Address translation, if it is simulated.
    pub tlb: Option<Tlb>,
    /// Coherence.
    pub protocol: Protocol,
    /// The bus.
    pub bus: Bus,
    /// What joins processors and memory.
    pub interconnect: Interconnect,
    /// Nodes with their own memory, if there are several.
    pub nodes: Option<Nodes>,
    /// Core groups with a level of their own, if there are several.
    pub groups: Option<Groups>,
    /// Where pages lie.
    pub mapping: Mapping,
    /// Affinity scheduling instead of random.
    pub affinity: bool,
    /// References per time slice.
    pub time_slice: u64,
    /// Locks.
    pub locks: Locks,
    /// The load generator's tasks, if they run on a machine of their own.
    pub clients: Option<Clients>,
    /// Disk read service time.
    pub disk_read: Picos,
    /// Disk write service time.
    pub disk_write: Picos,
    /// Disk requests served at once.
    pub disk_parallel: usize,
    /// Whether one flush of the pool serves all that wait for one.
    pub shared_flushes: bool,
    /// Single disks, I/O buses and the placement of data.
    pub storage: Storage,
    /// Width of the random delay of a fetch.
    pub memory_delay: Cycles,
    /// Conflict told from capacity.
    pub exact_replacement: bool,
    /// Sharing judged by the missing words alone.
    pub judge_at_miss: bool,
    resolved: Vec<(&'static str, String)>,
}

impl Machine {
    /// Reads a description and applies overrides of the form `key=value`.
    ///
    /// # Errors
    /// Every fault at once.
    pub fn from_toml(text: &str, file: &str, overrides: &[String]) -> Result<Self, Faults> {
        Self::from_toml_with(text, file, overrides, &[])
    }

    /// As [`Machine::from_toml`]; `each` are overrides after these, which were given as values of `--each`.
    ///
    /// # Errors
    /// Every fault at once.
    pub fn from_toml_with(
        text: &str,
        file: &str,
        overrides: &[String],
        each: &[String],
    ) -> Result<Self, Faults> {
        let (mut given, mut faults) = read(text, file);
        read_overrides("--set", overrides, &mut given, &mut faults);
        read_overrides("--each", each, &mut given, &mut faults);
        let mut machine = Self::build(&given);
        machine.place(&given, file, &mut faults);
        machine.nodes = nodes::nodes(&given, machine.processors, file, &mut faults);
        machine.check(&given, file, &mut faults);
        if faults.is_empty() {
            Ok(machine)
        } else {
            faults.sort_by_key(|fault| line_of(fault, file));
            Err(Faults(faults))
        }
    }

    fn build(given: &Given) -> Self {
        let values = Values(given);
        let number = |key| values.number(key);
        let text = |key| values.text(key);
        let is = |key, word: &str| values.is(key, word);
        Self {
            name: text("name"),
            processors: number("processors") as usize,
            clock: Hertz(number("clock")),
            core: parts::core(&values),
            cycles_per_reference: Cycles(number("processor.cycles_per_reference")),
            store_buffer: number("processor.store_buffer") as usize,
            outstanding_misses: number("processor.outstanding_misses") as usize,
            write_buffer: number("write_buffer.entries") as usize,
            cache: Cache {
                size: Bytes(number("cache.size")),
                associativity: number("cache.associativity") as u32,
                line: Bytes(number("cache.line")),
            },
            split: is("cache.organisation", "split"),
            replacement: text("cache.replacement"),
            write_around: is("cache.write_miss", "around"),
            levels: levels::levels(given),
            prefetch: translation_and_prefetch::prefetch(given),
            tlb: translation_and_prefetch::tlb(given),
            protocol: parts::protocol(&values),
            bus: parts::bus(&values),
            interconnect: Interconnect {
                kind: text("interconnect.kind"),
                order: Cycles(number("interconnect.order")),
                hop: Cycles(number("interconnect.hop")),
                banks: number("memory.banks") as usize,
                bank_time: Cycles(number("memory.bank_time")),
            },
            nodes: None,
            groups: groups::groups(given),
            mapping: Mapping { policy: text("memory.mapping"), seed: number("memory.mapping_seed") },
            affinity: is("scheduler.policy", "affinity"),
            time_slice: number("scheduler.time_slice"),
            locks: parts::locks(&values),
            clients: parts::clients(&values),
            disk_read: Picos(number("disk.read_time")),
            disk_write: Picos(number("disk.write_time")),
            disk_parallel: number("disk.parallel") as usize,
            shared_flushes: is("disk.flushes", "shared"),
            storage: parts::storage(&values),
            memory_delay: Cycles(number("perturbation.memory_delay")),
            exact_replacement: is("classification.replacement", "exact"),
            judge_at_miss: is("classification.sharing", "at-miss"),
            resolved: SETTINGS.iter().map(|s| (s.key, written(given, s.key))).collect(),
        }
    }

    /// Reads which disk hangs on which bus and which data lie where, and refuses settings of single
    /// disks without such, or of the pool beside them.
    fn place(&mut self, given: &Given, file: &str, faults: &mut Vec<String>) {
        let place = |key: &str| given.get(key).map_or(file, |(_, place)| &place.0);
        let mut fault = |key: &str, what: String| faults.push(format!("{}: {key}: {what}", place(key)));
        let storage = &mut self.storage;
        if storage.disks == 0 {
            let of_single = |key: &&&str| {
                let own = ["disk.model", "disk.scheduler", "disk.medium_rate"];
                let is_theirs = own.contains(*key) || key.starts_with("io.") || key.starts_with("placement.");
                is_theirs && differs(given, key)
            };
            for key in given.keys().filter(of_single) {
                fault(key, "is for single disks; say how many with disk.count".into());
            }
            return;
        }
        for key in ["disk.parallel", "disk.flushes"].into_iter().filter(|&key| differs(given, key)) {
            fault(key, "is for the pool of disks; leave it out beside disk.count".into());
        }
        let text = |key| written(given, key);
        storage.attach(&text("io.attach"), &mut fault);
        let mut names = |key| storage.names(key, &text(key), place(key), &mut fault);
        let (relations, files) = (names("placement.relations"), names("placement.files"));
        let sectors = storage.ranges(&text("placement.sectors"), place("placement.sectors"), &mut fault);
        let rest = match text("placement.rest").as_str() {
            "stripe" => None,
            number => storage.disk(number, "placement.rest", &mut fault),
        };
        storage.placement = Placement { relations, files, sectors, rest, ..storage.placement.clone() };
    }

    /// Checks what involves more than one setting.
    fn check(&self, given: &Given, file: &str, faults: &mut Vec<String>) {
        let mut fault = |key: &str, what: String| {
            let place = given.get(key).map_or(file, |(_, place)| &place.0);
            faults.push(format!("{place}: {key}: {what}"));
        };
        levels::check_shape(self.cache, "cache", given, &mut fault);
        levels::check(self, given, &mut fault);
        if self.nodes.is_some() {
            nodes::check(&self.interconnect.kind, &self.levels, given, &mut fault);
        }
        groups::check(self.groups, self.processors, &self.levels, self.nodes.as_ref(), given, &mut fault);
        let second_is_private = self.levels.first().is_some_and(|level| !level.is_shared());
        translation_and_prefetch::check_prefetch(
            self.prefetch.as_ref(),
            second_is_private,
            given,
            &mut fault,
        );
        translation_and_prefetch::check_tlb(self.tlb.as_ref(), given, &mut fault);
        let of_clients_elsewhere = ["clients.cycles_per_reference", "clients.latency"];
        for key in
            of_clients_elsewhere.into_iter().filter(|&key| self.clients.is_none() && differs(given, key))
        {
            fault(key, "is for clients elsewhere; add clients.place = \"elsewhere\"".into());
        }
        if self.memory_delay.0 % 2 == 1 {
            fault(
                "perturbation.memory_delay",
                format!(
                    "{} is odd; the delay is spread evenly around the mean, so use an even number",
                    self.memory_delay
                ),
            );
        }
        if self.core.agen > self.core.load_to_use {
            fault(
                "processor.agen",
                format!(
                    "{} is longer than processor.load_to_use, {}, which includes it",
                    self.core.agen, self.core.load_to_use
                ),
            );
        }
        let least = self.bus.memory_read.0.min(self.bus.cache_read.0);
        if self.memory_delay.0 / 2 >= least {
            fault(
                "perturbation.memory_delay",
                format!("half of {} must be less than the shortest fetch, {least} cycles", self.memory_delay),
            );
        }
    }

    /// The complete description, defaults included, as nested JSON of texts with units.
    pub fn resolved(&self) -> Json {
        let mut root = Map::new();
        for (key, text) in &self.resolved {
            let text = Json::String(text.clone());
            match key.split_once('.') {
                None => {
                    root.insert((*key).to_owned(), text);
                }
                Some((section, rest)) => {
                    let section = root.entry(section).or_insert_with(|| Json::Object(Map::new()));
                    if let Some(section) = section.as_object_mut() {
                        section.insert(rest.to_owned(), text);
                    }
                }
            }
        }
        Json::Object(root)
    }

    /// Bytes of one cache line.
    pub fn line_bytes(&self) -> u64 {
        self.cache.line.0
    }
}

/// The line that a fault names, by which people look for it; what was not written in the file comes behind.
fn line_of(fault: &str, file: &str) -> usize {
    let number = |rest: &str| rest.strip_prefix(", line ")?.split(':').next()?.parse().ok();
    fault.strip_prefix(file).and_then(number).unwrap_or(usize::MAX)
}
