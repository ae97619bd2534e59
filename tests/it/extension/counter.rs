//! `cnt_`: instruments that the calls of a real process feed.

use super::{caller, done, tool};
use crate::deadline;
use crate::root::privilege::granted;
use crate::served::Served;

/// 23 writes of 0, 5 to 110 bytes, and one of the word that says that they are done.
const BYTES: u32 = 5 * (22 * 23 / 2) + 5;

#[test]
fn root_what_a_process_writes_is_counted_summed_timed_and_kept() {
    const TEST: &str = "root_what_a_process_writes_is_counted_summed_timed_and_kept";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = caller(TEST) else { return };
    let (served, pid) = (Served::start("ebpf"), program.pid().0);
    let mut talk = tool(&served, &[pid]);
    done(
        &mut talk,
        &[
            "2 [0] cnt_create(\"bytes\",\"counter\",\"bytes\")",
            "2 [0] cnt_create(\"sizes\",\"histogram\",\"bytes\")",
            "2 [0] cnt_create(\"inside\",\"integrator\",\"calls\")",
            "2 [0] cnt_create(\"time\",\"thread_timer\",\"\")",
            "2 [0] cnt_create(\"all\",\"trace\",\"\")",
            &format!(
                "3 [0] start_lib_call([{pid}],\"libc:write\"): 4 [0] cnt_add(\"bytes\",$4); \
                 4 [0] cnt_record(\"sizes\",$4); 4 [0] cnt_add(\"inside\",1); \
                 4 [0] cnt_start(\"time\",$thread,$time); 4 [0] cnt_record(\"all\",$1,$4)"
            ),
            &format!(
                "5 [0] end_lib_call([{pid}],\"libc:write\"): \
                 6 [0] cnt_stop(\"time\",$thread,$time); 6 [0] cnt_add(\"inside\",-1)"
            ),
            "7 [0] enable(3)",
            "7 [0] enable(5)",
        ],
    );
    program.send_line("pipe 23");
    assert_eq!(program.line(), "done");
    let end = "8 [0] cnt_read(0,[\"time\",24,0,0])";
    deadline::until(|| (talk.request("8 [0] cnt_read(\"time\",1540)") == end).then_some(()));
    assert_eq!(
        talk.request("8 [0] cnt_read([\"bytes\",\"sizes\"],62)"),
        format!(
            "8 [0] cnt_read(0,[\"bytes\",\"bytes\",24,{BYTES},0,110,\
             \"sizes\",\"bytes\",24,{BYTES},0,110])"
        )
    );
    // No thread is inside any more, once the last has done both actions; one was at a time.
    let inside = "8 [0] cnt_read(0,[\"inside\",48,0,1,0])";
    deadline::until(|| (talk.request("8 [0] cnt_read(\"inside\",308)") == inside).then_some(()));
    let records = talk.request("8 [0] cnt_records(\"all\",3)");
    let tails = [105, 110, 5].map(|bytes| format!(",{pid},{bytes}]"));
    let is_there = |tail: &String| records.contains(tail);
    assert!(records.starts_with("8 [0] cnt_records(0,0,[[") && tails.iter().all(is_there));
}

#[test]
fn instruments_of_a_tool_go_with_it_and_shared_ones_stay() {
    let served = Served::start("test");
    let mut one = served.connect();
    done(
        &mut one,
        &[
            "1 [0] cnt_create(\"own\",\"counter\",\"\")",
            "1 [0] cnt_create(\"/all\",\"counter\",\"\")",
            "1 [0] cnt_create(1073741824,\"counter\",\"\")",
        ],
    );
    drop(one);
    let mut other = served.connect();
    let wanted = "2 [0] cnt_list(0,[1073741824,\"counter\",\"\",\"/all\",\"counter\",\"\"])";
    assert_eq!(other.request("2 [0] cnt_list()"), wanted);
    let refused = other.request("2 [0] cnt_add(\"own\",1)");
    assert!(refused.starts_with("2 [0] cnt_add(300,"), "{refused}");
}
