//! The types of the kernel that programs are attached by, at their own ids.
//!
//! aya takes 16 MiB for all types of a kernel. Ids are positions in the list, so a type that no
//! program is attached by is left as a nameless one of twelve bytes.

use crate::btf_blob::{BtfBlob, FORWARD, FUNCTION, TYPE_BYTES, TYPEDEF, VMLINUX};
use aya::{Btf, Endianness};
use monitor_backend::Error;

/// What the name of a tracepoint's type begins with.
const TRACEPOINT: &str = "btf_trace_";

/// Typedefs of tracepoints, and functions.
///
/// # Errors
///
/// If aya refuses them.
pub fn attach_types(blob: BtfBlob<'_>) -> Result<Btf, Error> {
    let bytes = reduced(blob).ok_or_else(|| Error::malformed(VMLINUX, "a header and names"))?;
    Btf::parse(&bytes, Endianness::default()).map_err(|error| {
        Error::unsupported(
            "eBPF",
            format!("the kernel's BTF cannot be parsed: {error}"),
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y",
        )
    })
}

/// A blob with as many types, of which only those have names.
fn reduced(blob: BtfBlob<'_>) -> Option<Vec<u8>> {
    let header = blob.header()?;
    let mut types = Vec::with_capacity(TYPE_BYTES * blob.types().count());
    // Offset 0 is the empty name.
    let mut names = vec![0];
    for at in blob.types() {
        let mut words = [0, FORWARD << 24, 0];
        if let Some(name) = attachable(blob, at) {
            words = [u32::try_from(names.len()).ok()?, blob.word(at + 4)?, blob.word(at + 8)?];
            names.extend(name.bytes().chain([0]));
        }
        types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }
    let (n_types, n_names) = (u32::try_from(types.len()).ok()?, u32::try_from(names.len()).ok()?);
    // Offsets count from the end of the header.
    let layout = [0, n_types, n_types, n_names];
    let mut bytes = Vec::with_capacity(header.len() + types.len() + names.len());
    bytes.extend(header.get(..8)?);
    bytes.extend(layout.iter().flat_map(|word| word.to_ne_bytes()));
    bytes.resize(header.len().max(bytes.len()), 0);
    bytes.extend(types);
    bytes.extend(names);
    Some(bytes)
}

/// The name of a type, if a program can be attached by it.
fn attachable<'d>(blob: BtfBlob<'d>, at: usize) -> Option<&'d str> {
    let name = || blob.name(blob.word(at)?);
    match blob.kind(at)?.0 {
        FUNCTION => name(),
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
        let few = attach_types(BtfBlob::new(&data).unwrap()).unwrap();
        for (name, kind) in [
            ("btf_trace_sched_switch", BtfKind::Typedef),
            ("bpf_iter_task", BtfKind::Func),
            ("sock_sendmsg", BtfKind::Func),
        ] {
            let [id, same] = [&all, &few].map(|it| it.id_by_type_name_kind(name, kind).unwrap());
            assert_eq!(id, same, "{name}");
        }
        assert!(few.id_by_type_name_kind("size_t", BtfKind::Typedef).is_err());
    }
}
