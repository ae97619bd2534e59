//! Requests that the kernel runs: its counts are exact, and its records run the other actions.

use super::Tooled;
use crate::root::privilege::granted;

impl Tooled {
    /// Sends a line, and returns the reply.
    #[track_caller]
    pub(super) fn asks(&mut self, line: &str) -> String {
        self.lines.clear();
        self.input(super::EngineInput::ClientLine(1, line.as_bytes().to_vec()));
        let id = line.split(' ').next().unwrap();
        self.reply_to(id, |it| &mut it.lines)
    }

    /// The reply to a request, which may wait for files; other lines stay.
    #[track_caller]
    pub(super) fn reply_to(
        &mut self,
        id: &str,
        lines: impl Fn(&mut Self) -> &mut Vec<String>,
    ) -> String {
        let is_it = |line: &String| line.split(' ').next() == Some(id);
        crate::deadline::until(|| {
            let lines = lines(self);
            let found = lines.iter().position(is_it).map(|at| lines.remove(at));
            if found.is_none() {
                self.poll();
            }
            found
        })
    }

    /// Lets the target call a function with these numbers, which refuses them.
    pub(super) fn calls(&mut self, numbers: &str) {
        let _ = self.target.run(&format!("for n in {numbers}: l.fdatasync(n)"));
    }

    /// How many values a counter received, with their sum and extremes.
    fn counted(&mut self, name: &str) -> String {
        self.asks(&format!("8 [0] cnt_read(\"{name}\",60)"))
    }

    pub(super) fn begun(&self) -> String {
        format!("start_lib_call([{}],\"fdatasync\")", self.pid())
    }
}

#[test]
fn root_23_calls_are_counted_in_the_kernel_without_a_notice() {
    if !granted("root_23_calls_are_counted_in_the_kernel_without_a_notice") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"n\",\"counter\",\"\")", "2 [0] cnt_create(0)");
    let begun = tool.begun();
    tool.waits(10, &begun, "11 [0] cnt_add(\"n\",$2)");
    tool.says("3 [0] request_level(10)", "3 [0] request_level(0,[\"kernel\"])");
    tool.calls("range(1, 24)");
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",23,276,1,23])");
    // What the tool adds itself is added to that; what was forgotten is forgotten in both.
    tool.says("4 [0] cnt_add(\"n\",100)", "4 [0] cnt_add(0)");
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",24,376,1,100])");
    tool.says("5 [0] cnt_reset(\"n\")", "5 [0] cnt_reset(0)");
    tool.says("6 [0] disable(10)", "6 [0] disable(0)");
    tool.calls("range(7)");
    tool.says("7 [0] enable(10)", "7 [0] enable(0)");
    tool.calls("[5]");
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",1,5,5,5])");
    tool.says("9 [0] delete(10)", "9 [0] delete(0)");
    tool.calls("[5]");
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",1,5,5,5])");
    assert_eq!(tool.next_lines(0), [""; 0]);
}

#[test]
fn root_requests_enable_each_other_and_raise_events_in_the_kernel() {
    if !granted("root_requests_enable_each_other_and_raise_events_in_the_kernel") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says(
        "2 [0] cnt_create(\"n\",\"counter\",\"\"); 3 [0] define_user_event(5)",
        "2 [0] cnt_create(0); 3 [0] define_user_event(0)",
    );
    let begun = tool.begun();
    let pid = tool.pid();
    // 20 runs between a signal 40 and a signal 41, and 30 prints the values of the event.
    tool.says(
        &format!("20 [0] {begun}: 21 [0] raise_event(5,[$2,7]), 22 [0] cnt_add(\"n\",1)"),
        "20 [0] start_lib_call(0)",
    );
    tool.waits(30, "user_event(5)", "31 [0] print([$1,$2])");
    tool.waits(40, &format!("process_signal([{pid}],[40])"), "41 [0] enable(20)");
    tool.waits(50, &format!("process_signal([{pid}],[41])"), "51 [0] disable(20)");
    let levels = [(20, "\"kernel\",\"kernel\""), (30, "\"copy\""), (40, "\"kernel\"")];
    for (id, level) in levels {
        let want = format!("9 [0] request_level(0,[{level}])");
        tool.says(&format!("9 [0] request_level({id})"), &want);
    }
    let _ = tool.target.run("for n in (40, 41): signal.signal(n, lambda *_: None)");
    tool.calls("range(5)");
    let _ = tool.target.run("os.kill(os.getpid(), 40)");
    tool.calls("range(23)");
    let _ = tool.target.run("os.kill(os.getpid(), 41)");
    tool.calls("range(5)");
    let want: Vec<String> = (0..23).map(|n| format!("31 [0] print(0,[{n},7])")).collect();
    assert_eq!(tool.next_lines(23), want);
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",23,23,1,1])");
    // An event that a tool raises itself is reported in the same way.
    tool.says("9 [0] enable(20)", "9 [0] enable(0)");
    let _ = tool.asks("9 [0] raise_event(5,[1,2])");
    tool.calls("[3]");
    let lines: Vec<String> = std::iter::from_fn(|| tool.next_lines(1).pop()).take(1).collect();
    assert_eq!(lines, ["31 [0] print(0,[3,7])"]);
}

#[test]
fn root_the_kernel_runs_its_part_of_a_list_and_leaves_the_rest_to_the_engine() {
    if !granted("root_the_kernel_runs_its_part_of_a_list_and_leaves_the_rest_to_the_engine") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"n\",\"counter\",\"\")", "2 [0] cnt_create(0)");
    let begun = tool.begun();
    let actions = "11 [0] cnt_add(\"n\",$2); 12 [0] print($2), 13 [0] cnt_add(\"n\",0); \
                   14 [0] cnt_read(\"n\",4)";
    tool.waits(10, &begun, actions);
    let levels = "[\"kernel\",\"copy\",\"kernel\",\"after\"]";
    tool.says("3 [0] request_level(10)", &format!("3 [0] request_level(0,{levels})"));
    tool.calls("[9]");
    let want = "11 [0] cnt_add(0); 12 [0] print(0,[9]); 13 [0] cnt_add(0); \
                14 [0] cnt_read(0,[\"n\",2])";
    assert_eq!(tool.next_lines(1), [want]);
}

#[test]
fn root_calls_are_timed_in_the_kernel() {
    if !granted("root_calls_are_timed_in_the_kernel") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"t\",\"thread_timer\",\"\")", "2 [0] cnt_create(0)");
    let pid = tool.pid();
    tool.waits(
        10,
        &format!("start_lib_call([{pid}],\"usleep\")"),
        "11 [0] cnt_start(\"t\",$thread)",
    );
    tool.waits(20, &format!("end_lib_call([{pid}],\"usleep\")"), "21 [0] cnt_stop(\"t\",$thread)");
    tool.says("3 [0] request_level(20)", "3 [0] request_level(0,[\"kernel\"])");
    let _ = tool.target.run("it = sum(l.usleep(1000) for n in range(23))");
    let read = tool.asks("8 [0] cnt_read(\"t\",20)");
    let least = read.trim_end_matches("])").rsplit(',').next().unwrap().parse::<u64>().unwrap();
    assert!(read.starts_with("8 [0] cnt_read(0,[\"t\",23,") && least >= 1_000_000, "{read}");
}

#[test]
fn root_births_and_ends_of_all_attached_processes_are_counted_in_the_kernel() {
    if !granted("root_births_and_ends_of_all_attached_processes_are_counted_in_the_kernel") {
        return;
    }
    let mut tool = Tooled::new();
    tool.says("2 [0] cnt_create(\"n\",\"counter\",\"\")", "2 [0] cnt_create(0)");
    tool.waits(10, "new_process()", "11 [0] cnt_add(\"n\",1)");
    tool.waits(20, "process_terminated([])", "21 [0] cnt_add(\"n\",1000)");
    let fork =
        "(os.fork() or (os.fork() or os._exit(0)) and os.wait() and os._exit(0)) and os.wait()";
    let _ = tool.target.run(&format!("for n in range(23): {fork}"));
    // Each of 23 children has a child of its own.
    assert_eq!(tool.counted("n"), "8 [0] cnt_read(0,[\"n\",92,46046,1,1000])");
}
