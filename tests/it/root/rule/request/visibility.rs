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

const USER: u32 = 61_234;
const CREDENTIALS: Credentials = Credentials { uid: USER, gid: USER };

impl Tooled {
    /// Beside root, a user with the right to control their own processes.
    fn with_user(sees: Visibility) -> Self {
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
    fn user_says(&mut self, line: &str, want: &str) {
        self.others.clear();
        self.input(EngineInput::ClientLine(2, line.as_bytes().to_vec()));
        assert_eq!(self.others, [want]);
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
