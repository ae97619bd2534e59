//! The sessions.

/// A session.
pub struct Session {
    /// Its name.
    pub name: &'static str,
    /// The program, of `programs`.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static str,
    /// What gdb executes, a command a line; `PID` is the process id. The program ends.
    pub script: &'static str,
    /// Text that the transcript has.
    pub shown: &'static [&'static str],
}

/// All sessions.
pub const SESSIONS: &[Session] = &[Session {
    name: "variables of a thread",
    program: "locals",
    arguments: "./locals_later.so",
    script: "thread apply all -q print own\nthread apply all -q print text\n\
             thread apply all -q print library_own\nthread apply all -q print errno\n\
             thread find loop-2\nthread 3\nprint later_own\nthread find loop-1\nthread 2\n\
             print later_own\nprint later_text\nprint own = 77\nprint library_own = 88\n\
             print own + library_value()\nset var go = 0\ncontinue\nprint $_exitcode\n",
    shown: &["= 5\n", "= 202\n", "= 301\n", "\"later\"", "= 165\n", "exited normally"],
}];
