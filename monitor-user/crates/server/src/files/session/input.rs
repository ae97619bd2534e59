//! The pipe to the standard input of a program.
//!
//! A write ends when the pipe has all its bytes; while it has no room, each writer waits.

use crate::lock::lock;
use monitor_control::waker_list::WakerList;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::net::unix::pipe::Sender;

/// The pipe, until it is closed.
pub struct InputPipe {
    pipe: Mutex<Option<Sender>>,
    writers: Arc<WriterList>,
}

/// The writers that wait: a pipe of tokio wakes one task.
#[derive(Default)]
struct WriterList(WakerList);

impl Wake for WriterList {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }
}

impl InputPipe {
    /// The pipe with this end.
    ///
    /// # Errors
    ///
    /// When it is not a pipe, or cannot be registered.
    pub fn new(end: OwnedFd) -> io::Result<Self> {
        let pipe = Mutex::new(Some(Sender::from_owned_fd(end)?));
        Ok(Self { pipe, writers: Arc::default() })
    }

    /// Closes it: the program reads to the end.
    pub fn close(&self) {
        drop(lock(&self.pipe).take());
        self.writers.0.wake();
    }

    /// A writer waits no longer: the others add themselves again.
    pub fn abandon(&self) {
        self.writers.0.wake();
    }

    /// Writes what is left of `content` behind `written` bytes, and counts them there.
    pub fn poll_write(
        &self,
        content: &[u8],
        written: &mut usize,
        context: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        let pipe = lock(&self.pipe);
        let Some(pipe) = pipe.as_ref() else {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        };
        while *written < content.len() {
            match pipe.try_write(&content[*written..]) {
                Ok(n) => *written += n,
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    self.writers.0.add(context.waker());
                    let all = Waker::from(Arc::clone(&self.writers));
                    ready!(pipe.poll_write_ready(&mut Context::from_waker(&all)))?;
                }
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
