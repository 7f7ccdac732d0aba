//! Every setting of a machine description: the list that reading, checking, `servsim explain` and
//! the resolved description in results all use. Over 400 lines: it is one list.

use crate::setting::{Kind, Setting};

const MS: u64 = 1_000_000_000;
const TABLE_4: &str = "Foglia et al. 2004, Table 4";

const CHOICE: &str = "free choice: the level is absent by default";
const POLICY: Kind = Kind::Choice(&["lru", "fifo", "tree-plru", "random", "srrip"]);
const LEVEL_SIZE: Kind = Kind::CapacityOrNone(64, 1 << 36);
const SHARING: Kind = Kind::Choice(&["private", "group", "shared"]);
const SHARING_MEANING: &str = "Whether each processor has its own, inside the bus, each core group \
     (group.count), or all share one, between bus and memory.";
const INCLUSION: Kind = Kind::Choice(&["inclusive", "exclusive", "neither"]);
const INCLUSION_MEANING: &str = "Which lines of the levels further in it keeps: all (and takes from \
     them what it gives up), none (it takes what they give up), or either.";
const WRITE_MISS: Kind = Kind::Choice(&["allocate", "around"]);
const WRITE_MISS_MEANING: &str =
    "A shared level with inclusion `neither`: what is done with a dirty line or a word \
     that comes from inside and is not there: place it, or pass it on outward (write-no-allocate).";

const LATENCY: Kind = Kind::Cycles(0, 1000);
const R10000: &str = "MIPS R10000: Yeager 1996, Table 1";
const INTEGER_MEANING: &str = "Models `inorder` and `ooo`, which take latencies of traces with machine \
     code only: latency of an addition, shift, logic operation, move between registers or branch; the \
     units accept an instruction every cycle and are as many as `processor.width`.";

/// Shorthand that keeps one setting on few lines.
const fn setting(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
    source: &'static str,
) -> Setting {
    Setting { key, kind, default, meaning, source }
}

/// The settings, in the order of the resolved description.
pub const SETTINGS: &[Setting] = &[
    setting("name", Kind::Text, "unnamed", "Name of the machine in results.", "free choice"),
    setting(
        "processors",
        Kind::Count(1, 1024),
        "4",
        "Number of processors, each with its own cache.",
        "Foglia et al. 2004 section 5 begins with 4",
    ),
    setting(
        "clock",
        Kind::Frequency(1_000_000, 100_000_000_000),
        "1 GHz",
        "Processor clock: turns cycles into time for disks and timers.",
        "Alameldeen et al. 2003 model 1 GHz processors",
    ),
    setting(
        "processor.model",
        Kind::Choice(&["fixed", "inorder", "ooo"]),
        "fixed",
        "How a processor executes: `fixed` takes `cycles_per_reference` for every reference and blocks \
         on a miss; `inorder` starts an instruction when its operands are there; `ooo` runs on until \
         its window is full behind what is not complete. Of traces without machine code the latter two \
         know no operands: `inorder` waits for a load's data at the next instruction, in `ooo` only \
         the window does.",
        "fixed: Foglia et al. 2004; ooo: dependences and window as in Karkhanis & Smith 2004",
    ),
    setting(
        "processor.width",
        Kind::Count(1, 16),
        "4",
        "Models `inorder` and `ooo`: instructions per cycle.",
        "MIPS R10000: Yeager 1996",
    ),
    setting(
        "processor.window",
        Kind::Things("instructions", 1, 4096),
        "64 instructions",
        "Models `inorder` and `ooo`: instructions that may have entered and not left; they leave in \
         order, when complete.",
        "an assumption: twice the 32 of the MIPS R10000 (Yeager 1996); server cores of the 2020s hold \
         some hundreds",
    ),
    setting(
        "processor.branch_penalty",
        Kind::Cycles(0, 1000),
        "5 cycles",
        "Models `inorder` and `ooo`: cycles from the execution of a mispredicted branch to the entry of \
         what comes behind it.",
        "an assumption: five stages from fetch to the branch's execution",
    ),
    setting("processor.integer", LATENCY, "1 cycles", INTEGER_MEANING, R10000),
    setting(
        "processor.multiply",
        LATENCY,
        "6 cycles",
        "Models `inorder` and `ooo`: latency of an integer multiplication.",
        "MIPS R10000: Yeager 1996, Table 1, of 32 bits (10 of 64)",
    ),
    setting(
        "processor.divide",
        LATENCY,
        "35 cycles",
        "Models `inorder` and `ooo`: latency of an integer division.",
        "MIPS R10000: Yeager 1996, Table 1, of 32 bits (67 of 64)",
    ),
    setting(
        "processor.float_add",
        LATENCY,
        "2 cycles",
        "Models `inorder` and `ooo`: latency of a floating-point addition, comparison or conversion.",
        R10000,
    ),
    setting(
        "processor.float_multiply",
        LATENCY,
        "2 cycles",
        "Models `inorder` and `ooo`: latency of a floating-point multiplication, alone or with an addition.",
        R10000,
    ),
    setting(
        "processor.float_divide",
        LATENCY,
        "19 cycles",
        "Models `inorder` and `ooo`: latency of a floating-point division or square root.",
        "MIPS R10000: Yeager 1996, Table 1, of 64 bits (12 of 32)",
    ),
    setting(
        "processor.agen",
        LATENCY,
        "1 cycles",
        "Models `inorder` and `ooo`: cycles from the registers of an address to the look-up; a miss \
         asks for its line then.",
        "MIPS R10000: Yeager 1996: one cycle of address calculation before the cache",
    ),
    setting(
        "processor.load_to_use",
        LATENCY,
        "2 cycles",
        "Models `inorder` and `ooo`: cycles from the registers of an address to the data of a \
         first-level hit, `processor.agen` included.",
        "MIPS R10000: Yeager 1996, Table 1, integer loads (3 of floating point)",
    ),
    setting(
        "processor.cycles_per_reference",
        Kind::Cycles(1, 1000),
        "2 cycles",
        "Processor time of one fetch, load or store that hits, of the model `fixed`.",
        TABLE_4,
    ),
    setting(
        "processor.store_buffer",
        Kind::Things("words", 1, 64),
        "2 words",
        "Stores that may wait while the processor runs on; they are performed in order.",
        "Foglia et al. 2004 section 4: two-word store buffer, processor consistency",
    ),
    setting(
        "processor.outstanding_misses",
        Kind::Count(1, 64),
        "8",
        "Fetches that a processor may have under way at once: loads of the models `inorder` and `ooo`, \
         prefetches, and at most one of a store: misses of stores never overlap one another, because stores \
         leave the buffer in order, each when it is performed. The model `fixed` has at most one load or \
         instruction fetch under way.",
        "Foglia et al. 2004 section 4",
    ),
    setting(
        "cache.size",
        Kind::Capacity(64, 1 << 32),
        "2 MiB",
        "Size of each processor's first-level cache; of each half when it is split.",
        "Foglia et al. 2004 section 5: 128 KiB to 2 MiB",
    ),
    setting(
        "cache.associativity",
        Kind::Count(1, 1 << 20),
        "2",
        "Ways per set.",
        "Foglia et al. 2004 section 5",
    ),
    setting(
        "cache.line",
        Kind::Size(4, 4096),
        "128 B",
        "Bytes per line (block), of every level; at least the word by which sharing is told apart, at most the \
         page of 4 KiB.",
        "Foglia et al. 2004 section 5: 32 to 256 B, most of the gain by 128 B",
    ),
    setting(
        "cache.organisation",
        Kind::Choice(&["unified", "split"]),
        "unified",
        "Whether instructions and data share the first-level cache, or each have one of cache.size.",
        "Foglia et al. 2004 section 4: one cache per processor",
    ),
    setting(
        "cache.replacement",
        POLICY,
        "lru",
        "Which line makes room when all frames of the set hold copies: the least recently used, the one \
         that came first, the one a tree of pointers leads to, any (seeded), or the one predicted to be \
         used last.",
        "Foglia et al. 2004 section 4: lru; srrip: Jaleel et al., ISCA 2010",
    ),
    setting(
        "cache.write_miss",
        WRITE_MISS,
        "allocate",
        "What a store that misses the first level does: bring the line there, or write it in the private second \
         level, which brings it there, and leave the first as it is.",
        "Foglia et al. 2004 section 4: every miss fetches the block",
    ),
    setting(
        "l2.size",
        LEVEL_SIZE,
        "none",
        "Size of a second-level cache: of each processor's, or of the one that all share.",
        "absent: Foglia et al. 2004 section 4 has one level",
    ),
    setting("l2.associativity", Kind::Count(1, 1 << 20), "8", "Ways per set.", CHOICE),
    setting("l2.replacement", POLICY, "lru", "As cache.replacement.", CHOICE),
    setting("l2.sharing", SHARING, "private", SHARING_MEANING, CHOICE),
    setting("l2.inclusion", INCLUSION, "inclusive", INCLUSION_MEANING, CHOICE),
    setting("l2.write_miss", WRITE_MISS, "allocate", WRITE_MISS_MEANING, CHOICE),
    setting(
        "l2.latency",
        Kind::Cycles(1, 10_000),
        "12 cycles",
        "Time of a hit beyond that of a first-level hit; of a shared level, beyond that of the bus.",
        CHOICE,
    ),
    setting(
        "l3.size",
        LEVEL_SIZE,
        "none",
        "Size of a third-level cache: of each processor's, or of the one that all share.",
        "absent: Foglia et al. 2004 section 4 has one level",
    ),
    setting("l3.associativity", Kind::Count(1, 1 << 20), "16", "Ways per set.", CHOICE),
    setting("l3.replacement", POLICY, "lru", "As cache.replacement.", CHOICE),
    setting("l3.sharing", SHARING, "private", SHARING_MEANING, CHOICE),
    setting("l3.inclusion", INCLUSION, "inclusive", INCLUSION_MEANING, CHOICE),
    setting("l3.write_miss", WRITE_MISS, "allocate", WRITE_MISS_MEANING, CHOICE),
    setting(
        "l3.latency",
        Kind::Cycles(1, 10_000),
        "40 cycles",
        "Time of a hit beyond that of a first-level hit; of a shared level, beyond that of the bus.",
        CHOICE,
    ),
    setting(
        "prefetch.policy",
        Kind::Choice(&["none", "next-line", "stride"]),
        "none",
        "What each processor fetches before it is asked for: nothing; the next lines after a miss and \
         after the first use of a prefetched line; or what continues the stride of a load or store.",
        "next-line: Smith 1982 (tagged); stride: Chen & Baer 1995",
    ),
    setting(
        "prefetch.degree",
        Kind::Count(1, 16),
        "1",
        "Lines or strides ahead; never beyond the page.",
        "Smith 1982: one line",
    ),
    setting(
        "prefetch.level",
        Kind::Choice(&["l1", "l2"]),
        "l1",
        "Level that takes prefetched lines: the first, or the private second one without the first.",
        "free choice",
    ),
    setting(
        "prefetch.entries",
        Kind::Count(1, 1 << 16),
        "512",
        "Policy `stride`: entries of the table of instructions.",
        "an assumption of the order of Chen & Baer 1995",
    ),
    setting(
        "write_buffer.entries",
        Kind::Count(0, 64),
        "0",
        "Timing engine: dirty lines that a processor may have given up and not yet written back. Requests \
         of all processors look there; a full buffer is emptied before its processor gets another block. \
         0: memory has a line as soon as it is given up, and write-backs are urgent when four wait.",
        "absent: Foglia et al. 2004 section 4 has none",
    ),
    setting(
        "tlb.entries",
        Kind::Count(0, 1 << 16),
        "0",
        "Entries of each processor's translation look-aside buffer, for pages of 4 KiB; of each half when \
         it is split. 0: addresses are translated in no time.",
        "absent: Foglia et al. 2004 section 4 has none",
    ),
    setting(
        "tlb.associativity",
        Kind::Count(1, 1 << 16),
        "4",
        "Ways per set; as many as entries for a fully associative buffer.",
        "an assumption: 4 ways are usual",
    ),
    setting(
        "tlb.organisation",
        Kind::Choice(&["split", "unified"]),
        "split",
        "Whether instructions and data have one first-level buffer each, or share one.",
        "common practice (Intel SDM volume 3, section 4.10)",
    ),
    setting(
        "tlb.l2_entries",
        Kind::Count(0, 1 << 20),
        "0",
        "Entries of a second level for instructions and data; 0 leaves it out.",
        "free choice: the level is absent by default",
    ),
    setting(
        "tlb.l2_associativity",
        Kind::Count(1, 1 << 20),
        "4",
        "Ways per set of the second level.",
        "an assumption: 4 ways are usual",
    ),
    setting(
        "tlb.l2_latency",
        Kind::Cycles(1, 1000),
        "7 cycles",
        "Time that a look-up answered by the second level keeps the processor waiting.",
        "an assumption: as a second-level cache of the same size",
    ),
    setting(
        "tlb.on_switch",
        Kind::Choice(&["flush", "keep"]),
        "flush",
        "What happens at a switch of address space: entries go, except the kernel's, which are global; or \
         they are tagged with their address space and stay.",
        "Intel SDM volume 3, section 4.10.4.1: MOV to CR3 without and with PCIDs",
    ),
    setting(
        "tlb.walk_entries",
        Kind::Count(0, 1024),
        "32",
        "Entries of the page-walk cache, which holds entries of the three upper levels of the page tables.",
        "an assumption; the design: Barr, Cox & Rixner, ISCA 2010",
    ),
    setting(
        "tlb.walk_step",
        Kind::Cycles(1, 1000),
        "2 cycles",
        "Time of one page-walk reference that hits in the first-level cache; misses take theirs besides.",
        "as a load: Foglia et al. 2004, Table 4",
    ),
    setting(
        "tlb.plain_addresses",
        Kind::Choice(&["refuse", "identity"]),
        "refuse",
        "What to do with a trace that gives one address per reference and does not tell virtual ones: \
         refuse it, or take the address as both the virtual and the physical one, in one address space \
         for all tasks.",
        "captured traces tell virtual addresses and processes",
    ),
    setting(
        "protocol.name",
        Kind::Choice(&["mesi", "moesi", "mesif", "mosi", "amsd", "pscr"]),
        "mesi",
        "Coherence protocol.",
        "Foglia et al. 2004 section 2",
    ),
    setting(
        "protocol.supplier",
        Kind::Choice(&["dirty-only", "any-copy"]),
        "dirty-only",
        "Which cache supplies a block that others fetch: only the dirty owner, or any holder.",
        "Foglia et al. 2004 cite the Pentium Pro, which supplies modified blocks only",
    ),
    setting(
        "protocol.asynchronous",
        Kind::Choice(&["all", "writes"]),
        "all",
        "Which transactions of stores drain from the store buffer without stalling: all, or only \
         writes of one word (invalidates and fetches then stall the processor).",
        "Foglia et al. 2004 grant it to writes; `all` favours no protocol",
    ),
    setting(
        "protocol.migratory_write_miss",
        Kind::Choice(&["drop", "keep"]),
        "drop",
        "AMSD: what a write miss on a migratory dirty block does to the classification.",
        "assumption: the block is an ordinary one again; the published descriptions do not say",
    ),
    setting(
        "protocol.migratory_evidence",
        Kind::Choice(&["one", "two"]),
        "one",
        "AMSD: how many hand-overs from writer to reader that writes show that a block migrates; \
         `two` is the conservative form and takes two more states.",
        "Cox & Fowler 1993 and Stenstrom et al. 1993: one",
    ),
    setting(
        "protocol.migratory_start",
        Kind::Choice(&["ordinary", "migratory"]),
        "ordinary",
        "AMSD: how a block fetched by one cache alone begins.",
        "assumption: a block is ordinary until it was seen to migrate",
    ),
    setting(
        "protocol.private_handover",
        Kind::Choice(&["move", "update-memory"]),
        "move",
        "PSCR: whether a dirty private block that moves to another cache also updates memory.",
        "assumption: memory is written at eviction, as for every dirty block",
    ),
    setting(
        "protocol.word_write",
        Kind::Choice(&["owner", "update-memory"]),
        "owner",
        "PSCR: whether a word written to a shared block leaves memory to its owner, or goes to \
         memory too (four states).",
        "assumption: the five states published for PSCR imply an owner",
    ),
    setting(
        "protocol.private_supplier",
        Kind::Choice(&["as-shared", "dirty-only", "any-copy"]),
        "as-shared",
        "PSCR: which cache supplies a block fetched for a private page; `as-shared` follows \
         protocol.supplier.",
        "assumption: as for every other block; the published descriptions do not say",
    ),
    setting(
        "protocol.private_kernel",
        Kind::Choice(&["shared", "per-process"]),
        "shared",
        "Whether the kernel's data of one process (its kernel stack and what else lies on pages \
         that only it uses) count as private: PSCR+K with protocol pscr.",
        "Foglia et al. 2004 section 2: PSCR could be extended to this kernel data",
    ),
    setting(
        "protocol.private_on_switch",
        Kind::Choice(&["keep", "flush"]),
        "keep",
        "What happens to the private copies of a task that leaves its processor: they stay, or are \
         written back if dirty and dropped.",
        "Foglia et al. 2004 section 2: flushing gave the worst results for every protocol",
    ),
    setting(
        "bus.invalidate",
        Kind::Cycles(1, 100_000),
        "5 cycles",
        "Time of an invalidate transaction.",
        TABLE_4,
    ),
    setting(
        "bus.write",
        Kind::Cycles(1, 100_000),
        "5 cycles",
        "Time of a write (one-word update) transaction.",
        TABLE_4,
    ),
    setting(
        "bus.memory_read",
        Kind::Cycles(1, 100_000),
        "64 cycles",
        "Latency of a block fetched from memory, without moving its bytes.",
        "Foglia et al. 2004, Table 4: 64 + B/8",
    ),
    setting(
        "bus.cache_read",
        Kind::Cycles(1, 100_000),
        "8 cycles",
        "Latency and occupancy of a block supplied by a cache, without moving its bytes; also the \
         occupancy of the address phase of a memory fetch.",
        "Foglia et al. 2004, Table 4: 8 + B/8",
    ),
    setting(
        "bus.intervention",
        Kind::Cycles(0, 100_000),
        "0 cycles",
        "What a block from the caches of a processor takes longer than bus.cache_read; a shared level answers \
         without it.",
        "Foglia et al. 2004, Table 4: 8 + B/8 is the whole",
    ),
    setting(
        "bus.write_back",
        Kind::Cycles(1, 100_000),
        "4 cycles",
        "Time of a write-back (Foglia et al. 2004: update-block), without moving its bytes.",
        "Foglia et al. 2004, Table 4: 4 + B/8",
    ),
    setting(
        "bus.bytes_per_cycle",
        Kind::Size(1, 4096),
        "8 B",
        "Bytes that the bus moves per processor cycle.",
        "Foglia et al. 2004, Table 4: B/8 for a 128-bit bus",
    ),
    setting(
        "bus.memory_hold",
        Kind::Cycles(0, 100_000),
        "0 cycles",
        "How much of a memory fetch's latency the bus stays occupied beyond its two phases: 0 is \
         fully split, 56 holds the bus throughout.",
        "calibrated: the bus use that Foglia et al. 2004 print fits no single value; 0 is a fully split bus",
    ),
    setting(
        "bus.arbitration",
        Kind::Choice(&["round-robin", "fifo"]),
        "round-robin",
        "Order among requests of one class that wait for the bus: by turns of the processors, or (fifo) as \
         they were made; fetches come before invalidates and writes, those before write-backs.",
        "assumption: fetches stall a processor, writes do not; Foglia et al. 2004 do not say",
    ),
    setting(
        "interconnect.kind",
        Kind::Choice(&["bus", "crossbar", "network"]),
        "bus",
        "What joins processors and memory: one bus for addresses and data, an ordered crossbar whose \
         data take a port of the sender and one of the receiver, or a network with a link for each pair.",
        "Foglia et al. 2004 section 4: a bus",
    ),
    setting(
        "interconnect.order",
        Kind::Cycles(1, 100_000),
        "5 cycles",
        "Time that a transaction takes the order point of a crossbar or network.",
        "an assumption: an invalidate of Foglia et al. 2004, Table 4, which is an address alone",
    ),
    setting(
        "interconnect.hop",
        Kind::Cycles(0, 100_000),
        "10 cycles",
        "Time that a line travels over a link of a network beyond moving its bytes.",
        "an assumption",
    ),
    setting(
        "group.count",
        Kind::Count(1, 64),
        "1",
        "Core groups: neighbouring processors, as many in each, that share a level of their own, the one with sharing \
         `group`; 1 for none.",
        "Foglia et al. 2004 section 4: one level",
    ),
    setting(
        "group.crossing",
        Kind::Cycles(0, 100_000),
        "0 cycles",
        "What a fetch from a cache of another core group, or an invalidation there, takes longer than within a group; \
         between nodes beside the way of its packets.",
        "free choice: there are no groups by default",
    ),
    setting(
        "node.count",
        Kind::Count(1, 64),
        "1",
        "Nodes, each with processors, memory or both, joined by a network (interconnect.kind); 1 for one memory that \
         is equally far from all processors.",
        "Foglia et al. 2004 section 4: one bus",
    ),
    setting(
        "node.processors",
        Kind::Text,
        "even",
        "How many processors each node has: `even`, or a number for each, with commas; 0 for a node of memory alone.",
        "free choice",
    ),
    setting(
        "node.memory",
        Kind::Text,
        "unlimited",
        "Memory of each node, one value or one for each, with commas: a size, `unlimited` or `none`. Pages that find \
         their node full lie in the nearest one with room.",
        "free choice",
    ),
    setting(
        "node.memory_latency",
        Kind::Text,
        "0 cycles",
        "Time of a read of a node's memory beyond bus.memory_read, one value or one for each node, with commas.",
        "free choice: all memories alike",
    ),
    setting(
        "node.memory_bytes_per_cycle",
        Kind::Text,
        "unlimited",
        "Bytes that a node's memory reads or writes per cycle, one value or one for each node, with commas.",
        "Foglia et al. 2004, Table 4 knows no contention of memory",
    ),
    setting(
        "node.links",
        Kind::Text,
        "switch",
        "What joins the nodes: `switch` (a link from each to a switch), `direct` (one between each two), or a list \
         such as `1-2 2-3`. Every link carries packets both ways at once; packets take a shortest way.",
        "Brock et al. 2001 section 2: four nodes at a switch",
    ),
    setting(
        "node.hop",
        Kind::Cycles(0, 100_000),
        "25 cycles",
        "Time of a packet over one link, without its bytes; two links with a switch.",
        "Martin et al. 2002: 50 ns across the network, at 1 GHz",
    ),
    setting(
        "node.local",
        Kind::Cycles(0, 100_000),
        "0 cycles",
        "Time of a packet from a node to itself: that of a network in which even these must take their turn.",
        "free choice: a node reaches its own memory at once",
    ),
    setting(
        "node.distances",
        Kind::Text,
        "links",
        "One-way times of packets without their bytes, in place of those of node.hop: `links`, or a row for each \
         sender, with semicolons, of times with commas.",
        "free choice",
    ),
    setting(
        "node.link_bytes_per_cycle",
        Kind::Text,
        "4 B",
        "Bytes that a link moves per processor cycle, each way: from 0.001 B to 4096 B.",
        "an assumption",
    ),
    setting(
        "node.request",
        Kind::Things("B", 1, 1024),
        "16 B",
        "Size of a packet without a line.",
        "Brock et al. 2001: 16 B",
    ),
    setting(
        "node.header",
        Kind::Things("B", 1, 1024),
        "16 B",
        "Size of a packet with a line, beyond that of the line.",
        "Brock et al. 2001: 48 B with a line of 32 B",
    ),
    setting(
        "node.placement",
        Kind::Choice(&["first-touch", "remote", "striped", "fill"]),
        "first-touch",
        "Which node's memory a page lies in, decided at its first miss: the node of the processor that misses, the \
         next node after that, each node in turn by the page's number, or the first node until its memory is full.",
        "Linux, `Documentation/admin-guide/mm/numa_memory_policy.rst`: local allocation is the default",
    ),
    setting(
        "node.stride",
        Kind::Count(1, 1_048_576),
        "1",
        "Placement `striped`: pages that lie in one node before the next is taken.",
        "Brock et al. 2001: stripes of a page",
    ),
    setting(
        "node.threads",
        Kind::Choice(&["free", "fill", "round-robin", "pinned"]),
        "free",
        "Where the server's processes and threads run: anywhere; dealt to nodes in the order of the trace, to a node as \
         many as it has processors before the next (fill) or one to each in turn (round-robin), where they stay; or \
         one to each processor (pinned). Kernel threads, interrupts and the load generator run anywhere.",
        "free choice; fill and round-robin: Brock et al. 2001",
    ),
    setting(
        "node.coherence",
        Kind::Choice(&["snooping", "directory", "bash", "messages"]),
        "snooping",
        "Whom a request between nodes goes to: all nodes; the home of its line, which forwards it to the owner and \
         invalidates sharers; or either, as the links of the asking node have room. `messages`: each node has a bus of its \
         own, and homes and coherence units send one another requests, forwards and responses.",
        "free choice: everybody sees everything, as on a bus",
    ),
    setting(
        "node.directory",
        Kind::Cycles(0, 100_000),
        "80 cycles",
        "Time of a look-up in a home's directory, which a read of memory does not wait for.",
        "Martin et al. 2002: 80 ns for memory and directory, at 1 GHz",
    ),
    setting(
        "node.request_buffers",
        Kind::Count(1, 65_536),
        "16",
        "Requests of other nodes that a home has room for; further ones wait where they come from.",
        "free choice: as many as four processors in each of four nodes have under way",
    ),
    setting(
        "node.forward_buffers",
        Kind::Count(1, 65_536),
        "16",
        "Forwards and invalidations that a node has room for; homes order nothing that leads to more.",
        "free choice: as many as requests",
    ),
    setting(
        "node.deadlock_threshold",
        Kind::Cycles(1, 1_000_000_000_000),
        "5000000 cycles",
        "Age of a request between nodes at which the run ends as one that is stuck.",
        "free choice: a thousand times what a request takes on busy links",
    ),
    setting(
        "node.bash_interval",
        Kind::Cycles(1, 10_000_000),
        "512 cycles",
        "BASH: cycles between samples of the links into a node, after each of which its counter moves.",
        "Martin et al. 2002",
    ),
    setting(
        "node.bash_threshold",
        Kind::Things("%", 1, 99),
        "75 %",
        "BASH: utilisation of these links above which the counter grows, and below which it falls.",
        "Martin et al. 2002: a counter that grows by 1 in a busy cycle and falls by 3 in an idle one",
    ),
    setting(
        "node.bash_dead_band",
        Kind::Things("%", 0, 99),
        "0 %",
        "BASH: points that the utilisation must differ from the threshold by for the counter to move.",
        "Martin et al. 2002: none",
    ),
    setting(
        "node.bash_counter_bits",
        Kind::Count(1, 16),
        "8",
        "BASH: bits of the counter; a request goes to the home alone if a random number of as many bits is below it. \
         It begins in the middle.",
        "Martin et al. 2002",
    ),
    setting(
        "node.migration",
        Kind::Choice(&["none", "drain", "next-touch", "replicate", "tiering"]),
        "none",
        "When pages move: never; all of a node that is to leave (drain); to the node of the processor that asks for them \
         first after they were marked (next-touch); copies of what is only read to nodes that ask for it (replicate); or, \
         where samples show that they are used much, from nodes without processors to nodes with some, and others back \
         (tiering).",
        "free choice: pages stay",
    ),
    setting(
        "node.migration_interval",
        Kind::Cycles(1, 1_000_000_000_000),
        "10000000 cycles",
        "Migration: cycles between marks of all pages (next-touch), or between runs of who moves pages (drain, tiering).",
        "Raybuck et al. 2021 (HeMem): 10 ms, at 1 GHz",
    ),
    setting(
        "node.migration_work",
        Kind::Cycles(0, 10_000_000),
        "4000 cycles",
        "Migration: kernel work of a move that a processor waits for, beside the copy.",
        "an assumption",
    ),
    setting(
        "node.shootdown",
        Kind::Cycles(0, 10_000_000),
        "2000 cycles",
        "Migration: what a move takes from every processor that runs something, which is interrupted to forget the \
         translation of the page.",
        "an assumption",
    ),
    setting(
        "node.migration_pages",
        Kind::Count(1, 1_048_576),
        "64",
        "Migration `drain` and `tiering`: pages that are moved in one interval, at most.",
        "free choice",
    ),
    setting(
        "node.sample_period",
        Kind::Count(1, 1_000_000),
        "16",
        "Migration `tiering`: one of so many requests to the interconnect is sampled.",
        "free choice; Raybuck et al. 2021 sample one of 5,000 loads, in runs of minutes",
    ),
    setting(
        "node.hot_threshold",
        Kind::Count(1, 1_000_000),
        "4",
        "Migration `tiering`: samples of a page from which on it is hot, halved after each interval. Migration `replicate`: \
         requests of a node for lines of a page that make it get a copy.",
        "free choice; Raybuck et al. 2021: 8 loads or 4 stores",
    ),
    setting(
        "node.drained",
        Kind::Count(0, 1024),
        "0",
        "Migration `drain`: the node, from 2, that gives up its pages; 0 for none. It gets no new ones from the end of the \
         first interval on.",
        "free choice",
    ),
    setting(
        "memory.banks",
        Kind::Count(1, 1024),
        "4",
        "Memory banks; consecutive lines lie in consecutive banks.",
        "an assumption",
    ),
    setting(
        "memory.bank_time",
        Kind::Cycles(0, 100_000),
        "0 cycles",
        "Time that one access keeps a memory bank busy; 0 for banks that are never in the way.",
        "Foglia et al. 2004, Table 4 knows no contention of memory",
    ),
    setting(
        "memory.mapping",
        Kind::Choice(&["captured", "sequential", "scattered", "coloured"]),
        "captured",
        "Which frame each page of the trace lies in: the one it had when captured, the next one at its \
         first touch, any (seeded), or one of the colour of its virtual page (frames of one colour share \
         the sets of the largest cache). Sharing and privacy of pages stay.",
        "captured: nothing assumed; coloured: Kessler & Hill, ACM TOCS 10(4) 1992",
    ),
    setting(
        "memory.mapping_seed",
        Kind::Count(0, 1 << 62),
        "1",
        "Mapping `scattered`: seed of the frames drawn. The same for all replications, so that designs \
         compare on one mapping; a factor of a sweep for several.",
        "free choice",
    ),
    setting(
        "scheduler.policy",
        Kind::Choice(&["random", "affinity"]),
        "random",
        "Which ready task a free processor takes: any, or one that last ran there if there is one.",
        "Foglia et al. 2004 section 4; affinity: Squillante & Lazowska 1993",
    ),
    setting(
        "scheduler.time_slice",
        Kind::Things("references", 100, 1_000_000_000),
        "200000 references",
        "References a task may make before another ready task takes its processor.",
        "Foglia et al. 2004 section 4",
    ),
    setting(
        "locks.arbitrated",
        Kind::Choice(&["all", "spinlocks", "off"]),
        "all",
        "Which recorded locks are taken again in simulated time, so that replications differ in who \
         comes first: all, spinlocks only, or none. What is not taken again is waited for where the \
         capture waited.",
        "Alameldeen et al. 2003: runs diverge when locks are taken in another order",
    ),
    setting(
        "locks.spin_interval",
        Kind::Cycles(1, 10_000),
        "20 cycles",
        "Time between two loads of a lock's word by a processor that spins.",
        "an assumption: a load, a comparison, a jump and a pause of the Pentium 4 generation",
    ),
    setting(
        "clients.place",
        Kind::Choice(&["here", "elsewhere"]),
        "here",
        "Where the tasks of the load generator run: on this machine's processors as all others, or on a machine \
         of their own, which has a processor for each of them and is reached over a network.",
        "here: as captured; elsewhere: Foglia et al. 2004, sections 3 and 5.3",
    ),
    setting(
        "clients.cycles_per_reference",
        Kind::Cycles(1, 100_000),
        "2 cycles",
        "Time of a reference of theirs elsewhere, waits for that machine's memory included.",
        "Foglia et al. 2004, Table 4: a hit",
    ),
    setting(
        "clients.latency",
        Kind::Time(0, 10_000 * MS),
        "50 us",
        "Time until a wake-up of theirs reaches a task here, or one from here them: once across the network, with \
         its adapters.",
        "an assumption: switched Gigabit Ethernet, half of a round trip of 100 us",
    ),
    setting(
        "disk.read_time",
        Kind::Time(0, 100_000 * MS),
        "5.8 ms",
        "Fixed service time of a disk read.",
        "10,000 rpm drive: 3.0 ms half a turn, 2.5 ms short seek, 0.3 ms transfer",
    ),
    setting(
        "disk.write_time",
        Kind::Time(0, 100_000 * MS),
        "500 us",
        "Fixed service time of a disk write.",
        "controller with a battery-backed write cache, an assumption",
    ),
    setting(
        "disk.parallel",
        Kind::Count(1, 4096),
        "8",
        "Requests that are served at the same time; others wait in order of arrival.",
        "an assumption: eight spindles",
    ),
    setting(
        "disk.flushes",
        Kind::Choice(&["apart", "shared"]),
        "apart",
        "Flushes of the pool's cache: each a write of its own, or one at a time that serves all who wait \
         for it, as `disk.write_time` long.",
        "shared: Linux block/blk-flush.c; group commit of database logs",
    ),
    setting(
        "disk.count",
        Kind::Count(0, 256),
        "0",
        "Single disks, each with a queue of its own; 0 for a pool of `disk.parallel` servers with fixed \
         times that serve every request in order of arrival, without I/O buses.",
        "free choice; Du et al. 2001, Table 9 compares 1, 2 and 4 disks",
    ),
    setting(
        "disk.model",
        Kind::Text,
        "fixed",
        "How long a single disk takes: `fixed` (`disk.read_time`, `disk.write_time`), the known drives \
         `hp97560` and `hp335h` (seeks, rotation, read-ahead), or the path of a model file of \
         `servsim disk fit`.",
        "hp97560: Ruemmler & Wilkes 1994, the drive of the simulator that Du et al. 2001 used",
    ),
    setting(
        "disk.scheduler",
        Kind::Choice(&["as-model", "fcfs", "sstf", "c-scan"]),
        "as-model",
        "Which waiting request a single disk serves next; `as-model` is what a fitted model inferred, \
         otherwise order of arrival.",
        "free choice",
    ),
    setting(
        "disk.medium_rate",
        Kind::Things("kB/s", 0, 100_000_000),
        "0 kB/s",
        "Rate at which data pass the medium of a `fixed` single disk, beside its fixed time; 0 if the \
         fixed time holds everything.",
        "Du et al. 2001, Table 7: 256 B in 42,000 cycles of 200 MHz are 1219 kB/s",
    ),
    setting(
        "io.buses",
        Kind::Count(0, 64),
        "0",
        "I/O buses between single disks and memory; 0 if none is ever in the way.",
        "free choice; Du et al. 2001, Table 9 compares 1 and 2",
    ),
    setting(
        "io.attach",
        Kind::Text,
        "even",
        "The bus of each single disk, in order, such as `1 1 2 2`; `even` gives neighbouring disks the same.",
        "Du et al. 2001, section 5.2: disks 1 and 2 on bus 1, disks 3 and 4 on bus 2",
    ),
    setting(
        "io.rate",
        Kind::Things("kB/s", 1, 100_000_000),
        "10000 kB/s",
        "Rate at which an I/O bus moves data.",
        "Du et al. 2001, Table 7: SCSI-2, 256 B in 5,120 cycles of 200 MHz",
    ),
    setting(
        "io.overhead",
        Kind::Time(0, 1000 * MS),
        "600 ns",
        "Time of a command on an I/O bus.",
        "Du et al. 2001, Table 7: I/O bus request latency, 120 cycles of 200 MHz",
    ),
    setting(
        "io.hold_on_read",
        Kind::Choice(&["no", "yes"]),
        "no",
        "Whether a read keeps its I/O bus while the disk positions and reads.",
        "Du et al. 2001, section 2.2: released",
    ),
    setting(
        "io.hold_on_write",
        Kind::Choice(&["no", "yes"]),
        "yes",
        "Whether a write keeps its I/O bus until it is on the medium.",
        "Du et al. 2001, Equation 3.7: held",
    ),
    setting(
        "placement.relations",
        Kind::Text,
        "none",
        "Relations of the database on single disks, such as `1: stock item; 2: customer`; an index goes \
         by its own name.",
        "Du et al. 2001, Equations 5.11 to 5.13",
    ),
    setting(
        "placement.files",
        Kind::Text,
        "none",
        "The same for files of the captured system by their names, such as `2: pg_wal`; what lies in a \
         folder named here goes with it.",
        "free choice",
    ),
    setting(
        "placement.sectors",
        Kind::Text,
        "none",
        "The same for sectors of 512 bytes of a captured disk, such as `1: vda 0-2047`; they go before \
         files, files before relations.",
        "free choice",
    ),
    setting(
        "placement.rest",
        Kind::Text,
        "stripe",
        "The single disk of everything else, or `stripe` to spread it over all of them.",
        "free choice",
    ),
    setting(
        "placement.stripe",
        Kind::Size(512, 1 << 40),
        "64 KiB",
        "Striping unit of `placement.rest`.",
        "an assumption: the default of Linux's software RAID was 64 KiB until 2010",
    ),
    setting(
        "perturbation.memory_delay",
        Kind::Cycles(0, 10_000),
        "4 cycles",
        "Each block fetch takes a random time, uniform over this many cycles around the latency, \
         whose mean stays the same; an even number.",
        "Alameldeen et al. 2003: small random delays give runs their natural variability",
    ),
    setting(
        "classification.replacement",
        Kind::Choice(&["exact", "merged"]),
        "exact",
        "Whether conflict misses are told from capacity misses, which needs a fully associative \
         shadow of each cache; `merged` counts both as capacity and runs faster.",
        "Hill & Smith 1989: three classes of misses, by an LRU shadow",
    ),
    setting(
        "classification.sharing",
        Kind::Choice(&["lifetime", "at-miss"]),
        "lifetime",
        "How true sharing is told from false: by every word used until the copy is lost, or by the \
         missing words alone.",
        "lifetime: Dubois et al. 1993; at-miss: Torrellas, Lam & Hennessy 1994",
    ),
];

/// The setting with `key`.
pub fn setting_named(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.key == key)
}
