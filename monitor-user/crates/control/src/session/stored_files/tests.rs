//! Files are created and removed below the directory only, within their quota.

use super::quota::MAX_BYTES;
use super::*;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

struct World {
    folder: PathBuf,
    files: StoredFiles,
}

impl Drop for World {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).expect("this test created it");
    }
}

fn world(name: &str) -> World {
    let folder = std::env::temp_dir().join(format!("monitor-stored-{name}-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let own = (fsuid::effective_uid(), rustix::process::getegid().as_raw());
    let files = StoredFiles::open(&folder, own).expect("it is there");
    World { folder, files }
}

fn refusal<T>(result: Result<T, SessionError>) -> Option<Refusal> {
    result.err().map(|it| it.refusal)
}

#[test]
fn files_are_created_written_read_listed_and_removed() {
    let it = world("files");
    let file = it.files.create("a", 0o755).expect("a file");
    it.files.write(&file, 0, b"abc").expect("room");
    it.files.make_directory("d", 0o755).expect("a directory");
    let _other = it.files.create("d/b", 0o600).expect("a file");
    let names: Vec<_> = it.files.list("").expect("it").into_iter().map(|it| it.0).collect();
    assert_eq!(names, ["a", "d"]);
    let stat = it.files.stat("a").expect("it is there");
    assert_eq!((stat.permissions, stat.length, stat.is_directory), (0o755, 3, false));
    assert_eq!(it.files.read(&file, 1, 9).expect("it"), b"bc");
    assert_eq!(refusal(it.files.remove("d")), Some(Refusal::Kernel(39)));
    it.files.remove("d/b").expect("it is there");
    it.files.remove("d").expect("it is empty");
    it.files.truncate("a").expect("it is there");
    assert_eq!(it.files.stat("a").expect("it").length, 0);
    assert_eq!(refusal(it.files.create("a", 0o600)), Some(Refusal::Kernel(17)));
}

#[test]
fn no_path_leaves_the_directory() {
    let it = world("escapes");
    symlink("/etc/passwd", it.folder.join("link")).expect("a link");
    symlink("/etc", it.folder.join("links")).expect("a link");
    symlink(".", it.folder.join("self")).expect("a link");
    for path in ["..", "../x", "link", "links/passwd", "/etc/passwd", "self/link", "a/../.."] {
        assert!(it.files.stat(path).is_err(), "{path}");
        assert!(it.files.open_file(path, StoredAccess::Read).is_err(), "{path}");
        assert!(it.files.create(path, 0o600).is_err(), "{path}");
        assert!(it.files.remove(path).is_err(), "{path}");
    }
    let names: Vec<_> = it.files.list("").expect("it").into_iter().map(|it| it.0).collect();
    assert!(names.is_empty(), "{names:?}");
    assert!(std::fs::symlink_metadata(it.folder.join("link")).is_ok());
}

#[test]
fn special_files_are_neither_opened_nor_waited_for() {
    let it = world("special");
    let fifo = it.folder.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("it");
    let _socket = std::os::unix::net::UnixListener::bind(it.folder.join("socket")).expect("it");
    for path in ["fifo", "socket"] {
        assert!(it.files.open_file(path, StoredAccess::Read).is_err(), "{path}");
        assert!(it.files.open_file(path, StoredAccess::Write).is_err(), "{path}");
        assert_eq!(refusal(it.files.stat(path)), Some(Refusal::NotPermitted), "{path}");
    }
}

#[test]
fn the_quota_is_that_of_all_files_and_counts_holes() {
    let it = world("quota");
    let file = it.files.create("a", 0o600).expect("a file");
    assert_eq!(refusal(it.files.write(&file, MAX_BYTES, b"x")), Some(Refusal::TooLarge));
    assert_eq!(refusal(it.files.write(&file, u64::MAX, b"x")), Some(Refusal::TooLarge));
    it.files.write(&file, MAX_BYTES - 1, b"x").expect("it fits");
    let other = it.files.create("b", 0o600).expect("a file");
    assert_eq!(refusal(it.files.write(&other, 0, b"x")), Some(Refusal::TooLarge));
    it.files.truncate("a").expect("it is there");
    it.files.write(&other, 0, b"x").expect("there is room again");
}

#[test]
fn modes_times_and_names_are_changed_and_lead_nowhere_else() {
    let it = world("modes");
    drop(it.files.create("a", 0o600).expect("room"));
    it.files.make_directory("d", 0o700).expect("room");
    drop(it.files.create("d/b", 0o600).expect("room"));
    // Also one that its user may not read, and no bit beside the nine.
    for (set, is) in [(0o000, 0o000), (0o7755, 0o755)] {
        it.files.set_permissions("a", set).expect("it is there");
        assert_eq!(it.files.stat("a").expect("it is there").permissions, is);
    }
    it.files.set_modified("a", 86_400).expect("it is there");
    assert_eq!(it.files.stat("a").expect("it is there").modified_s, 86_400);
    it.files.rename("d/b", "c").expect("no file has the name");
    assert!(it.files.stat("d/c").is_ok() && it.files.stat("d/b").is_err());
    it.files.rename("d", "e").expect("no file has the name");
    assert!(it.files.stat("e/c").is_ok());
    let taken = it.files.rename("e", "a").map_err(|it| it.refusal);
    assert_eq!(taken, Err(Refusal::Kernel(17)));
    let outside = it.folder.with_extension("outside");
    std::fs::write(&outside, "x").expect("it is written");
    symlink(&outside, it.folder.join("link")).expect("a link");
    assert!(it.files.set_permissions("link", 0o777).is_err());
    assert!(it.files.set_modified("link", 5).is_err() && it.files.rename("link", "l").is_err());
    assert!(it.files.set_permissions("../x", 0o777).is_err());
    for own in ["", "e/../e"] {
        let denied = it.files.set_permissions(own, 0o700);
        assert!(own.is_empty() == denied.is_err(), "{own} {denied:?}");
    }
    assert!(it.files.rename("", "x").is_err());
    std::fs::remove_file(outside).expect("it is there");
}
