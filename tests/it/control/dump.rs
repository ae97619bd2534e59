//! Dumps and restores of one hand: what comes in between, and who dies in between.

use super::checkpoint::{COUNTS, Ends, able, counts_on, entries};
use super::target::{ONE, signal};
use super::user::remote;
use crate::deadline::until;
use crate::served::Folder;
use monitor_control::hand::Remote;
use monitor_control::{Act, Done, Dump, Hand, Happened, Mark, Program, Site, Trouble, What};
use monitor_model::id::Identity;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

const MARK: Mark = Mark(1);

/// One that counts in a file, and where it is dumped to.
struct Counter {
    id: Identity,
    file: PathBuf,
    dump: Dump,
    _ends: Ends,
    _folder: Folder,
}

impl Counter {
    fn new(hand: &mut dyn Hand) -> Self {
        let folder = Folder::new();
        let file = folder.join("count");
        let words = ["-c", COUNTS, file.to_str().unwrap()];
        let program = Program {
            path: "/bin/bash".into(),
            arguments: words.iter().map(|it| it.as_bytes().to_vec()).collect(),
            environment: None,
            folder: None,
            streams: [None, None, None],
            stopped: false,
        };
        let Ok(Done::Started(id)) = hand.act(ONE, Act::Start(program)) else { panic!("it starts") };
        let dump = Dump { folder: folder.join("images"), name: format!("{}-1", id.pid.0) };
        let it = Self { id, file, dump, _ends: Ends(id.pid.0), _folder: folder };
        it.runs();
        it
    }

    fn runs(&self) {
        counts_on(&self.file);
    }

    /// Whether each file of it is gone.
    fn has_left_nothing(&self) -> bool {
        entries(&self.dump.folder) == 0
    }

    fn dump(&self) -> Act {
        Act::Dump(self.id.into(), MARK, self.dump.clone())
    }

    fn restore(&self) -> Act {
        Act::Restore(MARK, self.dump.clone())
    }

    /// Begins to dump it. The hand stands still then, so that CRIU is not looked after when it is
    /// at work, and when it is done.
    fn dumped_by(&self, hand: &mut Remote) {
        assert_eq!(hand.act(ONE, self.dump()), Ok(Done::It));
        signal(hand.pid(), "STOP");
        until(|| self.has_image().then_some(()));
    }

    /// Whether CRIU has written any.
    fn has_image(&self) -> bool {
        let folder = self.dump.folder.join(format!("{}.taken", self.dump.name));
        let is_image = |path: &Path| path.extension().is_some_and(|it| it == "img");
        let found = std::fs::read_dir(folder).into_iter().flatten().flatten();
        found.map(|it| it.path()).any(|path| is_image(&path))
    }
}

/// What comes of the move.
fn outcome(hand: &mut dyn Hand) -> Happened {
    until(|| hand.happened().into_iter().find(|it| it.wanted == Some((ONE, MARK))))
}

#[test]
fn root_when_the_daemon_is_killed_who_is_dumped_runs_on() {
    if !able("root_when_the_daemon_is_killed_who_is_dumped_runs_on") {
        return;
    }
    let mut hand = remote(None);
    let counter = Counter::new(&mut hand);
    counter.dumped_by(&mut hand);
    // What the kernel does with the socket of a daemon that was killed.
    let socket = hand.as_fd().try_clone_to_owned().unwrap();
    std::os::unix::net::UnixStream::from(socket).shutdown(std::net::Shutdown::Both).unwrap();
    signal(hand.pid(), "CONT");
    // It has ended when this has.
    drop(hand);
    counter.runs();
    assert!(counter.has_left_nothing());
}

#[test]
fn root_when_the_hand_is_killed_who_is_dumped_runs_on() {
    if !able("root_when_the_hand_is_killed_who_is_dumped_runs_on") {
        return;
    }
    let mut hand = remote(None);
    let counter = Counter::new(&mut hand);
    counter.dumped_by(&mut hand);
    signal(hand.pid(), "KILL");
    assert_eq!(outcome(&mut hand).what, What::Failed(Trouble::HandLost));
    counter.runs();
    until(|| counter.has_left_nothing().then_some(()));
    // It is nobody's any more, and may go.
    assert_eq!(hand.act(ONE, counter.dump()), Ok(Done::It));
    assert_eq!(outcome(&mut hand).what, What::Dumped);
}

#[test]
fn root_who_may_go_no_more_when_it_is_dumped_runs_on() {
    if !able("root_who_may_go_no_more_when_it_is_dumped_runs_on") {
        return;
    }
    let mut hand = remote(None);
    let counter = Counter::new(&mut hand);
    let pid = counter.id.pid.0;
    // Somebody has let it run, so its files are not what it is.
    assert_eq!(hand.act(ONE, counter.dump()), Ok(Done::It));
    let stop = Act::Stop(counter.id.into());
    assert!(matches!(hand.act(ONE, stop), Err(Trouble::State(_))), "CRIU has it");
    signal(hand.pid(), "STOP");
    until(|| (state(pid) == 'T').then_some(()));
    signal(pid, "CONT");
    signal(hand.pid(), "CONT");
    let What::Failed(Trouble::State(why)) = outcome(&mut hand).what else { panic!("it is dumped") };
    assert!(why.contains("let it run"), "{why}");
    counter.runs();
    assert!(counter.has_left_nothing());
    // A probe was put into it, and would be part of the program.
    assert_eq!(hand.act(ONE, counter.dump()), Ok(Done::It));
    signal(hand.pid(), "STOP");
    let _number = hand.order(ONE, Act::Sites(vec![site(pid)]));
    signal(hand.pid(), "CONT");
    let what = outcome(&mut hand).what;
    assert!(matches!(what, What::Failed(_)), "{what:?}");
    counter.runs();
    assert!(counter.has_left_nothing());
}

/// The first of its code.
fn site(pid: u32) -> Site {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let code = maps.lines().find(|line| line.contains(" r-xp ")).unwrap();
    let fields: Vec<&str> = code.split_whitespace().collect();
    Site { inode: fields[4].parse().unwrap(), offset: u64::from_str_radix(fields[2], 16).unwrap() }
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

#[test]
fn root_who_could_not_be_restored_can_be_and_only_once() {
    if !able("root_who_could_not_be_restored_can_be_and_only_once") {
        return;
    }
    let mut hand = remote(None);
    let counter = Counter::new(&mut hand);
    assert_eq!(hand.act(ONE, counter.dump()), Ok(Done::It));
    assert_eq!(outcome(&mut hand).what, What::Dumped);
    // Without its image nobody can.
    let image = counter.dump.folder.join(&counter.dump.name).join("pstree.img");
    let aside = counter.dump.folder.join("aside");
    std::fs::rename(&image, &aside).unwrap();
    assert_eq!(hand.act(ONE, counter.restore()), Ok(Done::It));
    let again = hand.act(ONE, counter.restore());
    assert!(matches!(again, Err(Trouble::State(_))), "{again:?}");
    let what = outcome(&mut hand).what;
    assert!(matches!(what, What::Failed(Trouble::Unsupported(_))), "{what:?}");
    std::fs::rename(&aside, &image).unwrap();
    assert_eq!(hand.act(ONE, counter.restore()), Ok(Done::It));
    let restored = outcome(&mut hand);
    assert_eq!((restored.what, restored.target.process.pid), (What::Restored, counter.id.pid));
    counter.runs();
    assert!(counter.has_left_nothing());
    let again = hand.act(ONE, counter.restore());
    assert!(matches!(again, Err(Trouble::Range(_))), "{again:?}");
}
