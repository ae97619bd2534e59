//! The category `syslog` of `mon/`: records of the log of the kernel, as events.
//!
//! In: `/dev/kmsg`, a record for each read. Out: lines of an [`EventLog`], those that the kernel
//! has kept first. It is read while a connection has opened one of the files. Records that the
//! kernel has overwritten before they were read are counted.

use super::event_feed::unix_ns;
use super::event_log::EventLog;
use super::sexpr::put_pair;
use crate::lock::lock;
use monitor_ninep::{Errno, FileError};
use monitor_sys::clock;
use monitor_sys::readable::readable;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, Mutex, Weak};
use tokio::task::AbortHandle;

/// The name of the category.
pub const SYSLOG: &str = "syslog";
/// Where the records are.
const DEVICE: &str = "/dev/kmsg";
/// Most bytes of a record (`PRINTKRB_RECORD_MAX` of kernel/printk/internal.h is smaller).
const MAX_RECORD: usize = 8 << 10;

/// The log, shared by all that read it.
#[derive(Default)]
pub struct KernelLog(Mutex<Weak<KernelLogReader>>);

/// What reads the log until it is dropped.
pub struct KernelLogReader {
    /// The events.
    pub log: Arc<EventLog>,
    task: AbortHandle,
}

impl Drop for KernelLogReader {
    fn drop(&mut self) {
        self.task.abort();
        self.log.close();
    }
}

impl KernelLog {
    /// The reader; it begins when there is none, with all records that the kernel has.
    ///
    /// # Errors
    ///
    /// When the service may not read the log.
    pub fn reader(&self) -> Result<Arc<KernelLogReader>, FileError> {
        let mut shared = lock(&self.0);
        if let Some(reader) = shared.upgrade() {
            return Ok(reader);
        }
        let reader = Arc::new(KernelLogReader::start().map_err(|why| {
            let errno = match why.kind() {
                io::ErrorKind::PermissionDenied => Errno::Denied,
                io::ErrorKind::NotFound => Errno::NotFound,
                _ => Errno::Io,
            };
            let need = "the service needs CAP_SYSLOG, or kernel.dmesg_restrict of 0";
            FileError::new(errno, format!("{DEVICE}: {why}: {need}"))
        })?);
        *shared = Arc::downgrade(&reader);
        Ok(reader)
    }
}

impl KernelLogReader {
    fn start() -> io::Result<Self> {
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(DEVICE)?;
        let log = Arc::new(EventLog::default());
        let mut records = Records { file, log: Arc::clone(&log), next: None };
        // So that what follows an open is what the kernel writes from then on.
        records.read_all()?;
        let task = tokio::spawn(follow(records)).abort_handle();
        Ok(Self { log, task })
    }
}

/// Reads records as they are written.
async fn follow(mut records: Records) {
    let registered = records.file.try_clone().and_then(|it| readable(it.into()));
    let file = match registered {
        Ok(file) => file,
        Err(why) => return tracing::warn!("{DEVICE} is not followed: {why}"),
    };
    loop {
        let Ok(mut ready) = file.readable().await else { return };
        if let Err(why) = records.read_all() {
            tracing::warn!("{DEVICE} is not read any longer: {why}");
            return;
        }
        ready.clear_ready();
    }
}

/// The records that were not read yet.
struct Records {
    file: File,
    log: Arc<EventLog>,
    /// The number that the next record has, if none is lost.
    next: Option<u64>,
}

impl Records {
    fn read_all(&mut self) -> io::Result<()> {
        let mut bytes = [0; MAX_RECORD];
        loop {
            match self.file.read(&mut bytes) {
                Ok(0) => return Ok(()),
                Ok(length) => self.add(&bytes[..length]),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                // Records were overwritten: the next read has the oldest that is there, and its
                // number says how many are lost.
                Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                // One that is longer than a read is skipped (EINVAL).
                Err(why) if why.kind() == io::ErrorKind::InvalidInput => {}
                Err(why) => return Err(why),
            }
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let Some(record) = KernelRecord::parse(bytes) else { return };
        let lost = self.next.map_or(0, |next| record.number.saturating_sub(next));
        self.next = Some(record.number + 1);
        if lost > 0 {
            self.log.add(unix_ns(), &format!("(lost {lost})"));
        }
        let now = clock::now();
        let age = now.boot.0.saturating_sub(record.at_us.saturating_mul(1000));
        self.log.add(now.unix.0.saturating_sub(age), &record.content());
    }
}

/// A record (Documentation/ABI/testing/dev-kmsg).
#[derive(Debug, PartialEq, Eq)]
struct KernelRecord {
    priority: u64,
    facility: u64,
    number: u64,
    /// Microseconds since boot.
    at_us: u64,
    text: String,
}

impl KernelRecord {
    /// Parses `PRIORITY,NUMBER,MICROSECONDS,FLAGS[,…];TEXT`; what follows the first line is about
    /// devices.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let record = String::from_utf8_lossy(bytes);
        let (head, rest) = record.split_once(';')?;
        let mut head = head.split(',').map(str::parse::<u64>);
        let mut number = || head.next()?.ok();
        let (code, number, at_us) = (number()?, number()?, number()?);
        let text = rest.lines().next().unwrap_or_default().to_owned();
        Some(Self { priority: code & 7, facility: code >> 3, number, at_us, text })
    }

    /// The list of an event.
    fn content(&self) -> String {
        let Self { priority, facility, number, .. } = self;
        let mut out =
            format!("({SYSLOG} (priority {priority}) (facility {facility}) (number {number}) ");
        put_pair(&mut out, "text", &self.text);
        out.push(')');
        out
    }
}

/// The description of the category.
pub fn description() -> String {
    format!(
        "(desc (cat {SYSLOG} (var priority gauge '') (var facility label '') (var number counter \
         '') (var text label '')))\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_priority_facility_number_time_and_text() {
        let it = KernelRecord::parse(b"30,339,5140900,-;systemd[1]: it's (up); \\x0a\n SUB=x\n");
        let it = it.expect("a record");
        assert_eq!((it.priority, it.facility, it.number, it.at_us), (6, 3, 339, 5_140_900));
        assert_eq!(
            it.content(),
            "(syslog (priority 6) (facility 3) (number 339) (text 'systemd[1]: it''s (up); \
             \\x0a'))"
        );
        for odd in ["", "6,1", "6,1,2", "a,1,2,-;x", "6,b,2,-;x", ";x"] {
            assert_eq!(KernelRecord::parse(odd.as_bytes()), None, "{odd:?}");
        }
    }

    #[test]
    fn records_that_were_overwritten_are_counted() {
        let log = Arc::<EventLog>::default();
        let file = File::open("/dev/null").expect("it is there");
        let mut records = Records { file, log: Arc::clone(&log), next: None };
        for record in ["6,7,1,-;a\n", "6,8,2,-;b\n", "6,12,3,-;c\n"] {
            records.add(record.as_bytes());
        }
        let context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(all) = log.reader().poll_batch((0, None), 10_000, &context)
        else {
            panic!("there are events")
        };
        let text = String::from_utf8_lossy(&all.text).into_owned();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines[2].ends_with(" (lost 3))") && lines[3].contains("(text c)"), "{text}");
    }
}
