//! BTF of an object, in an order that is the same in every build.
//!
//! `bpf-linker` 0.13 visits debugging information by the addresses of its nodes, which the kernel
//! randomises: one in four builds of the same modules gives the same types in another order. So two
//! objects are compared by this form, in which everything but `.BTF` stays byte for byte.

use object::build::elf::{Builder, SectionData};

const BTF: &[u8] = b".BTF";
/// `struct btf_header` of `include/uapi/linux/btf.h`: where the strings begin, after the header.
const STRINGS: std::ops::Range<usize> = 16..20;
const HEADER_LENGTH: std::ops::Range<usize> = 4..8;

/// The object, with the strings of its BTF sorted in place of its types.
pub fn sorted(object: &[u8]) -> Result<Vec<u8>, String> {
    let malformed = |error| format!("an object cannot be read: {error}");
    let mut builder = Builder::read(object).map_err(malformed)?;
    for section in &mut builder.sections {
        if section.name.as_slice() == BTF
            && let SectionData::Data(data) = &section.data
        {
            let strings = strings(data).ok_or("an object has a malformed header of BTF")?;
            section.data = SectionData::Data(strings.into());
        }
    }
    let mut sorted = Vec::new();
    builder.write(&mut sorted).map_err(malformed)?;
    Ok(sorted)
}

/// Header, as it is, and sorted strings, each with its final zero.
fn strings(btf: &[u8]) -> Option<Vec<u8>> {
    let number = |range| {
        Some(u32::from_le_bytes(btf.get::<std::ops::Range<usize>>(range)?.try_into().ok()?))
    };
    let header = usize::try_from(number(HEADER_LENGTH)?).ok()?;
    let start = header.checked_add(usize::try_from(number(STRINGS)?).ok()?)?;
    let mut strings: Vec<&[u8]> = btf.get(start..)?.split_inclusive(|&byte| byte == 0).collect();
    strings.sort_unstable();
    Some([btf.get(..header)?, &strings.concat()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of 24 bytes, 4 bytes of types, and strings.
    fn btf(strings: &[u8]) -> Vec<u8> {
        let length = u32::try_from(strings.len()).expect("short");
        let numbers = [24, 0, 4, 4, length].map(u32::to_le_bytes).concat();
        [&[0x9f, 0xeb, 1, 0][..], &numbers, &[0; 4], strings].concat()
    }

    #[test]
    fn the_order_of_strings_does_not_matter_and_their_text_does() {
        assert_eq!(strings(&btf(b"\0a\0b\0")), strings(&btf(b"\0b\0a\0")));
        assert_ne!(strings(&btf(b"\0a\0b\0")), strings(&btf(b"\0a\0c\0")));
        assert_eq!(strings(&[0; 8]), None, "a header that ends early");
    }
}
