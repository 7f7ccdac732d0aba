//! Nodes of a machine: which processors and how much memory each has, what joins them, and which node's memory a
//! page lies in. Without them (`node.count = 1`) a machine has one memory, equally far from every processor.
//!
//! Over 400 lines: what the settings of nodes demand of one another belongs together.

use crate::components::{OuterLevel, Sharing};
use crate::migration::{check_migration, migration, Migration};
use crate::read::Given;
use crate::storage::Fault;
use crate::values::{differs, Values};
use servsim_units::{Bytes, Cycles};

/// Several nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The node of each processor.
    pub of_processor: Vec<usize>,
    /// Each node's memory; none for a node without.
    pub memories: Vec<Option<Memory>>,
    /// Time of a packet from one node to another without its bytes, by sender and receiver.
    pub distances: Vec<Vec<Cycles>>,
    /// Directed links; every pair of neighbours has one each way.
    pub links: usize,
    /// The links from one node to another, by sender and receiver.
    pub routes: Vec<Vec<Vec<usize>>>,
    /// Thousandths of a byte that a link moves per cycle.
    pub link_rate: u64,
    /// Bytes of a packet without a line.
    pub request: Bytes,
    /// Bytes of a packet with a line, beyond those of the line.
    pub header: Bytes,
    /// Which node a page lies in.
    pub placement: PagePlacement,
    /// How tasks are dealt to nodes.
    pub threads: String,
    /// Whom requests go to.
    pub coherence: Coherence,
    /// When pages move, if they do.
    pub migration: Option<Migration>,
}

impl Nodes {
    /// Whether they keep coherent by messages.
    pub fn by_messages(&self) -> bool {
        self.coherence.policy == "messages"
    }
}

/// How nodes keep coherent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coherence {
    /// Registered policy.
    pub policy: String,
    /// Time of a look-up in a home's directory.
    pub directory: Cycles,
    /// Messages: requests that a home has room for.
    pub request_buffers: usize,
    /// Messages: forwards that a node has room for.
    pub forward_buffers: usize,
    /// Messages: age of a request that is stuck.
    pub deadlock_threshold: Cycles,
    /// BASH: cycles between samples of the links.
    pub interval: Cycles,
    /// BASH: utilisation in per cent above which fewer requests are broadcast.
    pub threshold: u64,
    /// BASH: per cent around the threshold that change nothing.
    pub dead_band: u64,
    /// BASH: bits of the counter.
    pub counter_bits: u32,
}

/// The memory of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Capacity; none without a bound.
    pub size: Option<Bytes>,
    /// Time of a read beyond `bus.memory_read`.
    pub latency: Cycles,
    /// Bytes read or written per cycle; none without a bound.
    pub bytes_per_cycle: Option<u64>,
}

/// How pages get their nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PagePlacement {
    /// Registered policy.
    pub policy: String,
    /// Pages that lie in one node before the next is taken.
    pub stride: u64,
}

/// The distance of nodes that no way joins.
const NO_ROUTE: Cycles = Cycles(u64::MAX);

/// The nodes that a description gives, if it gives more than one.
pub(crate) fn nodes(given: &Given, processors: usize, file: &str, faults: &mut Vec<String>) -> Option<Nodes> {
    let place = |key: &str| given.get(key).map_or(file, |(_, place)| &place.0);
    let mut fault = |key: &str, what: String| faults.push(format!("{}: {key}: {what}", place(key)));
    let values = Values(given);
    let count = values.number("node.count") as usize;
    if count == 1 {
        let is_theirs = |key: &&&str| key.starts_with("node.") && differs(given, key);
        for key in given.keys().filter(is_theirs) {
            fault(key, "is for machines with nodes; say how many with node.count".into());
        }
        return None;
    }
    let text = |key: &str| values.text(key);
    let of_processor = processors_of(&text("node.processors"), count, processors, &mut fault)?;
    let has_processors = |node: usize| of_processor.contains(&node);
    let sizes = each(&text("node.memory"), "node.memory", count, &mut fault, |word| match word {
        "none" => Ok(None),
        "unlimited" => Ok(Some(None)),
        size => size.parse::<Bytes>().map(|size| Some(Some(size))).map_err(|why| why.to_string()),
    })?;
    for node in (0..count).filter(|&node| sizes[node].is_none() && !has_processors(node)) {
        let what =
            format!("node {} has neither processors nor memory; leave it out, or give it either", node + 1);
        fault("node.memory", what);
    }
    if sizes.iter().all(Option::is_none) {
        fault("node.memory", "no node has memory; give one some, or leave the setting out".into());
    }
    if let Some(node) = sizes.iter().position(|size| matches!(size, Some(Some(Bytes(0))))) {
        fault("node.memory", format!("0 B at node {}; write `none` for a node without memory", node + 1));
    }
    let cycles = |word: &str| word.parse::<Cycles>().map_err(|why| why.to_string());
    let latencies = each(&text("node.memory_latency"), "node.memory_latency", count, &mut fault, cycles)?;
    let key = "node.memory_bytes_per_cycle";
    let rates =
        each(&text(key), key, count, &mut fault, |word| match word {
            "unlimited" => Ok(None),
            rate => match rate.parse::<Bytes>().map_err(|why| why.to_string())?.0 {
                0 => Err("memory that moves no bytes is never read; write `unlimited`, or a number of bytes"
                    .into()),
                rate => Ok(Some(rate)),
            },
        })?;
    let memory = |node: usize| {
        let (latency, bytes_per_cycle) = (latencies[node], rates[node]);
        sizes[node].map(|size| Memory { size, latency, bytes_per_cycle })
    };
    let topology = Topology::read(&text("node.links"), count, &mut fault)?;
    let (hop, local) = (values.number("node.hop"), values.number("node.local"));
    let routes: Vec<Vec<Vec<usize>>> = (0..count).map(|from| topology.routes(from, count)).collect();
    let mut distances = vec![vec![Cycles(local); count]; count];
    for (from, to) in pairs(count).filter(|(from, to)| from != to) {
        match routes[from][to].len() as u64 {
            0 => distances[from][to] = NO_ROUTE,
            hops => distances[from][to] = Cycles(hops * hop),
        }
    }
    if let Some((from, to)) = pairs(count).find(|&(from, to)| distances[from][to] == NO_ROUTE) {
        let what =
            format!("no way leads from node {} to node {}; join them, or use `switch`", from + 1, to + 1);
        fault("node.links", what);
    }
    if text("node.distances") != "links" {
        distances = table(&text("node.distances"), count, &mut fault)?;
    }
    Some(Nodes {
        memories: (0..count).map(memory).collect(),
        of_processor,
        distances,
        links: topology.links,
        routes,
        link_rate: link_rate(&text(LINK_RATE), &mut fault)?,
        request: Bytes(values.number("node.request")),
        header: Bytes(values.number("node.header")),
        placement: PagePlacement { policy: text("node.placement"), stride: values.number("node.stride") },
        threads: text("node.threads"),
        coherence: coherence(&values),
        migration: migration(&values),
    })
}

const LINK_RATE: &str = "node.link_bytes_per_cycle";

/// Bytes per cycle with up to three decimals, in thousandths.
fn link_rate(text: &str, fault: &mut Fault<'_>) -> Option<u64> {
    let number = text.strip_suffix('B').map(str::trim).and_then(|number| {
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let known = digits(whole) && digits(decimals) && decimals.len() <= 3 && whole.len() <= 4;
        format!("{whole}{decimals:0<3}").parse().ok().filter(|_| known && !number.is_empty())
    });
    let rate = number.filter(|rate| (1..=4_096_000).contains(rate));
    if rate.is_none() {
        let what = format!(
            "`{text}` is no number of bytes from 0.001 B to 4096 B, with at most three decimals; write `4 B` or \
             `0.25 B`"
        );
        fault(LINK_RATE, what);
    }
    rate
}

fn coherence(values: &Values<'_>) -> Coherence {
    Coherence {
        policy: values.text("node.coherence"),
        directory: Cycles(values.number("node.directory")),
        request_buffers: values.number("node.request_buffers") as usize,
        forward_buffers: values.number("node.forward_buffers") as usize,
        deadlock_threshold: Cycles(values.number("node.deadlock_threshold")),
        interval: Cycles(values.number("node.bash_interval")),
        threshold: values.number("node.bash_threshold"),
        dead_band: values.number("node.bash_dead_band"),
        counter_bits: values.number("node.bash_counter_bits") as u32,
    }
}

/// Checks what the policies of coherence demand of the rest of a machine.
fn check_coherence(given: &Given, fault: &mut Fault<'_>) {
    let values = Values(given);
    let policy = values.text("node.coherence");
    for key in given.keys().filter(|key| differs(given, key)) {
        let (is_theirs, of) = match *key {
            "node.directory" => (policy != "snooping", "`directory`, `bash` or `messages`"),
            "node.request_buffers" | "node.forward_buffers" | "node.deadlock_threshold" => {
                (policy == "messages", "`messages`")
            }
            key => (policy == "bash" || !key.starts_with("node.bash_"), "`bash`"),
        };
        if !is_theirs {
            fault(key, format!("is for node.coherence {of}, and this machine has `{policy}`"));
        }
    }
    if values.number("node.bash_threshold") + values.number("node.bash_dead_band") >= 100 {
        fault(
            "node.bash_dead_band",
            "no utilisation is beyond threshold and dead band; choose smaller ones".into(),
        );
    }
    if policy == "snooping" {
        return;
    }
    if policy == "messages" {
        return check_messages(&values, fault);
    }
    if values.text("protocol.name") != "mosi" {
        let what = format!(
            "homes know the owner of a line exactly with protocol.name `mosi` only, and this machine has `{}`; \
             choose that, or `snooping`",
            values.text("protocol.name")
        );
        fault("node.coherence", what);
    }
    if values.text("protocol.supplier") != "dirty-only" {
        let what = "the home asks the owner of a line alone; use `dirty-only`, or node.coherence `snooping`";
        fault("protocol.supplier", what.into());
    }
}

/// Checks what coherence by messages demands of the rest of a machine.
fn check_messages(values: &Values<'_>, fault: &mut Fault<'_>) {
    for (key, needed, why) in [
        ("protocol.name", "mesi", "the buses inside nodes are described for it"),
        ("protocol.supplier", "dirty-only", "memory supplies clean lines"),
        ("prefetch.policy", "none", "a coherence unit knows no request that nobody waits for"),
    ] {
        let given = values.text(key);
        if given != needed {
            let what = format!(
                "node.coherence `messages` takes `{needed}`, because {why}, and this machine has `{given}`; choose that, \
                 or another node.coherence"
            );
            fault(key, what);
        }
    }
    for (key, what) in [
        ("write_buffer.entries", "has no write buffers"),
        ("bus.intervention", "has one time of caches, bus.cache_read"),
    ] {
        if values.number(key) > 0 {
            fault(
                key,
                format!("node.coherence `messages` {what}; leave the setting out, or choose another family"),
            );
        }
    }
}

/// Checks what nodes demand of the rest of a machine.
pub(crate) fn check(interconnect: &str, levels: &[OuterLevel], given: &Given, fault: &mut Fault<'_>) {
    if interconnect != "network" {
        fault(
            "interconnect.kind",
            "nodes are joined by a network; use `network`, or leave out node.count for one memory".into(),
        );
    }
    check_coherence(given, fault);
    check_migration(given, fault);
    for key in ["memory.banks", "memory.bank_time", "interconnect.hop"] {
        if differs(given, key) {
            fault(
                key,
                "is for one memory; nodes have node.memory_bytes_per_cycle, node.memory_latency and node.hop"
                    .into(),
            );
        }
    }
    if let Some(place) = levels.iter().position(|level| level.sharing == Sharing::All) {
        fault(
            ["l2.sharing", "l3.sharing"][place],
            "a level that all processors share lies in no node; use `private`, or `group` with as many groups or more"
                .into(),
        );
    }
}

fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |from| (0..count).map(move |to| (from, to)))
}

/// The node of each processor: neighbours share one.
fn processors_of(text: &str, count: usize, processors: usize, fault: &mut Fault<'_>) -> Option<Vec<usize>> {
    const KEY: &str = "node.processors";
    if text == "even" {
        if count > processors {
            let what = format!(
                "{count} nodes for {processors} processors; say how many each has, 0 for memory alone"
            );
            fault(KEY, what);
            return None;
        }
        return Some((0..processors).map(|processor| processor * count / processors).collect());
    }
    let read = |word: &str| word.parse::<usize>().map_err(|_| format!("`{word}` is no number of processors"));
    let numbers = each(text, KEY, count, fault, read)?;
    let sum = numbers.iter().fold(0_usize, |sum, &number| sum.saturating_add(number));
    if sum != processors {
        let what =
            format!("{sum} processors in nodes, but the machine has {processors}; each is in one node");
        fault(KEY, what);
        return None;
    }
    Some(numbers.iter().enumerate().flat_map(|(node, &number)| vec![node; number]).collect())
}

/// One value for all nodes, or one for each, separated by commas.
fn each<T: Clone>(
    text: &str,
    key: &str,
    count: usize,
    fault: &mut Fault<'_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Option<Vec<T>> {
    let mut values = Vec::new();
    for word in text.split(',') {
        match read(word.trim()) {
            Ok(value) => values.push(value),
            Err(why) => {
                fault(key, why);
                return None;
            }
        }
    }
    match values.len() {
        1 => Some(vec![values[0].clone(); count]),
        given if given == count => Some(values),
        given => {
            let what =
                format!("{given} values for {count} nodes; give one for all, or one for each, with commas");
            fault(key, what);
            None
        }
    }
}

/// A table of one-way times, a row for each sender.
fn table(text: &str, count: usize, fault: &mut Fault<'_>) -> Option<Vec<Vec<Cycles>>> {
    const KEY: &str = "node.distances";
    let rows: Vec<&str> = text.split(';').collect();
    if rows.len() != count {
        let what =
            format!("{} rows for {count} nodes; separate them with semicolons, or write `links`", rows.len());
        fault(KEY, what);
        return None;
    }
    let read = |word: &str| match word.parse::<Cycles>() {
        Ok(cycles) if cycles.0 <= 1_000_000 => Ok(cycles),
        Ok(cycles) => Err(format!("{cycles} is outside 0 to 1000000 cycles")),
        Err(why) => Err(why.to_string()),
    };
    rows.into_iter().map(|row| each(row, KEY, count, fault, read)).collect()
}

/// What joins the nodes.
struct Topology {
    /// Directed links.
    links: usize,
    /// Number of the link from one place to another; places from `count` are switches.
    between: Vec<(usize, usize)>,
    places: usize,
}

impl Topology {
    fn read(text: &str, count: usize, fault: &mut Fault<'_>) -> Option<Self> {
        const KEY: &str = "node.links";
        let joined: Vec<(usize, usize)> = match text {
            "switch" => (0..count).map(|node| (node, count)).collect(),
            "direct" => pairs(count).filter(|(from, to)| from < to).collect(),
            list => {
                let mut joined = Vec::new();
                for word in list.split_whitespace() {
                    let node = |text: &str| text.parse().ok().filter(|node| (1..=count).contains(node));
                    match word.split_once('-').map(|(a, b)| (node(a), node(b))) {
                        Some((Some(a), Some(b))) if a != b => joined.push((a - 1, b - 1)),
                        _ => {
                            let what = format!(
                                "`{word}` joins no two of the nodes 1 to {count}; write `switch`, `direct`, or links \
                                 such as `1-2 2-3`"
                            );
                            fault(KEY, what);
                            return None;
                        }
                    }
                }
                joined
            }
        };
        let between: Vec<_> = joined.into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        let places = count + usize::from(text == "switch");
        Some(Self { links: between.len(), between, places })
    }

    /// The links of a shortest way from `from` to each node, those of low numbers first; none where none leads.
    fn routes(&self, from: usize, count: usize) -> Vec<Vec<usize>> {
        let mut ways: Vec<Option<Vec<usize>>> = vec![None; self.places];
        ways[from] = Some(Vec::new());
        let mut reached = std::collections::VecDeque::from([from]);
        while let Some(place) = reached.pop_front() {
            for (link, _) in self.between.iter().enumerate().filter(|(_, (start, _))| *start == place) {
                let next = self.between[link].1;
                if ways[next].is_none() {
                    let mut way = ways[place].clone().unwrap_or_default();
                    way.push(link);
                    ways[next] = Some(way);
                    reached.push_back(next);
                }
            }
        }
        ways.truncate(count);
        ways.into_iter().map(Option::unwrap_or_default).collect()
    }
}
