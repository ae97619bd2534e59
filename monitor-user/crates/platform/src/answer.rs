//! What a hand answers, in the words of the request language.
//!
//! In: what was done, or why not. Out: values, or a refusal with its status. The one place where
//! the errors of `control` get statuses.

use monitor_control::{Done, Frame, Image, Trouble};
use monitor_event::outcome::Refusal;
use monitor_omis::{Status, Text, Value};
use monitor_symbols::error::Error as SymbolError;

/// Error numbers of the system that clients know (errno(3)).
const EPERM: i32 = 1;
const ESRCH: i32 = 3;
const EFAULT: i32 = 14;

/// The results of an act.
pub fn values(done: Done) -> Vec<Value> {
    match done {
        Done::It | Done::Stopped(_) | Done::Started(_) | Done::Placed(_) => Vec::new(),
        Done::Version(version) => vec![Value::from(version.as_str())],
        Done::Bytes(bytes) => vec![list(bytes)],
        Done::Integers(values) => vec![list(values)],
        Done::Floats(values) => vec![list(values)],
        Done::Frames(frames) => vec![Value::List(frames.into_iter().flat_map(frame).collect())],
        Done::Images(images) => vec![Value::List(images.into_iter().flat_map(image).collect())],
    }
}

/// Why it was not done.
pub fn refusal(trouble: Trouble) -> Refusal {
    let text = trouble.to_string();
    let (status, errno) = match &trouble {
        Trouble::Gone => (Status::GONE, ESRCH),
        Trouble::Denied { .. } => (Status::PERMISSION, EPERM),
        Trouble::Busy { .. } => (Status::BUSY, EPERM),
        Trouble::Locked => (Status::LOCKED, 0),
        Trouble::Fault { .. } => (Status::FAULT, EFAULT),
        Trouble::State(_) => (Status::WRONG_STATE, 0),
        Trouble::Late(_) => (Status::TIMEOUT, 0),
        Trouble::Unsupported(_) => (Status::UNSUPPORTED, 0),
        Trouble::Unsafe(_) => (Status::UNSAFE_SITE, 0),
        Trouble::Range(_) => (Status::RANGE, 0),
        Trouble::Exhausted(_) => (Status::RESOURCE, 0),
        Trouble::Failed { .. } => (Status::IO, 0),
        Trouble::HandLost => (Status::INTERRUPTED, 0),
    };
    let results = match trouble {
        Trouble::Fault { done, .. } => vec![list(done)],
        _ => Vec::new(),
    };
    Refusal { results, ..Refusal::new(status, text).with_errno(errno) }
}

/// The refusal for an error of the search for code, symbols or message queues.
pub fn symbol_refusal(error: &SymbolError) -> Refusal {
    let status = match error {
        SymbolError::Gone { .. } => Status::GONE,
        SymbolError::Unreadable { .. } => Status::RANGE,
        SymbolError::File { source, .. } => match source.kind() {
            std::io::ErrorKind::PermissionDenied => Status::PERMISSION,
            std::io::ErrorKind::NotFound => Status::NO_SUCH_OBJECT,
            _ => Status::IO,
        },
        SymbolError::Malformed { .. } => Status::IO,
        SymbolError::Unsupported { .. } | SymbolError::Lacking { .. } => Status::UNSUPPORTED,
        SymbolError::Missing { .. } | SymbolError::Unloaded { .. } => Status::NO_SUCH_OBJECT,
        SymbolError::Unsafe { .. } => Status::UNSAFE_SITE,
        SymbolError::Moving => Status::INTERRUPTED,
    };
    let errno = match error {
        SymbolError::File { source, .. } => source.raw_os_error().unwrap_or(0),
        _ => 0,
    };
    Refusal::new(status, error.to_string()).with_errno(errno)
}

fn list<T: Into<Value>>(items: Vec<T>) -> Value {
    Value::List(items.into_iter().map(Into::into).collect())
}

/// Two values, three if names were asked for.
fn frame(it: Frame) -> Vec<Value> {
    let name = it.name.map(|name| Value::from(name.as_str()));
    [Some(Value::from(it.pc)), Some(Value::from(it.frame)), name].into_iter().flatten().collect()
}

/// The eight members of the specification; a member of an archive is a thing of other systems.
fn image(it: Image) -> Vec<Value> {
    let mut values = vec![Value::Text(Text::from(it.path)), Value::from("")];
    for (start, length) in [it.code, it.data, it.bss] {
        values.extend([Value::from(start), Value::from(length)]);
    }
    values
}
