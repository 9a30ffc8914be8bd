//! Tells the linker where binaries and tests find `libmujoco.so` at run time.
//!
//! Shared by every crate that links MuJoCo into a binary. An rpath set here survives a user's own
//! RUSTFLAGS, and works for `cargo run`, `cargo test`, doctests and the bare binary alike.

use std::path::Path;

const LINK_DIR: &str = "MUJOCO_DYNAMIC_LINK_DIR";

fn main() {
    println!("cargo::rerun-if-env-changed={LINK_DIR}");
    let dir = std::env::var(LINK_DIR).unwrap_or_default();
    // Where it really is: the clone, whose folder is a link, may be moved.
    let Ok(library) = Path::new(&dir).join("libmujoco.so").canonicalize() else {
        println!(
            "cargo::error=MuJoCo is missing: no libmujoco.so in '{dir}'. \
             Run tools/fetch-mujoco, or set {LINK_DIR} to a folder that holds it."
        );
        return;
    };
    println!("cargo::rerun-if-changed={}", library.display());
    let folder = library.parent().unwrap_or(Path::new(&dir));
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", folder.display());
    // For a packaged program: bin/ecrl beside lib/libmujoco.so.
    println!("cargo::rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib");
}
