"""What a GPU adds to server_test.py: tensors that lie on it, pools of the server's that are empty, several instances, a GPU that is lost."""
import base64
import ctypes
import os

from served import Server, all_threads, close, grpc, http, numpy
from tritonclient.utils import InferenceServerException


class Gpu:
    """The CUDA driver in this process: memory that a server may open."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        self.context, device = ctypes.c_void_p(), ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        assert status == 0, (name, status)

    def enter(self):  # contexts are a thread's
        self.call("cuCtxSetCurrent", self.context)

    def used(self):
        self.enter()
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        return whole.value - free.value

    def allocate(self, size):
        """Address, and the handle by which another process opens it."""
        self.enter()
        at, handle = ctypes.c_uint64(), (ctypes.c_char * 64)()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        self.call("cuIpcGetMemHandle", handle, at)
        return at, base64.b64encode(bytes(handle)).decode()

    def write(self, at, offset, array):
        self.enter()
        array = numpy.ascontiguousarray(array)
        self.call("cuMemcpyHtoD_v2", ctypes.c_uint64(at.value + offset), ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes))

    def read(self, at, offset, shape, dtype):
        self.enter()
        array = numpy.empty(shape, dtype)
        self.call("cuMemcpyDtoH_v2", ctypes.c_void_p(array.ctypes.data), ctypes.c_uint64(at.value + offset), ctypes.c_size_t(array.nbytes))
        return array


gpu = None


def the_gpu():
    global gpu
    gpu = gpu or Gpu()
    return gpu


def used():
    """Bytes of the GPU's memory, whoever has them."""
    return the_gpu().used()


SIZE = 1 << 20


def device_tensors(o, s, e):
    """Inputs and outputs in memory of the GPU that the client shares with the server, both, one of them, at addresses that no vector load takes, of
    requests that are put together: answers are eager's."""
    g, x, y = the_gpu(), e["net.0"], e["net.1"]
    regions = {name: g.allocate(SIZE) for name in ("in", "out")}
    output = s.get("/v2/models/net/config")["output"][0]["name"]
    for module, client in ((http, s.web), (grpc, s.grpc)):
        for name, (_, handle) in regions.items():
            client.register_cuda_shared_memory(name, handle, 0, SIZE)

        def ask(rows, at, shared_in, shared_out, model="net", client=client, module=module):
            given = x[rows]
            i = module.InferInput("x", list(given.shape), "FP32")
            if shared_in:
                g.write(regions["in"][0], at, given)
                i.set_shared_memory("in", given.nbytes, at)
            else:
                i.set_data_from_numpy(given)
            wanted = module.InferRequestedOutput(output)
            if shared_out:
                g.write(regions["out"][0], at, numpy.full_like(y[rows], 7))
                wanted.set_shared_memory("out", y[rows].nbytes, at)
            r = client.infer(model, [i], outputs=[wanted])
            got = g.read(regions["out"][0], at, y[rows].shape, "float32") if shared_out else r.as_numpy(output)
            close(got, y[rows], (module.__name__, rows, at, shared_in, shared_out))
        for rows in (slice(0, 1), slice(3, 8), slice(0, 16)):
            for at in (0, 4096, 4, 2):
                for shared in ((True, True), (True, False), (False, True)):
                    ask(rows, at, *shared)
        # Eight requests that wait for each other, on the GPU and not.
        if module is http:
            done = all_threads(s, [lambda i=i: ask(slice(i, i + 1), 4096 * i, i % 2 == 0, i % 4 < 2, "net_eights", s.web) for i in range(8)])
            assert not any(done), done
        client.unregister_cuda_shared_memory()
    return f"{2 * 36 + 8} requests"


def pools(o, e):
    """The server's pools of pinned memory and of the GPU's are empty: the same answers."""
    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=net", "--load-model=net_eights", "--load-model=wide", "--load-model=chain",
                "--pinned-memory-pool-byte-size=0", "--cuda-memory-pool-byte-size=0:0") as s:
        name = s.get("/v2/models/net_eights/config")["output"][0]["name"]
        for i, r in enumerate(all_threads(s, [lambda i=i: s.infer("net_eights", {"x": e["net.0"][i:i + 1]}) for i in range(8)])):
            close(r.as_numpy(name), e["net.1"][i:i + 1], "a row of eight")
        close(s.infer("chain", {"x": e["chain.0"]}).as_numpy("z"), e["chain.1"], "two models behind one another")
        s.web.close()
        s.stop()


def lost(o, e):
    """A kernel that faults takes the GPU from the process: every request from then on is told so, also those of other models, and nobody waits."""
    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=faulty", "--load-model=net") as s:
        x = numpy.abs(e["net.0"])
        r = s.infer("faulty", {"x": x})
        close(r.as_numpy(r.get_response()["outputs"][0]["name"]), x + 1, "before")
        said = []
        for model, value in (("faulty", -x), ("faulty", x), ("net", x), ("net", x)):
            try:
                s.infer(model, {"x": value})
                raise AssertionError(f"{model} answered after the GPU was lost")
            except InferenceServerException as error:
                said.append(str(error))
                assert "lost" in said[-1] or "GPU" in said[-1], said
        s.web.close()
        s.process.terminate()
        s.process.wait(120)
        return f"{said}; the server ended with {s.process.returncode}"


def emulated(o, e, *parts):
    """An artifact for GPUs alone on an emulated one, which the server takes for none: the instance chooses it. Two models have one copy of it; they are
    asked at once, and one of them has two instances. Then the parts that are given, whose models have states."""
    models = os.path.join(o.work, "gpu_models")
    if not o.driver or not os.path.exists(models):
        return "no emulated GPU: skipped"
    with Server(o, models, "--model-control-mode=explicit", "--load-model=*", env=dict(os.environ, LD_LIBRARY_PATH=o.driver)) as s:
        assert s.get("/v2/health/ready") is not None, s.said()[-6000:]
        name = s.get("/v2/models/net/config")["output"][0]["name"]

        def ask(model, first):
            for rows in (1, 5, 16 - first):
                close(s.infer(model, {"x": e["net.0"][first:first + rows]}).as_numpy(name), e["net.1"][first:first + rows], f"{rows} rows of {model} on a GPU")
        for model in ("net", "beside"):
            ask(model, 0)
        done = all_threads(s, [lambda i=i: [ask(("net", "beside")[i % 4 == 0], i % 11) for _ in range(4)] for i in range(12)])
        assert not [d for d in done if isinstance(d, Exception)], done
        for part in parts:
            part(o, s, e)
        assert s.said().count(": loaded for sm_90") == s.said().count(": loaded for") == 3, s.said()
        s.web.close()
        s.stop()


PARTS = {"device tensors": device_tensors}
APART = {"pools": pools, "lost": lost}
