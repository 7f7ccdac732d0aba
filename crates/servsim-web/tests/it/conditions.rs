//! Each condition of a file set fails on data made wrong for it, and no other does.

use servsim_web::surge::check::check;
use servsim_web::surge::files::Set;
use servsim_web::surge::sizes::SetSpec;

const SPEC: SetSpec = SetSpec { files: 1000, total_bytes: 25_000_000, seed: 42 };

/// A set without its files: only the catalogue and the requests.
fn set(root: &std::path::Path) -> Set {
    Set::make(&root.join("set"), SPEC, |_| ()).unwrap()
}

fn failed(set: &Set, root: Option<&std::path::Path>) -> Vec<String> {
    let report = check(set, root).unwrap();
    let conditions = report["conditions"].as_array().unwrap();
    let failed = conditions
        .iter()
        .filter(|c| c["holds"] == false)
        .map(|c| c["condition"].as_str().unwrap().to_owned());
    let failed: Vec<String> = failed.collect();
    assert_eq!(report["passed"], failed.is_empty());
    failed
}

#[test]
fn a_set_as_made_fails_no_condition_and_is_read_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let set = set(folder.path());
    let root = folder.path().join("set");
    assert_eq!(failed(&set, Some(&root)), Vec::<String>::new());
    assert_eq!(Set::read(&root).unwrap(), set);
    // The same seed makes the same set again, in place of the old.
    assert_eq!(Set::make(&root, SPEC, |_| ()).unwrap(), set);
}

#[test]
fn every_condition_fails_on_data_made_wrong_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let set = set(folder.path());
    let spoilt = |spoil: &dyn Fn(&mut Set)| {
        let mut set = set.clone();
        spoil(&mut set);
        failed(&set, None)
    };
    // Body files a fifth larger, as a wrong mean of the logarithm would make them.
    let body = spoilt(&|set| {
        set.files
            .iter_mut()
            .filter(|file| file.bytes < 100_000)
            .for_each(|file| file.bytes += file.bytes / 5);
    });
    assert!(body.contains(&"body".to_owned()) && !body.contains(&"tail".to_owned()), "{body:?}");
    // A tail that ends where it should begin to thin out.
    let tail = spoilt(&|set| {
        set.files
            .iter_mut()
            .filter(|file| file.bytes > 133_000)
            .for_each(|file| file.bytes = 140_000 + file.bytes % 999);
    });
    assert!(tail.contains(&"tail".to_owned()) && !tail.contains(&"body".to_owned()), "{tail:?}");
    let total = spoilt(&|set| set.wanted.total_bytes = 27_000_000);
    assert_eq!(total, ["total"]);
    // Ranks given to files of any size, as in a set whose popularity is not matched.
    let replies = spoilt(&|set| {
        let files = set.files.len() as u32;
        set.sequence.requests.iter_mut().for_each(|file| *file = (*file * 7 + 3) % files);
        recount(set);
    });
    assert_eq!(replies, ["replies"]);
    // Popularity that falls with the root of the rank: every second request for a popular file goes elsewhere.
    let popularity = spoilt(&|set| {
        let files = set.files.len() as u32;
        let each = 0u32..;
        set.sequence
            .requests
            .iter_mut()
            .zip(each)
            .filter(|(_, n)| n % 2 == 0)
            .for_each(|(file, n)| *file = n / 2 % files);
        recount(set);
    });
    assert!(popularity.contains(&"popularity".to_owned()), "{popularity:?}");
    let never = spoilt(&|set| {
        let rarest = (0..).zip(&set.files).find(|(_, file)| file.requests == 1).unwrap().0;
        let place = set.sequence.requests.iter().position(|&file| file == rarest).unwrap();
        set.sequence.requests[place] = set.sequence.requests[0];
    });
    assert_eq!(never, ["every-file"]);
    // The same requests in the order of the files: no file is asked for again but at once.
    let locality = spoilt(&|set| set.sequence.requests.sort_unstable());
    assert_eq!(locality, ["locality"]);
    // Every page embeds one reference.
    let embedded = spoilt(&|set| {
        let end = set.sequence.requests.len() as u32;
        set.sequence.pages = (0..end).step_by(2).chain([end]).collect();
    });
    assert_eq!(embedded, ["embedded"]);
}

/// Makes the catalogue agree with the requests, so that only their law is wrong.
fn recount(set: &mut Set) {
    set.files.iter_mut().for_each(|file| file.requests = 0);
    set.sequence.requests.iter().for_each(|&file| set.files[file as usize].requests += 1);
}

#[test]
fn a_file_that_changed_on_disk_fails_by_its_contents_alone() {
    let folder = tempfile::tempdir().unwrap();
    let set = set(folder.path());
    let root = folder.path().join("set");
    let victim = root.join("htdocs/00/00017.html");
    let mut content = std::fs::read(&victim).unwrap();
    content[0] ^= 1;
    std::fs::write(&victim, &content).unwrap();
    assert_eq!(failed(&set, Some(&root)), ["contents"]);
    std::fs::remove_file(&victim).unwrap();
    assert_eq!(failed(&set, Some(&root)), ["contents"]);
}

#[test]
fn a_catalogue_or_requests_cut_short_are_refused_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    set(folder.path());
    let root = folder.path().join("set");
    let catalogue = root.join("catalogue.csv");
    let whole = std::fs::read_to_string(&catalogue).unwrap();
    for (text, said) in [
        (&whole[..whole.len() / 2], "catalogue.csv"),
        (&whole[..=whole.rfind("\n999,").unwrap()], "999 files instead of 1000"),
        ("", "no catalogue of a file set"),
    ] {
        std::fs::write(&catalogue, text).unwrap();
        let error = Set::read(&root).unwrap_err();
        assert!(error.exit_code() == 2 && error.to_string().contains(said), "{error}");
    }
    std::fs::write(&catalogue, &whole).unwrap();
    std::fs::write(root.join("requests.txt"), "1 2\n3 1000\n").unwrap();
    assert!(Set::read(&root).unwrap_err().to_string().contains("line 2: \"1000\" is no file of the set"));
}
