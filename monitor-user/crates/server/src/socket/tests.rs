//! Whatever lies where the socket should lie, nothing but a dead socket is removed.

use super::*;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

/// A folder that goes with the test.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let name = format!("monitor-socket-{name}-{}", std::process::id());
        let it = Self(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&it.0);
        std::fs::create_dir(&it.0).expect("a folder");
        it.mode(0o755);
        it
    }

    fn mode(&self, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&self.0, mode).expect("it is ours");
    }

    fn socket(&self) -> PathBuf {
        self.0.join("monitor.sock")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn listen(path: &Path) -> Result<Listening, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a loop").block_on(Listening::at(path)).map_err(|why| why.to_string())
}

#[track_caller]
fn refused_with(path: &Path, why: &str) {
    match listen(path) {
        Ok(_) => panic!("it listens"),
        Err(told) => assert!(told.contains(why), "{told}"),
    }
}

#[test]
fn anybody_may_connect_and_the_file_goes_with_it() {
    let place = Place::new("plain");
    let listening = listen(&place.socket()).expect("it listens");
    let meta = std::fs::symlink_metadata(place.socket()).expect("it is there");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o666);
    drop(listening);
    assert!(!place.socket().exists());
}

#[test]
fn a_missing_folder_is_made_for_all_to_read() {
    let place = Place::new("made");
    let path = place.0.join("run/monitor.sock");
    let _listening = listen(&path).expect("it listens");
    let mode = std::fs::metadata(place.0.join("run")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_socket_that_nobody_listens_on_is_taken_over() {
    let place = Place::new("stale");
    drop(std::os::unix::net::UnixListener::bind(place.socket()).expect("a socket"));
    assert!(listen(&place.socket()).is_ok());
}

#[test]
fn a_socket_that_somebody_listens_on_stays_his() {
    let place = Place::new("busy");
    let _other = std::os::unix::net::UnixListener::bind(place.socket()).expect("a socket");
    refused_with(&place.socket(), "a daemon listens there");
    assert!(place.socket().exists());
}

#[test]
fn a_file_is_not_removed() {
    let place = Place::new("file");
    std::fs::write(place.socket(), "mine").expect("a file");
    refused_with(&place.socket(), "is no socket");
    assert_eq!(std::fs::read_to_string(place.socket()).expect("it is there"), "mine");
}

#[test]
fn a_symbolic_link_is_neither_followed_nor_removed() {
    let place = Place::new("link");
    let victim = place.0.join("victim");
    let _bound = std::os::unix::net::UnixListener::bind(&victim).expect("a socket");
    symlink(&victim, place.socket()).expect("a link");
    refused_with(&place.socket(), "is no socket");
    assert!(victim.exists() && place.socket().is_symlink());
}

#[test]
fn a_folder_that_is_a_symbolic_link_is_refused() {
    let place = Place::new("folder-link");
    let real = place.0.join("real");
    std::fs::create_dir(&real).expect("a folder");
    symlink(&real, place.0.join("run")).expect("a link");
    refused_with(&place.0.join("run/monitor.sock"), "symbolic link");
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let place = Place::new("open");
    place.mode(0o777);
    refused_with(&place.socket(), "others may write to");
    place.mode(0o1777);
    assert!(listen(&place.socket()).is_ok(), "a sticky folder keeps files with their owners");
}

#[test]
fn what_took_the_place_of_the_socket_is_left_there() {
    let place = Place::new("replaced");
    let listening = listen(&place.socket()).expect("it listens");
    std::fs::remove_file(place.socket()).expect("it is there");
    std::fs::write(place.socket(), "mine").expect("a file");
    drop(listening);
    assert!(place.socket().exists());
}

#[test]
fn two_daemons_that_begin_at_once_do_not_take_each_others_socket() {
    let place = Place::new("race");
    let folder = folder(&place.0).expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let other = runtime.expect("a loop").block_on(turn(&folder)).expect("nobody else");
    refused_with(&place.socket(), "somebody else has held a lock");
    drop(other);
    assert!(listen(&place.socket()).is_ok());
}
