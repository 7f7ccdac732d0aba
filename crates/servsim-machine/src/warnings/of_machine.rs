//! What limits the figures of a run wherever its window lies: too few tasks for the processors, locks that ended by force,
//! caches that began empty, busy disks.

use super::{timings, Rank, Warning};
use crate::result::{Replication, Timing};
use servsim_config::Machine;
use servsim_mem::LevelCounters;
use servsim_os::BusCounts;
use std::collections::BTreeMap;

/// Disks that are asked for more of their time than this are the bottleneck: at 90 % a queue of one
/// server holds nine requests on average (M/M/1).
const BUSY_DISKS: f64 = 0.9;

/// Holds that end by force are few in a sound trace, and each is in the result; beyond this share of all they
/// change the figures.
const MANY_FORCED: f64 = 1e-4;

/// Misses of a level that it may owe to having begun empty are told beyond this share of all,
const SOME_UNFILLED: f64 = 0.1;
/// and make figures weak beyond this one: between caches that begin empty and such as have seen the whole trace, cycles
/// per transaction differed by 1 % or less below it, by 1 to 17 % above.
const MANY_UNFILLED: f64 = 1.0 / 3.0;

/// Whether processors idle because the trace has no work for them.
pub fn few_ready_tasks(machine: &Machine, replications: &[Replication]) -> Option<String> {
    let least = timings(replications).map(|t| t.most_ready).min().unwrap_or(0);
    let mean = timings(replications).map(|t| t.mean_ready_thousandths).min().unwrap_or(0) as f64 / 1000.0;
    (least < machine.processors as u64 || mean < machine.processors as f64).then(|| {
        format!(
            "the {} processors outnumber the ready tasks ({mean:.1} on average, {least} at most): \
             some processors idle for lack of work, not because of the machine",
            machine.processors
        )
    })
}

/// Whether so many holds of locks ended by force that figures change.
pub fn forced_locks(replications: &[Replication]) -> Option<String> {
    let counts = || timings(replications).filter_map(|t| t.locks).map(|locks| locks.counts);
    let forced: u64 = counts().map(|c| c.forced_releases + c.forced_handovers).sum();
    let taken: u64 = counts().map(|c| c.classes.iter().map(|class| class.acquisitions).sum::<u64>()).sum();
    (forced as f64 > MANY_FORCED * taken as f64).then(|| {
        format!(
            "{forced} of {taken} holds of a lock ended by force, because the trace holds no release in time or \
             its waits came back to the holder: see `locks` of the replications; `--set \
             locks.arbitrated=spinlocks` leaves the others as recorded"
        )
    })
}

/// The levels, of one run or several, that have not been full for long enough to say how they do later; `remedy` is
/// what helps.
pub fn began_empty<'a>(
    counted: impl IntoIterator<Item = &'a (String, LevelCounters)>,
    remedy: &str,
) -> Option<Warning> {
    let mut levels: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for (name, level) in counted {
        let [misses, unfilled] = levels.entry(name).or_default();
        *misses += level.misses;
        *unfilled += level.unfilled;
    }
    let share = |[misses, unfilled]: [u64; 2]| unfilled as f64 / misses.max(1) as f64;
    let weak = levels.values().any(|counts| share(*counts) > MANY_UNFILLED);
    let some = levels.into_iter().filter(|(_, counts)| share(*counts) > SOME_UNFILLED);
    let told: Vec<String> = some
        .map(|(name, counts)| format!("{:.0} % of the misses of {name}", 100.0 * share(counts)))
        .collect();
    (!told.is_empty()).then(|| {
        let text = format!(
            "up to {} may come of caches that began empty, whose sets had not been full yet: {remedy}",
            told.join(" and ")
        );
        Warning { rank: if weak { Rank::Weak } else { Rank::Note }, code: "began-empty", text }
    })
}

/// The disks or I/O buses that limit the throughput, if any do.
pub fn busy_disks(machine: &Machine, replications: &[Replication]) -> Option<String> {
    let share = replications.iter().map(|r| disk_share(r, machine)).fold(0.0, f64::max);
    if machine.storage.disks > 0 {
        timings(replications).find_map(busy_storage)
    } else {
        (share > BUSY_DISKS).then(|| {
            format!(
                "the disks were asked for {:.0} % of their time: they limit the throughput, not the processors; \
                 more of them work side by side with `disk.parallel` above {}",
                100.0 * share,
                machine.disk_parallel
            )
        })
    }
}

/// The busiest disk or I/O bus, if it limits the throughput.
fn busy_storage(timing: &Timing) -> Option<String> {
    let storage = timing.storage.as_ref()?;
    let cycles = timing.cycles.max(1) as f64;
    let disks = (0..storage.counts.disks.len())
        .map(|disk| (storage.disk_utilization(disk, timing.cycles), format!("disk {}", disk + 1)));
    let bus = |(bus, c): (usize, &BusCounts)| (c.busy as f64 / cycles, format!("I/O bus {}", bus + 1));
    let buses = storage.counts.buses.iter().enumerate().map(bus);
    let (share, name) = disks.chain(buses).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (share > BUSY_DISKS).then(|| {
        format!(
            "{name} was busy {:.0} % of the time: it limits the throughput, not the processors; spread its \
             data with `placement`, or describe more with disk.count and io.buses",
            100.0 * share
        )
    })
}

/// Service time of the requests of the measured window, as a share of what the disks had to give.
fn disk_share(replication: &Replication, machine: &Machine) -> f64 {
    let Some(timing) = &replication.timing else { return 0.0 };
    let cycles = |picos: servsim_units::Picos| picos.to_cycles(machine.clock).0 as f64;
    let asked = timing.system.disk_reads as f64 * cycles(machine.disk_read)
        + timing.system.disk_writes as f64 * cycles(machine.disk_write);
    asked / (timing.cycles.max(1) as f64 * machine.disk_parallel as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::SystemCounters;

    #[test]
    fn levels_are_named_that_may_owe_many_misses_to_having_begun_empty() {
        let level = |misses, unfilled| LevelCounters { misses, unfilled, ..LevelCounters::default() };
        let after = |l2: &[u64]| {
            let run = |&l2: &u64| [("l1".to_owned(), level(1000, 100)), ("l2".to_owned(), level(200, l2))];
            began_empty(&l2.iter().flat_map(run).collect::<Vec<_>>(), "wait")
        };
        assert_eq!(after(&[20]), None);
        let said = after(&[20, 60]).expect("80 of 400");
        assert!(said.text.starts_with("up to 20 % of the misses of l2 may"), "{}", said.text);
        assert!(said.text.ends_with(": wait") && said.rank == Rank::Note, "{}", said.text);
        assert_eq!(after(&[20, 140]).expect("160 of 400").rank, Rank::Weak);
    }

    #[test]
    fn disks_that_limit_the_throughput_are_named() {
        let machine =
            Machine::from_toml("[disk]\nread_time = \"1 ms\"\nparallel = 2", "m.toml", &[]).expect("valid");
        // Two disks have 2 ms to give in a window of one million cycles at 1 GHz.
        let after = |disk_reads| {
            let system = SystemCounters { disk_reads, ..SystemCounters::default() };
            let timing = Timing { cycles: 1_000_000, system, ..Timing::default() };
            Replication { timing: Some(timing), ..Replication::default() }
        };
        assert!((disk_share(&after(1), &machine) - 0.5).abs() < 1e-12);
        assert!((disk_share(&after(2), &machine) - 1.0).abs() < 1e-12);
    }
}
