use crate::error::{invalid, Result};
use crate::ffi::{aotc_tensor, AOTC_DEVICE_HOST};
use std::marker::PhantomData;
use std::os::raw::c_void;

macro_rules! elements {
    ($($type:ty = $value:literal, $c:ident;)*) => {
        // SAFETY: numbers, and wrappers of numbers.
        $(unsafe impl Element for $type {
            const DTYPE: u32 = $value;
        })*
        /// The C name, value and bytes of each element type.
        pub const DTYPES: &[(&str, u32, usize)] = &[$((stringify!($c), $value, std::mem::size_of::<$type>()),)*];
    };
}

macro_rules! bits {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {
        $($(#[$doc])* #[derive(Clone, Copy, Debug, Default, PartialEq)] #[repr(transparent)] pub struct $name(pub $type);)*
    };
}
bits! {
    /// A `torch.bool`: 0 or 1.
    Bool(u8);
    /// The 16 bits of a `float16`.
    F16(u16);
    /// The 16 bits of a `bfloat16`.
    Bf16(u16);
    /// The 8 bits of a `float8_e4m3fn`.
    F8e4m3(u8);
    /// The 8 bits of a `float8_e5m2`.
    F8e5m2(u8);
    /// Real and imaginary part of a `complex64`.
    C64([f32; 2]);
    /// Real and imaginary part of a `complex128`.
    C128([f64; 2]);
}

/// An element of tensors.
///
/// # Safety
/// Every bit pattern is a value, and DTYPE is the artifact's number for a type of that size.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: u32;
}
elements! {
    Bool = 1, BOOL;
    u8 = 2, U8;
    i8 = 3, I8;
    i16 = 4, I16;
    i32 = 5, I32;
    i64 = 6, I64;
    F16 = 7, F16;
    Bf16 = 8, BF16;
    f32 = 9, F32;
    f64 = 10, F64;
    C64 = 11, C64;
    C128 = 12, C128;
    F8e4m3 = 13, F8E4M3FN;
    F8e5m2 = 14, F8E5M2;
}

fn shape_of(len: usize, shape: &[i64]) -> Result<Vec<i64>> {
    let mut elements = Some(1usize);
    for &d in shape {
        elements = elements.and_then(|n| usize::try_from(d).ok().and_then(|d| n.checked_mul(d)));
    }
    match elements {
        Some(n) if n == len => Ok(shape.to_vec()),
        Some(n) => invalid(format!("a tensor of shape {shape:?} has {n} elements, its slice {len}")),
        None => invalid(format!("{shape:?} is no shape")),
    }
}

fn raw<T: Element>(data: *const T, len: usize, shape: &[i64]) -> aotc_tensor {
    aotc_tensor {
        data: data as *mut c_void,
        shape: shape.as_ptr(),
        strides: std::ptr::null(),
        byte_size: (len * std::mem::size_of::<T>()) as u64,
        rank: shape.len() as i32,
        dtype: T::DTYPE,
        device: AOTC_DEVICE_HOST,
        flags: 0,
        reserved: [0; 2],
    }
}

/// A slice that a run reads where it lies; dense, row-major.
pub struct Input<'a> {
    pub(crate) raw: aotc_tensor,
    shape: Vec<i64>,
    data: PhantomData<&'a [u8]>,
}

impl<'a> Input<'a> {
    pub fn new<T: Element>(data: &'a [T], shape: &[i64]) -> Result<Self> {
        let shape = shape_of(data.len(), shape)?;
        Ok(Input { raw: raw(data.as_ptr(), data.len(), &shape), shape, data: PhantomData })
    }
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
}

/// A slice that a run writes where it lies; dense, row-major.
pub struct Output<'a> {
    pub(crate) raw: aotc_tensor,
    shape: Vec<i64>,
    data: PhantomData<&'a mut [u8]>,
}

impl<'a> Output<'a> {
    pub fn new<T: Element>(data: &'a mut [T], shape: &[i64]) -> Result<Self> {
        let shape = shape_of(data.len(), shape)?;
        Ok(Output { raw: raw(data.as_mut_ptr(), data.len(), &shape), shape, data: PhantomData })
    }
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }
}
