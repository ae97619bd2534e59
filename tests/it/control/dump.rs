//! Dumps and restores of one user worker, with requests and deaths in between.

use super::checkpoint::{COUNTS, Ends, able, counts_on, entries, is_adopted_by_init};
use super::target::{ONE, signal};
use super::user::remote;
use crate::deadline::until;
use crate::served::Folder;
use monitor_control::user_worker::WorkerProxy;
use monitor_control::{
    ControlError, DumpLocation, LaunchSpec, ProbeLocation, RequestTag, UserWorker, WorkerEvent,
    WorkerEventKind, WorkerReply, WorkerRequest,
};
use monitor_model::id::Identity;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

const MARK: RequestTag = RequestTag(1);

/// A process that counts in a file, and the place of its dump.
struct Counter {
    id: Identity,
    file: PathBuf,
    dump: DumpLocation,
    _ends: Ends,
    _folder: Folder,
}

impl Counter {
    fn new(worker: &mut dyn UserWorker) -> Self {
        let folder = Folder::new();
        let file = folder.join("count");
        let words = ["-c", COUNTS, file.to_str().unwrap()];
        let program = LaunchSpec {
            path: "/bin/bash".into(),
            arguments: words.iter().map(|it| it.as_bytes().to_vec()).collect(),
            environment: None,
            folder: None,
            streams: [None, None, None],
            stopped: false,
        };
        let Ok(WorkerReply::Started(id)) = worker.request(ONE, WorkerRequest::Start(program))
        else {
            panic!("it starts")
        };
        let dump = DumpLocation { folder: folder.join("images"), name: format!("{}-1", id.pid.0) };
        let it = Self { id, file, dump, _ends: Ends(id.pid.0), _folder: folder };
        it.runs();
        it
    }

    fn runs(&self) {
        counts_on(&self.file);
    }

    /// Whether all files of the dump are deleted.
    fn has_left_nothing(&self) -> bool {
        entries(&self.dump.folder) == 0
    }

    fn dump(&self) -> WorkerRequest {
        WorkerRequest::Dump(self.id.into(), MARK, self.dump.clone())
    }

    fn restore(&self) -> WorkerRequest {
        WorkerRequest::Restore(MARK, self.dump.clone())
    }

    /// Begins to dump it, then stops the worker, so that CRIU has no parent that waits for it while
    /// it dumps and when it has ended.
    fn dumped_by(&self, worker: &mut WorkerProxy) {
        assert_eq!(worker.request(ONE, self.dump()), Ok(WorkerReply::Done));
        signal(worker.pid(), "STOP");
        until(|| self.has_image().then_some(()));
    }

    /// Whether CRIU has written an image.
    fn has_image(&self) -> bool {
        let folder = self.dump.folder.join(format!("{}.taken", self.dump.name));
        let is_image = |path: &Path| path.extension().is_some_and(|it| it == "img");
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
        found.map(|it| it.path()).any(|path| is_image(&path))
    }
}

/// The event that ends the dump or restore.
fn outcome(worker: &mut dyn UserWorker) -> WorkerEvent {
    until(|| worker.poll_events().into_iter().find(|it| it.requester == Some((ONE, MARK))))
}

#[test]
fn root_a_process_that_is_being_dumped_runs_on_when_the_daemon_is_killed() {
    if !able("root_a_process_that_is_being_dumped_runs_on_when_the_daemon_is_killed") {
        return;
    }
    let mut worker = remote(None);
    let counter = Counter::new(&mut worker);
    counter.dumped_by(&mut worker);
    // What the kernel does with the socket of a daemon that was killed.
    let socket = worker.as_fd().try_clone_to_owned().unwrap();
    std::os::unix::net::UnixStream::from(socket).shutdown(std::net::Shutdown::Both).unwrap();
    signal(worker.pid(), "CONT");
    // It has ended when this has.
    drop(worker);
    counter.runs();
    assert!(counter.has_left_nothing());
}

#[test]
fn root_a_process_that_is_being_dumped_runs_on_when_the_worker_is_killed() {
    let test = "root_a_process_that_is_being_dumped_runs_on_when_the_worker_is_killed";
    if !(able(test) && is_adopted_by_init(test)) {
        return;
    }
    let mut worker = remote(None);
    let counter = Counter::new(&mut worker);
    counter.dumped_by(&mut worker);
    signal(worker.pid(), "KILL");
    assert_eq!(outcome(&mut worker).kind, WorkerEventKind::Failed(ControlError::WorkerLost));
    counter.runs();
    until(|| counter.has_left_nothing().then_some(()));
    // No dump owns it any more, so it can be dumped again.
    assert_eq!(worker.request(ONE, counter.dump()), Ok(WorkerReply::Done));
    assert_eq!(outcome(&mut worker).kind, WorkerEventKind::Dumped);
}

#[test]
fn root_a_process_that_was_changed_during_its_dump_runs_on() {
    if !able("root_a_process_that_was_changed_during_its_dump_runs_on") {
        return;
    }
    let mut worker = remote(None);
    let counter = Counter::new(&mut worker);
    let pid = counter.id.pid.0;
    // Another process has resumed it, so its images are out of date.
    assert_eq!(worker.request(ONE, counter.dump()), Ok(WorkerReply::Done));
    let stop = WorkerRequest::Stop(counter.id.into());
    assert!(matches!(worker.request(ONE, stop), Err(ControlError::WrongState(_))), "CRIU has it");
    signal(worker.pid(), "STOP");
    until(|| (state(pid) == 'T').then_some(()));
    signal(pid, "CONT");
    signal(worker.pid(), "CONT");
    let WorkerEventKind::Failed(ControlError::WrongState(why)) = outcome(&mut worker).kind else {
        panic!("it is dumped")
    };
    assert!(why.contains("resumed it"), "{why}");
    counter.runs();
    assert!(counter.has_left_nothing());
    // A probe was put into it, and would be part of the program.
    assert_eq!(worker.request(ONE, counter.dump()), Ok(WorkerReply::Done));
    signal(worker.pid(), "STOP");
    let _number = worker.send(ONE, WorkerRequest::SetProbes(vec![site(pid)]));
    signal(worker.pid(), "CONT");
    let what = outcome(&mut worker).kind;
    assert!(matches!(what, WorkerEventKind::Failed(_)), "{what:?}");
    counter.runs();
    assert!(counter.has_left_nothing());
}

/// The first code address of the process, as a probe location.
fn site(pid: u32) -> ProbeLocation {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let code = maps.lines().find(|line| line.contains(" r-xp ")).unwrap();
    let fields: Vec<&str> = code.split_whitespace().collect();
    ProbeLocation {
        inode: fields[4].parse().unwrap(),
        offset: u64::from_str_radix(fields[2], 16).unwrap(),
    }
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn root_a_failed_restore_can_be_repeated_and_succeeds_only_once() {
    if !able("root_a_failed_restore_can_be_repeated_and_succeeds_only_once") {
        return;
    }
    let mut worker = remote(None);
    let counter = Counter::new(&mut worker);
    assert_eq!(worker.request(ONE, counter.dump()), Ok(WorkerReply::Done));
    assert_eq!(outcome(&mut worker).kind, WorkerEventKind::Dumped);
    // Without this image the restore fails.
    let image = counter.dump.folder.join(&counter.dump.name).join("pstree.img");
    let aside = counter.dump.folder.join("aside");
    std::fs::rename(&image, &aside).unwrap();
    assert_eq!(worker.request(ONE, counter.restore()), Ok(WorkerReply::Done));
    let again = worker.request(ONE, counter.restore());
    assert!(matches!(again, Err(ControlError::WrongState(_))), "{again:?}");
    let what = outcome(&mut worker).kind;
    assert!(matches!(what, WorkerEventKind::Failed(ControlError::Unsupported(_))), "{what:?}");
    std::fs::rename(&aside, &image).unwrap();
    assert_eq!(worker.request(ONE, counter.restore()), Ok(WorkerReply::Done));
    let restored = outcome(&mut worker);
    assert_eq!(
        (restored.kind, restored.target.process.pid),
        (WorkerEventKind::Restored, counter.id.pid)
    );
    counter.runs();
    assert!(counter.has_left_nothing());
    let again = worker.request(ONE, counter.restore());
    assert!(matches!(again, Err(ControlError::InvalidArgument(_))), "{again:?}");
}
