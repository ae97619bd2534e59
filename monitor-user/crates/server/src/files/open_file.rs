//! An open file of the tree: what a read returns and a write does.

use super::aggregator::OpenAggregatorFile;
use super::last_error::LastError;
use super::mon_control::MonControlFile;
use super::node::NodeFiles;
use super::node_control::NodeControlFile;
use super::node_texts::NodeText;
use super::nodes::OpenNodesFile;
use super::open_monitor::OpenMonitorFile;
use super::reading::ReadingFile;
use super::session::copy::receiver::CopyReceiver;
use super::session::{OpenSessionFile, file_error};
use super::upload::UploadReceiver;
use bytes::Bytes;
use monitor_ninep::tree::{Deferred, Direction, ReadRange};
use monitor_ninep::{Errno, FileError};
use std::sync::Arc;
use std::task::{Context, Poll};

/// An open file.
pub enum OpenFile {
    /// A text that does not change while it is open.
    Text(Bytes),
    /// The last error: taken again by a read from 0.
    Err(Arc<LastError>, Bytes),
    /// A reading: made again by a read from 0.
    Reading(Box<ReadingFile>),
    /// A text of the node.
    NodeText(Arc<NodeFiles>, NodeText),
    /// Commands for the node, and what it says: taken again by a read from 0.
    Control(NodeControlFile, Bytes),
    /// What is set for samples: taken again by a read from 0.
    MonControl(Box<MonControlFile>, Bytes),
    /// A file of `nodes/`.
    Nodes(Box<OpenNodesFile>),
    /// A file of `agg/`.
    Aggregator(Box<OpenAggregatorFile>),
    /// A file of a session.
    Session(Box<OpenSessionFile>),
    /// A copy of a session of another node.
    Copy(Box<CopyReceiver>),
    /// A file that another node has announced.
    Upload(Box<UploadReceiver>),
    /// What happens to the node or a session.
    Monitor(Box<OpenMonitorFile>),
}

impl OpenFile {
    /// One of a session.
    pub fn session(file: OpenSessionFile) -> Self {
        Self::Session(Box::new(file))
    }

    /// One of `nodes/`.
    pub fn nodes(file: Deferred<OpenNodesFile>) -> Deferred<Self> {
        let opened = |it| Self::Nodes(Box::new(it));
        match file {
            Deferred::Now(it) => Deferred::Now(it.map(opened)),
            Deferred::Later(it) => Deferred::Later(Box::pin(async move { it.await.map(opened) })),
        }
    }

    /// One that waits for what happens.
    pub fn monitor(file: Deferred<OpenMonitorFile>) -> Deferred<Self> {
        let opened = |it| Self::Monitor(Box::new(it));
        match file {
            Deferred::Now(it) => Deferred::Now(it.map(opened)),
            Deferred::Later(it) => Deferred::Later(Box::pin(async move { it.await.map(opened) })),
        }
    }

    /// The bytes of a range.
    pub fn poll_read(
        &mut self,
        range: ReadRange,
        context: &mut Context<'_>,
    ) -> Poll<Result<Bytes, FileError>> {
        match self {
            Self::Text(text) => Poll::Ready(Ok(range.part(text))),
            Self::Err(error, text) => {
                if range.offset == 0 {
                    *text = error.text().0;
                }
                Poll::Ready(Ok(range.part(text)))
            }
            Self::NodeText(node, text) => Poll::Ready(Ok(range.part(&node.texts.get(*text).0))),
            Self::Control(control, text) => {
                if range.offset == 0 {
                    *text = control.text();
                }
                Poll::Ready(Ok(range.part(text)))
            }
            Self::MonControl(control, text) => {
                if range.offset == 0 {
                    *text = control.text();
                }
                Poll::Ready(Ok(range.part(text)))
            }
            Self::Reading(reader) => {
                reader.poll(range.offset, context).map_ok(|text| range.part(&text))
            }
            Self::Nodes(file) => file.poll_read(range, context),
            Self::Aggregator(file) => file.poll_read(range, context),
            Self::Session(file) => file.poll_read(range, context),
            Self::Copy(file) => file.poll_read(range.count, context).map_err(file_error),
            Self::Monitor(file) => file.poll_read(range, context),
            Self::Upload(_) => {
                let why = "upload is only written";
                Poll::Ready(Err(FileError::new(Errno::NotPermitted, why)))
            }
        }
    }

    /// Writes at an offset.
    pub fn poll_write(
        &mut self,
        (offset, content): (u64, &[u8]),
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, FileError>> {
        match self {
            Self::Session(file) => file.poll_write((offset, content), context),
            Self::NodeText(node, text) => {
                let written = node.write_text(*text, (offset, content));
                Poll::Ready(written.map(|()| content.len()))
            }
            Self::Control(control, _) => Poll::Ready(control.write(content)),
            Self::MonControl(control, _) => Poll::Ready(control.write(content)),
            Self::Nodes(file) => Poll::Ready(file.write(content)),
            Self::Aggregator(file) => Poll::Ready(file.write(content)),
            Self::Copy(file) => {
                let taken = file.write(offset, content);
                Poll::Ready(taken.map(|()| content.len()).map_err(file_error))
            }
            Self::Monitor(file) => Poll::Ready(file.write(content)),
            Self::Upload(file) => Poll::Ready(file.write(offset, content)),
            Self::Text(_) | Self::Err(..) | Self::Reading(_) => {
                Poll::Ready(Err(FileError::new(Errno::NotPermitted, "this file is only read")))
            }
        }
    }

    /// A transfer is not waited for any longer.
    pub fn abandon(&mut self, direction: Direction) {
        match self {
            Self::Reading(reader) => reader.abandon(),
            Self::Session(file) => file.abandon(direction),
            Self::Aggregator(file) => file.abandon(),
            Self::Nodes(file) => file.abandon(),
            // What the others have is there, or taken with the reply alone.
            Self::Text(_)
            | Self::Err(..)
            | Self::NodeText(..)
            | Self::Control(..)
            | Self::MonControl(..)
            | Self::Copy(_)
            | Self::Upload(_)
            | Self::Monitor(_) => {}
        }
    }
}
