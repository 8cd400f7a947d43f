use crate::context::{Context, ContextOptions};
use crate::error::{invalid, Error, Result, Status};
use crate::ffi::*;
use std::ffi::{CStr, CString};
use std::mem::{self, MaybeUninit};
use std::os::raw::{c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// SAFETY of callers: null, or a C string that stands for the call.
pub(crate) unsafe fn text(s: *const c_char) -> String {
    if s.is_null() {
        String::new()
    } else {
        CStr::from_ptr(s).to_string_lossy().into_owned()
    }
}

/// A function of an artifact's table. SAFETY of users: the table has it; what aotc.h says of its arguments.
macro_rules! call {
    ($handle:expr, $function:ident) => {
        std::ptr::addr_of!((*$handle.table()).$function).read()
    };
}
/// Whether the table has a function: of those behind output_sizes.
macro_rules! has {
    ($handle:expr, $function:ident) => {{
        let table = $handle.table();
        // SAFETY: every table begins with its size; of the rest an address alone is taken.
        unsafe {
            let at = std::ptr::addr_of!((*table).$function) as usize - table as usize;
            std::ptr::addr_of!((*table).struct_size).read() > at
        }
    }};
}
pub(crate) use {call, has};

pub(crate) fn c_string(s: &str) -> Result<CString> {
    CString::new(s).or_else(|_| invalid(format!("{s:?} has a zero byte")))
}

struct Library(aotc_library);

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: models and contexts of it hold an Arc of their Handle, so all are gone.
        unsafe { aotc_rust_close(&mut self.0) }
    }
}

pub(crate) struct Handle {
    pub(crate) model: *mut aotc_model,
    library: Library, // after `model`: closed when the model is destroyed
}

// SAFETY: a model is immutable and any number of threads may use it at once (aotc.h).
unsafe impl Send for Handle {}
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was made by model_create; contexts hold this Handle.
        unsafe { call!(self, model_destroy)(self.model) }
    }
}

impl Handle {
    /// Of an older artifact the beginning of a table.
    pub(crate) fn table(&self) -> *const aotc_api {
        self.library.0.api
    }
    pub(crate) fn check(&self, status: aotc_status) -> Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the text stands until this thread's next failure.
        Err(Error { status: Status::from(status), message: unsafe { text(call!(self, last_error)()) } })
    }
    pub(crate) fn methods(&self) -> bool {
        has!(self, run_method)
    }
}

/// A size of a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dim {
    Fixed(i64),
    /// From min to max, which is i64::MAX where there is no bound; what it follows from: "batch", "2*seq + 1".
    Varies {
        name: String,
        min: i64,
        max: i64,
    },
}

/// What an input, output or state is.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub name: String,
    /// `Element::DTYPE`
    pub dtype: u32,
    pub dims: Vec<Dim>,
    /// Of an output that is the new content of an input: which.
    pub alias_input: Option<usize>,
    /// Of an output of which a run finds sizes in its data: what they are; `dims` has the most that they can be.
    pub found: Vec<Option<String>>,
}

/// One of the programs of an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    pub name: String,
    pub(crate) index: i32,
    pub inputs: usize,
    pub outputs: usize,
}

/// A loaded artifact; immutable, shared by any number of threads and contexts. A clone is the same model.
#[derive(Clone)]
pub struct Model {
    pub(crate) handle: Arc<Handle>,
}

impl Model {
    /// Checks the file, loads it, asks whether this machine can run it, makes the model on the best device that it has code for.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        let path = path.as_ref();
        match CString::new(path.as_os_str().as_bytes()) {
            // SAFETY: a C string; the library is this call's.
            Ok(c) => Model::make(|lib| unsafe { aotc_rust_open(c.as_ptr(), AOTC_DEVICE_DEFAULT, lib) }),
            Err(_) => invalid(format!("{} has a zero byte", path.display())),
        }
    }
    /// As open, of the bytes of an artifact's file. They are copied; nothing is written to any file system.
    pub fn from_bytes(bytes: &[u8]) -> Result<Model> {
        // SAFETY: the slice stands for the call.
        Model::make(|lib| unsafe { aotc_rust_open_memory(bytes.as_ptr() as *const c_void, bytes.len() as u64, AOTC_DEVICE_DEFAULT, lib) })
    }

    fn make(open: impl FnOnce(*mut aotc_library) -> aotc_status) -> Result<Model> {
        // SAFETY: all its fields may be zero; opening fills it.
        let mut library = Library(unsafe { MaybeUninit::zeroed().assume_init() });
        let status = open(&mut library.0);
        if status != 0 {
            // SAFETY: opening leaves a C string.
            return Err(Error { status: Status::from(status), message: unsafe { text(library.0.error.as_ptr()) } });
        }
        let mut handle = Handle { model: ptr::null_mut(), library };
        let mut model = ptr::null_mut();
        // SAFETY: null options are the defaults.
        let status = unsafe { call!(handle, model_create)(ptr::null(), &mut model) };
        handle.check(status)?;
        handle.model = model;
        Ok(Model { handle: Arc::new(handle) })
    }

    /// A context of the calling thread only.
    pub fn context(&self) -> Result<Context> {
        self.context_with(&ContextOptions::default())
    }
    pub fn context_with(&self, options: &ContextOptions) -> Result<Context> {
        Context::new(self.handle.clone(), options)
    }

    /// The artifact's description (schemas/metadata.schema.json).
    pub fn metadata_json(&self) -> &str {
        // SAFETY: it stands until the library is closed.
        unsafe { CStr::from_ptr(call!(self.handle, metadata_json)()) }.to_str().unwrap_or("{}")
    }
    /// The code in use: "avx2", "sm_90a".
    pub fn target(&self) -> Result<String> {
        let mut info = aotc_model_info {
            struct_size: mem::size_of::<aotc_model_info>(),
            weights_bytes: 0,
            target: ptr::null(),
            device: 0,
            n_variants: 0,
            weights_version: 0,
            weights_layout: 0,
            weights_streamed: 0,
            weights_ring: 0,
        };
        // SAFETY: a struct with its size.
        self.handle.check(unsafe { call!(self.handle, model_get_info)(self.handle.model, &mut info) })?;
        Ok(unsafe { text(info.target) })
    }

    pub fn methods(&self) -> Result<Vec<Method>> {
        let (h, mut n) = (&self.handle, 1);
        if !h.methods() {
            return Ok(vec![self.only_method()?]);
        }
        // SAFETY: an integer of this call.
        h.check(unsafe { call!(h, method_count)(h.model, &mut n) })?;
        (0..n).map(|i| self.method_at(i, ptr::null())).collect()
    }
    pub fn method(&self, name: &str) -> Result<Method> {
        if !self.handle.methods() {
            let only = self.only_method()?;
            return if only.name == name { Ok(only) } else { invalid(format!("the artifact has no method '{name}'")) };
        }
        self.method_at(0, c_string(name)?.as_ptr())
    }
    fn method_at(&self, i: i32, name: *const c_char) -> Result<Method> {
        let mut info = aotc_method_info {
            struct_size: mem::size_of::<aotc_method_info>(),
            name: ptr::null(),
            index: 0,
            n_inputs: 0,
            n_outputs: 0,
            n_variants: 0,
        };
        // SAFETY: a struct with its size; null, or a C string of the caller's.
        self.handle.check(unsafe { call!(self.handle, method_get)(self.handle.model, i, name, &mut info) })?;
        let name = unsafe { text(info.name) };
        Ok(Method { name, index: info.index, inputs: info.n_inputs as usize, outputs: info.n_outputs as usize })
    }
    fn only_method(&self) -> Result<Method> {
        Ok(Method { name: "forward".into(), index: 0, inputs: self.count(AOTC_INPUT)?, outputs: self.count(AOTC_OUTPUT)? })
    }

    /// Of the first method.
    pub fn inputs(&self) -> Result<Vec<TensorInfo>> {
        (0..self.count(AOTC_INPUT)?).map(|i| self.info(None, AOTC_INPUT, i)).collect()
    }
    /// Of the first method.
    pub fn outputs(&self) -> Result<Vec<TensorInfo>> {
        (0..self.count(AOTC_OUTPUT)?).map(|i| self.info(None, AOTC_OUTPUT, i)).collect()
    }
    pub fn inputs_of(&self, method: &Method) -> Result<Vec<TensorInfo>> {
        (0..method.inputs).map(|i| self.info(Some(method), AOTC_INPUT, i)).collect()
    }
    pub fn outputs_of(&self, method: &Method) -> Result<Vec<TensorInfo>> {
        (0..method.outputs).map(|i| self.info(Some(method), AOTC_OUTPUT, i)).collect()
    }
    pub fn states(&self) -> Result<Vec<TensorInfo>> {
        (0..self.count(AOTC_STATE)?).map(|i| self.info(None, AOTC_STATE, i)).collect()
    }

    fn count(&self, kind: i32) -> Result<usize> {
        let mut n = 0;
        // SAFETY: an integer of this call.
        self.handle.check(unsafe { call!(self.handle, io_count)(self.handle.model, kind, &mut n) })?;
        Ok(n as usize)
    }
    fn info(&self, method: Option<&Method>, kind: i32, i: usize) -> Result<TensorInfo> {
        let (h, i) = (&self.handle, i as i32);
        let mut raw = aotc_io_info {
            struct_size: mem::size_of::<aotc_io_info>(),
            name: ptr::null(),
            dims: ptr::null(),
            rank: 0,
            dtype: 0,
            alias_input: -1,
            reserved: 0,
            found: ptr::null(),
        };
        // SAFETY: a struct with its size.
        h.check(unsafe {
            match method {
                Some(m) if h.methods() => call!(h, method_io_get)(h.model, m.index, kind, i, &mut raw),
                _ => call!(h, io_get)(h.model, kind, i, &mut raw),
            }
        })?;
        let rank = raw.rank as usize;
        // SAFETY: `rank` of each, which live as long as the model.
        let dims = (0..rank).map(|d| unsafe {
            let dim = &*raw.dims.add(d);
            if dim.value >= 0 {
                Dim::Fixed(dim.value)
            } else {
                Dim::Varies { name: text(dim.symbol), min: dim.min, max: dim.max }
            }
        });
        let found = (0..if raw.found.is_null() { 0 } else { rank }).map(|d| unsafe {
            let s = *raw.found.add(d);
            if s.is_null() {
                None
            } else {
                Some(text(s))
            }
        });
        Ok(TensorInfo {
            name: unsafe { text(raw.name) },
            dtype: raw.dtype,
            dims: dims.collect(),
            alias_input: usize::try_from(raw.alias_input).ok(),
            found: found.collect(),
        })
    }
}
