//! Bad input: every refusal names the offending place and the remedy, and all problems of a file
//! come at once.

use servsim_model::service::Law;
use servsim_model::text::{read_allocation, read_measurements, read_network};
use servsim_model::{
    solve, Class, Discipline, Full, ModelError, Network, Options, Pool, Room, Speed, Station,
};

fn error(network: &Network, solver: &str) -> String {
    solve(network, solver, &Options::default()).unwrap_err().to_string()
}

#[test]
fn an_unstable_open_network_names_the_station_and_the_factor() {
    let stations = vec![Station::queue("cpu", &[0.1]), Station::queue("disk", &[0.4])];
    let network = Network::new("open", vec![Class::open("web", 3.0)], stations);
    for solver in ["auto", "mva", "convolution", "simulation"] {
        let text = error(&network, solver);
        assert!(text.contains("`disk` is unstable") && text.contains("0.792"), "{text}");
    }
}

#[test]
fn an_unstable_network_of_no_product_form_is_refused_for_that_and_not_for_what_a_run_sees() {
    let mut network =
        Network::new("open", vec![Class::open("web", 9.8)], vec![Station::queue("cpu", &[5.0])]);
    network.pools.push(Pool { name: "pool".into(), size: 30, parent: None, holds: vec![2.5], calls: 1.0 });
    for solver in ["auto", "simulation"] {
        assert!(error(&network, solver).contains("`cpu` is unstable"), "{}", error(&network, solver));
    }
}

#[test]
fn zero_negative_and_infinite_demands_are_refused() {
    for bad in [-0.1, f64::NAN, f64::INFINITY] {
        let text = error(&Network::single(3, 1.0, &[0.2, bad]), "auto");
        assert!(text.contains("`s1`") && text.contains("customers"), "{text}");
    }
    let text = error(&Network::single(3, 0.0, &[0.0]), "auto");
    assert!(text.contains("zero") && text.contains("no bound"), "{text}");
}

#[test]
fn a_station_without_demand_is_refused_and_a_class_that_does_not_come_is_not() {
    let text = |demand: &str| {
        format!(
            "[[class]]\nname = \"a\"\npopulation = 3\n[[class]]\nname = \"b\"\npopulation = 3\n\
             [[station]]\nname = \"cpu\"\ndemand = \"1 ms\"\n[[station]]\nname = \"disk\"\n{demand}\n"
        )
    };
    for idle in ["demand = \"0 ms\"", "demands = { a = \"0 s\" }", "visits = 3\nservice = \"0 us\""] {
        let problems = read_network(&text(idle), false).unwrap_err().0;
        assert_eq!(problems.len(), 1, "{problems:?}");
        let said = problems[0].to_string();
        assert!(said.contains("station `disk`") && said.contains("leave the station out"), "{said}");
    }
    assert!(read_network(&text("demands = { a = \"0 s\", b = \"1 ms\" }"), false).is_ok());
}

#[test]
fn populations_that_overflow_are_refused_with_the_alternative() {
    let classes = vec![Class::closed("a", 5_000, 1.0), Class::closed("b", 50_000, 1.0)];
    let network = Network::new("big", classes, vec![Station::queue("cpu", &[0.1, 0.2])]);
    let text = error(&network, "mva");
    assert!(text.contains("`cpu`") && text.contains("linearizer"), "{text}");
    assert!(solve(&network, "auto", &Options::default()).is_ok());
    let mut long = Network::single(3_000_000, 1.0, &[0.1]);
    // Rates that fall again take a convolution of its own length; those that only grow do not.
    long.stations[0].speed = Speed::Rates(vec![1.0, 2.0, 1.5]);
    let text = error(&long, "convolution");
    assert!(text.contains("3000000") && text.contains("use `simulation`"), "{text}");
    for (speed, solver) in [(Speed::Servers(4), "convolution"), (Speed::Servers(1), "mva")] {
        long.stations[0].speed = speed;
        assert!(solve(&long, solver, &Options::default()).is_ok());
    }
}

#[test]
fn a_missing_demand_for_a_class_is_refused() {
    let classes = vec![Class::closed("a", 5, 1.0), Class::closed("b", 5, 1.0)];
    let network = Network::new("short", classes, vec![Station::queue("cpu", &[0.1])]);
    assert!(error(&network, "auto").contains("1 demands for 2 classes"));
}

#[test]
fn product_form_solvers_refuse_what_breaks_product_form() {
    let mut classes = vec![Class::closed("a", 2, 1.0), Class::closed("b", 2, 1.0)];
    classes[0].priority = 1;
    let station = |d| Station::queue("cpu", &[0.1, 0.3]).with_discipline(d);
    let fcfs = Network::new("n", classes.clone(), vec![station(Discipline::Fcfs)]);
    assert!(error(&fcfs, "mva").contains("first come, first served with unequal"));
    let priority = Network::new("n", classes, vec![station(Discipline::Priority)]);
    assert!(error(&priority, "linearizer").contains("use `priority`"));
    let mut pool = Network::single(2, 1.0, &[0.1]);
    pool.pools = vec![Pool { name: "lock".into(), size: 1, parent: None, holds: vec![0.1], calls: 1.0 }];
    assert!(error(&pool, "convolution").contains("use `auto`"));
    pool.pools[0].holds[0] = 0.2;
    assert!(error(&pool, "layered").contains("more than its demand"));
    let mut rates = Network::single(2, 1.0, &[0.1]);
    rates.stations[0].speed = Speed::Rates(vec![1.0, 1.5]);
    assert!(error(&rates, "schweitzer").contains("convolution"));
    assert!(error(&rates, "mvaa").contains("choose one of"));
}

#[test]
fn sensitivity_of_an_open_network_is_refused() {
    let network = Network::new("open", vec![Class::open("web", 1.0)], vec![Station::queue("cpu", &[0.4])]);
    let result = servsim_model::sensitivity::sensitivity(&network, &Options::default().tolerance);
    assert!(matches!(result, Err(ModelError::Unsupported { .. })));
}

#[test]
fn a_model_without_anybody_has_bounds_of_nothing_and_cannot_be_simulated() {
    let network = Network::single(0, 0.0, &[0.1]);
    let [bound] = &servsim_model::solvers::bounds::bounds(&network).unwrap()[..] else { panic!() };
    assert_eq!((bound.throughput.low, bound.throughput.high), (0.0, 0.0));
    assert!(error(&network, "simulation").contains("nobody to simulate"));
    let options = Options { percentiles: vec![90.0], ..Options::default() };
    let solution = solve(&network, "auto", &options).unwrap();
    assert!(solution.throughput() == 0.0 && solution.classes[0].percentiles.is_empty());
    assert!(solution.notes.iter().any(|note| note.contains("percentiles withheld: the model has nobody")));
}

#[test]
fn sensitivity_without_product_form_is_refused() {
    let of = |change: &dyn Fn(&mut Station)| {
        let classes = vec![Class::closed("a", 5, 1.0), Class::closed("b", 3, 1.0)];
        let stations = vec![Station::queue("cpu", &[0.1, 0.2]), Station::queue("disk", &[0.1, 0.05])];
        let mut network = Network::new("irregular", classes, stations);
        change(&mut network.stations[0]);
        servsim_model::sensitivity::sensitivity(&network, &Options::default().tolerance)
    };
    for change in [
        |s: &mut Station| s.discipline = Discipline::Weighted,
        |s: &mut Station| s.discipline = Discipline::NonPreemptive,
        |s: &mut Station| s.discipline = Discipline::Priority,
        |s: &mut Station| s.discipline = Discipline::Fcfs,
        |s: &mut Station| s.room = Some(Room { most: 2, full: Full::Lose }),
        |s: &mut Station| {
            (s.discipline, s.demands, s.laws) = (Discipline::Fcfs, vec![0.1; 2], vec![Law::Constant; 2]);
        },
    ] {
        let said = of(&change).unwrap_err().to_string();
        assert!(said.contains("`cpu`") && said.contains("--what-if"), "{said}");
    }
    // These have one.
    for change in [
        |_: &mut Station| (),
        |s: &mut Station| s.laws = vec![Law::Constant; 2],
        |s: &mut Station| (s.discipline, s.demands) = (Discipline::Fcfs, vec![0.1; 2]),
        |s: &mut Station| (s.discipline, s.visits) = (Discipline::Fcfs, vec![1.0, 2.0]),
    ] {
        assert!(of(&change).is_ok());
    }
}

#[test]
fn sensitivity_of_too_many_customers_is_asked_by_what_ifs() {
    let classes = (0..3).map(|c| Class::closed(&format!("c{c}"), 400, 1.0)).collect();
    let network = Network::new("many", classes, vec![Station::queue("cpu", &[0.01; 3])]);
    let result = servsim_model::sensitivity::sensitivity(&network, &Options::default().tolerance);
    let said = result.unwrap_err().to_string();
    assert!(said.contains("--what-if") && !said.contains("linearizer"), "{said}");
}

#[test]
fn all_problems_of_a_model_file_come_at_once_with_lines_and_nearest_names() {
    let text = r#"
name = "bad"
[[class]]
name = "users"
population = 4.5
thnk = "3 s"
[[station]]
name = "cpu"
demand = 12
[[station]]
name = "disk"
kind = "quue"
demands = { user = "3 furlongs" }
[[station]]
name = "disk"
demand = "-3 ms"
[[pool]]
name = "lock"
size = 0
stations = ["dsk"]
"#;
    let problems = read_network(text, false).unwrap_err().0;
    let lines: Vec<usize> = problems.iter().map(|p| p.line).collect();
    let all = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    println!("{all}");
    for expected in [
        "line 5: `population` must be a whole number",
        "line 6: unknown key `thnk` in class `users`, did you mean `think`?",
        "line 9: `demand` = 12 has no unit",
        "did you mean `queue`?",
        "unknown class `user`, did you mean `users`?",
        "described twice",
        "line 16: `demand`: `-3 ms` is not a duration",
        "`size` must be a whole number of at least 1",
        "did you mean `disk`?",
    ] {
        assert!(all.contains(expected), "missing: {expected}\n{all}");
    }
    assert!(lines.windows(2).all(|w| w[0] <= w[1]));
}

#[test]
fn a_good_model_file_reads_with_units() {
    let text = r#"
[[class]]
name = "users"
population = 10
think = "2 s"
[[station]]
name = "cpu"
servers = 2
visits = 4
service = "5 ms"
[[station]]
name = "disk"
demand = "12 ms"
[[pool]]
name = "connections"
size = 3
stations = ["disk"]
[[what_if]]
name = "faster disk"
cost = 10
scale = { disk = 0.5 }
"#;
    let model = read_network(text, false).unwrap();
    assert_eq!(model.network.stations[0].demands, [0.02]);
    assert_eq!(model.network.pools[0].holds, [0.0, 0.012]);
    assert_eq!(model.what_ifs.len(), 1);
    assert!(solve(&model.network, "auto", &Options::default()).is_ok());
}

/// What was taken for something else, or for nothing, before.
#[test]
fn values_that_say_nothing_are_refused_with_their_line() {
    let model = |rest: &str| {
        format!(
            "[[class]]\nname = \"a\"\npopulation = 3\n[[station]]\nname = \"cpu\"\ndemand = \"9 ms\"\n\
             [[station]]\nname = \"net\"\nkind = \"delay\"\ndemand = \"9 ms\"\n{rest}\n"
        )
    };
    for (rest, said) in [
        ("[[pool]]\nname = \"p\"\nsize = 1\nholds = \"5 ms\"", "line 14: `holds` must be a table such as"),
        ("[[pool]]\nname = \"p\"\nsize = 1\nholds = {}", "pool `p` is held nowhere"),
        ("[[pool]]\nname = \"p\"\nsize = 1", "pool `p` is held nowhere"),
        ("[[pool]]\nname = \"p\"\nsize = 1\nstations = []", "pool `p` is held nowhere"),
        ("[[pool]]\nname = \"p\"\nsize = 1\nstations = [\"cpu\"]\ncalls = -1", "pool `p` is called -1 times"),
        ("[[what_if]]\nname = \"w\"\nscale = 2", "line 13: `scale` must be a table such as"),
        ("[[what_if]]\nname = \"w\"\npopulation = -1", "line 13: `population` must be a positive factor"),
        ("[[what_if]]\nname = \"w\"\nservers = { net = 2 }", "station `net` is a delay and has no servers"),
        (
            "[[class]]\nname = \"b\"\npopulation = 1\npriority = 1.5",
            "line 14: `priority` must be a whole number",
        ),
        ("[[station]]\nname = \"db\"\nservice = { a = { x = \"1 ms\" } }", "class `a` has no [[route]]"),
    ] {
        let found = read_network(&model(rest), false).unwrap_err().to_string();
        assert!(found.contains(said), "{rest}: {found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    let routed =
        "[[class]]\nname = \"a\"\nrate = \"1 /s\"\n[[station]]\nname = \"cpu\"\nservice = \"9 ms\"\n\
                  [[route]]\nfrom = \"start\"\nto = { cpu = 1 }\n[[route]]\nfrom = \"cpu\"\nto = ";
    assert!(read_network(&format!("{routed}{{ end = 1 }}"), false).is_ok());
    for (to, said) in
        [("\"end\"", "line 12: `to` must be a table such as"), ("{}", "line 10: this route leads nowhere")]
    {
        let found = read_network(&format!("{routed}{to}"), false).unwrap_err().to_string();
        assert!(found.contains(said) && found.lines().count() == 1, "{found}");
    }
    let outer = "[[pool]]\nname = \"p\"\nsize = 1\n[[pool]]\nname = \"q\"\nsize = 1\ninside = \"p\"\nstations = [\"cpu\"]";
    assert!(read_network(&model(outer), false).is_ok());
    let open = "[[class]]\nname = \"a\"\nrate = \"1 /s\"\n[[station]]\nname = \"cpu\"\ndemand = \"9 ms\"\n";
    let more = format!("{open}[[what_if]]\nname = \"w\"\npopulation = 2\n");
    assert!(read_network(&more, false).unwrap_err().to_string().contains("no class has a population"));

    let compared = |disks: &str| {
        format!(
            "population = 2\ndisks_per_bus = [2]\ndisk_demand = \"9 ms\"\n[[table]]\nname = \"t\"\nshare = 1\n\
             [[compare]]\nname = \"c\"\ndisks = {disks}\n"
        )
    };
    for (disks, said) in [
        ("[[\"t\"], [\"t\"]]", "places table `t` twice"),
        ("[[\"t\"], \"t\"]", "disk 1 needs a list of tables"),
        ("[[\"t\"], [1]]", "disk 1 needs a list of tables"),
    ] {
        let found = read_allocation(&compared(disks), false).unwrap_err().to_string();
        assert!(found.contains(said), "{disks}: {found}");
    }
    let servers = "classes = [\"a\"]\nstations = [\"cpu\"]\nservers = [1.7]\n\
                   [[sample]]\nthroughput = [1]\nutilization = [0.5]\n";
    let found = read_measurements(servers, false).unwrap_err().to_string();
    assert!(found.contains("line 3: `servers` must list whole numbers"), "{found}");
}

#[test]
fn broken_files_are_refused_as_such() {
    for (text, json) in [("[[class", false), ("{\"class\": ", true), ("", false), ("a = 1979-05-27", false)] {
        assert!(read_network(text, json).is_err());
        assert!(read_allocation(text, json).is_err());
        assert!(read_measurements(text, json).is_err());
    }
}

#[test]
fn a_simulation_of_more_customers_than_memory_holds_is_refused_with_a_remedy_that_works() {
    let network = Network::single(100_000_000, 1.0, &[0.01, 0.02]);
    let text = error(&network, "simulation");
    assert!(text.contains("100000000 customers") && text.contains("`linearizer`"), "{text}");
    assert!(solve(&network, "linearizer", &Options::default()).is_ok());
}

#[test]
fn a_station_is_not_split_into_more_copies_than_can_be_solved() {
    let network = Network::single(10, 1.0, &[0.01, 0.02]);
    let split = |copies| servsim_model::whatif::WhatIf {
        name: "many".into(),
        cost: None,
        changes: vec![servsim_model::whatif::Change::Split(1, copies)],
    };
    let text = servsim_model::whatif::apply(&network, &split(1_000_000_000)).unwrap_err().to_string();
    assert!(text.contains("at most 1000") && text.contains("`scale`"), "{text}");
    assert_eq!(servsim_model::whatif::apply(&network, &split(1000)).unwrap().stations.len(), 1001);
}
