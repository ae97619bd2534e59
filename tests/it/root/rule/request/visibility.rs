//! Events of calls go only to tools that may inspect the calling process: a user observes processes
//! of root and set-uid programs, and receives no event and no count of their calls.

use super::{Tooled, granted};
use crate::deadline;
use crate::served::Folder;
use monitor_event::right::{ControlGrant, SessionId, Tool};
use monitor_model::credentials::Credentials;
use monitor_omis::Dialect;
use monitor_sampling::visibility::Visibility;
use monitor_services::requests::EngineInput;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

pub(super) const USER: u32 = 61_234;
pub(super) const CREDENTIALS: Credentials = Credentials { uid: USER, gid: USER };

impl Tooled {
    /// Beside root, a user with the right to control their own processes.
    pub(super) fn with_user(sees: Visibility) -> Self {
        let mut it = Self::new();
        let session = SessionId { entry: 0, conn: 2 };
        let acts = ControlGrant::Own;
        let user = Tool {
            session,
            uid: USER,
            gid: USER,
            visibility: sees,
            control: acts,
            ..Tool::default()
        };
        it.input(EngineInput::Opened(user, Dialect::Extended));
        it
    }

    #[track_caller]
    pub(super) fn user_says(&mut self, line: &str, want: &str) {
        self.others.clear();
        self.input(EngineInput::ClientLine(2, line.as_bytes().to_vec()));
        let id = line.split(' ').next().unwrap();
        assert_eq!(self.reply_to(id, |it| &mut it.others), want);
        self.others.clear();
    }

    /// Which of these words each of both received, once root received all of them.
    fn both_received(&mut self, words: &[&str]) -> [Vec<bool>; 2] {
        let has = |lines: &[String], word: &str| lines.iter().any(|line| line.contains(word));
        let all = |lines: &[String]| words.iter().map(|it| has(lines, it)).collect::<Vec<_>>();
        deadline::until(|| {
            self.poll();
            all(&self.lines).iter().all(|it| *it).then_some(())
        });
        [all(&self.lines), all(&self.others)]
    }
}

/// A copy of `cat` with these permissions.
fn cat(folder: &Folder, name: &str, mode: u32) -> String {
    let path = folder.join(name);
    let _bytes = std::fs::copy("/bin/cat", &path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn check(sees: Visibility) {
    let mut tool = Tooled::with_user(sees);
    let folder = Folder::new();
    std::fs::set_permissions(folder.join("."), Permissions::from_mode(0o755)).unwrap();
    let (own, lent) = (cat(&folder, "own", 0o755), cat(&folder, "lent", 0o4755));
    let attach = format!("1 [0] attach([{}])", tool.pid());
    tool.user_says(&attach, "1 [0] attach(0)");
    tool.user_says("2 [0] cnt_create(\"n\",\"counter\",\"\")", "2 [0] cnt_create(0)");
    for (id, action) in [(10, "print([$3])"), (20, "cnt_add(\"n\",1)")] {
        let request = format!("{id} [0] start_lib_call([],\"write\"): {} [0] {action}", id + 1);
        tool.user_says(&request, &format!("{id} [0] start_lib_call(0)"));
        tool.user_says(&format!("9 [0] enable({id})"), "9 [0] enable(0)");
    }
    tool.waits(10, "start_lib_call([],\"write\")", "11 [0] print([$3])");

    let _ = tool.target.run("nowhere = os.open('/dev/null', os.O_WRONLY)");
    let _ = tool.target.run("os.write(nowhere, b'word of root')");
    let run = format!("user={USER}, group={USER}, extra_groups=[], stdin=-1, stdout=nowhere");
    for (program, word) in [(&own, "word own"), (&lent, "word lent"), (&own, "last word")] {
        let _ = tool.target.run(&format!("child = subprocess.Popen([{program:?}], {run})"));
        // It has begun the program; here it gets its probes.
        tool.poll();
        let _ = tool.target.run(&format!("child.communicate(b{word:?})"));
    }
    let [root, user] = tool.both_received(&["word of root", "word own", "word lent", "last word"]);
    assert_eq!(root, [true; 4]);
    assert_eq!(user, [false, true, false, true]);
    tool.user_says("3 [0] cnt_read(\"n\",4)", "3 [0] cnt_read(0,[\"n\",2])");
}

#[test]
fn root_a_user_receives_no_call_of_root_nor_of_a_set_uid_program() {
    if granted("root_a_user_receives_no_call_of_root_nor_of_a_set_uid_program") {
        check(Visibility::OwnInFull(CREDENTIALS));
    }
}

#[test]
fn root_the_right_to_see_all_processes_is_not_the_right_to_inspect_them() {
    if granted("root_the_right_to_see_all_processes_is_not_the_right_to_inspect_them") {
        check(Visibility::All);
    }
}

/// The events that a user can subscribe to, each for all attached processes, and what it prints.
const EVENTS: [(u32, &str, &str); 6] = [
    (20, "process_blocked([])", "[$1]"),
    (30, "process_unblocked([])", "[$1]"),
    (40, "process_signal([],[])", "[$1]"),
    (50, "process_terminated([])", "[$1]"),
    (60, "new_process()", "[$1]"),
    (70, "scheduling()", "[$1,$2]"),
];

/// The processes in the lines that the user received, besides -1 for any other.
fn named(lines: &[String]) -> Vec<u64> {
    let lists = lines.iter().filter_map(|line| line.split_once("print(0,["));
    let numbers = lists.flat_map(|(_, list)| list.trim_end_matches("])").split(','));
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn root_a_user_that_subscribes_to_everything_receives_nothing_of_another_users_process() {
    if !granted(
        "root_a_user_that_subscribes_to_everything_receives_nothing_of_another_users_process",
    ) {
        return;
    }
    let mut tool = Tooled::with_user(Visibility::OwnInFull(CREDENTIALS));
    let folder = Folder::new();
    std::fs::set_permissions(folder.join("."), Permissions::from_mode(0o755)).unwrap();
    let (own, lent) = (cat(&folder, "own", 0o755), cat(&folder, "lent", 0o4755));
    std::fs::write(folder.join("word"), "word").unwrap();
    tool.user_says(&format!("1 [0] attach([{}])", tool.pid()), "1 [0] attach(0)");
    for (id, event, values) in EVENTS {
        let name = event.split('(').next().unwrap();
        let request = format!("{id} [0] {event}: {} [0] print({values})", id + 1);
        tool.user_says(&request, &format!("{id} [0] {name}(0)"));
        tool.user_says(&format!("9 [0] enable({id})"), "9 [0] enable(0)");
        let about = event.replace("([]", &format!("([{}]", tool.pid()));
        if about != event {
            let line = format!("{} [0] {about}: 99 [0] print([$1])", id + 2);
            tool.input(EngineInput::ClientLine(2, line.into_bytes()));
            assert!(tool.others.concat().contains("needs observe-all"), "{:?}", tool.others);
        }
    }
    // These are counted in the kernel.
    for (id, event) in [(80, "process_unblocked"), (90, "process_terminated")] {
        tool.user_says(
            &format!("2 [0] cnt_create(\"n{id}\",\"counter\",\"\")"),
            "2 [0] cnt_create(0)",
        );
        let request = format!("{id} [0] {event}([]): {} [0] cnt_add(\"n{id}\",1)", id + 1);
        tool.user_says(&request, &format!("{id} [0] {event}(0)"));
        tool.user_says(&format!("9 [0] enable({id})"), "9 [0] enable(0)");
    }
    tool.waits(10, "process_terminated([])", "11 [0] print([$1])");

    tool.others.clear();
    let _ = tool.target.run("import time; signal.signal(10, lambda *_: None)");
    let _ = tool.target.run("for _ in range(23): time.sleep(0.001); os.kill(os.getpid(), 10)");
    let _ = tool.target.run("for _ in range(23): subprocess.run(['/bin/sleep', '0.001'])");
    let _lines_of_root = tool.next_lines(23);
    assert_eq!(tool.others, [""; 0]);
    for n in [80, 90] {
        tool.user_says(
            &format!("3 [0] cnt_read(\"n{n}\",4)"),
            &format!("3 [0] cnt_read(0,[\"n{n}\",0])"),
        );
    }

    let word = folder.join("word");
    let spawn = format!("user={USER}, group={USER}, extra_groups=[], stdout=subprocess.DEVNULL");
    let mut pids = Vec::new();
    for program in [&own, &lent, &own] {
        let _ = tool.target.run(&format!("p = subprocess.Popen([{program:?}, {word:?}], {spawn})"));
        pids.push(tool.target.run("it = p.pid"));
        let _ = tool.target.run("it = p.wait()");
    }
    let _lines_of_root = tool.next_lines(3);
    let (all, allowed) = (named(&tool.others), [pids[0], pids[2]]);
    let exceptions: Vec<_> = all.iter().filter(|pid| !allowed.contains(pid)).collect();
    assert!(exceptions.is_empty(), "{exceptions:?} besides {allowed:?}: {:?}", tool.others);
    let ended = tool.others.iter().filter(|line| line.starts_with("51 ")).count();
    assert_eq!(ended, 2, "{:?}", tool.others);
    tool.user_says("3 [0] cnt_read(\"n90\",4)", "3 [0] cnt_read(0,[\"n90\",2])");
}
