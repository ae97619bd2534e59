//! Standard input that is passed on to a process elsewhere.
//!
//! In: a descriptor, perhaps of a terminal. Out: its bytes, in parts, and its end. While this
//! process is in the background of its terminal, nothing is read, and it is not stopped for that
//! (`SIGTTIN`): a shell may put it there and bring it back at any time.

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp};
use std::os::fd::AsFd;
use std::time::Duration;

/// How often it is seen whether this process is in the foreground again.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Gives each part to the function, at most this number of bytes, and no bytes at the end; until
/// the function returns `false`. Call it on a thread of its own.
pub fn pass_input(from: impl AsFd, most: usize, mut pass: impl FnMut(&[u8]) -> bool) {
    // A thread that has it blocked gets an error instead. It is blocked in this thread only.
    let _unblocked: nix::Result<()> =
        [Signal::SIGTTIN].into_iter().collect::<SigSet>().thread_block();
    let mut part = vec![0; most];
    loop {
        match read(&from, &mut part) {
            Ok(count @ 1..) => {
                if !pass(&part[..count]) {
                    return;
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut fds = [PollFd::new(&from, PollFlags::IN)];
                let _readable = poll(&mut fds, None);
            }
            Err(Errno::IO) if is_in_background(&from) => std::thread::sleep(LOOK_AGAIN),
            // The end; an error is one, too.
            Ok(0) | Err(_) => {
                let _more = pass(&[]);
                return;
            }
        }
    }
}

fn is_in_background(from: &impl AsFd) -> bool {
    isatty(from) && tcgetpgrp(from).is_ok_and(|group| group != getpgrp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn bytes_are_passed_in_parts_with_their_end() {
        let (from, mut to) = std::io::pipe().unwrap();
        to.write_all(b"abcde").unwrap();
        drop(to);
        let mut parts = Vec::new();
        pass_input(from, 2, |part| {
            parts.push(String::from_utf8(part.to_vec()).unwrap());
            true
        });
        assert_eq!(parts, ["ab", "cd", "e", ""]);
    }

    #[test]
    fn nothing_is_read_when_it_is_refused() {
        let (from, mut to) = std::io::pipe().unwrap();
        to.write_all(b"abcde").unwrap();
        let mut left = from.try_clone().unwrap();
        pass_input(from, 2, |_| false);
        drop(to);
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut left, &mut rest).unwrap();
        assert_eq!(rest, "cde");
    }
}
