"""The C ABI of an artifact (runtime/include/aotc/aotc.h) and the few driver functions that the GPU tests need, through ctypes and numpy."""
import argparse
import ctypes as c

import numpy as np

HOST = -1
CODES = {1: "?", 2: "u1", 3: "i1", 4: "i2", 5: "i4", 6: "i8", 7: "f2", 8: "u2", 9: "f4", 10: "f8", 11: "c8", 12: "c16"}  # bfloat16 travels as its bits
BF16, F32 = 8, 9


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)), ("byte_size", c.c_uint64),
                ("rank", c.c_int32), ("dtype", c.c_uint32), ("device", c.c_int32), ("flags", c.c_uint32), ("reserved", c.c_uint64 * 2)]


class ContextOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("stream", c.c_void_p), ("threads", c.c_void_p), ("workspace", c.c_void_p),
                ("workspace_size", c.c_size_t), ("num_threads", c.c_int32), ("flags", c.c_uint32)]


class ModelOptions(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("device", c.c_int32), ("flags", c.c_uint32), ("allocator", c.c_void_p), ("weights_path", c.c_char_p),
                ("log", c.c_void_p), ("log_user", c.c_void_p), ("weights", c.c_void_p), ("weights_budget", c.c_uint64)]


class Source(c.Structure):
    """aotc_weights_source"""
    _fields_ = [("struct_size", c.c_size_t), ("path", c.c_char_p), ("data", c.c_void_p), ("bytes", c.c_uint64), ("read", c.c_void_p),
                ("user", c.c_void_p), ("release", c.c_void_p), ("flags", c.c_uint32), ("fd", c.c_int32)]


class ModelInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("weights_bytes", c.c_uint64), ("target", c.c_char_p), ("device", c.c_int32), ("n_variants", c.c_int32),
                ("weights_version", c.c_uint64), ("weights_layout", c.c_uint64), ("weights_streamed", c.c_uint64), ("weights_ring", c.c_uint64)]


class Dim(c.Structure):
    _fields_ = [("value", c.c_int64), ("min", c.c_int64), ("max", c.c_int64), ("symbol", c.c_char_p)]


class IoInfo(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("name", c.c_char_p), ("dims", c.POINTER(Dim)), ("rank", c.c_int32), ("dtype", c.c_uint32),
                ("alias_input", c.c_int32), ("reserved", c.c_int32), ("found", c.POINTER(c.c_char_p))]


P, I32 = c.c_void_p, c.c_int32
TENSORS = c.POINTER(Tensor)
FUNCTIONS = [("last_error", c.c_char_p, []), ("status_name", c.c_char_p, [I32]), ("metadata_json", c.c_char_p, []), ("probe", I32, [I32]),
             ("model_create", I32, [P, c.POINTER(P)]), ("model_destroy", None, [P]), ("model_get_info", I32, [P, P]),
             ("io_count", I32, [P, I32, c.POINTER(I32)]), ("io_get", I32, [P, I32, I32, c.POINTER(IoInfo)]), ("workspace_size", I32, [P] * 5),
             ("context_create", I32, [P, c.POINTER(ContextOptions), c.POINTER(P)]), ("context_destroy", None, [P]),
             ("context_get_info", I32, [P, P]), ("output_bounds", I32, [P, TENSORS, I32, P, I32]),
             ("run", I32, [P, TENSORS, I32, TENSORS, I32]), ("synchronize", I32, [P]),
             ("state_reset", I32, [P, c.c_char_p]), ("state_read", I32, [P, c.c_char_p, TENSORS]), ("state_write", I32, [P, c.c_char_p, TENSORS]),
             ("context_profile", I32, [P, P, c.POINTER(I32)]), ("output_sizes", I32, [P, I32, c.POINTER(c.c_int64)])]


class Api(c.Structure):
    _fields_ = [("struct_size", c.c_size_t), ("abi_version", c.c_uint32), ("reserved", c.c_uint32)] + [
        (name, c.CFUNCTYPE(result, *arguments)) for name, result, arguments in FUNCTIONS]


class LaterApi(c.Structure):
    """The functions behind those of Api, of which the one but last is model_swap_weights."""
    _fields_ = [("known", Api), ("others", P * 15), ("swap", c.CFUNCTYPE(I32, P, c.POINTER(Source), c.POINTER(c.c_uint64))), ("trim", P)]


def make_or_run(doc, make, run, options):
    """The program's arguments: `make` or `run`, where what is made lies, and (name, default or arguments of add_argument).. beside."""
    p = argparse.ArgumentParser(description=doc)
    p.add_argument("what", choices=("make", "run"))
    p.add_argument("--aotc")
    p.add_argument("--work", required=True)
    for name, default in options.items():
        p.add_argument("--" + name, **(default if isinstance(default, dict) else {"type": type(default), "default": default}))
    o = p.parse_args()
    make(o) if o.what == "make" else run(o)


class Failure(RuntimeError):
    def __init__(self, status, message):
        super().__init__(f"status {status}: {message}")
        self.status = status


class Artifact:
    def __init__(self, path):
        self.library = c.CDLL(path)
        self.library.aotc_get_api.restype = c.POINTER(Api)
        self.api = self.library.aotc_get_api(1).contents
        self.model = P()

    def check(self, status):
        if status:
            raise Failure(status, self.api.last_error().decode())

    def probe(self, device):
        self.check(self.api.probe(device))

    def create(self, device=None, weights=None, budget=0):
        """weights: their content as an array, which is copied. budget: weights_budget."""
        source = Source(struct_size=c.sizeof(Source), fd=-1)
        options = ModelOptions(struct_size=c.sizeof(ModelOptions), device=-2 if device is None else device, weights_budget=budget)
        if weights is not None:
            source.data, source.bytes = weights.ctypes.data, weights.nbytes
            options.weights = c.addressof(source)
        self.check(self.api.model_create(c.byref(options), c.byref(self.model)))
        return self

    def info(self):
        info = ModelInfo(struct_size=c.sizeof(ModelInfo))
        self.check(self.api.model_get_info(self.model, c.byref(info)))
        return info

    def close(self):
        self.api.model_destroy(self.model)
        self.model = P()

    def io(self, kind):
        n = I32()
        self.check(self.api.io_count(self.model, kind, c.byref(n)))
        infos = []
        for i in range(n.value):
            info = IoInfo(struct_size=c.sizeof(IoInfo))
            self.check(self.api.io_get(self.model, kind, i, c.byref(info)))
            infos.append(info)
        return infos

    def context(self, stream=None, flags=0):
        return Context(self, stream, flags)


class Context:
    def __init__(self, artifact, stream, flags):
        self.artifact, self.handle = artifact, P()
        options = ContextOptions(struct_size=c.sizeof(ContextOptions), stream=stream, flags=flags)
        artifact.check(artifact.api.context_create(artifact.model, c.byref(options), c.byref(self.handle)))
        self.out_infos = artifact.io(1)

    def close(self):
        self.artifact.api.context_destroy(self.handle)

    def output_arrays(self, inputs):
        """Host arrays of the outputs' shapes, filled with a pattern."""
        n = len(self.out_infos)
        dims = [(c.c_int64 * max(1, i.rank))() for i in self.out_infos]
        table = (c.c_void_p * n)(*[c.addressof(d) for d in dims])
        self.artifact.check(self.artifact.api.output_bounds(self.handle, inputs, len(inputs), table, n))
        out = [np.empty([d[k] for k in range(i.rank)], CODES[i.dtype]) for d, i in zip(dims, self.out_infos)]
        for o in out:
            c.memset(o.ctypes.data, 0x7f, o.nbytes)
        return out

    def run(self, inputs, outputs):
        self.artifact.check(self.artifact.api.run(self.handle, inputs, len(inputs), outputs, len(outputs)))

    def found(self, outputs):
        """The beginnings of the outputs whose sizes the latest run found."""
        out = []
        for i, (array, info) in enumerate(zip(outputs, self.out_infos)):
            if info.found:
                sizes = (c.c_int64 * max(1, info.rank))()
                self.artifact.check(self.artifact.api.output_sizes(self.handle, i, sizes))
                array = np.ascontiguousarray(array[tuple(slice(0, n) for n in sizes[:info.rank])])
            out.append(array)
        return out

    def synchronize(self):
        self.artifact.check(self.artifact.api.synchronize(self.handle))


def tensors(arrays, dtypes, device=HOST, pointers=None):
    """A C array of tensors over numpy arrays (host) or over device pointers of the arrays' shapes."""
    out = (Tensor * len(arrays))()
    keep = []
    for i, (a, t) in enumerate(zip(arrays, dtypes)):
        shape = (c.c_int64 * max(1, a.ndim))(*a.shape)
        keep.append(shape)
        out[i] = Tensor(pointers[i] if pointers else a.ctypes.data, shape, None, a.nbytes, a.ndim, t, device, 0)
    out.keep = keep
    return out


class Cuda:
    """The driver, on a GPU's primary context. Threads other than the one that made it call make_current() first."""

    def __init__(self, ordinal=0):
        self.d, self.ordinal = c.CDLL("libcuda.so.1"), ordinal
        self("cuInit", 0)
        device, self.context = c.c_int(), P()
        self("cuDeviceGet", c.byref(device), ordinal)
        self("cuDevicePrimaryCtxRetain", c.byref(self.context), device)
        self.make_current()
        name = c.create_string_buffer(64)
        self("cuDeviceGetName", name, 64, device)
        self.name = name.value.decode()

    def make_current(self):
        self("cuCtxSetCurrent", self.context)

    def __call__(self, function, *arguments):
        rc = getattr(self.d, function)(*arguments)
        if rc:
            raise RuntimeError(f"{function}: CUDA error {rc}")

    def alloc(self, nbytes, offset=0):
        p = c.c_uint64()
        self("cuMemAlloc_v2", c.byref(p), c.c_size_t(max(1, nbytes) + offset))
        return p.value + offset

    def free(self, pointer, offset=0):
        self("cuMemFree_v2", c.c_uint64(pointer - offset))

    def upload(self, pointer, array):
        """Ends when the array is there: the driver's call returns when it has been read, and other streams than its own do not wait for the rest."""
        if array.nbytes:
            self("cuMemcpyHtoD_v2", c.c_uint64(pointer), P(array.ctypes.data), c.c_size_t(array.nbytes))
            self("cuStreamSynchronize", None)

    def download(self, array, pointer):
        if array.nbytes:
            self("cuMemcpyDtoH_v2", P(array.ctypes.data), c.c_uint64(pointer), c.c_size_t(array.nbytes))

    def stream(self):
        s = P()
        self("cuStreamCreate", c.byref(s), 1)  # non-blocking
        return s

    def wait(self, stream):
        self("cuStreamSynchronize", stream)

    def event(self, stream):
        e = P()
        self("cuEventCreate", c.byref(e), 0)
        self("cuEventRecord", e, stream)
        return e

    def microseconds(self, start, end):
        ms = c.c_float()
        self("cuEventSynchronize", end)
        self("cuEventElapsedTime_v2" if hasattr(self.d, "cuEventElapsedTime_v2") else "cuEventElapsedTime", c.byref(ms), start, end)
        return ms.value * 1e3

    def capture(self, stream, work):
        """A graph of what work() queues on the stream; gives a function that replays it."""
        graph, executable = P(), P()
        self("cuStreamBeginCapture_v2", stream, 2)  # relaxed
        work()
        self("cuStreamEndCapture", stream, c.byref(graph))
        self("cuGraphInstantiateWithFlags", c.byref(executable), graph, c.c_ulonglong(0))
        return lambda: self("cuGraphLaunch", executable, stream)
