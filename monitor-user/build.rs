//! Embeds the BPF objects.
fn main() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitor-ebpf/objects");
    println!("cargo:rerun-if-changed={}", dir.display());
    let mut text = String::from("pub static OBJECTS: &[(&str, &[u8])] = &[\n");
    for entry in std::fs::read_dir(&dir).expect("objects") {
        let path = entry.expect("entry").path();
        if path.extension().is_some_and(|e| e == "o") {
            let name = path.file_stem().expect("stem").to_string_lossy().into_owned();
            text += &format!(
                "(\"{name}\", aya::include_bytes_aligned!(r\"{}\")),\n",
                path.canonicalize().expect("path").display()
            );
        }
    }
    text += "];\n";
    std::fs::write(
        std::path::Path::new(&std::env::var("OUT_DIR").expect("out")).join("objects.rs"),
        text,
    )
    .expect("write");
}
