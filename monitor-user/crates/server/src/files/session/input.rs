//! The pipe to the standard input of a program.
//!
//! A write ends when the pipe has all its bytes; while it has no room, each writer waits.

use crate::lock::lock;
use monitor_control::waker_list::{WaitPlace, WakerList};
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

/// A writer, which has one write at a time.
pub struct InputWriter {
    /// The bytes of the write that waits which the pipe has.
    written: usize,
    place: WaitPlace,
}

impl InputWriter {
    /// The bytes that the pipe has of the write that has ended.
    pub const fn take_written(&mut self) -> usize {
        std::mem::replace(&mut self.written, 0)
    }
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

    /// A writer.
    pub fn writer(&self) -> InputWriter {
        InputWriter { written: 0, place: self.writers.0.add_place() }
    }

    /// A writer waits no longer: the others add themselves again.
    pub fn abandon(&self, writer: &mut InputWriter) {
        writer.written = 0;
        writer.place.leave();
        self.writers.0.wake();
    }

    /// Writes what the pipe does not have of the content, and counts it for the writer.
    pub fn poll_write(
        &self,
        content: &[u8],
        writer: &mut InputWriter,
        context: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        let InputWriter { written, place } = writer;
        let pipe = lock(&self.pipe);
        let Some(pipe) = pipe.as_ref() else {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        };
        while *written < content.len() {
            match pipe.try_write(&content[*written..]) {
                Ok(n) => *written += n,
                Err(why) if why.kind() == ErrorKind::WouldBlock => {
                    place.wait(context);
                    let all = Waker::from(Arc::clone(&self.writers));
                    ready!(pipe.poll_write_ready(&mut Context::from_waker(&all)))?;
                }
                Err(why) => return Poll::Ready(Err(why)),
            }
        }
        Poll::Ready(Ok(()))
    }
}
