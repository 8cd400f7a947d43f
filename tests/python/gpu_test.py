#!/usr/bin/env python3
"""gpu_test.py TOY_GPU: aotc_runtime with tensors on a GPU, by DLPack, over the stand-in for the driver (tests/abi/fake_cuda.c)."""
import ctypes
import sys

import numpy as np

import aotc_runtime as aotc

cuda = ctypes.CDLL("libcuda.so.1")
K_DL_CUDA = 2


class OnGpu:
    """A copy of an array in the GPU's memory, with DLPack's methods alone."""

    def __init__(self, array):
        self.array, self.at, self.streams = array, ctypes.c_uint64(), []
        assert cuda.cuMemAlloc_v2(ctypes.byref(self.at), ctypes.c_size_t(array.nbytes)) == 0
        ctypes.memmove(self.at.value, array.ctypes.data, array.nbytes)

    def __dlpack_device__(self):
        return (K_DL_CUDA, 0)

    def __dlpack__(self, *, stream=None):
        self.streams.append(stream)
        capsule = aotc.Tensor(self.array.shape, self.array.dtype.name).__dlpack__()  # whose data and device are then others
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = get(capsule, b"dltensor")
        ctypes.c_uint64.from_address(tensor).value = self.at.value
        ctypes.c_int32.from_address(tensor + 8).value = K_DL_CUDA
        return capsule

    def content(self):
        out = np.empty_like(self.array)
        ctypes.memmove(out.ctypes.data, self.at.value, out.nbytes)
        return out


model = aotc.load(sys.argv[1], "cuda:0")
assert (model.info.device, model.info.target) == (0, "sm_90a"), model.info
context = model.context()
driver = ctypes.c_void_p()
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(driver), 0) == 0 and cuda.cuCtxPushCurrent_v2(driver) == 0

x, rows = np.arange(24, dtype=np.float32).reshape(3, 8), np.array([1, 0, 3])
expected = context.run([x, rows])  # from host memory and into it
table = np.unique(expected[0][1:, 1:] / x[1:, 1:], axis=1)[:, 0]
np.testing.assert_array_equal(expected[0][1:], x[1:] * table[:, None])
assert expected[0].any() and not expected[1].any()

gpu_x, gpu_rows, y, zeros = OnGpu(x), OnGpu(rows), OnGpu(np.ones_like(x)), OnGpu(np.ones(3, np.float32))
free = sys.getrefcount(gpu_x)
outputs = (y, zeros)
assert context.run([gpu_x, gpu_rows], outputs) is outputs
assert sys.getrefcount(gpu_x) > free, "what the GPU may still read is not kept"
context.synchronize()
assert sys.getrefcount(gpu_x) == free, "and is kept for ever"
np.testing.assert_array_equal(y.content(), expected[0])
np.testing.assert_array_equal(zeros.content(), expected[1])
assert gpu_x.streams == [1], gpu_x.streams  # the legacy default stream

context.run({"x": x * 2, "idx": gpu_rows}, [y, expected[1]])  # some here, some there
np.testing.assert_array_equal(y.content(), expected[0] * 2)

with model.context(stream=0x1234) as other:  # the producer is told the stream of the run
    other.run([gpu_x, gpu_rows], outputs)
    assert gpu_x.streams == [1, 0x1234], gpu_x.streams
    other.synchronize()

try:
    aotc.load(sys.argv[1], "cpu")
    raise SystemExit("a GPU's artifact was loaded for the CPU")
except aotc.Error:
    pass
