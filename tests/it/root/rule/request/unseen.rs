//! Calls of a child between its creation and its probes are reported as not seen.

use super::{Tooled, granted};

#[test]
fn root_calls_of_a_child_that_has_no_probes_yet_are_reported_as_not_seen() {
    if !granted("root_calls_of_a_child_that_has_no_probes_yet_are_reported_as_not_seen") {
        return;
    }
    let mut tool = Tooled::new();
    tool.waits(10, "start_lib_call([],\"fdatasync\")", "11 [0] print([$2])");
    let listed = format!("start_lib_call([{}],\"fdatasync\")", tool.pid());
    tool.waits(20, &listed, "21 [0] print([$2])");
    // The engine looks for events when it has ended.
    let ended = tool.target.run(
        "exec('p = os.fork()\\nif p == 0: l.fdatasync(-1); os._exit(0)'); os.waitpid(p, 0); it = p",
    );
    let why = format!("calls of process {ended} were not seen: it ended before it had probes");
    let notice = format!("10 [0] start_lib_call(407,-1,\"{why}\")");
    assert_eq!(tool.next_lines(1), [notice], "the rule for listed processes is not for children");
    let pid = tool.target.run(
        "exec('r, w = os.pipe()\\na, b = os.pipe()\\np = os.fork()\\n\
         if p == 0: l.fdatasync(-1); os.write(b, b\"x\"); os.read(r, 1); l.fdatasync(7); \
         os._exit(0)'); it = len(os.read(a, 1)) and p",
    );
    let lines = tool.next_lines(1);
    let begin = format!("10 [0] start_lib_call(407,-1,\"calls of process {pid} were not seen for ");
    let end = ", until it had probes\")";
    assert!(lines[0].starts_with(&begin) && lines[0].ends_with(end), "{lines:?}");
    let _ = tool.target.run("it = os.write(w, b'x'); os.waitpid(p, 0)");
    assert_eq!(tool.next_lines(1), ["11 [0] print(0,[7])"]);
}
