//! A user's own SPLASH, played by scripts that tell what they were given.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::program::{json, servsim_kernel};

const TELL: &str =
    "#!/bin/sh\necho \"in $(pwd) with $*\"\nwhile IFS= read -r line; do echo \"<$line>\"; done\n";

fn program(folder: &Path, place: &str, script: &str) {
    let path = folder.join(place);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The lines of a program's output, for a folder and further words.
fn told(folder: &Path, words: &str) -> Vec<String> {
    let output = servsim_kernel(&format!("{words} --json --splash-dir {}", folder.display()));
    let report = json(&output);
    assert_eq!((output.status.code(), &report["valid"]), (Some(0), &true.into()), "{report:#}");
    assert_eq!(report["marks"]["total"], 3);
    report["output"].as_str().unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn programs_run_in_their_folder_with_their_documented_words() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    program(&root, "codes/apps/ocean/contiguous_partitions/OCEAN", TELL);
    program(&root, "codes/apps/water-nsquared/WATER-NSQUARED", TELL);
    program(&root, "codes/apps/barnes/BARNES", TELL);
    program(&root, "codes/apps/fmm/fmm", TELL);

    let ocean = told(&root, "ocean --size 258 --threads 4");
    assert!(ocean[0].ends_with("/codes/apps/ocean/contiguous_partitions with -n258 -p4"), "{ocean:?}");
    assert_eq!(ocean.len(), 1);
    let water = told(&root, "water-nsquared --size 512 --threads 2 --iterations 7");
    assert_eq!(water[1..], ["<1.5e-16 512 7 6>", "<-1 3000 3 0>", "<2 0>"]);
    let barnes = told(&root, "barnes --size paper --threads 16 --seed 9");
    assert_eq!((barnes[2].as_str(), barnes[3].as_str()), ("<131072>", "<9>"));
    assert_eq!((barnes[10].as_str(), barnes[12].as_str(), barnes.len()), ("<0.1>", "<16>", 13));
    let fmm = told(&root.join("codes"), "fmm --size 1000 --threads 3");
    assert_eq!((fmm[3].as_str(), fmm[5].as_str(), fmm[6].as_str()), ("<1000>", "<3>", "<3>"));
    assert_eq!(fmm.len(), 10);
}

#[test]
fn an_input_of_the_user_s_own_is_passed_on_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    program(folder.path(), "apps/water-spatial/WATER-SPATIAL", TELL);
    let input = folder.path().join("input");
    fs::write(&input, "one\ntwo\n").unwrap();
    let lines = told(folder.path(), &format!("water-spatial --splash-input {}", input.display()));
    assert_eq!(lines[1..], ["<one>", "<two>"]);
}

#[test]
fn a_program_that_fails_or_tells_of_an_error_makes_the_run_invalid() {
    let folder = tempfile::tempdir().unwrap();
    for (script, check) in [
        ("#!/bin/sh\necho done\nexit 3\n", "exit code of the program is 3.0"),
        ("#!/bin/sh\necho done\nkill -9 $$\n", "exit code of the program is null"),
        ("#!/bin/sh\necho 'ERROR: number of processors must be a power of 2'\n", "tell of an error is 1.0"),
        ("#!/bin/sh\nexit 0\n", "outputs that are empty is 1.0"),
    ] {
        program(folder.path(), "apps/barnes/BARNES", script);
        let output = servsim_kernel(&format!("barnes --json --splash-dir {}", folder.path().display()));
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(check) && said.lines().count() == 1, "{said}");
        assert_eq!(json(&output)["valid"], false);
    }
}

#[test]
fn what_is_not_there_is_named_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("apps/fmm")).unwrap();
    fs::write(folder.path().join("apps/fmm/FMM"), "not a program").unwrap();
    let place = folder.path().display();
    for (words, code, told) in [
        (format!("barnes --splash-dir {place}"), 2, "apps/barnes/BARNES is missing: build that program"),
        (format!("barnes --splash-dir {place}/none"), 2, "is no folder"),
        (format!("fft --splash-dir {place}"), 2, "SPLASH has no program that does what fft does"),
        (format!("ocean --iterations 3 --splash-dir {place}"), 2, "leave --iterations out"),
        (format!("fmm --iterations 0 --splash-dir {place}"), 2, "--iterations must be at least 1"),
        (format!("fmm --splash-dir {place} --splash-input {place}/none"), 2, "cannot be read"),
        (format!("fmm --splash-dir {place}"), 3, "cannot be run"),
    ] {
        let output = servsim_kernel(&words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(told) && said.lines().count() == 1, "{words}: {said}");
    }
    for words in
        ["barnes --theta 1", "barnes --init serial", "barnes --print-structures", "barnes --memory 1GiB"]
    {
        let output = servsim_kernel(&format!("{words} --splash-dir {place}"));
        assert_eq!(output.status.code(), Some(2), "{words}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be used with"));
    }
}
