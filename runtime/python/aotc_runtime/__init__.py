"""Runs artifacts of aotc (model.so) from Python: no torch, no compiler.

    import aotc_runtime
    model = aotc_runtime.load("model.so")
    context = model.context(threads=2)
    y, = context.run([x])            # NumPy arrays, or whatever exports a buffer or DLPack (torch, JAX, CuPy)
    context.run({"x": x}, [y])       # by name; into the caller's arrays: nothing is allocated and nothing copied

A Model is immutable: any number of threads use one. A Context is one stream of runs with its workspace, threads and states: one thread at a
time; others of the same model run beside it, since the GIL is not held while the artifact works. What an artifact refuses is an Error with its
message: ShapeMismatch, InvalidArgument and so on.
"""

from ._api import Cancel, Context, ContextInfo, Dim, Method, ModelInfo, Step, TensorInfo, Timing, load, load_memory, Model
from ._native import (AssertionFailed, Cancelled, Damaged, DeadlineExceeded, DeviceError, DeviceLost, Error, FileError, IndexOutOfRange, Incompatible, Internal, InvalidArgument,
                      NotFound, OutOfMemory, ShapeMismatch, Tensor, WrongState)

__all__ = ["AssertionFailed", "Cancel", "Cancelled", "Context", "ContextInfo", "Damaged", "DeadlineExceeded", "DeviceError", "DeviceLost", "Dim", "Error", "FileError", "IndexOutOfRange", "Incompatible",
           "Internal", "InvalidArgument", "Method", "Model", "ModelInfo", "NotFound", "OutOfMemory", "ShapeMismatch", "Step", "Tensor", "TensorInfo",
           "Timing", "WrongState", "load", "load_memory"]
