//! The target description that gdb asks for: which registers there are, in which order.
//!
//! The features and types are those of gdb/features/i386 in binutils-gdb: gdb refuses others. The
//! order gives the numbers of `registers`.

use std::fmt::Write as _;

const GENERAL: [&str; 16] = [
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const SEGMENTS: [&str; 6] = ["cs", "ss", "ds", "es", "fs", "gs"];
const CONTROLS: [&str; 8] = ["fctrl", "fstat", "ftag", "fiseg", "fioff", "foseg", "fooff", "fop"];
const FLAGS: &[(&str, u8)] = &[
    ("CF", 0),
    ("", 1),
    ("PF", 2),
    ("AF", 4),
    ("ZF", 6),
    ("SF", 7),
    ("TF", 8),
    ("IF", 9),
    ("DF", 10),
    ("OF", 11),
    ("NT", 14),
    ("RF", 16),
    ("VM", 17),
    ("AC", 18),
    ("VIF", 19),
    ("VIP", 20),
    ("ID", 21),
];
const MXCSR: [&str; 14] =
    ["IE", "DE", "ZE", "OE", "UE", "PE", "DAZ", "IM", "DM", "ZM", "OM", "UM", "PM", "FZ"];
const START: [&str; 4] = [
    r#"<?xml version="1.0"?><!DOCTYPE target SYSTEM "gdb-target.dtd"><target>"#,
    "<architecture>i386:x86-64</architecture>",
    "<osabi>GNU/Linux</osabi>",
    r#"<feature name="org.gnu.gdb.i386.core">"#,
];
/// Vector types, one element a line.
const VECTORS: &[&str] = &[
    r#"<vector id="v4f" type="ieee_single" count="4"/>"#,
    r#"<vector id="v2d" type="ieee_double" count="2"/>"#,
    r#"<vector id="v16i8" type="int8" count="16"/>"#,
    r#"<vector id="v8i16" type="int16" count="8"/>"#,
    r#"<vector id="v4i32" type="int32" count="4"/>"#,
    r#"<vector id="v2i64" type="int64" count="2"/>"#,
    r#"<union id="vec128">"#,
    r#"<field name="v4_float" type="v4f"/>"#,
    r#"<field name="v2_double" type="v2d"/>"#,
    r#"<field name="v16_int8" type="v16i8"/>"#,
    r#"<field name="v8_int16" type="v8i16"/>"#,
    r#"<field name="v4_int32" type="v4i32"/>"#,
    r#"<field name="v2_int64" type="v2i64"/>"#,
    r#"<field name="uint128" type="uint128"/>"#,
    r#"</union>"#,
];

/// Whether a processor has AVX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// SSE only.
    Sse,
    /// AVX, too.
    Avx,
}

/// The description, as XML.
pub fn target_xml(vectors: Vectors) -> String {
    let mut xml = START.concat();
    flags(&mut xml, "i386_eflags", FLAGS.iter().copied());
    for name in GENERAL {
        let kind = if matches!(name, "rbp" | "rsp") { "data_ptr" } else { "int64" };
        register(&mut xml, name, (64, kind));
    }
    register(&mut xml, "rip", (64, "code_ptr"));
    register(&mut xml, "eflags", (32, "i386_eflags"));
    SEGMENTS.iter().for_each(|name| register(&mut xml, name, (32, "int32")));
    (0..8).for_each(|it| register(&mut xml, &format!("st{it}"), (80, "i387_ext")));
    CONTROLS.iter().for_each(|name| register(&mut xml, name, (32, "int\" group=\"float")));
    xml.push_str(r#"</feature><feature name="org.gnu.gdb.i386.sse">"#);
    xml.extend(VECTORS.iter().copied());
    flags(&mut xml, "i386_mxcsr", MXCSR.into_iter().zip(0..).map(mxcsr_bit));
    (0..16).for_each(|it| register(&mut xml, &format!("xmm{it}"), (128, "vec128")));
    register(&mut xml, "mxcsr", (32, "i386_mxcsr\" group=\"vector"));
    xml.push_str(r#"</feature><feature name="org.gnu.gdb.i386.linux">"#);
    register(&mut xml, "orig_rax", (64, "int\" group=\"system"));
    xml.push_str(r#"</feature><feature name="org.gnu.gdb.i386.segments">"#);
    ["fs_base", "gs_base"].iter().for_each(|name| register(&mut xml, name, (64, "int")));
    if vectors == Vectors::Avx {
        xml.push_str(r#"</feature><feature name="org.gnu.gdb.i386.avx">"#);
        (0..16).for_each(|it| register(&mut xml, &format!("ymm{it}h"), (128, "uint128")));
    }
    xml.push_str("</feature></target>");
    xml
}

/// Bits 13 and 14 are the rounding mode, which has no name here.
fn mxcsr_bit((name, bit): (&'static str, u8)) -> (&'static str, u8) {
    (name, if name == "FZ" { 15 } else { bit })
}

fn flags(xml: &mut String, id: &str, fields: impl Iterator<Item = (&'static str, u8)>) {
    // Writing to a `String` cannot fail.
    let _ = write!(xml, r#"<flags id="{id}" size="4">"#);
    for (name, bit) in fields {
        let _ = write!(xml, r#"<field name="{name}" start="{bit}" end="{bit}"/>"#);
    }
    xml.push_str("</flags>");
}

fn register(xml: &mut String, name: &str, (bits, kind): (u32, &str)) {
    let _ = write!(xml, r#"<reg name="{name}" bitsize="{bits}" type="{kind}"/>"#);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registers::RegisterNumber;

    #[test]
    fn the_order_of_the_description_is_that_of_the_registers() {
        let xml = target_xml(Vectors::Avx);
        let bits = xml.split(r#"bitsize=""#).skip(1).map(|rest| {
            let end = rest.find('"').unwrap();
            rest[..end].parse::<usize>().unwrap()
        });
        let bits: Vec<usize> = bits.collect();
        for (number, bits) in bits.iter().enumerate() {
            assert_eq!(RegisterNumber(number).bytes(), Some(bits / 8), "{number}");
        }
        assert_eq!(RegisterNumber(bits.len()).bytes(), None);
    }
}
