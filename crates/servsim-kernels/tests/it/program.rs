//! The program as people run it: what it prints, refuses, and ends with.

use std::process::{Command, Output};

use serde_json::Value;

pub fn servsim_kernel(words: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_servsim-kernel")).args(words.split_ascii_whitespace()).output().unwrap()
}

pub fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

#[test]
fn a_run_reports_as_text_and_as_json() {
    let text = servsim_kernel("fft --size 16 --threads 2");
    let said = String::from_utf8(text.stdout.clone()).unwrap();
    assert_eq!(text.status.code(), Some(0), "{said}");
    assert!(said.starts_with("fft of size 16, 2 threads, 2 iterations: "), "{said}");
    assert!(said.contains("ok     forward and inverse restore the field"), "{said}");
    let report = json(&servsim_kernel("fft --size 16 --threads 2 --json"));
    assert_eq!(report["schema"], "servsim.kernel.run/1");
    assert_eq!((&report["valid"], &report["init"]), (&true.into(), &"parallel".into()));
}

#[test]
fn structures_can_be_had_as_one_document() {
    let document = json(&servsim_kernel("fft --size 16 --print-structures --json"));
    assert_eq!(document["schema"], "servsim.kernel.structures/1");
    assert_eq!(document["structures"][0]["name"], "fft.field");
    assert_eq!(document["structures"][0]["bytes"], 16 * 16 * 16 * 16);
}

#[test]
fn memory_tests_state_what_they_count() {
    let report = json(&servsim_kernel("membench --size 128KiB --threads 2 --json"));
    let measured = &report["measured"];
    assert_eq!(measured["chase"]["loads"], 128 * 1024 / 64);
    assert_eq!(measured["read"]["bytes"], 2 * 128 * 1024);
    assert_eq!(measured["copy"]["bytes"], 2 * 2 * 128 * 1024);
    assert!(
        measured["page_bytes"].as_u64().unwrap() >= 4096 && measured["transparent_huge_pages"].is_string()
    );
    let one = json(&servsim_kernel("membench --size 4KiB --test read --json"));
    assert_eq!(one["result"]["tests"], serde_json::json!(["read"]));
}

#[test]
fn the_list_names_every_kernel() {
    let list = json(&servsim_kernel("list --json"));
    let names = list["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap());
    let text = String::from_utf8(servsim_kernel("list").stdout).unwrap();
    let lines: Vec<&str> = text.lines().filter_map(|line| line.split_ascii_whitespace().next()).collect();
    assert_eq!(lines, names.collect::<Vec<_>>());
}

#[test]
fn bad_input_is_refused_in_one_sentence_with_a_remedy() {
    for (words, code, told) in [
        ("fft --size 100", 2, "give 64 or 128"),
        ("fft --size 0", 2, "write a whole number from 1"),
        ("fft --size many", 2, "'many' is not a number of points per side"),
        ("fft --size 8 --threads 9", 2, "give at most 8 --threads"),
        ("fft --threads 0", 2, "--threads must be from 1 to 4096"),
        ("fft --iterations 0", 2, "--iterations must be at least 1"),
        ("fft --size 1048576", 2, "give a smaller --size"),
        ("fft --size 18446744073709551615", 2, "give 9223372036854775808"),
        ("fft --size 64 --memory 1MiB", 2, "a larger --memory"),
        ("fft --memory 1", 2, "write a number and a unit"),
        ("ocean --size 512", 2, "give 258 or 514"),
        ("ocean --size 1", 2, "give 10"),
        ("barnes --size 10", 2, "at least 64 bodies"),
        ("barnes --theta 9", 2, "--theta must be a number from 0 to 1.5, not '9'"),
        ("fmm --size 10", 2, "at least 64 particles"),
        ("fmm --terms 100", 2, "--terms must be a number from 1 to 60"),
        ("fmm --terms 2.5", 2, "--terms must be a number from 1 to 60"),
        ("water-spatial --size 100", 2, "give 64 or 125"),
        ("water-nsquared --size 27", 2, "give 64"),
        ("water-nsquared --size 64 --threads 65", 2, "give at most 64 --threads"),
        ("membench --size paper", 2, "the paper gives no size for membench"),
        ("membench --size 1000", 2, "write a number and a unit"),
        ("membench --size 1000B", 2, "give a multiple of 4 KiB"),
        ("membench --size 0B", 2, "give a multiple of 4 KiB"),
        ("membench --test speed", 2, "give --test chase, read, write, copy or all"),
    ] {
        let output = servsim_kernel(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.starts_with("servsim-kernel: ") && said.lines().count() == 1, "{words}: {said}");
        assert!(said.contains(told), "{words}: {said}");
        assert!(output.stdout.is_empty(), "{words}");
    }
    for words in ["", "sorting", "fft --size", "fft --seed -1", "fft --theta 1"] {
        assert_eq!(servsim_kernel(words).status.code(), Some(2), "{words}");
    }
}

#[test]
fn in_a_guest_the_orders_of_the_control_device_are_measured_and_the_structures_told() {
    // Beside the sources rather than in /tmp, which may be a memory file system without direct access.
    let device = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    std::fs::write(device.path(), br#"{"transactions": 3, "seed": 7, "lead_in": 2}"#).unwrap();
    device.as_file().set_len(2 << 20).unwrap();
    let words = format!(
        "fft --size 16 --threads 2 --control {} --pause none --warm-up 4 --json",
        device.path().display()
    );
    let report = json(&servsim_kernel(&words));
    assert_eq!((&report["valid"], &report["marks"]["transaction"]), (&true.into(), &3.into()), "{report}");
    assert_eq!((&report["orders"]["transactions"], &report["lead_in_transactions"]), (&3.into(), &2.into()));
    // Nine iterations in all: the same field as natively after nine.
    let native = json(&servsim_kernel("fft --size 16 --iterations 9 --json"));
    assert_eq!(report["digest"], native["digest"]);
    let field = &report["data"]["ranges"][0];
    assert_eq!((&field[0], &field[2]), (&"fft.field".into(), &(16 * 16 * 16 * 16).into()));
    let left = std::fs::read(device.path()).unwrap();
    let length = u64::from_le_bytes(left[1 << 20..(1 << 20) + 8].try_into().unwrap()) as usize;
    let result: Value = serde_json::from_slice(&left[(1 << 20) + 8..][..length]).unwrap();
    assert_eq!(result, report, "the report is left on the device");
    assert!(result["data"]["process"].as_u64().is_some_and(|number| number > 1), "{result}");
}

#[test]
fn without_orders_a_guest_is_told_so() {
    let device = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    device.as_file().set_len(2 << 20).unwrap();
    let words = format!("fft --size 16 --threads 2 --control {} --pause none", device.path().display());
    let output = servsim_kernel(&words);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("control block of"), "{said}");
}
