//! A timer that a loop can wait for together with its other descriptors, see timerfd_create(2).

use monitor_model::id::Ns;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// One that is not set. It is readable once its time has come.
pub fn new() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    Ok(timerfd_create(TimerfdClockId::Boottime, flags)?)
}

/// Sets it to a time of `CLOCK_BOOTTIME`, at once if that is over; `None` stops it.
pub fn set(timer: impl AsFd, at: Option<Ns>) -> io::Result<()> {
    // Zero would stop it.
    let at = Duration::from_nanos(at.map_or(0, |at| at.0.max(1)));
    let it_value = Timespec::try_from(at).map_err(io::Error::other)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value };
    let _before = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}

/// Takes in that its time has come; `WouldBlock` if it has not.
pub fn take(timer: impl AsFd) -> io::Result<()> {
    let mut times = [0; 8];
    let _bytes = rustix::io::read(timer, &mut times)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use rustix::event::{PollFd, PollFlags, poll};

    fn would_block(timer: &OwnedFd) -> bool {
        take(timer).is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn it_is_readable_when_its_time_has_come_and_not_before() {
        let timer = new().unwrap();
        assert!(would_block(&timer), "it is not set");
        let at = Ns(clock::boot().0 + 23_000_000);
        set(&timer, Some(at)).unwrap();
        poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
        assert!(clock::boot() >= at);
        take(&timer).unwrap();
        assert!(would_block(&timer), "it was taken in");
        set(&timer, Some(Ns(0))).unwrap();
        poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
        take(&timer).unwrap();
        set(&timer, Some(Ns(clock::boot().0 + 3_600_000_000_000))).unwrap();
        set(&timer, None).unwrap();
        assert!(would_block(&timer), "it was stopped");
    }
}
