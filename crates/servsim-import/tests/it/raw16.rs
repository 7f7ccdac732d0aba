//! The first pass over raw16 files agrees with a plain set of pages, and the second with the first.

use servsim_core::reference::KERNEL;
use servsim_core::{Batch, GlobalSource, Op, RandomStream, Record};
use servsim_import::raw16::Raw16;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

fn record(address: u64, size: u8, cpu: u16, pid: u16) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_le_bytes());
    bytes[9] = size;
    bytes[12..14].copy_from_slice(&cpu.to_le_bytes());
    bytes[14..].copy_from_slice(&pid.to_le_bytes());
    bytes
}

fn file_of(records: &[[u8; 16]]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&records.concat()).unwrap();
    file
}

/// Pages and processes chosen to meet in the filter: few low bits, many high ones.
fn random_records(random: &mut RandomStream, length: u64) -> Vec<[u8; 16]> {
    let mut one = |_| {
        let page = random.below(6) | random.below(3) << 12 | random.below(2) << 40 | random.below(2) << 51;
        let pid = random.below(3) | random.below(2) << 11 | random.below(16) << 12;
        let size = 1 + random.below(255);
        let offset = if random.below(8) == 0 { 4000 } else { 8 };
        // Not the last page, where an access of this size would leave the address space.
        record((page << 12) + offset, size as u8, random.below(4) as u16, pid as u16)
    };
    (0..length).map(&mut one).collect()
}

#[test]
fn a_page_is_private_exactly_when_one_process_touches_it() {
    for seed in 0..60 {
        let mut random = RandomStream::new(seed, "raw16");
        // Up to four of the stretches in which a file is read.
        let length = 2 + random.below(16_000);
        let records = random_records(&mut random, length);
        let mut touched: BTreeMap<u64, BTreeSet<u16>> = BTreeMap::new();
        for bytes in &records {
            let address = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let pid = u16::from_le_bytes(bytes[14..].try_into().unwrap());
            for byte in address..address + u64::from(bytes[9]) {
                touched.entry(byte >> 12).or_default().insert(pid);
            }
        }
        let file = file_of(&records);
        let threads = 1 + seed as usize % 4;
        let source = Raw16::open_on(file.path(), 4, threads).unwrap();
        for (page, pids) in touched {
            let record = Record::new(0, Op::Load, page << 12, 1);
            let private = source.privacy().is_private(&record);
            assert_eq!(private, pids.len() == 1, "page {page:#x}, seed {seed}, {threads} threads");
        }
        // Tasks are numbered as their processes come.
        let mut came: Vec<u32> = Vec::new();
        for bytes in &records {
            let pid = u32::from(u16::from_le_bytes(bytes[14..].try_into().unwrap()));
            if !came.contains(&pid) {
                came.push(pid);
            }
        }
        let told: Vec<u32> = source.tasks().iter().map(|task| task.pid).collect();
        assert_eq!(told, came, "seed {seed}, {threads} threads");
    }
}

#[test]
fn a_file_that_changes_between_the_passes_is_refused() {
    let records: Vec<_> = (0..5000).map(|i| record(i * 64, 4, 0, 7)).collect();
    let file = file_of(&records);
    let mut source = Raw16::open(file.path(), 1).unwrap();
    let mut other = records.clone();
    other[4500][12] = 9; // a processor that the machine does not have
    std::fs::write(file.path(), other.concat()).unwrap();
    let mut batch = Batch::default();
    let fault = loop {
        match source.next_batch(&mut batch) {
            Ok(more) => assert!(more, "the change was not noticed"),
            Err(fault) => break fault.0,
        }
    };
    assert!(fault.contains("changed while being read"), "{fault}");
}

#[test]
fn threads_find_the_first_fault_of_a_file_and_read_it_alike() {
    let mut random = RandomStream::new(5, "raw16 threads");
    let mut records = random_records(&mut random, 20_000);
    let file = file_of(&records);
    let read = |threads| {
        let mut source = Raw16::open_on(file.path(), 4, threads).unwrap();
        let (mut batch, mut all) = (Batch::default(), Vec::new());
        while source.next_batch(&mut batch).unwrap() {
            all.extend_from_slice(&batch.records);
        }
        all
    };
    let one = read(1);
    assert_eq!(one.len(), 20_000);
    for threads in [2, 3, 7] {
        assert!(read(threads) == one, "{threads} threads");
    }
    for place in [9_000, 19_000] {
        records[place][9] = 0;
    }
    let file = file_of(&records);
    for threads in [1, 2, 5] {
        let fault = Raw16::open_on(file.path(), 4, threads).err().expect("refused").0;
        assert!(fault.contains("record 9000 "), "{threads} threads: {fault}");
    }
}

#[test]
fn processes_of_different_stretches_are_told_apart() {
    // The first process of either stretch touches one page alone, and both touch another.
    let of =
        |pid: u16, page: u64| (0..4096).map(move |i| record(((page + i % 2) << 12) + i % 512 * 8, 4, 0, pid));
    let records: Vec<_> = of(7, 1).chain(of(9, 2)).collect();
    let file = file_of(&records);
    for threads in [1, 2] {
        let source = Raw16::open_on(file.path(), 1, threads).unwrap();
        let private =
            [1, 2, 3].map(|page| source.privacy().is_private(&Record::new(0, Op::Load, page << 12, 1)));
        assert_eq!(private, [true, false, true], "{threads} threads");
    }
}

fn read(mut source: Raw16) -> Result<(Vec<Record>, Vec<u32>), String> {
    let (mut batch, mut all) = (Batch::default(), Vec::new());
    while source.next_batch(&mut batch).map_err(|fault| fault.0)? {
        all.extend_from_slice(&batch.records);
    }
    Ok((all, source.tasks().iter().map(|task| task.pid).collect()))
}

#[test]
fn a_file_read_once_gives_the_same_records_tasks_and_faults() {
    let mut random = RandomStream::new(6, "raw16 once");
    for broken in
        [None, Some((8, 3)), Some((8, 0x83)), Some((8, 4)), Some((9, 0)), Some((10, 1)), Some((11, 1))]
    {
        let mut records = random_records(&mut random, 13_000);
        // The last byte of the address space, which is no fault.
        records[3] = record(u64::MAX, 1, 0, 9);
        if let Some((byte, value)) = broken {
            records[9_000][byte] = value;
        }
        let file = file_of(&records);
        let twice = Raw16::open(file.path(), 4).map_err(|fault| fault.0).and_then(read);
        let once = read(Raw16::unsurveyed(file.path(), 4).unwrap());
        assert_eq!(once, twice, "{broken:?}");
        assert_eq!(once.is_err(), broken.is_some());
    }
    for bad in [record(u64::MAX - 2, 4, 0, 9), record(64, 4, 4, 9), record(64, 4, 256, 9)] {
        let mut records = random_records(&mut random, 5_000);
        // Its process is known when the bad record comes.
        records[3] = record(64, 4, 0, 9);
        records[4_998] = bad;
        let file = file_of(&records);
        let twice = Raw16::open(file.path(), 4).map_err(|fault| fault.0).and_then(read);
        let once = read(Raw16::unsurveyed(file.path(), 4).unwrap());
        assert_eq!(once, twice);
        assert!(once.unwrap_err().contains("record 4998 "));
    }
}

#[test]
fn records_are_what_the_bytes_say() {
    let mut random = RandomStream::new(7, "raw16 plain");
    let mut records = random_records(&mut random, 9_000);
    for index in 1..records.len() {
        // Most are of the process of the one before, or of its processor, or of both.
        let (before, same) = (records[index - 1], random.below(8));
        let bytes = &mut records[index];
        if same & 1 == 0 {
            bytes[12..14].copy_from_slice(&before[12..14]);
        }
        if same < 6 {
            bytes[14..].copy_from_slice(&before[14..]);
        }
        bytes[8] = [0, 1, 2, 0x80, 0x81, 0x82][random.below(6) as usize];
        if random.below(2) == 0 {
            bytes[12] = 255 - bytes[12];
        }
    }
    let mut pids = Vec::new();
    let plain = records.iter().map(|bytes| {
        let pid = u32::from(u16::from_le_bytes([bytes[14], bytes[15]]));
        let task = pids.iter().position(|&known| known == pid).unwrap_or_else(|| {
            pids.push(pid);
            pids.len() - 1
        });
        let address = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let op = [Op::Load, Op::Store, Op::Fetch][usize::from(bytes[8] & 0x7F)];
        let flags = if bytes[8] & 0x80 == 0 { 0 } else { KERNEL };
        Record { flags, cpu: bytes[12], ..Record::new(task as u32, op, address, bytes[9]) }
    });
    let plain: Vec<Record> = plain.collect();
    let file = file_of(&records);
    for source in [Raw16::open(file.path(), 256).unwrap(), Raw16::unsurveyed(file.path(), 256).unwrap()] {
        let (read, tasks) = read(source).unwrap();
        assert!(read == plain);
        assert_eq!(tasks, pids);
    }
}
