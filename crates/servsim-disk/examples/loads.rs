//! scratch
use servsim_disk::*;
use servsim_oracle::drive::*;
fn main() {
    for seed in [11, 12, 13] {
    for (order, gap) in [(Order::Fcfs, 14000.0), (Order::Sstf, 12000.0)] { for wb in [true, false] {
        let drive = Drive { write_behind: wb, ..Drive::nameless() };
        let jobs = workload(&drive, 30_000, gap, seed);
        let truth = |load: f64| -> Vec<request::Request> {
            let jobs: Vec<Job> = jobs.iter().map(|j| Job { arrival_ns: (j.arrival_ns as f64 / load) as u64, ..*j }).collect();
            let done = drive.run(&jobs, order);
            jobs.iter().zip(done).map(|(j, d)| request::Request { arrival_ns: j.arrival_ns, start_ns: request::NO_START, completion_ns: d, lba: j.lba, sectors: j.sectors, device: 0, op: if j.is_write { request::Op::Write } else { request::Op::Read }, by_tracer: false }).collect()
        };
        let base = truth(1.0);
        for share in [24, 100] {
        let model = models::fit::fit("forest", &base[..300 * share], &[], &models::fit::FitOptions { seed: 1, ..Default::default() }).unwrap().remove(0);
        print!("seed {seed} {order:?} wb {wb} train {share}: {:?} {:.2} ", model.server.discipline, model.inference.as_ref().unwrap().agreement[1]);
        for load in [1.0, 1.2, 1.4] {
            let t = truth(load);
            let c = evaluate::at_load(&model, &base, load, Some(&t), 5).unwrap();
            let fl = metrics::demerit::floor_percent(&t.iter().map(|r| r.response_ns() as f64).collect::<Vec<_>>(), 1.0, 1);
            print!("| x{load} util {:.2} true {:.2} ms mean {:+.1}% D {:.1}% (fl {fl:.1}) ", c.utilization, c.real_mean_ms.unwrap(), c.mean_error_percent.unwrap(), c.d_percent.unwrap());
        }
        if let models::Model::Forest(fo) = &model.model { print!("leaf {} {:b}", fo.growth.minimum_leaf, fo.growth.allowed); }
        println!(); }
    }}}
}
