//! What takes long to open is opened by a thread beside, so that requests that do not need it are
//! answered meanwhile.
//!
//! In: how to open it. Out: it, or nothing yet; then the caller is asked again once the waker is
//! readable.

use monitor_event::outcome::Refusal;
use monitor_omis::Status;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

/// A descriptor that is readable when something was opened.
#[derive(Clone, Debug)]
pub struct OpeningWaker(Option<Arc<OwnedFd>>);

impl OpeningWaker {
    /// Without descriptors left there is none, and callers wait.
    pub fn new() -> Self {
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC);
        Self(fd.inspect_err(|error| tracing::warn!("eventfd: {error}")).ok().map(Arc::new))
    }

    /// The descriptor.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|fd| fd.as_fd())
    }

    /// Whether anything was opened since the last call.
    pub fn take(&self) -> bool {
        let mut count = [0; 8];
        self.fd().is_some_and(|fd| rustix::io::read(fd, &mut count).is_ok())
    }

    /// Makes it readable.
    pub fn wake(&self) {
        // Fails only if the counter is full, and then it is readable.
        let _ = self.fd().map(|fd| rustix::io::write(fd, &1_u64.to_ne_bytes()));
    }
}

/// Whether a caller can be asked again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// It can.
    Returns,
    /// It waits until it is open.
    Waits,
}

/// One thing that is being opened.
#[derive(Debug)]
pub struct Opening<T>(Option<Receiver<Result<T, Refusal>>>);

impl<T: Send + 'static> Opening<T> {
    /// Nothing is being opened.
    pub const fn none() -> Self {
        Self(None)
    }

    /// What was opened, or why it could not be; `None` if a caller that returns has to be asked
    /// again. The first call starts the thread.
    pub fn poll(
        &mut self,
        caller: Caller,
        waker: &OpeningWaker,
        open: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Option<Result<T, Refusal>> {
        if self.0.is_none() && caller == Caller::Waits {
            return Some(open());
        }
        let begun = self.0.get_or_insert_with(|| begin(waker.clone(), open));
        let panicked = || Refusal::new(Status::INTERNAL, "opening eBPF failed: internal error");
        let opened = match (caller, &waker.0) {
            (Caller::Returns, Some(_)) => match begun.try_recv() {
                Ok(opened) => opened,
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => Err(panicked()),
            },
            _ => begun.recv().unwrap_or_else(|_| Err(panicked())),
        };
        self.0 = None;
        Some(opened)
    }
}

fn begin<T: Send + 'static>(
    waker: OpeningWaker,
    open: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Receiver<Result<T, Refusal>> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("opener".into()).spawn(move || {
        // Fails only if the platform was dropped meanwhile.
        let _ = sender.send(open());
        waker.wake();
    });
    if let Err(error) = thread {
        tracing::warn!("a thread that opens eBPF: {error}");
    }
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_returns_gets_it_once_the_waker_is_readable() {
        let (waker, mut opening) = (OpeningWaker::new(), Opening::none());
        let (go, gone) = channel::<()>();
        let mut open = Some(move || gone.recv().map(|()| 7).map_err(|_| unreachable!()));
        assert!(opening.poll(Caller::Returns, &waker, open.take().unwrap()).is_none());
        assert!(opening.poll(Caller::Returns, &waker, || Ok(8)).is_none(), "it has begun");
        assert!(!waker.take());
        go.send(()).unwrap();
        let fd = waker.fd().unwrap();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(fd, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut fds, None).unwrap();
        assert!(waker.take());
        assert_eq!(opening.poll(Caller::Returns, &waker, || Ok(9)).unwrap().unwrap(), 7);
    }

    #[test]
    fn a_caller_that_waits_gets_what_another_has_begun() {
        let (waker, mut opening) = (OpeningWaker::new(), Opening::none());
        assert_eq!(opening.poll(Caller::Waits, &waker, || Ok(1)).unwrap().unwrap(), 1);
        let _begun = opening.poll(Caller::Returns, &waker, || Ok(2));
        let got = opening.poll(Caller::Waits, &waker, || Ok(3)).unwrap().unwrap();
        assert!(got == 2 || got == 3);
    }
}
