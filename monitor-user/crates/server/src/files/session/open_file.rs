//! An open file of a session: what a read returns and a write does.

use super::super::session_sample;
use super::control_file::ControlFile;
use super::input::InputWriter;
use super::{LiveSession, file_error};
use bytes::Bytes;
use monitor_control::output_log::{OutputAt, OutputReader};
use monitor_control::session::{Refusal, SessionError, SessionHold, TextFile};
use monitor_control::waker_list::WaitPlace;
use monitor_ninep::tree::{Direction, ReadRange};
use monitor_ninep::{Errno, FileError};
use std::fs::File;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// An open file; it keeps its session.
pub struct OpenSessionFile {
    session: Arc<LiveSession>,
    content: SessionContent,
    _hold: SessionHold,
}

/// What is behind an open file.
pub enum SessionContent {
    /// Nothing: the file that has opened the session.
    Number,
    /// The key that this open has made.
    Key(Bytes),
    /// A text that clients write.
    Text(TextFile),
    /// A text that is taken again by a read from 0.
    Snapshot(SnapshotText, Bytes),
    /// Commands, and the process as it was read.
    Control(Bytes, ControlFile),
    /// What the program writes.
    Output(OutputReader),
    /// What the program reads.
    Input(InputWriter),
    /// Both.
    Both(OutputReader, InputWriter),
    /// The end of the program, when it was read, and the place of the task that waits for it.
    Wait(Option<Bytes>, WaitPlace),
    /// A file below `fs`.
    Stored(File),
}

/// A text of the session that clients only read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotText {
    /// Numbers of job and process.
    Id,
    /// The id of its job.
    Job,
    /// The explanation of the last refusal.
    Err,
    /// What a sample of its processes has.
    Description,
}

impl OpenSessionFile {
    /// An open file of a session.
    ///
    /// # Errors
    ///
    /// When the session has too many.
    pub fn new(session: &Arc<LiveSession>, content: SessionContent) -> Result<Self, FileError> {
        let hold = match content {
            SessionContent::Number => session.record.hold_by_maker(),
            _ => session.record.hold(),
        };
        let hold = hold.map_err(file_error)?;
        Ok(Self { session: Arc::clone(session), content, _hold: hold })
    }

    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        let record = &self.session.record;
        let text = match &mut self.content {
            SessionContent::Number => record.number.to_string().into(),
            SessionContent::Key(key) => key.clone(),
            SessionContent::Text(file) => record.text(*file).into(),
            SessionContent::Snapshot(file, text) => {
                if range.offset == 0 {
                    *text = match file {
                        SnapshotText::Id => record.id().into(),
                        SnapshotText::Job => record.job_id().to_owned().into(),
                        SnapshotText::Err => record.error().into(),
                        SnapshotText::Description => session_sample::description().into(),
                    };
                }
                text.clone()
            }
            SessionContent::Control(text, _) => {
                if range.offset == 0 {
                    *text = record.process_text().into();
                }
                text.clone()
            }
            SessionContent::Output(reader) | SessionContent::Both(reader, _) => {
                return read_output(reader, range, context);
            }
            SessionContent::Input(_) => return Poll::Ready(Err(one_direction())),
            SessionContent::Wait(text, place) => {
                if text.is_none() {
                    *text = Some(ready!(record.poll_wait(place, context)).into());
                }
                text.clone().unwrap_or_default()
            }
            SessionContent::Stored(file) => {
                let read = self.session.stored.read(file, range.offset, range.count);
                return Poll::Ready(read.map(Bytes::from).map_err(file_error));
            }
        };
        Poll::Ready(Ok(range.part(&text)))
    }

    /// Writes at an offset.
    pub fn poll_write(
        &mut self,
        (offset, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        let all = content.len();
        match &mut self.content {
            SessionContent::Text(file) => {
                let written = self.session.record.write_text(*file, offset, content);
                Poll::Ready(written.map(|()| all).map_err(file_error))
            }
            SessionContent::Control(_, file) => {
                file.poll_write(content, context).map(|it| it.map(|()| all).map_err(file_error))
            }
            SessionContent::Input(writer) | SessionContent::Both(_, writer) => {
                let done = ready!(self.session.input.poll_write(content, writer, context));
                let entered = writer.take_written();
                Poll::Ready(match done {
                    // What the pipe has is written, also if the program has gone then.
                    Err(_) if entered > 0 => Ok(entered),
                    Err(why) => Err(input_error(&why)),
                    Ok(()) => Ok(entered),
                })
            }
            SessionContent::Stored(file) => {
                let written = self.session.stored.write(file, offset, content);
                Poll::Ready(written.map(|()| all).map_err(file_error))
            }
            SessionContent::Number
            | SessionContent::Key(_)
            | SessionContent::Snapshot(..)
            | SessionContent::Output(_)
            | SessionContent::Wait(..) => Poll::Ready(Err(one_direction())),
        }
    }

    /// A transfer is not waited for any longer.
    pub fn abandon(&mut self, direction: Direction) {
        match (&mut self.content, direction) {
            (SessionContent::Control(_, file), Direction::Write) => file.abandon(),
            // What has entered the pipe cannot be taken back.
            (SessionContent::Input(writer) | SessionContent::Both(_, writer), Direction::Write) => {
                self.session.input.abandon(writer)
            }
            _ => {}
        }
    }
}

fn read_output(
    reader: &OutputReader,
    range: ReadRange,
    context: &Context<'_>,
) -> Poll<Result<Bytes, FileError>> {
    Poll::Ready(match ready!(reader.poll_at(range.offset, range.count, context)) {
        OutputAt::Bytes(bytes) => Ok(bytes.into()),
        OutputAt::End => Ok(Bytes::new()),
        OutputAt::Dropped => {
            let why = "these bytes are not kept any longer: read on from a later offset, or open \
                       the file again";
            Err(FileError::new(Errno::Invalid, why))
        }
    })
}

fn one_direction() -> FileError {
    FileError::new(Errno::NotPermitted, "this file has one direction")
}

fn input_error(why: &std::io::Error) -> FileError {
    let closed = "stdin is closed: the program has ended, or closed it";
    match why.kind() {
        ErrorKind::BrokenPipe => file_error(SessionError::new(Refusal::Closed, closed)),
        _ => file_error(SessionError::kernel("stdin", why)),
    }
}
