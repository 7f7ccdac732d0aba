//! Placement files: what they may say, and what is said of those that are wrong.

use servsim_config::{BoundTo, NameKind, PageRule, PlacementFile, Rank};

fn read(text: &str) -> Result<PlacementFile, String> {
    PlacementFile::from_toml(text, "p.toml", 4, 16).map_err(|faults| faults.to_string())
}

#[test]
fn a_whole_file_is_read() {
    let file = read(
        "policy = 'remote'\n[[page]]\nrelation = 'stock'\nnodes = '3, 1'\n[[page]]\nprocess = 77\n\
         addresses = '0x1000..8192'\nnode = 2\n[[page]]\narea = 'user stack'\npolicy = 'first-touch'\n\
         [threads]\norder = 'fill'\n[[thread]]\ntask = 12\nprocessor = 15\n",
    )
    .unwrap();
    let rule =
        |policy: &str, nodes: &[usize]| PageRule { policy: policy.into(), stride: 1, nodes: nodes.to_vec() };
    assert_eq!(file.rest, Some(rule("remote", &[])));
    let rules: Vec<_> = file.pages.iter().map(|(_, rule)| rule.clone()).collect();
    assert_eq!(rules, [rule("striped", &[2, 0]), rule("striped", &[1]), rule("first-touch", &[])]);
    let (first, second) = (&file.pages[0].0, &file.pages[1].0);
    assert_eq!(first.name, Some((NameKind::Structure, "stock".into())));
    assert_eq!((second.process.as_deref(), second.range), (Some("77"), Some((0x1000, 0x2000))));
    let ranks: Vec<Rank> = file.pages.iter().map(|(selector, _)| selector.rank()).collect();
    assert_eq!(ranks, [Rank::Named, Rank::Range, Rank::Area]);
    assert_eq!(second.place, "p.toml, line 6");
    assert_eq!(file.threads.as_deref(), Some("fill"));
    assert_eq!((file.bound[0].task.as_str(), file.bound[0].to), ("12", BoundTo::Processor(15)));
}

#[test]
fn every_fault_has_its_place_and_a_remedy() {
    for (text, says) in [
        ("polcy = 'fill'\n", "p.toml, line 1: unknown key `polcy` (did you mean `policy`?)"),
        ("policy = 'local'\n", "p.toml, line 1: `local` goes by the task that allocates"),
        (
            "[[page]]\nrelation = 'a'\nnode = 5\n",
            "p.toml, line 2: node: there is no 5; this machine has 1 to 4",
        ),
        ("[[page]]\nrelation = 'a'\nnodes = '1 1'\n", "1 is there twice"),
        ("[[page]]\nrelation = 'a'\nnodes = ''\n", "nodes: empty"),
        ("[[page]]\nrelation = 'a'\nnode = 1\nnodes = '2'\n", "node and nodes together"),
        ("[[page]]\nrelation = 'a'\n", "say where its pages lie"),
        ("[[page]]\nnode = 1\n", "a rule for no pages"),
        ("[[page]]\nrelation = 'a'\nsymbol = 'b'\nnode = 1\n", "write a rule for each"),
        ("[[page]]\naddresses = '5..5'\nnode = 1\n", "`5..5` is no range"),
        ("[[page]]\noffset = '0..5'\nprocess = 'a'\nnode = 1\n", "offset: goes with relation"),
        ("[[page]]\nrelation = 'a'\naddresses = '0..5'\nnode = 1\n", "addresses: names data already"),
        ("[[page]]\nrelation = 'a'\npolicy = 'fill'\nstride = 2\n", "only stripes have one"),
        ("[threads]\norder = 'filled'\n", "(did you mean `fill`?)"),
        ("[[thread]]\ntask = 1\n", "either node or processor"),
        ("[[thread]]\ntask = 1\nprocessor = 16\n", "there is no 16; this machine has 0 to 15"),
        ("[page]\nnode = 1\n", "write [[page]] for each page"),
        ("node = \n", "p.toml, line 1: "),
    ] {
        let refused = read(text).expect_err(text);
        assert!(refused.contains(says), "{text}: {refused}");
    }
    assert_eq!(read("policy = 'Fill'\n").unwrap(), read("policy = 'fill'\n").unwrap());
    assert_eq!(read("polcy = 1\nnod = 2\n").unwrap_err().lines().count(), 2, "all at once");
}
