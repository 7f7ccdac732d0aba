//! The contract of interconnects, on a bus.

use super::*;

fn spec() -> InterconnectSpec {
    let bus = BusTimes {
        invalidate: Cycles(5),
        write: Cycles(5),
        memory_read: Cycles(64),
        cache_read: Cycles(8),
        write_back: Cycles(4),
        transfer: Cycles(16),
        memory_hold: Cycles(0),
    };
    let kind = InterconnectKind::Bus;
    InterconnectSpec {
        latency: LatencyTable { bus, shared: Vec::new(), intervention: Cycles(0), crossing: Cycles(0) },
        paths: PathSpec {
            kind,
            order: Cycles(0),
            hop: Cycles(0),
            transfer: Cycles(16),
            banks: 4,
            bank_time: Cycles(100),
        },
        nodes: None,
        messages: None,
        fifo: false,
        most_fetches: 8,
        write_buffer: 0,
        delay: Cycles(0),
    }
}

fn post(joined: &mut Interconnect, cpu: usize, ready: u64, line: u64) {
    let (cpu, line) = (CpuId(cpu), LineAddr(line));
    joined.post(BusRequest { cpu, ready, line, class: Class::Fetch, origin: Origin::Processor });
}

/// The whole contract once, with more processors than a mask of 64 bits could name: the fetch takes the
/// bank of its line, and its victim afterwards that of its own.
#[test]
fn a_fetch_and_its_victim_go_to_their_own_homes() {
    let mut joined = Interconnect::new(200, &spec(), 1);
    post(&mut joined, 150, 0, 6);
    assert_eq!((joined.next_grant(), joined.earliest_grant(Some(Home(2)))), (0, 0));
    let grant = joined.grant().unwrap();
    assert_eq!((grant.request.cpu, grant.home), (CpuId(150), Home(2)));
    let fetch = Transaction {
        op: Some(BusOp::Read),
        supplier: Supplier::Memory,
        victim: Some(LineAddr(7)),
        within_group: false,
    };
    assert_eq!(joined.carry(&grant, &fetch), 80);
    joined.end_grant();
    let back = joined.grant().unwrap();
    assert_eq!((back.time, back.request.class, back.home), (24, Class::WriteBack, Home(3)));
    assert_eq!(joined.carry(&back, &Transaction::WRITE_BACK), 24 + 20);
    joined.end_grant();
    assert_eq!(joined.earliest_grant(None), 44);

    // Both banks are busy until 100 and 124 for whoever reads next.
    for (line, wait) in [(2, 100 - 44), (3, 124 - 68)] {
        post(&mut joined, 199, 44, line);
        let grant = joined.grant().unwrap();
        let fetch = Transaction { victim: None, ..fetch };
        assert_eq!(joined.carry(&grant, &fetch) - grant.time, 80 + wait, "line {line}");
        joined.end_grant();
    }
}

#[test]
fn what_needs_no_transaction_any_more_takes_no_time() {
    let mut joined = Interconnect::new(2, &spec(), 1);
    post(&mut joined, 1, 3, 6);
    let grant = joined.grant().unwrap();
    let nothing = Transaction { op: None, ..Transaction::WRITE_BACK };
    assert_eq!(joined.carry(&grant, &nothing), 3);
    joined.end_grant();
    assert_eq!((joined.busy(), joined.next_grant()), (0, u64::MAX));
}

#[test]
fn a_random_delay_leaves_the_mean_and_its_bounds() {
    let mut joined = Interconnect::new(1, &InterconnectSpec { delay: Cycles(10), ..spec() }, 7);
    let all: Vec<u64> = (0..4000).map(|_| joined.delayed(Cycles(80)).0).collect();
    assert!(all.iter().all(|&latency| (75..=85).contains(&latency)));
    let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
    assert!((mean - 80.0).abs() < 0.2, "{mean}");
}
