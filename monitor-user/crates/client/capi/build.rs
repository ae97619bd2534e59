//! Names the library so that programs linked with it find this major version of it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libomis.so.1");
}
