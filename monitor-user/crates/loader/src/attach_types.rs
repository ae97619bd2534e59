//! The types of the kernel that programs are attached by, at their own ids.
//!
//! In: the kernel's BTF, once. Out: the names and the ids that programs can ask for, few enough to
//! keep, and from them a list for aya. aya takes 16 MiB and 15 ms for all types of a kernel. Ids
//! are positions in its list, so any other type is a nameless one of twelve bytes.

use crate::btf_blob::{BtfBlob, FORWARD, FUNCTION, TYPE_BYTES, TYPEDEF};
use aya::{Btf, Endianness};
use monitor_backend::Error;

/// What the name of a tracepoint's type begins with.
const TRACEPOINT: &str = "btf_trace_";
/// What the names of iterators begin with.
const ITERATOR: &str = "bpf_iter_";
/// What the names of other functions that programs are attached to end with.
const FUNCTIONS: [&str; 4] = ["_sendmsg", "_recvmsg", "_splice_read", "_sendpage"];

/// The types that programs can be attached by.
pub struct AttachTypes {
    header: Vec<u8>,
    types: Vec<AttachType>,
}

/// A tracepoint or a function.
struct AttachType {
    /// Position in the list of types; the first has 1.
    id: usize,
    name: Box<str>,
    /// The second and the third word of the type.
    words: [u32; 2],
}

impl AttachTypes {
    /// Those of a blob; none if it has no header.
    pub fn from_blob(blob: BtfBlob<'_>) -> Self {
        let attach_type = |(id, at)| {
            let name = attachable(blob, at)?.into();
            Some(AttachType { id, name, words: [blob.word(at + 4)?, blob.word(at + 8)?] })
        };
        let types = (1..).zip(blob.types()).filter_map(attach_type).collect();
        Self { header: blob.header().unwrap_or_default().to_vec(), types }
    }

    /// The list for aya.
    ///
    /// # Errors
    ///
    /// If aya refuses it.
    pub fn btf(&self) -> Result<Btf, Error> {
        Btf::parse(&self.bytes(), Endianness::default()).map_err(|error| {
            Error::unsupported(
                "eBPF",
                format!("the kernel's BTF cannot be parsed: {error}"),
                "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
            )
        })
    }

    /// A blob with these types at their ids, up to the last of them.
    fn bytes(&self) -> Vec<u8> {
        let nameless = [0, FORWARD << 24, 0].map(u32::to_ne_bytes);
        let n_types = self.types.last().map_or(0, |last| last.id);
        let mut types = nameless.concat().repeat(n_types);
        // Offset 0 is the empty name.
        let mut names = vec![0];
        for AttachType { id, name, words: [info, refers_to] } in &self.types {
            let words = [size(names.len()), *info, *refers_to].map(u32::to_ne_bytes);
            types[(id - 1) * TYPE_BYTES..id * TYPE_BYTES].copy_from_slice(&words.concat());
            names.extend(name.bytes().chain([0]));
        }
        // Offsets count from the end of the header.
        let layout = [0, size(types.len()), size(types.len()), size(names.len())];
        let mut bytes = Vec::with_capacity(self.header.len() + types.len() + names.len());
        bytes.extend(self.header.iter().take(8));
        bytes.extend(layout.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.resize(self.header.len().max(bytes.len()), 0);
        bytes.extend(types);
        bytes.extend(names);
        bytes
    }
}

/// A size in BTF: the kernel's is far below the limit.
fn size(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The name of a type, if a program can be attached by it.
fn attachable<'d>(blob: BtfBlob<'d>, at: usize) -> Option<&'d str> {
    let name = || blob.name(blob.word(at)?);
    match blob.kind(at)?.0 {
        FUNCTION => name().filter(|name| {
            name.starts_with(ITERATOR) || FUNCTIONS.iter().any(|end| name.ends_with(end))
        }),
        TYPEDEF => name().filter(|name| name.starts_with(TRACEPOINT)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf_blob::read;
    use aya_obj::btf::BtfKind;

    #[test]
    fn what_programs_attach_by_has_the_ids_of_the_kernel() {
        let Ok(data) = read() else { return };
        let all = Btf::parse(&data, Endianness::default()).unwrap();
        let few = AttachTypes::from_blob(BtfBlob::new(&data).unwrap()).btf().unwrap();
        for (name, kind) in [
            ("btf_trace_sched_switch", BtfKind::Typedef),
            ("bpf_iter_task", BtfKind::Func),
            ("inet_sendmsg", BtfKind::Func),
        ] {
            let [id, same] = [&all, &few].map(|it| it.id_by_type_name_kind(name, kind).unwrap());
            assert_eq!(id, same, "{name}");
        }
        assert!(few.id_by_type_name_kind("size_t", BtfKind::Typedef).is_err());
    }
}
