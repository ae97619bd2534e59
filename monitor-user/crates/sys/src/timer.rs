//! A timer that an event loop polls like its other descriptors: timerfd_create(2).

use monitor_model::id::Ns;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::{AsFd, OwnedFd};
use std::{io, time::Duration};

/// A disarmed timer. It becomes readable when it expires.
pub fn new() -> io::Result<OwnedFd> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    Ok(timerfd_create(TimerfdClockId::Boottime, flags)?)
}

/// Arms the timer for a time on `CLOCK_BOOTTIME`; a past time expires at once, `None` disarms it.
pub fn set(timer: impl AsFd, at: Option<Ns>) -> io::Result<()> {
    // Zero would disarm it.
    let at = Duration::from_nanos(at.map_or(0, |at| at.0.max(1)));
    let it_value = Timespec::try_from(at).map_err(io::Error::other)?;
    let once = Itimerspec { it_interval: Timespec::default(), it_value };
    let _before = timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
    Ok(())
}

/// Acknowledges an expiration; `WouldBlock` if there was none.
pub fn acknowledge(timer: impl AsFd) -> io::Result<()> {
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
        acknowledge(timer).is_err_and(|it| it.kind() == io::ErrorKind::WouldBlock)
    }

    #[test]
    fn a_timer_is_readable_after_its_time_and_not_before() {
        let timer = new().unwrap();
        assert!(would_block(&timer), "it is disarmed");
        let at = Ns(clock::boot().0 + 23_000_000);
        set(&timer, Some(at)).unwrap();
        poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
        assert!(clock::boot() >= at);
        acknowledge(&timer).unwrap();
        assert!(would_block(&timer), "the expiration was acknowledged");
        set(&timer, Some(Ns(0))).unwrap();
        poll(&mut [PollFd::new(&timer, PollFlags::IN)], None).unwrap();
        acknowledge(&timer).unwrap();
        set(&timer, Some(Ns(clock::boot().0 + 3_600_000_000_000))).unwrap();
        set(&timer, None).unwrap();
        assert!(would_block(&timer), "it was disarmed");
    }
}
