use crate::error::{invalid, Result};
use crate::ffi::*;
use crate::model::{c_string, call, has, Handle, Method};
use crate::tensor::{Input, Output};
use std::ffi::CStr;
use std::marker::PhantomData;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct ContextOptions {
    /// Of its own, the calling thread included; -1: as many as the calling thread may use.
    pub threads: i32,
    /// AOTC_CONTEXT_*
    pub flags: u32,
}

impl Default for ContextOptions {
    fn default() -> Self {
        ContextOptions { threads: 1, flags: 0 }
    }
}

/// A flag that any thread sets to end the runs that were given it.
#[derive(Debug, Default)]
pub struct Cancel(AtomicI32);

impl Cancel {
    pub const fn new() -> Self {
        Cancel(AtomicI32::new(0))
    }
    pub fn set(&self) {
        self.0.store(1, Ordering::Release);
    }
    pub fn clear(&self) {
        self.0.store(0, Ordering::Release);
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RunOptions<'a> {
    pub timeout: Option<Duration>,
    pub cancel: Option<&'a Cancel>,
    /// The W3C header of the request, for tracers. An older artifact gets none.
    pub traceparent: Option<&'a CStr>,
}

/// Workspace, states and threads of one stream of runs. It may go from thread to thread; a run needs it alone.
pub struct Context {
    context: *mut aotc_context,
    model: Arc<Handle>,
    not_sync: PhantomData<std::cell::Cell<()>>,
}

// SAFETY: any thread may use a context, one at a time (aotc.h).
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was made by context_create; runs borrow self.
        unsafe { call!(self.model, context_destroy)(self.context) }
    }
}

fn raw_inputs(inputs: &[Input]) -> Vec<aotc_tensor> {
    inputs.iter().map(|i| i.raw).collect()
}

impl Context {
    pub(crate) fn new(model: Arc<Handle>, options: &ContextOptions) -> Result<Context> {
        let raw = aotc_context_options {
            struct_size: mem::size_of::<aotc_context_options>(),
            stream: ptr::null_mut(),
            threads: ptr::null(),
            workspace: ptr::null_mut(),
            workspace_size: 0,
            num_threads: options.threads,
            flags: options.flags,
        };
        let mut context = ptr::null_mut();
        // SAFETY: a struct with its size.
        model.check(unsafe { call!(model, context_create)(model.model, &raw, &mut context) })?;
        Ok(Context { context, model, not_sync: PhantomData })
    }

    /// Runs the first method. Inputs are read and outputs written where they lie.
    pub fn run(&mut self, inputs: &[Input], outputs: &mut [Output]) -> Result<()> {
        let (i, o) = (raw_inputs(inputs), raw_outputs(outputs));
        // SAFETY: slices that are borrowed for the call, outputs exclusively; their sizes are checked before anything is computed.
        let status = unsafe { call!(self.model, run)(self.context, i.as_ptr(), i.len() as i32, o.as_ptr(), o.len() as i32) };
        self.wait(status)
    }
    pub fn run_method(&mut self, method: &Method, inputs: &[Input], outputs: &mut [Output]) -> Result<()> {
        if !self.model.methods() {
            return self.run(inputs, outputs);
        }
        let (i, o) = (raw_inputs(inputs), raw_outputs(outputs));
        // SAFETY: as run.
        let status =
            unsafe { call!(self.model, run_method)(self.context, method.index, i.as_ptr(), i.len() as i32, o.as_ptr(), o.len() as i32) };
        self.wait(status)
    }
    /// As run_method, of a run that may be ended before it is done: Status::Cancelled, Status::DeadlineExceeded.
    pub fn run_with(&mut self, method: &Method, inputs: &[Input], outputs: &mut [Output], options: RunOptions) -> Result<()> {
        if !has!(self.model, run_with) {
            return invalid("the artifact is older than runs that can be ended");
        }
        let raw = aotc_run_options {
            struct_size: mem::size_of::<aotc_run_options>(),
            deadline_ns: options.timeout.map_or(0, |t| monotonic_ns().saturating_add(t.as_nanos() as u64)),
            cancel: options.cancel.map_or(ptr::null(), |c| ptr::addr_of!(c.0) as *const i32),
            traceparent: options.traceparent.filter(|_| has!(self.model, model_trim)).map_or(ptr::null(), CStr::as_ptr),
        };
        let (i, o) = (raw_inputs(inputs), raw_outputs(outputs));
        // SAFETY: as run; the flag is borrowed for the call and read by atomic loads.
        let status = unsafe {
            call!(self.model, run_with)(self.context, method.index, i.as_ptr(), i.len() as i32, o.as_ptr(), o.len() as i32, &raw)
        };
        self.wait(status)
    }

    /// The shapes of the buffers of the first method's outputs for inputs of these shapes.
    pub fn output_bounds(&mut self, inputs: &[Input], ranks: &[usize]) -> Result<Vec<Vec<i64>>> {
        let raw = raw_inputs(inputs);
        let mut shapes: Vec<Vec<i64>> = ranks.iter().map(|&r| vec![0; r]).collect();
        let to: Vec<*mut i64> = shapes.iter_mut().map(|s| s.as_mut_ptr()).collect();
        let mut n = 0;
        // SAFETY: room for the rank of each output, once their number and ranks were compared.
        self.model.check(unsafe { call!(self.model, io_count)(self.model.model, AOTC_OUTPUT, &mut n) })?;
        if n as usize != ranks.len() {
            return invalid(format!("output_bounds: there are {n} outputs, not {}", ranks.len()));
        }
        for (i, &rank) in ranks.iter().enumerate() {
            let mut info = aotc_io_info {
                struct_size: mem::size_of::<aotc_io_info>(),
                name: ptr::null(),
                dims: ptr::null(),
                rank: 0,
                dtype: 0,
                alias_input: -1,
                reserved: 0,
                found: ptr::null(),
            };
            self.model.check(unsafe { call!(self.model, io_get)(self.model.model, AOTC_OUTPUT, i as i32, &mut info) })?;
            if info.rank as usize != rank {
                return invalid(format!("output_bounds: output {i} has {} dimensions, not {rank}", info.rank));
            }
        }
        self.model.check(unsafe {
            call!(self.model, output_bounds)(self.context, raw.as_ptr(), raw.len() as i32, to.as_ptr(), to.len() as i32)
        })?;
        Ok(shapes)
    }
    #[deprecated(note = "called output_bounds now")]
    pub fn output_shapes(&mut self, inputs: &[Input], ranks: &[usize]) -> Result<Vec<Vec<i64>>> {
        self.output_bounds(inputs, ranks)
    }

    /// All states, or the one of that name, have their initial content again.
    pub fn reset_states(&mut self, name: Option<&str>) -> Result<()> {
        let c = name.map(c_string).transpose()?;
        // SAFETY: null or a C string.
        self.model.check(unsafe { call!(self.model, state_reset)(self.context, c.as_ref().map_or(ptr::null(), |c| c.as_ptr())) })
    }
    pub fn read_state(&mut self, name: &str, to: &mut Output) -> Result<()> {
        let c = c_string(name)?;
        // SAFETY: a C string; a tensor that is borrowed exclusively.
        self.model.check(unsafe { call!(self.model, state_read)(self.context, c.as_ptr(), &to.raw) })
    }
    pub fn write_state(&mut self, name: &str, from: &Input) -> Result<()> {
        let c = c_string(name)?;
        // SAFETY: as read_state.
        self.model.check(unsafe { call!(self.model, state_write)(self.context, c.as_ptr(), &from.raw) })
    }

    /// On a GPU, too, outputs are written when a run returns: what it borrowed is free then.
    fn wait(&mut self, status: aotc_status) -> Result<()> {
        self.model.check(status)?;
        // SAFETY: no arguments but the context.
        self.model.check(unsafe { call!(self.model, synchronize)(self.context) })
    }
}

fn raw_outputs(outputs: &mut [Output]) -> Vec<aotc_tensor> {
    outputs.iter().map(|o| o.raw).collect()
}

/// What Instant counts, as the artifact wants it.
fn monotonic_ns() -> u64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }
    const CLOCK_MONOTONIC: i32 = 1;
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the C library's, with a struct as x86-64 Linux has it.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}
