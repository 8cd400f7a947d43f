//! Compiles loader.c, which is the C header's loader, without crates. AOTC_INCLUDE: the folder that holds `aotc/loader.h`; default: that of
//! these sources.
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(status.success(), "{command:?}: {status}");
}

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let include = env::var_os("AOTC_INCLUDE").map_or_else(|| here.join("../../runtime/include"), PathBuf::from);
    let (object, archive) = (out.join("loader.o"), out.join("libaotc_loader.a"));
    let cc = env::var_os("CC").unwrap_or_else(|| "cc".into());
    run(Command::new(cc)
        .args(["-std=c11", "-O2", "-fPIC", "-c", "-I"])
        .arg(&include)
        .arg(here.join("src/loader.c"))
        .arg("-o")
        .arg(&object));
    let _ = fs::remove_file(&archive);
    run(Command::new("ar").arg("rcs").arg(&archive).arg(&object));
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=aotc_loader");
    println!("cargo:rustc-link-lib=dylib=dl");
    println!("cargo:rerun-if-env-changed=AOTC_INCLUDE");
    println!("cargo:rerun-if-changed=src/loader.c");
    println!("cargo:rerun-if-changed={}", include.display());
}
