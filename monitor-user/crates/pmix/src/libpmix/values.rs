//! Attributes as the library has them, and back.
//!
//! In: structures of the library, which are its own and only valid during a call. Out: copies. And
//! back: [`InfoArray`] owns structures that the library may read until it has answered.

use super::abi::{
    ByteObject, DataArray, Envar, HostPid, KEY, KeyedValue, NAMESPACE, Proc, ProcInfo, Value,
    ValueData,
};
use crate::attribute::{Attribute, Datum, NodePid, ProcName, TableLine};
use crate::kind;
use std::any::Any;
use std::ffi::{CStr, CString, c_char};

/// Reads a value of the library.
///
/// # Safety
/// Pointers in it are valid for the types that it names.
unsafe fn read_value(value: &Value) -> Datum {
    let data = &value.data;
    match value.kind {
        kind::UNDEFINED => Datum::Present,
        kind::STRING => {
            // SAFETY: a value of this type has a string; all bits are a pointer.
            let string = unsafe { data.string };
            // SAFETY: of the caller.
            unsafe { read_text(string) }.map_or(Datum::Other(kind::STRING), Datum::Text)
        }
        kind::PROC => {
            // SAFETY: a value of this type has a pointer to a rank.
            let proc = unsafe { data.proc };
            // SAFETY: of the caller.
            unsafe { proc.as_ref() }.map_or(Datum::Other(kind::PROC), |it| Datum::Proc(it.into()))
        }
        kind::BYTE_OBJECT => {
            // SAFETY: a value of this type has bytes.
            let bytes = unsafe { data.bytes };
            // SAFETY: of the caller.
            Datum::Bytes(unsafe { slice(bytes.bytes.cast::<u8>(), bytes.size) }.to_vec())
        }
        kind::ENVAR => {
            // SAFETY: a value of this type has a variable.
            let envar = unsafe { data.envar };
            // SAFETY: of the caller.
            let [name, value] = [envar.name, envar.value].map(|it| unsafe { read_text(it) });
            let separator = envar.separator.cast_unsigned();
            Datum::Variable(name.unwrap_or_default(), value.unwrap_or_default(), separator)
        }
        kind::DATA_ARRAY => {
            // SAFETY: a value of this type has a pointer to an array.
            let array = unsafe { data.array };
            // SAFETY: of the caller.
            unsafe { array.as_ref() }
                // SAFETY: of the caller.
                .map_or(Datum::Other(kind::DATA_ARRAY), |it| unsafe { read_array(it) })
        }
        kind::TIMEVAL => {
            // SAFETY: all bits of the union are words.
            let words = unsafe { data.words };
            Datum::Timeval(words[0].cast_signed(), words[1].cast_signed())
        }
        number => match bytes_of(number) {
            Some(bytes) => {
                // SAFETY: all bits of the union are words.
                let [word, ..] = unsafe { data.words };
                Datum::Number(number, word & (u64::MAX >> (64 - 8 * bytes)))
            }
            None => Datum::Other(number),
        },
    }
}

/// Bytes of a plain number of a type.
const fn bytes_of(number: u16) -> Option<u32> {
    Some(match number {
        // bool, byte, int8, uint8, persistence, scope, range, and the state of a process.
        1 | 2 | 7 | 12 | 30 | 32 | 33 | 37 => 1,
        8 | 13 => 2,
        // pid, int, int32, uint, uint32, float, status, rank.
        5 | 6 | 9 | 11 | 14 | 16 | 20 | 40 => 4,
        // size, int64, uint64, double, time.
        4 | 10 | 15 | 17 | 19 => 8,
        _ => return None,
    })
}

impl From<&Proc> for ProcName {
    fn from(proc: &Proc) -> Self {
        Self { nspace: read_chars(&proc.nspace), rank: proc.rank }
    }
}

impl From<&ProcName> for Proc {
    fn from(name: &ProcName) -> Self {
        Self { nspace: chars::<NAMESPACE>(&name.nspace), rank: name.rank }
    }
}

/// Text in an array, which a NUL byte ends; cut if it is longer.
pub fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut chars = [0; N];
    let bytes = text.bytes().take_while(|it| *it != 0).take(N - 1);
    chars.iter_mut().zip(bytes).for_each(|(to, from)| *to = from.cast_signed());
    chars
}

/// The text in an array, up to its NUL byte.
pub fn read_chars(chars: &[c_char]) -> String {
    let bytes: Vec<u8> =
        chars.iter().map(|it| it.cast_unsigned()).take_while(|it| *it != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Copies text of the library.
///
/// # Safety
/// The pointer is NULL, or of text that a NUL byte ends.
pub unsafe fn read_text(text: *const c_char) -> Option<CString> {
    // SAFETY: of the caller.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_owned())
}

/// Copies an array of texts that NULL ends.
///
/// # Safety
/// The pointer is NULL, or of such an array.
pub unsafe fn read_texts(texts: *const *mut c_char) -> Vec<CString> {
    let mut all = Vec::new();
    let mut next = texts;
    while !next.is_null() {
        // SAFETY: of the caller; NULL, which ends the array, has not come yet.
        let text = unsafe { *next };
        // SAFETY: of the caller.
        let Some(text) = (unsafe { read_text(text) }) else { break };
        all.push(text);
        // SAFETY: the element is within the array, and NULL follows the last one.
        next = unsafe { next.add(1) };
    }
    all
}

/// Copies attributes of the library.
///
/// # Safety
/// The pointer is NULL, or of this number of attributes.
pub unsafe fn read_infos(infos: *const KeyedValue, count: usize) -> Vec<Attribute> {
    // SAFETY: of the caller.
    let infos = unsafe { slice(infos, count) };
    let read = |info: &KeyedValue| Attribute {
        key: read_chars(&info.key),
        // SAFETY: of the caller.
        value: unsafe { read_value(&info.value) },
    };
    infos.iter().map(read).collect()
}

/// Copies ranks of the library.
///
/// # Safety
/// The pointer is NULL, or of this number of ranks.
pub unsafe fn read_procs(procs: *const Proc, count: usize) -> Vec<ProcName> {
    // SAFETY: of the caller.
    unsafe { slice(procs, count) }.iter().map(ProcName::from).collect()
}

/// Elements of the library.
///
/// # Safety
/// The pointer is NULL, or of this number of elements, which live as long as the slice.
pub unsafe fn slice<'s, T>(elements: *const T, count: usize) -> &'s [T] {
    if elements.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: of the caller.
    unsafe { std::slice::from_raw_parts(elements, count) }
}

/// # Safety
/// The array has elements of the type that it names.
unsafe fn read_array(array: &DataArray) -> Datum {
    match array.kind {
        kind::INFO => {
            // SAFETY: of the caller.
            Datum::Attributes(unsafe { read_infos(array.array.cast::<KeyedValue>(), array.size) })
        }
        kind::PROC => {
            // SAFETY: of the caller.
            Datum::Procs(unsafe { read_procs(array.array.cast::<Proc>(), array.size) })
        }
        kind::PROC_INFO => {
            // SAFETY: of the caller.
            let lines = unsafe { slice(array.array.cast::<ProcInfo>(), array.size) };
            // SAFETY: of the caller.
            Datum::Table(lines.iter().map(|it| unsafe { read_line(it) }).collect())
        }
        kind::STRING => {
            // SAFETY: of the caller.
            let texts = unsafe { slice(array.array.cast::<*const c_char>(), array.size) };
            // SAFETY: of the caller.
            Datum::Texts(texts.iter().filter_map(|it| unsafe { read_text(*it) }).collect())
        }
        kind::UINT32 => {
            // SAFETY: of the caller.
            let numbers = unsafe { slice(array.array.cast::<u32>(), array.size) };
            Datum::Numbers(kind::UINT32, numbers.iter().map(|it| (*it).into()).collect())
        }
        kind::NODE_PID => {
            // SAFETY: of the caller.
            let processes = unsafe { slice(array.array.cast::<HostPid>(), array.size) };
            let read = |it: &HostPid| NodePid {
                // SAFETY: of the caller.
                host: unsafe { read_text(it.host) },
                node: it.node,
                pid: it.pid,
            };
            Datum::NodePids(processes.iter().map(read).collect())
        }
        other => Datum::Other(other),
    }
}

/// # Safety
/// Its texts are valid.
unsafe fn read_line(line: &ProcInfo) -> TableLine {
    // SAFETY: of the caller.
    let [host, executable] = [line.host, line.executable].map(|it| unsafe { read_text(it) });
    TableLine {
        name: ProcName::from(&line.proc),
        host: host.unwrap_or_default(),
        executable: executable.unwrap_or_default(),
        pid: line.pid,
        exit_code: line.exit_code,
        state: line.state,
    }
}

/// Attributes as the library reads them, with all that they point to.
#[derive(Default)]
pub struct InfoArray {
    infos: Vec<KeyedValue>,
    /// What the pointers in them point to: each is on the heap, and stays there.
    _storage: Vec<Box<dyn Any>>,
}

impl InfoArray {
    /// From attributes.
    pub fn new(attributes: &[Attribute]) -> Self {
        let mut storage = Vec::new();
        let info = |it: &Attribute| KeyedValue {
            key: chars::<KEY>(&it.key),
            flags: 0,
            value: value(&it.value, &mut storage),
        };
        let infos = attributes.iter().map(info).collect();
        Self { infos, _storage: storage }
    }

    /// The first; NULL if there is none.
    pub fn pointer(&mut self) -> *mut KeyedValue {
        if self.infos.is_empty() { std::ptr::null_mut() } else { self.infos.as_mut_ptr() }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.infos.len()
    }
}

/// A value as the library reads it; what it points to is added to the storage.
pub fn value(datum: &Datum, storage: &mut Vec<Box<dyn Any>>) -> Value {
    let words = |first: u64, second: u64| ValueData { words: [first, second, 0] };
    let (kind, data) = match datum {
        Datum::Present => (kind::BOOL, words(1, 0)),
        Datum::Number(kind, word) => (*kind, words(*word, 0)),
        Datum::Timeval(seconds, micros) => {
            (kind::TIMEVAL, words(seconds.cast_unsigned(), micros.cast_unsigned()))
        }
        Datum::Text(text) => (kind::STRING, ValueData { string: kept_text(text, storage) }),
        Datum::Bytes(bytes) => {
            let size = bytes.len();
            let bytes = kept(bytes.clone(), storage).as_mut_ptr().cast();
            (kind::BYTE_OBJECT, ValueData { bytes: ByteObject { bytes, size } })
        }
        Datum::Proc(name) => (kind::PROC, ValueData { proc: kept(Proc::from(name), storage) }),
        Datum::Variable(name, value, separator) => {
            let [name, value] = [name, value].map(|it| kept_text(it, storage));
            let separator = separator.cast_signed();
            (kind::ENVAR, ValueData { envar: Envar { name, value, separator } })
        }
        Datum::Attributes(attributes) => {
            let infos = kept(InfoArray::new(attributes), storage);
            let (size, array) = (infos.count(), infos.pointer().cast());
            let array = DataArray { kind: kind::INFO, size, array };
            (kind::DATA_ARRAY, ValueData { array: kept(array, storage) })
        }
        Datum::Procs(names) => array(kind::PROC, names.iter().map(Proc::from).collect(), storage),
        Datum::Texts(texts) => {
            let texts: Vec<_> = texts.iter().map(|it| kept_text(it, storage)).collect();
            array(kind::STRING, texts, storage)
        }
        // Of this type alone are arrays read.
        Datum::Numbers(_, numbers) => {
            let number = |it: &u64| u32::try_from(*it).unwrap_or(u32::MAX);
            array(kind::UINT32, numbers.iter().map(number).collect(), storage)
        }
        Datum::NodePids(processes) => {
            let process = |it: &NodePid| HostPid {
                host: it.host.as_ref().map_or(std::ptr::null_mut(), |it| kept_text(it, storage)),
                node: it.node,
                pid: it.pid,
            };
            let processes: Vec<HostPid> = processes.iter().map(process).collect();
            array(kind::NODE_PID, processes, storage)
        }
        Datum::Table(lines) => {
            let line = |it: &TableLine| ProcInfo {
                proc: Proc::from(&it.name),
                host: kept_text(&it.host, storage),
                executable: kept_text(&it.executable, storage),
                pid: it.pid,
                exit_code: it.exit_code,
                state: it.state,
            };
            let lines: Vec<ProcInfo> = lines.iter().map(line).collect();
            array(kind::PROC_INFO, lines, storage)
        }
        Datum::Other(_) => (kind::UNDEFINED, words(0, 0)),
    };
    Value { kind, data }
}

/// An array of elements of a type.
fn array<T: Any>(kind: u16, elements: Vec<T>, storage: &mut Vec<Box<dyn Any>>) -> (u16, ValueData) {
    let (size, array) = (elements.len(), kept(elements, storage).as_mut_ptr().cast());
    let array = DataArray { kind, size, array };
    (kind::DATA_ARRAY, ValueData { array: kept(array, storage) })
}

fn kept_text(text: &CString, storage: &mut Vec<Box<dyn Any>>) -> *mut c_char {
    kept(text.clone().into_bytes_with_nul(), storage).as_mut_ptr().cast()
}

fn kept<T: Any>(value: T, storage: &mut Vec<Box<dyn Any>>) -> &mut T {
    storage.push(Box::new(value));
    let last = storage.last_mut().and_then(|it| it.downcast_mut::<T>());
    last.expect("it was pushed with this type")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_the_same_after_a_way_through_the_structures_of_the_library() {
        let name = ProcName { nspace: "monitor-7".to_owned(), rank: 3 };
        let text = |text: &str| CString::new(text).unwrap();
        let all = [
            Datum::flag(true),
            Datum::Number(kind::UINT16, 7),
            Datum::Number(kind::INT, 9),
            Datum::float(0.5),
            Datum::Timeval(12, 34),
            Datum::text("abc"),
            Datum::Bytes(vec![1, 0, 2]),
            Datum::Proc(name.clone()),
            Datum::Procs(vec![name.clone(), name]),
            Datum::Texts(vec![text("node0"), text("")]),
            Datum::Numbers(kind::UINT32, vec![0, 7]),
            Datum::NodePids(vec![
                NodePid { host: Some(text("node0")), node: 0, pid: -1 },
                NodePid { host: None, node: 7, pid: 1234 },
            ]),
            Datum::Variable(text("PATH"), text("/bin"), b':'),
            Datum::Table(vec![TableLine {
                name: ProcName { nspace: "a".to_owned(), rank: 1 },
                host: text("node0"),
                executable: text("./a"),
                pid: 7,
                exit_code: 3,
                state: 4,
            }]),
            Datum::Attributes(vec![Attribute::new("inner", Datum::text("x"))]),
        ];
        let keyed = all.iter().enumerate();
        let want: Vec<_> =
            keyed.map(|(at, it)| Attribute::new(&format!("key.{at}"), it.clone())).collect();
        let mut infos = InfoArray::new(&want);
        // SAFETY: the array owns what its pointers point to.
        let got = unsafe { read_infos(infos.pointer(), infos.count()) };
        assert_eq!(got, want);
    }

    #[test]
    fn a_number_has_no_bits_beyond_its_type() {
        let value = Value { kind: kind::UINT16, data: ValueData { words: [0xffff_0007, 0, 0] } };
        // SAFETY: a number has no pointer.
        assert_eq!(unsafe { read_value(&value) }, Datum::Number(kind::UINT16, 7));
    }

    #[test]
    fn a_negative_number_is_none_and_a_name_is_cut() {
        assert_eq!(Datum::Number(kind::INT, u64::from(u32::MAX)).number(), None);
        assert_eq!(read_chars(&chars::<4>("abcdef")), "abc");
    }
}
