//! Programs of the monitor of traffic between nodes, in TOML: filters of addresses, each with its counters, and
//! counters of whole filters. The limits are those of the card of Brock et al. 2001, section 5.

use crate::read::Faults;
use crate::tables::{address, parse, words, Tables};
use servsim_units::nearest::suggestion;
use servsim_units::Bytes;
use toml_edit::TableLike;

/// Most filters.
pub const MOST_FILTERS: usize = 32;
/// Counters of the filters together.
pub const MOST_COUNTERS: u64 = 512 * 1024;
/// Counters of whole filters.
pub const MOST_SECONDARY: usize = 16;
/// Bytes that a counter of a filter may stand for.
pub const GRANULARITY: std::ops::RangeInclusive<u64> = 32..=2 << 20;

/// Types of transactions, in the order of the bits of a mask.
pub const TYPES: [&str; 5] = ["read", "read-exclusive", "invalidate", "write", "write-back"];
/// Whose transactions a node's monitor counts, in the order of the bits of a mask.
pub const DIRECTIONS: [&str; 2] = ["outbound", "inbound"];

/// Who serves a transaction, in the order of the bits of a mask.
pub const SERVED: [&str; 2] = ["memory", "cache"];

/// Most parts of the measured transactions.
pub const MOST_PARTS: u64 = 64;

/// What the monitor counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MonitorProgram {
    /// Local transactions and processors are seen as well, which no card could.
    pub simulator: bool,
    /// The filters.
    pub filters: Vec<Filter>,
    /// Counters of whole filters.
    pub secondary: Vec<Secondary>,
    /// Parts of the measured transactions that are counted apart.
    pub parts: u64,
}

/// A range of addresses, and what of its traffic is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// First address.
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// Bytes of each counter; a power of two.
    pub granularity: u64,
    /// Mask of [`TYPES`].
    pub types: u8,
    /// Mask of [`DIRECTIONS`].
    pub directions: u8,
    /// Mask of [`SERVED`].
    pub served: u8,
    /// Its first counter.
    pub base: u64,
    /// Count at which a counter tells.
    pub threshold: Option<u64>,
}

impl Filter {
    /// How many counters it has.
    pub fn counters(&self) -> u64 {
        self.size / self.granularity
    }
}

/// A counter of whole filters: a transaction that several of them take counts once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secondary {
    /// The filters, from 0.
    pub filters: Vec<usize>,
    /// Mask of [`TYPES`].
    pub types: u8,
}

impl MonitorProgram {
    /// Reads `text` for a machine with lines of `line` bytes; `file` is used in messages.
    ///
    /// # Errors
    /// With every fault of the file.
    pub fn from_toml(text: &str, file: &str, line: u64) -> Result<Self, Faults> {
        let document = parse(text, file)?;
        let mut reader = Reader { file, line, tables: Tables::default() };
        let program = reader.program(document.as_table());
        reader.tables.finish(program)
    }
}

struct Reader<'a> {
    file: &'a str,
    line: u64,
    tables: Tables,
}

impl Reader<'_> {
    fn fault(&mut self, place: &str, what: &str) {
        self.tables.fault(place, what);
    }

    /// A part of the program as messages name it.
    fn place(&self, part: &str) -> String {
        format!("{}: {part}", self.file)
    }

    fn program(&mut self, table: &dyn TableLike) -> MonitorProgram {
        let whole = self.place("the program");
        self.tables.check_keys(table, &["mode", "parts", "filter", "secondary"], &whole);
        let mode = self.tables.text(table, "mode", &whole).unwrap_or_else(|| "card".into());
        if !["card", "simulator"].contains(&mode.as_str()) {
            self.fault(&self.place("mode"), &format!("unknown `{mode}`; accepted are card, simulator"));
        }
        let simulator = mode == "simulator";
        let parts = self.parts(table, &whole, simulator);
        let mut program = MonitorProgram { simulator, filters: Vec::new(), secondary: Vec::new(), parts };
        let filters = self.tables.all(table, "filter", self.file);
        if filters.is_empty() {
            self.fault(&self.place("filter"), "there is none, so nothing would be counted; write [[filter]]");
        }
        if filters.len() > MOST_FILTERS {
            let what = format!("{} filters; the monitor has {MOST_FILTERS}, join some", filters.len());
            self.fault(&self.place("filter"), &what);
        }
        for (index, table) in filters.into_iter().enumerate() {
            let next = program.filters.last().map_or(0, |last| last.base + last.counters());
            let place = self.place(&format!("filter {}", index + 1));
            if let Some(filter) = self.filter(table, &place, next, program.simulator) {
                program.filters.push(filter);
            }
        }
        self.check_counters(&program.filters);
        let secondary = self.tables.all(table, "secondary", self.file);
        if secondary.len() > MOST_SECONDARY {
            let what = format!("{} counters; the monitor has {MOST_SECONDARY}", secondary.len());
            self.fault(&self.place("secondary"), &what);
        }
        for (index, table) in secondary.into_iter().enumerate() {
            let place = self.place(&format!("secondary {}", index + 1));
            self.tables.check_keys(table, &["filters", "types"], &place);
            let named = self.tables.text(table, "filters", &place).unwrap_or_default();
            let types = self.mask(table, "types", &TYPES, &place);
            let mut filters = Vec::new();
            for word in words(&named) {
                let number = word.parse::<usize>().ok();
                if let Some(number) = number.filter(|number| (1..=program.filters.len()).contains(number)) {
                    filters.push(number - 1);
                } else {
                    let count = program.filters.len();
                    self.fault(&place, &format!("there is no filter {word}; they are 1 to {count}"));
                }
            }
            if filters.is_empty() {
                self.fault(&place, "names no filter; write filters = \"1 2\"");
            }
            program.secondary.push(Secondary { filters, types });
        }
        program
    }

    /// Into how many parts the measured transactions are divided.
    fn parts(&mut self, table: &dyn TableLike, whole: &str, simulator: bool) -> u64 {
        let Some(parts) = self.number(table, "parts", whole) else { return 1 };
        if !(1..=MOST_PARTS).contains(&parts) {
            self.fault(&self.place("parts"), &format!("from 1 to {MOST_PARTS}"));
        }
        if !simulator && parts > 1 {
            let what = "a card knows no transactions; leave it out, or use mode = \"simulator\"";
            self.fault(&self.place("parts"), what);
        }
        parts
    }

    /// The bits of the words that are named; all of them without the key.
    fn mask(&mut self, table: &dyn TableLike, key: &str, known: &[&str], place: &str) -> u8 {
        let Some(text) = self.tables.text(table, key, place) else { return (1 << known.len()) - 1 };
        let mut mask = 0;
        for word in words(&text) {
            if let Some(bit) = known.iter().position(|name| *name == word) {
                mask |= 1 << bit;
            } else {
                let hint = suggestion(word, known.iter().copied());
                let what = format!("{key}: unknown `{word}`{hint}; accepted are {}", known.join(", "));
                self.fault(place, &what);
            }
        }
        if mask == 0 {
            self.fault(place, &format!("{key}: empty, so nothing would be counted; leave it out for all"));
        }
        mask
    }

    /// An address or a count: decimal or hexadecimal.
    fn number(&mut self, table: &dyn TableLike, key: &str, place: &str) -> Option<u64> {
        let text = self.tables.text(table, key, place)?;
        let number = address(&text);
        if number.is_none() {
            self.fault(place, &format!("{key}: `{text}` is no number; write it decimal or as 0x..."));
        }
        number
    }

    fn bytes(&mut self, table: &dyn TableLike, key: &str, place: &str) -> Option<u64> {
        let Some(text) = self.tables.text(table, key, place) else {
            self.fault(place, &format!("{key} is missing; write for example {key} = \"4 KiB\""));
            return None;
        };
        match text.parse::<Bytes>() {
            Ok(Bytes(bytes)) => Some(bytes),
            Err(why) => {
                self.fault(place, &format!("{key}: {why}"));
                None
            }
        }
    }

    fn filter(&mut self, table: &dyn TableLike, place: &str, next: u64, simulator: bool) -> Option<Filter> {
        let accepted = ["start", "size", "granularity", "types", "direction", "served", "base", "threshold"];
        self.tables.check_keys(table, &accepted, place);
        let start = self.number(table, "start", place);
        if table.get("start").is_none() {
            self.fault(place, "start is missing; write for example start = \"0x0\"");
        }
        let (size, granularity) = (self.bytes(table, "size", place), self.bytes(table, "granularity", place));
        let types = self.mask(table, "types", &TYPES, place);
        let directions = match self.tables.text(table, "direction", place).as_deref() {
            Some("both") => 3,
            None => 1,
            Some(_) => self.mask(table, "direction", &DIRECTIONS, place),
        };
        let served = self.mask(table, "served", &SERVED, place);
        if table.get("served").is_some() && !simulator {
            self.fault(
                place,
                "served: a card does not see who serves; leave it out, or use mode = \"simulator\"",
            );
        }
        let (base, threshold) = (self.number(table, "base", place), self.number(table, "threshold", place));
        let (start, size, granularity) = (start?, size?, granularity?);
        if !GRANULARITY.contains(&granularity) || !granularity.is_power_of_two() {
            self.fault(place, "granularity: a power of two from 32 B to 2 MiB");
            return None;
        }
        if granularity < self.line {
            let what =
                format!("granularity: finer than the machine's lines of {} B, which travel whole", self.line);
            self.fault(place, &what);
        }
        if start % granularity != 0
            || size % granularity != 0
            || size == 0
            || start.checked_add(size).is_none()
        {
            let what = format!(
                "start and size must be multiples of the granularity, {granularity} B, and size above 0"
            );
            self.fault(place, &what);
            return None;
        }
        if threshold == Some(0) {
            self.fault(place, "threshold: every count reaches 0; give 1 or more, or leave it out");
        }
        Some(Filter {
            start,
            size,
            granularity,
            types,
            directions,
            served,
            base: base.unwrap_or(next),
            threshold,
        })
    }

    fn check_counters(&mut self, filters: &[Filter]) {
        for (index, filter) in filters.iter().enumerate() {
            let end = filter.base.saturating_add(filter.counters());
            if end > MOST_COUNTERS {
                let place = self.place(&format!("filter {}", index + 1));
                let what = format!(
                    "needs counters {} to {}; the monitor has {MOST_COUNTERS}: a smaller size or a coarser granularity",
                    filter.base,
                    end - 1
                );
                self.fault(&place, &what);
            }
            for (other, before) in filters[..index].iter().enumerate() {
                if before.base < end && filter.base < before.base + before.counters() {
                    let what = format!("its counters are those of filter {}; leave out base", other + 1);
                    self.fault(&self.place(&format!("filter {}", index + 1)), &what);
                }
            }
        }
    }
}
