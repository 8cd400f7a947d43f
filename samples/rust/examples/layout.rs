//! Prints the declarations of src/ffi.rs as tests/abi/abi_layout.c prints those of the C header.
use aotc::ffi::{self, aotc_dim, aotc_profile_step, aotc_tensor};
use std::mem::size_of;

fn main() {
    for (name, field, at, bytes) in ffi::layout() {
        println!("{name}.{field} at {at}, {bytes} bytes");
    }
    for (name, value) in [
        ("AOTC_ABI_VERSION", ffi::AOTC_ABI_VERSION as i64),
        ("AOTC_ABI_REVISION", ffi::AOTC_ABI_REVISION as i64),
        ("AOTC_DEVICE_HOST", ffi::AOTC_DEVICE_HOST as i64),
        ("AOTC_DEVICE_DEFAULT", ffi::AOTC_DEVICE_DEFAULT as i64),
        ("AOTC_INPUT", ffi::AOTC_INPUT as i64),
        ("AOTC_OUTPUT", ffi::AOTC_OUTPUT as i64),
        ("AOTC_STATE", ffi::AOTC_STATE as i64),
    ] {
        println!("{name} = {value}");
    }
    for (name, value) in aotc::STATUSES {
        println!("AOTC_STATUS_{name} = {value}");
    }
    for (name, value, bytes) in aotc::DTYPES {
        println!("AOTC_DTYPE_{name} = {value}, {bytes} bytes");
    }
    println!("aotc_tensor has {} bytes", size_of::<aotc_tensor>());
    println!("aotc_dim has {} bytes", size_of::<aotc_dim>());
    println!("aotc_profile_step has {} bytes", size_of::<aotc_profile_step>());
    // SAFETY: a constant of the C header.
    assert_eq!(size_of::<ffi::aotc_library>() as u64, unsafe { ffi::aotc_rust_library_bytes() });
}
