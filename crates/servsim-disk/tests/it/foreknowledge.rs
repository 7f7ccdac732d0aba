//! Nothing that a model is given about a request may depend on when that request, or any that is still
//! in service when it starts, completes.

use servsim_disk::features::Features;
use servsim_disk::models::fit::{fit, FitOptions};
use servsim_disk::models::Model;
use servsim_disk::order::services;
use servsim_disk::request::{Op, Request, NO_START};
use servsim_disk::server::infer::infer;
use servsim_oracle::drive::Words;

fn request(arrival_ns: u64, start_ns: u64, completion_ns: u64, words: &mut Words) -> Request {
    Request {
        arrival_ns,
        start_ns,
        completion_ns,
        lba: words.below(100_000) * 8,
        sectors: 8 + words.below(3) as u32 * 8,
        device: 0,
        op: [Op::Read, Op::Write][words.below(2) as usize],
        by_tracer: false,
    }
}

/// Features by number of arrival.
fn features(requests: &[Request], slots: usize, recorded: bool) -> Vec<Features> {
    let mut history = servsim_disk::features::History::default();
    let mut all = vec![Features::default(); requests.len()];
    for served in services(requests, slots, recorded) {
        let start = served.start();
        all[served.number] = history.features(&start);
        history.advance(&start.command, served.request.completion_ns);
    }
    all
}

#[test]
fn shuffled_completions_of_what_is_in_service_change_no_feature() {
    let mut words = Words(1);
    for (slots, recorded) in [(1, true), (8, true), (8, false)] {
        let mut now = 0;
        let mut requests = Vec::new();
        for _ in 0..400 {
            // Far enough apart for one slot, and so that eight are never all busy.
            now += 100_000 + words.below(if slots == 1 { 900_000 } else { 100_000 });
            let service_ns = 10_000 + words.below(if slots == 1 { 90_000 } else { 700_000 });
            let start_ns = if recorded { now } else { NO_START };
            requests.push(request(now, start_ns, now + service_ns, &mut words));
        }
        let known = features(&requests, slots, recorded);
        for at in (20..400).step_by(7) {
            let mut other = requests.clone();
            let start_ns = requests[at].arrival_ns;
            let busy: Vec<usize> =
                (0..400).filter(|&k| k >= at || requests[k].completion_ns > start_ns).collect();
            for &k in &busy {
                // Any completion after this start and after its own arrival, not later than before.
                let earliest = start_ns.max(requests[k].arrival_ns) + 1;
                let latest = requests[k].completion_ns.max(earliest);
                other[k].completion_ns = earliest + words.below(latest - earliest + 1);
            }
            assert_eq!(features(&other, slots, recorded)[..=at], known[..=at], "{slots} slots, request {at}");
        }
    }
}

#[test]
fn idle_times_that_tell_the_service_are_found_and_kept_from_models() {
    let mut words = Words(2);
    for told in [true, false] {
        let (mut now, mut requests) = (0_u64, Vec::new());
        for _ in 0..3000 {
            let service_ns = 2_000_000 + words.below(15_000_000);
            let ticks = 9_960_000 * (2 + words.below(3)) + words.below(500_000);
            // Read as the pause before, an interval that follows ends its own service on a tick.
            let idle_ns = if told { ticks - service_ns } else { words.below(30_000_000) + 1 };
            requests.push(request(now + idle_ns, now + idle_ns, now + idle_ns + service_ns, &mut words));
            now += idle_ns + service_ns;
        }
        let inference = infer(&requests);
        assert_eq!(inference.completion_tick_ms.is_some(), told);
        let model =
            fit("forest", &requests[..1000], &["d".to_owned()], &FitOptions::default()).unwrap().remove(0);
        let Model::Forest(forest) = &model.model else { panic!("{}", model.model.kind()) };
        let idle: f64 = [4, 12].iter().map(|&feature| forest.importance[feature]).sum();
        if told {
            assert!(idle == 0.0, "{idle}");
        }
        // The services were drawn at random: whoever predicts them has seen the answer.
        let seen = servsim_disk::evaluate::evaluate(
            &model,
            &requests,
            servsim_disk::evaluate::Split { cut: 1000 },
            &[],
            0,
        )
        .unwrap();
        assert!(seen.one_step_skill.over_histogram < 0.2, "told: {told}, skill {:?}", seen.one_step_skill);
    }
}
