//! `aotc.h` as Rust declares it. `examples/layout.rs` prints where each field lies; a test compares that with what the C header says.
#![allow(non_camel_case_types)]
use std::os::raw::{c_char, c_int, c_void};

pub type aotc_status = i32;
#[repr(C)]
pub struct aotc_model {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct aotc_context {
    _opaque: [u8; 0],
}

/// Declares `#[repr(C)]` structs, and for each the place and the bytes of its fields.
macro_rules! c_structs {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(#[repr(C)] #[derive(Clone, Copy)] pub struct $name { $(pub $field: $type,)* })*

        /// struct, field, offset, bytes
        pub fn layout() -> Vec<(&'static str, &'static str, usize, usize)> {
            let mut rows = Vec::new();
            $({
                let at = std::mem::MaybeUninit::<$name>::uninit();
                let base = at.as_ptr();
                $(
                    // SAFETY: within the allocation of `at`; nothing is read.
                    let field = unsafe { std::ptr::addr_of!((*base).$field) };
                    rows.push((stringify!($name), stringify!($field), field as usize - base as usize, bytes_of(field)));
                )*
            })*
            rows
        }
        pub fn sizes() -> Vec<(&'static str, usize)> {
            vec![$((stringify!($name), std::mem::size_of::<$name>()),)*]
        }
    };
}
fn bytes_of<T>(_: *const T) -> usize {
    std::mem::size_of::<T>()
}

type Status = aotc_status;
type Tensors = *const aotc_tensor;
type Ranges = *const aotc_state_range;
type Context = *mut aotc_context;

c_structs! {
    aotc_tensor {
        data: *mut c_void, shape: *const i64, strides: *const i64, byte_size: u64, rank: i32, dtype: u32, device: i32, flags: u32,
        reserved: [u64; 2],
    }
    aotc_allocator {
        struct_size: usize, user: *mut c_void,
        alloc: Option<unsafe extern "C" fn(*mut c_void, usize, usize, i32) -> *mut c_void>,
        free: Option<unsafe extern "C" fn(*mut c_void, *mut c_void, usize, i32)>,
    }
    aotc_thread_pool {
        struct_size: usize, user: *mut c_void, width: Option<unsafe extern "C" fn(*mut c_void) -> i32>,
        parallel_for: Option<unsafe extern "C" fn(*mut c_void, i32, Option<unsafe extern "C" fn(*mut c_void, i32)>, *mut c_void)>,
    }
    aotc_weights_source {
        struct_size: usize, path: *const c_char, data: *const c_void, bytes: u64,
        read: Option<unsafe extern "C" fn(*mut c_void, u64, *mut c_void, u64) -> aotc_status>, user: *mut c_void,
        release: Option<unsafe extern "C" fn(*mut c_void)>, flags: u32, fd: i32,
    }
    aotc_model_options {
        struct_size: usize, device: i32, flags: u32, allocator: *const aotc_allocator, weights_path: *const c_char,
        log: Option<unsafe extern "C" fn(*mut c_void, i32, *const c_char)>, log_user: *mut c_void,
        weights: *const aotc_weights_source, weights_budget: u64,
    }
    aotc_context_options {
        struct_size: usize, stream: *mut c_void, threads: *const aotc_thread_pool, workspace: *mut c_void, workspace_size: usize,
        num_threads: i32, flags: u32,
    }
    aotc_dim { value: i64, min: i64, max: i64, symbol: *const c_char, }
    aotc_io_info {
        struct_size: usize, name: *const c_char, dims: *const aotc_dim, rank: i32, dtype: u32, alias_input: i32, reserved: i32,
        found: *const *const c_char,
    }
    aotc_model_info { struct_size: usize, weights_bytes: u64, target: *const c_char, device: i32, n_variants: i32,
        weights_version: u64, weights_layout: u64, weights_streamed: u64, weights_ring: u64, }
    aotc_method_info { struct_size: usize, name: *const c_char, index: i32, n_inputs: i32, n_outputs: i32, n_variants: i32, }
    aotc_run_options { struct_size: usize, deadline_ns: u64, cancel: *const i32, traceparent: *const c_char, }
    aotc_state_range { dim: i32, reserved: i32, offset: i64, length: i64, }
    aotc_context_info {
        struct_size: usize, workspace_bytes: u64, arena_bytes: u64, scratch_bytes: u64, state_bytes: u64, variant: *const c_char, threads: i32,
        graphs: i32, weights_version: u64,
    }
    aotc_profile_step { label: *const c_char, ns: u64, threads: i32, reserved: i32, }
    aotc_api {
        struct_size: usize, abi_version: u32, reserved: u32,
        last_error: unsafe extern "C" fn() -> *const c_char,
        status_name: unsafe extern "C" fn(Status) -> *const c_char,
        metadata_json: unsafe extern "C" fn() -> *const c_char,
        probe: unsafe extern "C" fn(i32) -> Status,
        model_create: unsafe extern "C" fn(*const aotc_model_options, *mut *mut aotc_model) -> Status,
        model_destroy: unsafe extern "C" fn(*mut aotc_model),
        model_get_info: unsafe extern "C" fn(*const aotc_model, *mut aotc_model_info) -> Status,
        io_count: unsafe extern "C" fn(*const aotc_model, i32, *mut i32) -> Status,
        io_get: unsafe extern "C" fn(*const aotc_model, i32, i32, *mut aotc_io_info) -> Status,
        workspace_size: unsafe extern "C" fn(*const aotc_model, *const aotc_context_options, Tensors, i32, *mut usize) -> Status,
        context_create: unsafe extern "C" fn(*mut aotc_model, *const aotc_context_options, *mut Context) -> Status,
        context_destroy: unsafe extern "C" fn(Context),
        context_get_info: unsafe extern "C" fn(*const aotc_context, *mut aotc_context_info) -> Status,
        output_bounds: unsafe extern "C" fn(Context, Tensors, i32, *const *mut i64, i32) -> Status,
        run: unsafe extern "C" fn(Context, Tensors, i32, Tensors, i32) -> Status,
        synchronize: unsafe extern "C" fn(Context) -> Status,
        state_reset: unsafe extern "C" fn(Context, *const c_char) -> Status,
        state_read: unsafe extern "C" fn(Context, *const c_char, Tensors) -> Status,
        state_write: unsafe extern "C" fn(Context, *const c_char, Tensors) -> Status,
        context_profile: unsafe extern "C" fn(*const aotc_context, *mut aotc_profile_step, *mut i32) -> Status,
        output_sizes: unsafe extern "C" fn(Context, i32, *mut i64) -> Status,
        // Behind struct_size in older artifacts from here on.
        method_count: unsafe extern "C" fn(*const aotc_model, *mut i32) -> Status,
        method_get: unsafe extern "C" fn(*const aotc_model, i32, *const c_char, *mut aotc_method_info) -> Status,
        method_io_get: unsafe extern "C" fn(*const aotc_model, i32, i32, i32, *mut aotc_io_info) -> Status,
        method_workspace_size:
            unsafe extern "C" fn(*const aotc_model, i32, *const aotc_context_options, Tensors, i32, *mut usize) -> Status,
        method_output_bounds: unsafe extern "C" fn(Context, i32, Tensors, i32, *const *mut i64, i32) -> Status,
        run_method: unsafe extern "C" fn(Context, i32, Tensors, i32, Tensors, i32) -> Status,
        run_with: unsafe extern "C" fn(Context, i32, Tensors, i32, Tensors, i32, *const aotc_run_options) -> Status,
        state_read_range: unsafe extern "C" fn(Context, *const c_char, Ranges, i32, Tensors) -> Status,
        state_write_range: unsafe extern "C" fn(Context, *const c_char, Ranges, i32, Tensors) -> Status,
        states_layout: unsafe extern "C" fn(*const aotc_model, *mut u64) -> Status,
        states_save: unsafe extern "C" fn(Context, c_int, Ranges, i32) -> Status,
        states_load: unsafe extern "C" fn(Context, c_int, Ranges, i32) -> Status,
        states_fork: unsafe extern "C" fn(Context, Context, Ranges, i32) -> Status,
        states_copy: unsafe extern "C" fn(Context, Ranges, Context, Ranges, i32) -> Status,
        states_truncate: unsafe extern "C" fn(Context, *const c_char, i32, i64) -> Status,
        model_swap_weights: unsafe extern "C" fn(*mut aotc_model, *const aotc_weights_source, *mut u64) -> Status,
        model_trim: unsafe extern "C" fn(*mut aotc_model, *mut u64) -> Status,
    }
    aotc_library { handle: *mut c_void, api: *const aotc_api, error: [c_char; 512], }
}

pub const AOTC_ABI_VERSION: u32 = 1;
/// Of the table that is declared above.
pub const AOTC_ABI_REVISION: i32 = 6;
pub const AOTC_DEVICE_HOST: i32 = -1;
pub const AOTC_DEVICE_DEFAULT: i32 = -2;
pub const AOTC_INPUT: i32 = 0;
pub const AOTC_OUTPUT: i32 = 1;
pub const AOTC_STATE: i32 = 2;

extern "C" {
    pub fn aotc_rust_open(path: *const c_char, device: i32, lib: *mut aotc_library) -> aotc_status;
    pub fn aotc_rust_open_memory(data: *const c_void, bytes: u64, device: i32, lib: *mut aotc_library) -> aotc_status;
    pub fn aotc_rust_close(lib: *mut aotc_library);
    pub fn aotc_rust_library_bytes() -> u64;
}
