use std::fmt;

macro_rules! statuses {
    ($($name:ident = $value:literal, $c:ident;)*) => {
        /// Why a call failed, as `aotc.h` says of each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Status {
            $($name,)*
            /// Of a later version.
            Other(i32),
        }

        impl From<i32> for Status {
            fn from(code: i32) -> Self {
                match code {
                    $($value => Status::$name,)*
                    other => Status::Other(other),
                }
            }
        }
        /// The C name and value of each.
        pub const STATUSES: &[(&str, i32)] = &[$((stringify!($c), $value),)*];
    };
}

statuses! {
    InvalidArgument = 1, INVALID_ARGUMENT;
    ShapeMismatch = 2, SHAPE_MISMATCH;
    Incompatible = 3, INCOMPATIBLE;
    NotFound = 4, NOT_FOUND;
    OutOfMemory = 5, OUT_OF_MEMORY;
    WrongState = 6, WRONG_STATE;
    Device = 7, DEVICE;
    Internal = 8, INTERNAL;
    IndexOutOfRange = 9, INDEX_OUT_OF_RANGE;
    Damaged = 10, DAMAGED;
    DeviceLost = 11, DEVICE_LOST;
    AssertionFailed = 12, ASSERTION_FAILED;
    Cancelled = 13, CANCELLED;
    DeadlineExceeded = 14, DEADLINE_EXCEEDED;
    Io = 15, IO;
}

/// A status and the artifact's sentence about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    pub status: Status,
    pub message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(Error { status: Status::InvalidArgument, message: message.into() })
}
