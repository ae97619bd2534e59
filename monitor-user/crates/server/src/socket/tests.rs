//! Whatever exists at the path of the socket, nothing but a stale socket is removed.

use super::*;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};

/// A folder that is removed after the test.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> Self {
        let name = format!("monitor-socket-{name}-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        let _ = std::fs::remove_dir_all(&folder.0);
        std::fs::create_dir(&folder.0).expect("a folder");
        folder.mode(0o755);
        folder
    }

    fn mode(&self, mode: u32) {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(&self.0, mode).expect("a folder of this user");
    }

    fn socket(&self) -> PathBuf {
        self.0.join("monitor.sock")
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn listen(path: &Path) -> Result<SocketListener, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .expect("a runtime")
        .block_on(SocketListener::bind(path, async || Ok(())))
        .map_err(|why| why.to_string())
}

#[track_caller]
fn refused_with(path: &Path, why: &str) {
    match listen(path) {
        Ok(_) => panic!("the socket was created"),
        Err(message) => assert!(message.contains(why), "{message}"),
    }
}

#[test]
fn every_user_may_connect_and_the_file_is_removed_at_the_end() {
    let folder = TestFolder::new("plain");
    let listening = listen(&folder.socket()).expect("it listens");
    let meta = std::fs::symlink_metadata(folder.socket()).expect("it is there");
    assert!(meta.file_type().is_socket());
    assert_eq!(meta.permissions().mode() & 0o777, 0o666);
    drop(listening);
    assert!(!folder.socket().exists());
}

#[test]
fn a_missing_folder_is_created_with_mode_755() {
    let folder = TestFolder::new("made");
    let path = folder.0.join("run/monitor.sock");
    let _listening = listen(&path).expect("it listens");
    let mode = std::fs::metadata(folder.0.join("run")).expect("a folder").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
}

#[test]
fn a_stale_socket_is_replaced() {
    let folder = TestFolder::new("stale");
    drop(std::os::unix::net::UnixListener::bind(folder.socket()).expect("a socket"));
    assert!(listen(&folder.socket()).is_ok());
}

#[test]
fn a_socket_in_use_is_refused() {
    let folder = TestFolder::new("busy");
    let _other = std::os::unix::net::UnixListener::bind(folder.socket()).expect("a socket");
    refused_with(&folder.socket(), "another daemon listens on it");
    assert!(folder.socket().exists());
}

#[test]
fn a_file_is_not_removed() {
    let folder = TestFolder::new("file");
    std::fs::write(folder.socket(), "mine").expect("a file");
    refused_with(&folder.socket(), "is not a socket");
    assert_eq!(std::fs::read_to_string(folder.socket()).expect("it is there"), "mine");
}

#[test]
fn a_symbolic_link_is_neither_followed_nor_removed() {
    let folder = TestFolder::new("link");
    let victim = folder.0.join("victim");
    let _bound = std::os::unix::net::UnixListener::bind(&victim).expect("a socket");
    symlink(&victim, folder.socket()).expect("a link");
    refused_with(&folder.socket(), "is not a socket");
    assert!(victim.exists() && folder.socket().is_symlink());
}

#[test]
fn a_folder_that_is_a_symbolic_link_is_refused() {
    let folder = TestFolder::new("folder-link");
    let real = folder.0.join("real");
    std::fs::create_dir(&real).expect("a folder");
    symlink(&real, folder.0.join("run")).expect("a link");
    refused_with(&folder.0.join("run/monitor.sock"), "symbolic link");
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = TestFolder::new("open");
    folder.mode(0o777);
    refused_with(&folder.socket(), "other users may write to");
    folder.mode(0o1777);
    assert!(listen(&folder.socket()).is_ok(), "a sticky folder keeps files with their owners");
}

#[test]
fn a_file_that_replaced_the_socket_is_kept() {
    let folder = TestFolder::new("replaced");
    let listening = listen(&folder.socket()).expect("it listens");
    std::fs::remove_file(folder.socket()).expect("it is there");
    std::fs::write(folder.socket(), "mine").expect("a file");
    drop(listening);
    assert!(folder.socket().exists());
}

#[test]
fn two_daemons_that_start_at_once_do_not_replace_each_others_socket() {
    let folder = TestFolder::new("race");
    let opened = open_folder(&folder.0).expect("a folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let other = runtime
        .expect("a runtime")
        .block_on(BindLock::acquire(&opened, OsStr::new("monitor.sock")))
        .expect("the lock");
    refused_with(&folder.socket(), "another process has held a lock");
    drop(other);
    assert!(listen(&folder.socket()).is_ok());
}

#[test]
fn a_lock_on_the_folder_by_another_process_does_not_matter() {
    let folder = TestFolder::new("foreign-lock");
    let opened = open_folder(&folder.0).expect("the folder");
    rustix::fs::flock(&opened, FlockOperation::LockExclusive).expect("the lock");
    let listening = listen(&folder.socket()).expect("it listens");
    let files = std::fs::read_dir(&folder.0).expect("the folder").flatten();
    let names: Vec<_> = files.map(|it| it.file_name()).collect();
    assert_eq!(names, ["monitor.sock"], "no lock is left");
    drop(listening);
}
