//! `pio_`: what a real process has read and written, where its file is stored, how much space is
//! free.

use super::{caller, tool};
use crate::root::privilege::granted;
use crate::served::Served;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

#[test]
fn root_the_calls_and_the_files_of_a_process_are_returned() {
    const TEST: &str = "root_the_calls_and_the_files_of_a_process_are_returned";
    if !granted(TEST) {
        return;
    }
    let Some(mut program) = caller(TEST) else { return };
    let (served, pid) = (Served::start("ebpf"), program.pid().0);
    let mut talk = tool(&served, &[pid, std::process::id()]);
    let counts = |talk: &mut crate::socket_session::SocketSession| -> Vec<i64> {
        let reply = talk.request(&format!("2 [0] pio_counts([{pid}])"));
        let list = reply.split_once("(0,[").expect(&reply).1.trim_end_matches("])");
        list.split(',').map(|it| it.parse().unwrap()).collect()
    };
    let before = counts(&mut talk);
    program.send_line("pipe 23");
    assert_eq!(program.line(), "done");
    let after = counts(&mut talk);
    // 23 writes into the pipe and one to us, of 1265 and 5 bytes.
    assert_eq!((after[2] - before[2], after[4] - before[4]), (24, 1270));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(TEST).join("laid");
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&vec![7; 100_000]).unwrap();
    file.sync_all().unwrap();
    let fd = file.as_raw_fd();
    let own = std::process::id();
    let layout = talk.request(&format!("2 [0] pio_layout({own},{fd})"));
    let name = path.canonicalize().unwrap();
    let head = format!("2 [0] pio_layout(0,\"{}\",\"", name.display());
    assert!(layout.starts_with(&head) && layout.contains(",100000,[0,"), "{layout}");
    let refused = talk.request(&format!("2 [0] pio_layout({pid},0)"));
    assert!(refused.starts_with("2 [0] pio_layout(303,"), "{refused}");
    let space = talk.request("2 [0] pio_space()");
    assert!(space.starts_with("2 [0] pio_space(0,[\"/\",\"/dev/"), "{space}");
}
