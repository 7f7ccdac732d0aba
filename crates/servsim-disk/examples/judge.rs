//! Prints an evaluation of each trace named on the command line.
use servsim_disk::*;
fn main() {
    for path in std::env::args().skip(1) {
        let file = std::fs::File::open(&path).unwrap();
        let mut input = std::io::BufReader::with_capacity(1 << 16, file);
        let (all, report) = importers::load(&mut input, None, &importers::ImportOptions::default()).unwrap();
        for (device, part) in request::by_device(&all) {
            let cut = part.len() * 24 / 100;
            for kind in ["forest"] {
                let begin = std::time::Instant::now();
                let model = models::fit::fit(
                    kind,
                    &part[..cut],
                    &report.devices,
                    &models::fit::FitOptions::default(),
                )
                .unwrap()
                .remove(0);
                let e = evaluate::evaluate(&model, &part, evaluate::Split { cut }, &[], 1).unwrap();
                let (o, f) = (&e.one_step, &e.free_running);
                println!(
                    "{:<28} {} {:<7} D_all {:5.2} rest {:5.2} D99 {:5.2} (fl {:4.2} 99 {:4.2}) slice {:5.1} ({:4.1}) skill {:.3} bias {:+.1} | free D {:5.2} D99 {:5.2} mean {:+.1} acf {:.2}/{:.2} | out {:.3} {:?} {:.1}s",
                    path.rsplit('/').next().unwrap(), device, &kind[..6.min(kind.len())], o.d_all_percent, o.d_rest_percent, o.d99_percent, o.floor_percent, o.floor99_percent,
                    o.slice.percent, o.slice.floor_percent, e.crps_skill, o.mean_error_percent, f.d_rest_percent, f.d99_percent, f.mean_error_percent, f.acf_real[0], f.acf_simulated[0],
                    e.outside_support, (model.server.slots, model.server.discipline), begin.elapsed().as_secs_f32()
                );
                if kind == "forest" {
                    let i = model.inference.as_ref().unwrap();
                    println!("     {:?} {:?} {:.2}", i.choices, i.agreement, i.concurrent_share);
                    if let models::Model::Forest(fo) = &model.model {
                        println!(
                            "     leaf {} idle/place {:b} {:?}",
                            fo.growth.minimum_leaf,
                            fo.growth.allowed,
                            fo.ranking()
                                .iter()
                                .take(8)
                                .map(|(n, s)| format!("{n} {s:.2}"))
                                .collect::<Vec<_>>()
                        );
                    }
                }
            }
        }
    }
}
