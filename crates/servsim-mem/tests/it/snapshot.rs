//! A memory system that was saved and restored goes on exactly as the one that was saved.

use servsim_core::{CpuId, LineAddr, RandomStream};
use servsim_mem::protocol::{by_name, Options, Rules, PROTOCOLS};
use servsim_mem::snapshot::{Reader, Writer};
use servsim_mem::{
    Access, Counters, Geometry, Hierarchy, HierarchySpec, Inclusion, LevelSpec, Page, WordMask,
};

pub const CPUS: usize = 3;

fn level(size: u64, inclusion: Inclusion, replacement: &str) -> LevelSpec {
    let geometry = Geometry { size, ways: 4, line: 64 };
    LevelSpec { geometry, replacement: replacement.into(), inclusion, write_around: false }
}

/// Shapes of every kind; random replacement begins a new random stream and so is left out.
pub fn shapes() -> Vec<HierarchySpec> {
    let one = HierarchySpec::default;
    let mut shapes = vec![one(), HierarchySpec { split: true, ..one() }];
    for (inclusion, replacement) in
        [(Inclusion::Inclusive, "srrip"), (Inclusion::Exclusive, "fifo"), (Inclusion::Neither, "tree-plru")]
    {
        let private = vec![level(4096, inclusion, replacement)];
        let shared = vec![level(8192, inclusion, "lru")];
        let replacement = replacement.to_owned();
        shapes.push(HierarchySpec { replacement, private, split: true, ..one() });
        shapes.push(HierarchySpec { shared, ..one() });
    }
    shapes
}

pub fn empty(spec: &HierarchySpec, protocol: &str, flush: bool) -> Hierarchy<u16> {
    let rules = Rules { flush_private: flush, ..Rules::default() };
    let table = by_name(protocol, &Options { rules, ..Options::default() }).unwrap();
    Hierarchy::new(CPUS, Geometry { size: 1024, ways: 2, line: 64 }, table, true, spec)
}

fn go(caches: &mut Hierarchy<u16>, random: &mut RandomStream, steps: usize) {
    let mut running = [0_u32; CPUS];
    for _ in 0..steps {
        let cpu = random.below(CPUS as u64) as usize;
        if random.below(20) == 0 {
            running[cpu] = random.below(5) as u32;
        }
        caches.system.run_task(CpuId(cpu), running[cpu]);
        let (line, word) = (random.below(150), random.below(16) * 4);
        let access = Access {
            at: CpuId(cpu),
            line: LineAddr(line),
            words: u16::of_bytes(word, word),
            write: random.below(3) == 0,
            kernel: random.below(4) == 0,
            task: running[cpu],
            slot: random.below(3) as usize,
        };
        let access = Access { write: access.write && access.slot != 0, ..access };
        caches.access(&access, |_| Page::from(line < 40));
    }
}

pub fn saved(caches: &Hierarchy<u16>) -> Vec<u8> {
    let mut out = Writer::default();
    caches.save(&mut out);
    out.into_bytes()
}

fn since(caches: &Hierarchy<u16>, before: &[Counters]) -> Vec<Counters> {
    let now = caches.processor_counters();
    now.iter().zip(before).map(|(now, before)| now.since(before)).collect()
}

#[test]
fn a_restored_hierarchy_goes_on_as_the_one_that_was_saved() {
    for spec in shapes() {
        for (number, protocol) in PROTOCOLS.iter().map(|entry| entry.0).enumerate() {
            let flush = spec == HierarchySpec::default() && number % 2 == 0;
            let mut random = RandomStream::new(number as u64, "snapshot");
            let mut first = empty(&spec, protocol, flush);
            go(&mut first, &mut random, 4_000);
            let bytes = saved(&first);
            let mut second = empty(&spec, protocol, flush);
            let mut reader = Reader::new(&bytes);
            second.restore(&mut reader).unwrap();
            reader.end().unwrap();
            assert!(saved(&second) == bytes, "{protocol} {spec:?}: the state is all there");
            let (before, levels) = (first.processor_counters(), first.counters());
            go(&mut first, &mut random.clone(), 4_000);
            go(&mut second, &mut random, 4_000);
            let of_first = since(&first, &before);
            let of_second = since(&second, &vec![Counters::default(); CPUS]);
            assert!(of_first == of_second, "{protocol} {spec:?}");
            assert!(of_first[0].total_misses() > 100);
            for (((name, now), (_, before)), (_, other)) in
                first.counters().iter().zip(&levels).zip(&second.counters())
            {
                assert_eq!(now.since(before), *other, "{protocol} {name} {spec:?}");
            }
            assert!(saved(&first) == saved(&second), "{protocol} {spec:?}");
        }
    }
}

#[test]
fn damaged_states_are_refused_or_harmless_and_never_a_panic() {
    let mut random = RandomStream::new(1, "damage");
    for spec in shapes() {
        let mut caches = empty(&spec, "mesi", false);
        go(&mut caches, &mut random, 100);
        let bytes = saved(&caches);
        for place in 0..bytes.len() {
            let mut reader = Reader::new(&bytes[..place]);
            assert!(empty(&spec, "mesi", false).restore(&mut reader).is_err(), "cut at {place}");
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << random.below(8);
            let mut reader = Reader::new(&damaged);
            let _ = empty(&spec, "mesi", false).restore(&mut reader).and_then(|()| reader.end());
        }
    }
}
