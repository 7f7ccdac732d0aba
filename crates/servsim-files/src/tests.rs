use super::*;
use std::os::unix::fs::symlink;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_target_has_its_old_bytes_until_the_new_ones_are_whole() {
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, "old").unwrap();
    let mut file = AtomicFile::create(&path, Special::Refuse).unwrap();
    file.write_all(b"fresh").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(file.commit().unwrap(), 5);
    assert_eq!(std::fs::read(&path).unwrap(), b"fresh");
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn what_is_dropped_unfinished_leaves_nothing() {
    let folder = folder();
    let mut file = AtomicFile::create(&folder.path().join("a"), Special::Refuse).unwrap();
    file.write_all(b"half").unwrap();
    assert_eq!(names(folder.path()).len(), 1);
    drop(file);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn two_writers_of_one_target_publish_only_their_own_bytes() {
    let folder = folder();
    let path = folder.path().join("a");
    let mut writers = [1, 2].map(|_| AtomicFile::create(&path, Special::Refuse).unwrap());
    for part in 0..3 {
        for (writer, byte) in writers.iter_mut().zip(*b"xy") {
            writer.write_all(&[byte, b'0' + part]).unwrap();
        }
    }
    for (writer, whole) in writers.into_iter().zip(["x0x1x2", "y0y1y2"]) {
        writer.commit().unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    }
    assert_eq!(names(folder.path()), ["a"]);
}

#[test]
fn a_link_is_replaced_and_what_it_points_at_stays() {
    let folder = folder();
    let (path, other) = (folder.path().join("a"), folder.path().join("other"));
    std::fs::write(&other, "other").unwrap();
    symlink(&other, &path).unwrap();
    write(&path, b"fresh", Special::Refuse).unwrap();
    assert_eq!(std::fs::read(&other).unwrap(), b"other");
    assert!(std::fs::symlink_metadata(&path).unwrap().is_file());
}

#[test]
fn the_leftovers_of_killed_writers_are_removed_and_those_of_live_ones_are_not() {
    let folder = folder();
    let path = folder.path().join("a");
    let live = AtomicFile::create(&path, Special::Refuse).unwrap();
    for left in [".a.Ab3dE9.part", ".b.Ab3dE9.part", ".a.short.part", "a.Ab3dE9.part"] {
        std::fs::write(folder.path().join(left), "left").unwrap();
    }
    let other = folder.path().join("other");
    std::fs::write(&other, "other").unwrap();
    symlink(&other, folder.path().join(".a.Abcdef.part")).unwrap();
    write(&path, b"fresh", Special::Refuse).unwrap();
    let kept = names(folder.path());
    assert!(!kept.contains(&".a.Ab3dE9.part".to_owned()), "{kept:?}");
    // The other writer's, what others left, the link, and the target.
    assert_eq!(kept.len(), 7, "{kept:?}");
    assert_eq!(std::fs::read(&other).unwrap(), b"other");
    live.commit().unwrap();
}

#[test]
fn what_is_no_file_is_refused_or_written_to_and_never_replaced() {
    let folder = folder();
    let path = folder.path().join("null");
    symlink("/dev/null", &path).unwrap();
    let refused = write(&path, b"x", Special::Refuse).unwrap_err();
    assert_eq!(refused.blame(), Blame::Name);
    write(&path, b"x", Special::WriteTo).unwrap();
    assert_eq!(std::fs::read_link(&path).unwrap(), Path::new("/dev/null"));
    assert_eq!(names(folder.path()), ["null"]);
}

#[test]
fn the_name_of_an_open_file_is_written_to_and_never_replaced() {
    let folder = folder();
    let path = folder.path().join("open");
    let open = File::create(&path).unwrap();
    let name = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
    assert!(write(Path::new(&name), b"x", Special::Refuse).is_err());
    write(Path::new(&name), b"through", Special::WriteTo).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"through");
}

#[test]
fn a_full_disk_is_the_hosts_fault_and_a_missing_folder_the_names() {
    let folder = folder();
    let full = WriteError::new(Path::new("x"), ErrorKind::StorageFull.into());
    assert_eq!(full.blame(), Blame::Host);
    assert!(full.to_string().ends_with("free some room, or choose another disk"), "{full}");
    let missing = write(&folder.path().join("none/a"), b"", Special::Refuse).unwrap_err();
    assert_eq!(missing.blame(), Blame::Name);
    assert!(missing.to_string().ends_with("make its folder first, or choose another"), "{missing}");
    assert!(
        !missing.to_string().contains(SUFFIX),
        "the name of the unfinished file is ours alone: {missing}"
    );
    for name in ["", "..", "a"] {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        assert_eq!(write(&path, b"", Special::Refuse).unwrap_err().source.kind(), ErrorKind::IsADirectory);
    }
}

#[test]
fn permissions_stay_when_a_file_is_replaced() {
    let folder = folder();
    let path = folder.path().join("a");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    write(&path, b"fresh", Special::Refuse).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
}

#[test]
fn names_of_any_length_and_of_any_bytes_can_be_written() {
    let folder = folder();
    for name in ["n".repeat(255).into_bytes(), vec![b'a', 0xff, 0xfe]] {
        let path = folder.path().join(OsStr::from_bytes(&name));
        write(&path, b"fresh", Special::Refuse).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"fresh");
    }
}

#[test]
fn unfinished_files_can_be_discarded_and_are_then_never_committed() {
    // In a process of its own: other tests have unfinished files too.
    let name = "tests::unfinished_files_can_be_discarded_and_are_then_never_committed";
    if std::env::var_os("SERVSIM_TEST_DISCARD").is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let done = child.args(["--exact", name]).env("SERVSIM_TEST_DISCARD", "1").status().unwrap();
        assert!(done.success());
        return;
    }
    let folder = folder();
    let path = folder.path().join("a");
    let file = AtomicFile::create(&path, Special::Refuse).unwrap();
    discard_unfinished();
    assert!(names(folder.path()).is_empty());
    assert!(file.commit().is_err());
    assert!(names(folder.path()).is_empty());
}
