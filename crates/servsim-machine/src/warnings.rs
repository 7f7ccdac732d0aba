//! Warnings beside the figures of a timing run: what limits their use, and what to do about it.

use crate::result::{Replication, Timing};
use crate::run_spec::RunSpec;
use servsim_config::Machine;
use servsim_os::BusCounts;

/// Disks that are asked for more of their time than this are the bottleneck: at 90 % a queue of one
/// server holds nine requests on average (M/M/1).
const BUSY_DISKS: f64 = 0.9;

/// Fewer transactions than this say little about a mix of five kinds.
const FEW_TRANSACTIONS: u64 = 30;

/// Holds that end by force are few in a sound trace, and each is in the result; beyond this share of all they
/// change the figures.
const MANY_FORCED: f64 = 1e-4;

/// A run that goes on for more than this share of its time after the last transaction says too little for
/// the throughput.
const LONG_END: f64 = 0.1;

/// What a reader of the result of a timing run must know.
pub fn of(request: &RunSpec, machine: &Machine, replications: &[Replication]) -> Vec<String> {
    let mut warnings = Vec::new();
    let timings = || replications.iter().filter_map(|r| r.timing.as_ref());
    let least = timings().map(|t| t.most_ready).min().unwrap_or(0);
    let mean = timings().map(|t| t.mean_ready_thousandths).min().unwrap_or(0) as f64 / 1000.0;
    if least < machine.processors as u64 || mean < machine.processors as f64 {
        warnings.push(format!(
            "the {} processors outnumber the ready tasks ({mean:.1} on average, {least} at most): \
             some processors idle for lack of work, not because of the machine",
            machine.processors
        ));
    }
    let fewest = replications.iter().map(Replication::transactions).min().unwrap_or(0);
    if fewest == 0 {
        warnings.push("no transaction ended in the measured window: the trace has no marks there, and there is no cycles per transaction".into());
    } else if fewest < FEW_TRANSACTIONS {
        warnings.push(format!(
            "only {fewest} transactions were measured; {FEW_TRANSACTIONS} or more give a steadier mix"
        ));
    }
    let counts = || timings().filter_map(|t| t.locks).map(|locks| locks.counts);
    let forced: u64 = counts().map(|c| c.forced_releases + c.forced_handovers).sum();
    let taken: u64 = counts().map(|c| c.classes.iter().map(|class| class.acquisitions).sum::<u64>()).sum();
    if forced as f64 > MANY_FORCED * taken as f64 {
        warnings.push(format!(
            "{forced} of {taken} holds of a lock ended by force, because the trace holds no release in time or its \
             waits came back to the holder: see `locks` of the replications; `--set locks.arbitrated=spinlocks` \
             leaves the others as recorded"
        ));
    }
    if timings().any(|t| t.trace_exhausted) && request.transactions.is_some() {
        warnings.push("the trace ended before the requested number of transactions".into());
    }
    let after = timings().map(after_the_last).fold(0.0, f64::max);
    if request.transactions.is_none() && after > LONG_END {
        warnings.push(format!(
            "{:.0} % of the time lies after the last transaction: use --transactions to measure up to that one",
            100.0 * after
        ));
    }
    let share = replications.iter().map(|r| disk_share(r, machine)).fold(0.0, f64::max);
    if machine.storage.disks > 0 {
        warnings.extend(timings().find_map(busy_storage));
    } else if share > BUSY_DISKS {
        warnings.push(format!(
            "the disks were asked for {:.0} % of their time: they limit the throughput, not the processors; \
             more of them work side by side with `disk.parallel` above {}",
            100.0 * share,
            machine.disk_parallel
        ));
    }
    if replications.len() < 3 {
        warnings.push(format!(
            "{} replications: too few for an interval; use --replications 3 or more",
            replications.len()
        ));
    }
    warnings
}

/// The share of a run after the window in which the last transaction ended; none if there was no transaction.
fn after_the_last(timing: &Timing) -> f64 {
    let Some(last) = timing.timeline.iter().rev().find(|window| window.transactions > 0) else { return 0.0 };
    let end = last.start + timing.window_cycles;
    timing.cycles.saturating_sub(end) as f64 / timing.cycles.max(1) as f64
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
    let asked = timing.disk_reads as f64 * cycles(machine.disk_read)
        + timing.disk_writes as f64 * cycles(machine.disk_write);
    asked / (timing.cycles.max(1) as f64 * machine.disk_parallel as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_limit_the_throughput_are_named() {
        let machine =
            Machine::from_toml("[disk]\nread_time = \"1 ms\"\nparallel = 2", "m.toml", &[]).expect("valid");
        // Two disks have 2 ms to give in a window of one million cycles at 1 GHz.
        let after = |disk_reads| {
            let timing = Timing { cycles: 1_000_000, disk_reads, ..Timing::default() };
            Replication { timing: Some(timing), ..Replication::default() }
        };
        assert!((disk_share(&after(1), &machine) - 0.5).abs() < 1e-12);
        assert!((disk_share(&after(2), &machine) - 1.0).abs() < 1e-12);
    }
}
