//! Hostile input: mutants of every kind of file this crate reads are read or refused, and what is read can be
//! simulated. Overflow checks are on in tests. `SERVSIM_MUTANTS` sets how many mutants each file has.

use servsim_disk::importers::{load, write_native, ImportOptions, IMPORTERS};
use servsim_disk::models::file::{from_bytes, to_bytes};
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::mechanical::Drive;
use servsim_disk::models::ssd::Ssd;
use servsim_disk::models::{DeviceModel, Model};
use servsim_disk::reorganize::BlockMap;
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::Server;
use servsim_disk::sets::spec::SetSpec;
use servsim_disk::simulate::{closed_loop, closed_set, open_loop};
use servsim_oracle::mutation::{number, Mutants};

/// Mutants of each file in `make test`; acceptance asks for more.
const QUICK: usize = 200;

fn requests() -> Vec<Request> {
    let request = |at: u64| Request {
        arrival_ns: at * 10_000_000,
        start_ns: NO_START,
        completion_ns: at * 10_000_000 + 4_000_000 + at % 7 * 100_000,
        lba: at * 7919 % 4093 * 8,
        sectors: 8,
        device: 0,
        op: [Op::Write, Op::Read, Op::Read][at as usize % 3],
        by_tracer: false,
    };
    (0..300).map(request).collect()
}

/// A file of every format, each with a name.
fn corpus() -> Vec<(&'static str, Vec<u8>)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let mut own = Vec::new();
    write_native(&mut own, &["sda".to_owned(), "sdb".to_owned()], &requests()[..20]).unwrap();
    let older = [b"SSDISK1\n", &own[8..16], &own[24..own.len() - 4]].concat();
    let mut srt = b"$$TR_IOREC-1.3".to_vec();
    srt.resize(2204, 0);
    let mut blktrace = Vec::new();
    for (action, ns) in [(1_u32, 5_u64), (7, 9), (8, 12)] {
        let record = |word: u32| (1_u32 << 16 | word).to_le_bytes();
        blktrace.extend(0x6561_7407_u32.to_le_bytes());
        blktrace.extend([0; 4]);
        blktrace.extend(ns.to_le_bytes());
        blktrace.extend(800_u64.to_le_bytes());
        blktrace.extend(4096_u32.to_le_bytes());
        blktrace.extend(record(action));
        blktrace.extend([0; 16]);
    }
    for at in 0..3_u32 {
        let words = [56, 0x0004_0001, at, 500, 100, 9000, 4096, 8000 * at, 512, 0, 0, at & 1, 0, 0];
        srt.extend(words.iter().flat_map(|word| word.to_be_bytes()));
    }
    let byu = [[0, 1, 2, 8, 5, 0, 0, 0, 9, 0, 0, 0], [2, 1, 2, 8, 5, 0, 0, 0, 7, 0, 0, 0]].concat();
    vec![
        ("servsim", own),
        ("servsim", older),
        ("srt", srt),
        ("blktrace", blktrace),
        ("byu", byu),
        ("disksim", text("R Hit 8000 16 2000.5 100.25\nW Miss 16000 8 9000 50\n")),
        (
            "tracefs",
            text(
                " a-1 [000] ..... 5.000001: block_rq_issue: 8,0 R 4096 () 800 + 8 [a]\n \
                 a-1 [000] ..... 5.000901: block_rq_complete: 8,0 R () 800 + 8 [0]\n",
            ),
        ),
        (
            "blkparse",
            text(
                "8,0 0 1 0.000000100 7 Q R 800 + 8 [a]\n8,0 0 2 0.000000200 7 D R 800 + 8 [a]\n\
                 8,0 0 3 0.000900000 7 C R 800 + 8 [0]\n",
            ),
        ),
        (
            "nbdkit",
            text(
                "2024-01-02 03:04:05.000006 connection=1 Read id=1 offset=0x1000 count=0x1000 ...\n\
                 2024-01-02 03:04:05.000106 connection=1 ...Read id=1 return=0 (Success)\n",
            ),
        ),
        (
            "msr",
            text(
                "128166372003061629,usr,0,Read,7014609920,24576,41286\n\
                 128166372016382155,usr,0,Write,2657792,512,1963\n",
            ),
        ),
        (
            "biosnoop",
            text(
                "TIME(s) COMM PID DISK T SECTOR BYTES QUE(ms) LAT(ms)\n0.004 tar 77 sda R 4096 8192 0.5 1.25\n\
                 0.009 Web Content 78 sdb W 80 512 0 2\n",
            ),
        ),
        ("fiu", text("89968195792462 20782 gzip 283193184 8 R 6 0 56f1\n89968196792462 1 a 5 16 W 6 1 0\n")),
        ("spc", text("0,20941264,8192,W,0.551706\n1,20939840,1024,r,0.554041,9\n")),
        ("alibaba", text("419,W,8792731648,16384,1577808144360767\n725,R,59110326272,4096,1577808144360781\n")),
        (
            "etw",
            text(
                "BeginHeader\n DiskRead, TimeStamp, Process Name ( PID), ByteOffset, IOSize, ElapsedTime, DiskNum\n\
                 EndHeader\n DiskRead, 900, a.exe ( 7), 0x1000, 0x200, 283, 0\n DiskWrite, 990, b ( 8), 512, 4096, 9, 1\n",
            ),
        ),
        ("csv", text("Timestamp,Response,IOType,LUN,Offset,Size\n1.5,0.001,W,0,4096,512\n2.5,,,0,0,512\n")),
        ("fio", text("1, 4000000, 0, 4096, 8192\n3, 1000000, 1, 4096, 0\n")),
        ("csv", text("arrival_us,op,lba,sectors,completion_us\n1,R,8,8,5\n2,W,80,16,9\n")),
        ("csv", text("interarrival_us,op,offset_bytes,bytes,service_us,device\n1,R,4096,512,5.5,a\n2,W,80,16,9,b\n")),
    ]
}

fn simulate(model: &DeviceModel, requests: &[Request]) {
    assert_eq!(open_loop(model, requests, 1).len(), requests.len());
    for load in [1e-9, 1.0, 1e9] {
        assert_eq!(closed_loop(model, requests, load, 1).unwrap().len(), requests.len());
    }
}

fn models() -> Vec<DeviceModel> {
    let fitted =
        |kind: &str| fit(kind, &requests(), &["sda".to_owned()], &FitOptions::default()).unwrap().remove(0);
    let drive = |model: Model| DeviceModel {
        device: "drive".to_owned(),
        server: Server::FCFS,
        inference: None,
        training: None,
        model,
    };
    vec![
        fitted("forest"),
        fitted("paper"),
        fitted("unconditional"),
        fitted("parallel"),
        drive(Model::Mechanical(Drive::hp97560())),
        drive(Model::Ssd(Ssd::agrawal2008())),
    ]
}

/// Formats that tell arrivals alone are read as well.
fn options() -> ImportOptions {
    ImportOptions { arrivals_only: true, ..ImportOptions::default() }
}

#[test]
fn the_corpus_has_every_format_and_is_read() {
    let corpus = corpus();
    for importer in IMPORTERS {
        assert!(corpus.iter().any(|(name, _)| *name == importer.name()), "{}", importer.name());
    }
    for (format, bytes) in corpus {
        let read = load(&mut &bytes[..], Some(format), &options());
        assert!(read.is_ok_and(|(requests, _)| !requests.is_empty()), "{format}");
    }
}

#[test]
fn a_mutant_of_a_block_trace_is_refused_or_can_be_simulated() {
    let mut mutants = Mutants::new(1);
    let drives = models().split_off(4);
    for (format, bytes) in corpus() {
        for mutant in mutants.trials(env!("CARGO_MANIFEST_DIR"), format, &bytes, QUICK) {
            if let Ok((requests, report)) = load(&mut &mutant[..], Some(format), &options()) {
                assert_eq!(report.requests, requests.len() as u64);
                for drive in &drives {
                    simulate(drive, &requests);
                }
            }
        }
    }
}

/// The file with the checksum of its heading made right again.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let length = u32::from_le_bytes(bytes.get(6..10)?.try_into().ok()?) as usize;
    let arrays = bytes.get(10 + length..)?;
    let hash = arrays.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let heading = String::from_utf8(bytes[10..10 + length].to_vec()).ok()?;
    let at = heading.find("\"checksum\":\"")? + 12;
    let heading = format!("{}{hash:016x}{}", &heading[..at], heading.get(at + 16..)?);
    Some([&bytes[..10], heading.as_bytes(), arrays].concat())
}

#[test]
fn a_mutant_of_a_model_file_is_refused_or_can_be_simulated_though_its_checksum_holds() {
    let mut mutants = Mutants::new(2);
    let requests = requests();
    for model in models() {
        let bytes = to_bytes(std::slice::from_ref(&model));
        assert_eq!(sealed(&bytes).as_deref(), Some(&bytes[..]), "the checksum is understood");
        let length = u32::from_le_bytes(bytes[6..10].try_into().unwrap()) as usize;
        for case in 0..number(QUICK) {
            // The heading is where the parameters are; its length stays what it says.
            let mut file = bytes[..6].to_vec();
            let heading = mutants.of(&bytes[10..10 + length]);
            let arrays =
                if case % 3 == 0 { mutants.of(&bytes[10 + length..]) } else { bytes[10 + length..].to_vec() };
            file.extend((heading.len() as u32).to_le_bytes());
            file.extend(heading);
            file.extend(arrays);
            for file in [Some(file.clone()), sealed(&file)].into_iter().flatten() {
                if let Ok(models) = from_bytes(&file) {
                    models.iter().for_each(|model| simulate(model, &requests[..60]));
                }
            }
        }
    }
}

#[test]
fn mutants_of_block_maps_and_sets_are_refused_or_used() {
    let mut mutants = Mutants::new(3);
    let (drive, requests) = (models().remove(3), requests());
    for map in mutants.trials(env!("CARGO_MANIFEST_DIR"), "map", b"from,to\n1,2\n2,1\n5,6\n6,5\n", QUICK) {
        if let Ok(map) = BlockMap::from_text(&String::from_utf8_lossy(&map)) {
            assert_eq!(map.apply(&requests).len(), requests.len());
        }
    }
    for set in mutants.trials(env!("CARGO_MANIFEST_DIR"), "set", b"sda=raid5:5,unit=64KiB", QUICK) {
        if let Ok(set) = String::from_utf8_lossy(&set).parse::<SetSpec>() {
            if set.layout.members <= 64 {
                closed_set(&drive, set.layout, &requests[..40], 1.0, 1).unwrap();
            }
        }
    }
}
