"""A real tritonserver, and clients of it: what the parts of server_test.py, sequence_parts.py and gpu_parts.py stand on.

Without nvidia-pytriton and tritonclient (packaging/setup.sh) the exit status is 77.
"""
import importlib.util
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

try:
    import numpy
    import tritonclient.grpc as grpc
    import tritonclient.http as http
except ImportError as e:
    print(f"{e.name} is not installed: skipped")
    sys.exit(77)
found = importlib.util.find_spec("pytriton")
BINARY = found and os.path.join(found.submodule_search_locations[0], "tritonserver", "bin", "tritonserver")
if not BINARY or not os.path.exists(BINARY):
    print("nvidia-pytriton is not installed: skipped")
    sys.exit(77)

PATIENCE = 300  # seconds
TYPES = {"float32": "FP32", "float64": "FP64", "float16": "FP16", "int64": "INT64", "int32": "INT32", "int8": "INT8", "bool": "BOOL"}


def until(what, condition, server=None):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if server is not None and server.process.poll() is not None:
            raise AssertionError(f"the server ended with {server.process.returncode} before {what}:\n{server.said()[-6000:]}")
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"not within {PATIENCE} s: {what}" + (":\n" + server.said()[-6000:] if server else ""))


class Server:
    def __init__(self, o, repository, *options, env=None):
        self.log = os.path.join(o.work, "server.log")
        backends = os.path.dirname(os.path.dirname(os.path.abspath(o.library)))
        for _ in range(5):  # a port may be taken between asking and use
            ports = []
            for _ in range(3):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", 0))
                    ports.append(s.getsockname()[1])
            with open(self.log, "w") as log:
                self.process = subprocess.Popen(
                    [BINARY, f"--model-repository={repository}", f"--backend-directory={backends}", "--http-address=127.0.0.1", f"--http-port={ports[0]}",
                     "--grpc-address=127.0.0.1", f"--grpc-port={ports[1]}", f"--metrics-port={ports[2]}", "--metrics-address=127.0.0.1", "--allow-gpu-metrics=false",
                     "--log-verbose=0", "--exit-timeout-secs=120", *options], stdout=log, stderr=subprocess.STDOUT, env=env)
            self.url, self.metrics_url = f"127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[2]}/metrics"
            self.grpc_url = f"127.0.0.1:{ports[1]}"
            until("ready", lambda: self.process.poll() is not None or self.get("/v2/health/ready") is not None)
            if self.process.poll() is None or "already in use" not in self.said():
                break
        self.local = threading.local()
        self.grpc = grpc.InferenceServerClient(self.grpc_url)

    @property
    def web(self):
        """A client for the calling thread: they are not made for several."""
        if not hasattr(self.local, "http"):
            self.local.http = http.InferenceServerClient(self.url, connection_timeout=PATIENCE, network_timeout=PATIENCE)
        return self.local.http

    def said(self):
        with open(self.log) as f:
            return f.read()

    def get(self, path):
        try:
            return json.loads(urllib.request.urlopen(f"http://{self.url}{path}", timeout=30).read() or "{}")
        except (urllib.error.URLError, OSError):
            return None

    def post(self, path, body, headers=()):
        """Status and text."""
        request = urllib.request.Request(f"http://{self.url}{path}", body if isinstance(body, bytes) else json.dumps(body).encode(), dict(headers))
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def infer(self, model, inputs, outputs=None, client=None, module=http, **more):
        wired = []
        for name, value in inputs.items():
            i = module.InferInput(name, list(value.shape), TYPES[str(value.dtype)])
            i.set_data_from_numpy(value)
            wired.append(i)
        wanted = outputs and [module.InferRequestedOutput(name) for name in outputs]
        return (client or self.web).infer(model, wired, outputs=wanted, **more)

    def stats(self, model, version="1"):
        return self.get(f"/v2/models/{model}/versions/{version}/stats")["model_stats"][0]

    def counted(self, model, holds):
        """Statistics once they are as `holds` says: the server counts a request after its answer has gone."""
        until(f"the statistics of {model}", lambda: holds(self.stats(model)), self)
        return self.stats(model)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE) == 0, self.said()[-4000:]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def close(a, b, what):
    assert a.shape == b.shape, (what, a.shape, b.shape)
    assert numpy.allclose(a, b, rtol=1e-4, atol=1e-5), (what, a, b)


def all_threads(s, calls):
    """Runs all at once, each with a client of its own; results in order, or what was raised."""
    results = [None] * len(calls)

    def one(i):
        try:
            results[i] = calls[i]()
        except Exception as e:  # noqa: BLE001
            results[i] = e
        s.web.close()  # the server waits for idle connections when it ends
    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def stream(s, model, value, cancel_after=0, **more):
    """The tokens that came, and what ended them other than the last."""
    answers, got = queue.Queue(), []
    with grpc.InferenceServerClient(s.grpc_url) as client:
        client.start_stream(callback=lambda result, error: answers.put((result, error)))
        i = grpc.InferInput("ids", list(value.shape), "INT64")
        i.set_data_from_numpy(value)
        client.async_stream_infer(model, [i], enable_empty_final_response=True, **more)
        while True:
            result, error = answers.get(timeout=PATIENCE)
            if error:
                return got, error
            got.append(int(result.as_numpy("token")[0]))
            if cancel_after and len(got) == cancel_after:
                client.stop_stream(cancel_requests=True)
                return got, None
            if result.get_response().parameters["triton_final_response"].bool_param:
                return got, None


def resident(s):
    with open(f"/proc/{s.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def mapped(s, part):
    with open(f"/proc/{s.process.pid}/maps") as f:
        return len({line.split()[4] for line in f if part in line})
