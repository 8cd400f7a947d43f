"""The backend in a real tritonserver, driven by tritonclient over HTTP and gRPC; the answers are eager PyTorch's (make_models.py).

    server_test.py --library libtriton_aotc.so --work DIR [--reloads 8] [--driver DIR] [--runtime DIR] [part ...]

The driver's folder has the emulated GPU's libcuda.so.1, that of the runtime the package aotc_runtime.

Nothing here depends on how fast the machine is: what is awaited is polled for minutes, and batches are made by queues that wait for their rows.
Without nvidia-pytriton and tritonclient (packaging/setup.sh) the exit status is 77.
"""
import argparse
import importlib.util
import json
import os
import queue
import re
import shutil
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
    from tritonclient.utils import InferenceServerException
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


def exports(library):
    table = subprocess.run(["readelf", "-W", "--dyn-syms", "-d", library], capture_output=True, text=True, check=True).stdout
    defined = [row.split()[7].split("@")[0] for row in table.splitlines() if re.match(r"\s*\d+:", row) and len(row.split()) > 7 and row.split()[6] not in ("UND", "ABS")]
    assert len(defined) == 9 and all(name.startswith("TRITONBACKEND_") for name in defined), defined
    loose = [row.split()[7] for row in table.splitlines() if re.match(r"\s*\d+:", row) and len(row.split()) > 7 and row.split()[6] == "UND" and row.split()[4] == "GLOBAL"
             and "@" not in row.split()[7]]
    assert loose and all(name.startswith(("TRITONBACKEND_", "TRITONSERVER_")) for name in loose), loose
    needed = re.findall(r"NEEDED.*\[(.*)\]", table)
    assert not [n for n in needed if not re.match(r"lib(c|m|dl|pthread)\.so|ld-linux", n)], needed


def configs(s):
    def config(model):
        c = s.get(f"/v2/models/{model}/config")
        dims = lambda kind: {t["name"]: (t["data_type"], t["dims"]) for t in c[kind]}
        return c, dims("input"), dims("output")
    c, i, o = config("net")
    assert c["max_batch_size"] == 16 and int(c["dynamic_batching"]["max_queue_delay_microseconds"]) == 1 and i == {"x": ("TYPE_FP32", [32])} and list(o.values()) == [("TYPE_FP32", [8])], c
    assert [(g["kind"], g["count"]) for g in c["instance_group"]] == [("KIND_CPU", 1)], c
    c, i, o = config("text")
    assert i == {"ids": ("TYPE_INT64", [-1]), "mask": ("TYPE_INT64", [-1])}, i
    assert o == {"pooled": ("TYPE_FP32", [16]), "scores": ("TYPE_FP32", [5]), "length": ("TYPE_INT64", [1])}, o
    c, i, o = config("mixing")
    assert c["max_batch_size"] == 0 and i == {"x": ("TYPE_FP32", [-1, 8])} and "dynamic_batching" not in c, c
    assert "is not that of each alone" in s.said()
    c, i, o = config("counter")
    assert c["max_batch_size"] == 0 and c["sequence_batching"]["oldest"]["max_candidate_sequences"] == 16, c
    c, i, o = config("types")
    assert i["flag"] == ("TYPE_BOOL", [3]) and i["small"] == ("TYPE_INT8", [3]) and i["half"] == ("TYPE_FP16", [2]) and i["scalar"] == ("TYPE_FP32", [1]), i
    assert [v for v in o.values() if v == ("TYPE_FP32", [3, 2])] and [v for v in o.values() if v == ("TYPE_BF16", [1])], o
    assert config("teller")[0]["model_transaction_policy"]["decoupled"] is True
    assert config("net_whole")[0]["max_batch_size"] == 0
    # One copy of an artifact, whoever serves it: six models of net's file, five of teller's.
    loads = re.findall(r"aotc: (\S+): loaded for", s.said())
    assert sum("/net/1/" in p for p in loads) == 1 and sum("/teller/1/" in p for p in loads) == 1, loads


def answers(s, e):
    x, y = e["net.0"], e["net.1"]
    for client, module in ((s.web, http), (s.grpc, grpc)):
        for model in ("net", "net_whole", "net_threads"):
            for rows in (1, 3, 16):
                name = s.get(f"/v2/models/{model}/config")["output"][0]["name"]
                close(s.infer(model, {"x": x[:rows]}, client=client, module=module).as_numpy(name), y[:rows], (model, rows))
        r = s.infer("mixing", {"x": e["mixing.0"]}, client=client, module=module)
        close(r.as_numpy(r.get_response()["outputs"][0]["name"] if module is http else r.get_response().outputs[0].name), e["mixing.1"], "mixing")
    names = [t["name"] for t in s.get("/v2/models/found/config")["output"]]
    r = s.infer("found", {"x": e["found.0"]})
    for i, name in enumerate(names):
        close(r.as_numpy(name), e[f"found.{i + 1}"], name)
    config = s.get("/v2/models/types/config")
    values = [e[f"types.{i}"] for i in range(10)]
    r = s.infer("types", {t["name"]: v.reshape(1) if v.ndim == 0 else v for t, v in zip(config["input"], values)})
    expected = [v.astype("complex64").view("float32").reshape(3, 2) if v.dtype == "complex64" else v.reshape(1) if v.ndim == 0 else v for v in values[5:]]
    for t, v in zip(config["output"], expected):
        close(r.as_numpy(t["name"]).astype("float64"), v.astype("float64"), t["name"])
    # The outputs that are asked for, no others.
    text = {"ids": e["text.0"][:3], "mask": e["text.1"][:3]}
    r = s.infer("text", text, outputs=["scores"])
    close(r.as_numpy("scores"), e["text.3"][:3], "scores")
    assert r.as_numpy("pooled") is None


def batches(s, e):
    """Eight requests of one row wait for each other: one run. Shapes that differ are no batch of each other."""
    x, y = e["net.0"], e["net.1"]
    name = s.get("/v2/models/net_eights/config")["output"][0]["name"]
    begun = s.stats("net_eights")["execution_count"]
    for i, r in enumerate(all_threads(s, [lambda i=i: s.infer("net_eights", {"x": x[i:i + 1]}) for i in range(8)])):
        close(r.as_numpy(name), y[i:i + 1], "a row of eight")
    stats = s.counted("net_eights", lambda x: x["inference_stats"]["success"]["count"] >= 8)
    assert stats["execution_count"] == begun + 1 and [b["batch_size"] for b in stats["batch_stats"]] == [8], stats
    pieces = ((0, 3), (3, 4), (4, 8))
    for (a, b), r in zip(pieces, all_threads(s, [lambda a=a, b=b: s.infer("net_eights", {"x": x[a:b]}) for a, b in pieces])):
        close(r.as_numpy(name), y[a:b], "rows of a batch")
    # One of three has an id outside of the table: the others are answered. Together they are one batch.
    ids, mask = e["text.0"], e["text.1"]
    bad = ids.copy()
    bad[1, 2] = 1000
    calls = [lambda i=i: s.infer("text", {"ids": (bad if i == 1 else ids)[i:i + 1], "mask": mask[i:i + 1]}) for i in range(3)]
    results = all_threads(s, calls)
    assert isinstance(results[1], InferenceServerException) and "index" in str(results[1]), results[1]
    for i in (0, 2):
        close(results[i].as_numpy("pooled"), e["text.2"][i:i + 1], "beside a bad one")
    assert s.counted("text", lambda x: x["inference_stats"]["fail"]["count"] >= 1)["inference_stats"]["fail"]["count"] == 1
    results = all_threads(s, [lambda i=i: [s.infer("net", {"x": x[i % 16:i % 16 + 1]}) for _ in range(10)] for i in range(24)])
    name = s.get("/v2/models/net/config")["output"][0]["name"]
    for i, rs in enumerate(results):
        for r in rs:
            close(r.as_numpy(name), y[i % 16:i % 16 + 1], "under load")
    stats = s.counted("net", lambda x: x["inference_stats"]["success"]["count"] >= 240)["inference_stats"]
    assert stats["fail"]["count"] == 0 and stats["compute_infer"]["ns"] > 0, stats


def spread(s, e):
    """What the server put together is divided among the instances that have nothing to do; a fault stays with its request."""
    x, y = e["net.0"], e["net.1"]
    name = s.get("/v2/models/net_spread/config")["output"][0]["name"]
    for _ in range(5):
        for i, r in enumerate(all_threads(s, [lambda i=i: s.infer("net_spread", {"x": x[i:i + 1]}) for i in range(8)])):
            close(r.as_numpy(name), y[i:i + 1], "a row of eight, by three")
    stats = s.counted("net_spread", lambda x: x["inference_stats"]["success"]["count"] >= 40)
    sizes = {b["batch_size"]: b["compute_infer"]["count"] for b in stats["batch_stats"]}
    assert stats["execution_count"] == 15 and sizes == {2: 5, 3: 10} and stats["inference_stats"]["success"]["count"] == 40, stats
    ids, mask = e["text.0"], e["text.1"]
    bad = ids.copy()
    bad[1, 2] = 1000
    results = all_threads(s, [lambda i=i: s.infer("text_spread", {"ids": (bad if i == 1 else ids)[i:i + 1], "mask": mask[i:i + 1]}) for i in range(4)])
    assert isinstance(results[1], InferenceServerException) and "index" in str(results[1]), results[1]
    for i in (0, 2, 3):
        close(results[i].as_numpy("pooled"), e["text.2"][i:i + 1], "beside a bad one")
    for rs in all_threads(s, [lambda i=i: [s.infer("net_threads", {"x": x[i % 16:i % 16 + 1]}).as_numpy(name) - y[i % 16:i % 16 + 1] for _ in range(10)] for i in range(24)]):
        assert not isinstance(rs, Exception) and all(abs(r).max() < 1e-4 for r in rs), rs


def refused(s, e):
    """400, with the input, what was expected and what came; and the server goes on."""
    def ask(model, shape, kind, data, name="x", **more):
        return s.post(f"/v2/models/{model}/infer", {"inputs": [{"name": name, "shape": shape, "datatype": kind, "data": data}], **more})
    cases = [(ask("net", [1, 32], "INT32", [0] * 32), "x"), (ask("net", [1, 31], "FP32", [0] * 31), "x"), (ask("net", [17, 32], "FP32", [0] * 544), "16"),
             (ask("net", [32], "FP32", [0] * 32), "net"), (ask("net", [1, 32], "FP32", [0] * 32, "nothing"), "nothing"),
              
             (ask("net", [1, 32], "FP32", [0] * 32, outputs=[{"name": "y"}]), "y"), (ask("mixing", [0, 8], "FP32", []), "x"), (ask("mixing", [33, 8], "FP32", [0] * 264), "FP32"),
             (ask("net_whole", [17, 32], "FP32", [0] * 544), "1..16, 32], got FP32 [17, 32]"), (ask("counter", [4], "FP32", [0] * 4), "correlation")]
    for (status, text), part in cases:
        assert status == 400 and part in text, (status, text, part)
    for shape in ([2, 32], [16, 32], [1 << 40, 32]):  # the last as bytes alone: as JSON it ends this server before the backend sees it
        header = json.dumps({"inputs": [{"name": "x", "shape": shape, "datatype": "FP32", "parameters": {"binary_data_size": 4}}]}).encode()
        status, text = s.post("/v2/models/net/infer", header + b"1234", [("Inference-Header-Content-Length", str(len(header)))])
        assert status == 400, (status, text)
    seq = numpy.ones((3, 33), "int64")
    try:
        s.infer("text", {"ids": seq, "mask": seq})
        raise AssertionError("33 ids were taken")
    except InferenceServerException as error:
        assert "ids" in str(error) and "1..32" in str(error) and "33" in str(error), error
    answers(s, e)


def sequences(s):
    """Two sequences beside each other, over gRPC and HTTP, with numbers and with names."""
    one = numpy.ones(4, "float32")
    name = s.get("/v2/models/counter/config")["output"][0]["name"]
    totals = {7: 0, "b": 0}
    for step, (which, scale) in enumerate([(7, 1), ("b", 10), (7, 2), ("b", 20), ("b", 30), (7, 3)]):
        totals[which] += scale
        client, module = ((s.web, http), (s.grpc, grpc))[step % 2]
        r = s.infer("counter", {"x": one * scale}, client=client, module=module, sequence_id=which, sequence_start=step < 2, sequence_end=step > 3)
        assert (r.as_numpy(name) == totals[which]).all(), (step, r.as_numpy(name), totals)
    assert (s.infer("counter", {"x": one}, sequence_id=7, sequence_start=True, sequence_end=True).as_numpy(name) == 1).all()
    for which in range(100, 120):  # more than an instance keeps: those that have ended make room, and leave nothing behind
        got = [s.infer("counter", {"x": one}, sequence_id=which, sequence_start=i == 0, sequence_end=i == 2).as_numpy(name)[0] for i in range(3)]
        assert got == [1, 2, 3], (which, got)
    try:
        s.infer("counter", {"x": one}, sequence_id=99)
        raise AssertionError("a sequence without a start was taken")
    except InferenceServerException as error:
        assert "sequence" in str(error), error


class Alone:
    """A sequence's steps by the C ABI alone, in a context of its own."""

    def __init__(self, model):
        self.context = model.context(threads=1)

    def step(self, ids):
        logits, filled = self.context.run([ids])
        return logits, filled


def decoding(o, s):
    """A decoder with a static cache: sequences of unlike lengths beside each other have the logits, to the bit, of contexts of their own; those for
    which there is no room wait, or end by their timeout; what a sequence holds is free when it ends."""
    if not o.runtime:
        return print("     there is no aotc_runtime: skipped")
    sys.path.insert(0, o.runtime)
    import aotc_runtime

    model = aotc_runtime.load(os.path.join(o.work, "models", "speaker", "1", "model.so"))
    draw = numpy.random.default_rng(4)

    def step(served, which, ids, alone, first=False, last=False, module=http, **more):
        client = s.grpc if module is grpc else None
        r = s.infer(served, {"ids": ids}, client=client, module=module, sequence_id=which, sequence_start=first, sequence_end=last, **more)
        if alone:
            logits, filled = alone.step(ids)
            assert (r.as_numpy("logits") == logits).all() and (r.as_numpy("filled") == filled).all(), (served, which)
        return int(r.as_numpy("logits").argmax())

    def sequence(served, which, prompt, steps, module):
        """A prompt, then what was said."""
        alone, ids = Alone(model), prompt
        for i in range(steps):
            ids = numpy.array([step(served, which, ids, alone, i == 0, i == steps - 1, module)])
    prompts = [draw.integers(0, 40, n) for n in (1, 8, 3, 5, 2, 7, 4, 6, 1, 8, 3, 5)]
    lengths = [1, 9, 4, 16, 2, 11, 3, 7, 20, 1, 5, 12]
    # In turns by one thread, three that live at once.
    alone, ids = [Alone(model) for _ in range(3)], prompts[:3]
    for turn in range(12):
        for i in range(3):
            last = (4, 12, 7)[i] - 1
            if turn <= last:
                ids[i] = numpy.array([step("speaker", 50 + i, ids[i], alone[i], turn == 0, turn == last, (http, grpc)[turn % 2])])
    # At once, more than there is room for: the others wait until one has ended.
    for served in ("speaker", "speakers"):
        done = all_threads(s, [lambda i=i: sequence(served, 200 + i, prompts[i], lengths[i], (http, grpc)[i % 2]) for i in range(12)])
        assert not any(done), done
    # No room: told to who will not wait, and there is some when one of the three ends. What one has too much is its own fault.
    held = [Alone(model) for _ in range(3)]
    for i in range(3):
        step("speaker", 300 + i, prompts[1], held[i], first=True)
    try:
        step("speaker", 303, prompts[0], None, first=True, timeout=100000)
        raise AssertionError("a fourth sequence was taken")
    except InferenceServerException as error:
        assert "timeout" in str(error), error
    step("speaker", 301, prompts[2], held[1], last=True)
    fresh = Alone(model)
    step("speaker", 303, prompts[3], fresh, first=True)
    for _ in range(2):
        step("speaker", 300, prompts[1], held[0])
    try:
        step("speaker", 300, prompts[0], None)
        raise AssertionError("a token behind the end of the cache was taken")
    except InferenceServerException as error:
        assert "index" in str(error), error
    step("speaker", 302, prompts[2], held[2], last=True)
    step("speaker", 303, prompts[0], fresh, last=True)
    step("speaker", 300, prompts[0], Alone(model), first=True, last=True)


def training(s, e):
    names = [t["name"] for t in s.get("/v2/models/train/config")["input"]]
    losses = []
    for _ in range(5):
        r = s.infer("train", dict(zip(names, (e["train.0"], e["train.1"]))))
        losses.append(r.as_numpy(s.get("/v2/models/train/config")["output"][0]["name"])[0])
    close(numpy.array(losses), e["train.2"], "losses")


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


def streams(s, e):
    prompt, tokens = e["teller.0"], e["teller.1"]
    assert stream(s, "teller", prompt) == (list(tokens), None)
    assert stream(s, "teller", prompt, parameters={"max_steps": 3})[0] == list(tokens[:3])
    assert stream(s, "teller", prompt[:1], parameters={"max_steps": 1})[0] != []
    assert stream(s, "teller_stops", prompt)[0] == list(tokens[:1])
    got, error = stream(s, "teller", prompt, parameters={"max_steps": 0})
    assert not got and "max_steps" in str(error), (got, error)
    # A prompt alone, by the method as a model of its own: its state is a sequence's.
    r = s.infer("tell", {"ids": prompt}, sequence_id=5, sequence_start=True, sequence_end=True)
    assert r.as_numpy("token")[0] == tokens[0]
    # One that would go on for years ends by its timeout; the instance is free again.
    got, error = stream(s, "teller_forever", prompt[:1], timeout=200000)
    assert "timeout" in str(error), (len(got), str(error))
    assert len(stream(s, "teller_forever", prompt[:1], parameters={"max_steps": 4})[0]) == 4


def abandoned(o, e):
    """A stream whose client leaves ends, and its instance is free again. In a server of its own: this version's gRPC front end may crash there by
    a race of its own (issue 8034 of triton-inference-server/server), which is told; with the backend or an artifact in the trace it
    is a fault of theirs."""
    s = Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=teller_forever")
    prompt = e["teller.0"][:1]
    try:
        assert len(stream(s, "teller_forever", prompt, cancel_after=5)[0]) == 5
        until("the cancelled request has ended", lambda: s.stats("teller_forever")["inference_stats"]["fail"]["count"] == 1, s)
        got, error = stream(s, "teller_forever", prompt, parameters={"max_steps": 4})
        assert len(got) == 4, (got, str(error))
        s.stop()
    except Exception:
        try:
            s.process.wait(2)
        except subprocess.TimeoutExpired:
            pass
        trace = s.said().partition("Signal (11) received")[2]
        if not trace or "libtriton_aotc" in trace or "model.so" in trace:
            raise
        print("     the server itself crashed when a client left", flush=True)
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def resident(s):
    with open(f"/proc/{s.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1])


def mapped(s, part):
    with open(f"/proc/{s.process.pid}/maps") as f:
        return len({line.split()[4] for line in f if part in line})


def reloads(o, s, e):
    """New artifacts under load: every request is answered, by the old one or the new one, and nothing of the old ones stays."""
    x, y = e["net.0"][:2], (e["net.1"][:2], e["other.1"][:2])
    path = os.path.join(o.work, "models", "net", "1", "model.so")
    artifacts = [path + ".first", os.path.join(o.work, "other.so")]
    shutil.copy(path, artifacts[0])
    over, wrong, served = threading.Event(), [], [0, 0]
    name = s.get("/v2/models/net/config")["output"][0]["name"]

    def load(module, url):
        client = module.InferenceServerClient(url)
        while not over.is_set():
            try:
                got = s.infer("net", {"x": x}, client=client, module=module).as_numpy(name)
                which = [numpy.allclose(got, v, rtol=1e-4, atol=1e-5) for v in y]
                served[which.index(True)] += 1
            except Exception as error:  # noqa: BLE001
                wrong.append(error)
        client.close()
    threads = [threading.Thread(target=load, args=a) for a in ((http, s.url), (grpc, s.grpc_url)) * 2]
    for t in threads:
        t.start()
    sizes = []
    try:
        for i in range(o.reloads):
            shutil.copy(artifacts[(i + 1) % 2], path + ".new")
            os.replace(path + ".new", path)
            before = served[(i + 1) % 2]
            s.web.load_model("net")
            until("the new artifact answers", lambda: served[(i + 1) % 2] > before or wrong, s)
            sizes.append(resident(s))
    finally:
        over.set()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]
    until("the old artifacts are unmapped", lambda: mapped(s, "/net/1/") <= 2, s)  # net's, and the file that models beside it still have
    print(f"{o.reloads} reloads under load, {sum(served)} requests, none failed; resident {sizes[0]} to {sizes[-1]} KB")
    if o.reloads >= 40:
        late = sizes[len(sizes) // 4:]
        assert max(late) < 1.1 * min(late), sizes
    # Unload, load again; a folder of versions.
    s.web.unload_model("net")
    until("unloaded", lambda: not s.web.is_model_ready("net"), s)
    assert s.post("/v2/models/net/infer", {"inputs": []})[0] >= 400
    s.web.load_model("net")
    assert s.web.is_model_ready("net")
    answer = [s.infer("versions", {"x": x}, model_version=v).as_numpy(s.get("/v2/models/versions/config")["output"][0]["name"]) for v in ("1", "2")]
    close(answer[1], y[1], "version 2")
    assert not numpy.allclose(answer[0], answer[1])


def interrupted(s):
    """A run ends long before it would be done when its request's timeout passes, or when its client gives it up."""
    x, begun = numpy.ones(1, numpy.float32), time.monotonic()
    counts = lambda: tuple(s.stats("long")["inference_stats"][k]["count"] for k in ("success", "fail"))
    for module, client in ((http, None), (grpc, s.grpc)):
        try:
            s.infer("long", {"x": x}, module=module, client=client, timeout=20000)
            raise AssertionError("a run of seconds was not ended by a timeout of 20 ms")
        except InferenceServerException as e:
            assert "deadline" in str(e).lower(), e
    until("both are counted as failed", lambda: counts() == (0, 2), s)  # the server counts a request after its answer has gone
    with grpc.InferenceServerClient(s.grpc_url) as client:
        i = grpc.InferInput("x", [1], "FP32")
        i.set_data_from_numpy(x)
        answers = queue.Queue()
        call = client.async_infer("long", [i], callback=lambda result, error: answers.put((result, error)))
        time.sleep(0.1)
        call.cancel()
        result, error = answers.get(timeout=PATIENCE)
        assert result is None and "ancel" in str(error), (result, error)
        until("the cancelled request is counted as failed", lambda: counts() == (0, 3), s)
    interrupted = time.monotonic() - begun
    begun = time.monotonic()
    y = s.infer("long", {"x": x})
    assert numpy.isfinite(y.as_numpy(y.get_response()["outputs"][0]["name"])).all()
    print(f"     three interrupted runs {interrupted:.2f} s, a whole one {time.monotonic() - begun:.2f} s", flush=True)


def bad_loads(o, s):
    """A config or artifact that is wrong does not load, and the reason is in the answer."""
    folder = os.path.join(o.work, "models", "bad")
    net = os.path.join(o.work, "models", "net", "1", "model.so")
    parameter = 'parameters { key: "%s" value { string_value: "%s" } }\n'
    os.makedirs(os.path.join(folder, "1"))
    so = os.path.join(folder, "1", "model.so")

    def attempt(config, *parts, artifact=net):
        if os.path.exists(so):
            os.remove(so)
        if artifact:
            shutil.copy(artifact, so)
        with open(os.path.join(folder, "config.pbtxt"), "w") as f:
            f.write('backend: "aotc"\n' + config)
        status, text = s.post("/v2/repository/models/bad/load", b"")
        assert status == 400 and all(p in text for p in parts), (config, text)
    attempt("", "model.so", artifact=None)
    attempt("max_batch_size: 17\n", "17", "16")
    attempt(parameter % ("threads", "many"), "threads", "many", "1 to 1024")
    attempt(parameter % ("method", "decode"), "decode", "forward")
    attempt(parameter % ("feedback", "x=nothing"), "feedback", "nothing")
    attempt(parameter % ("device", "0"), "model.so")
    attempt('max_batch_size: 4\ninput { name: "x" data_type: TYPE_FP32 dims: [ 33 ] }\n', "33", "32")
    attempt('max_batch_size: 4\ninput { name: "x" data_type: TYPE_INT32 dims: [ 32 ] }\n', "TYPE_INT32", "TYPE_FP32")
    attempt('max_batch_size: 4\ninput { name: "z" data_type: TYPE_FP32 dims: [ 32 ] }\n', "'z'", "x")
    attempt("max_batch_size: 2\n", "states", artifact=os.path.join(o.work, "models", "counter", "1", "model.so"))
    attempt("sequence_batching { oldest { max_candidate_sequences: 17 } }\n", "max_candidate_sequences 17", "keeps 16", artifact=os.path.join(o.work, "models", "counter", "1", "model.so"))
    attempt(parameter % ("spread", "sometimes"), "spread", "on, off or always")
    attempt("max_batch_size: 2\n", "no first dim of a variable size", artifact=os.path.join(o.work, "models", "found", "1", "model.so"))
    cut = os.path.join(o.work, "cut.so")
    with open(net, "rb") as f, open(cut, "wb") as to:
        to.write(f.read()[:-4000])
    attempt("", "cut off", artifact=cut)
    with open(cut, "wb") as to:
        to.write(b"no artifact")
    attempt("", "model.so", artifact=cut)
    shutil.rmtree(folder)


def drains(s, e):
    """A request that waits for others to make a batch when the server is told to end is still answered."""
    result = []

    def ask():
        result.append(s.infer("net_late", {"x": e["net.0"][:1]}))
        s.web.close()
    t = threading.Thread(target=ask)
    t.start()
    pending = lambda: re.search(r'nv_inference_pending_request_count\{model="net_late"[^}]*\} ([1-9])', urllib.request.urlopen(s.metrics_url, timeout=60).read().decode())
    until("the request has come", lambda: pending() or result, s)
    s.web.close()
    s.stop()
    t.join()
    close(result[0].as_numpy(result[0].get_response()["outputs"][0]["name"]), e["net.1"][:1], "while draining")


def on_gpu(o, e):
    """An artifact for GPUs alone on an emulated one, which the server takes for none: the instance chooses it."""
    models = os.path.join(o.work, "gpu_models")
    if not o.driver or not os.path.exists(os.path.join(o.work, "gpu_kernels.so")):
        return print("no emulated GPU: skipped")
    s = Server(o, models, env=dict(os.environ, LD_LIBRARY_PATH=o.driver, AOTC_EMULATED_KERNELS=os.path.join(o.work, "gpu_kernels.so")))
    try:
        assert s.get("/v2/health/ready") is not None, s.said()[-6000:]
        for rows in (1, 5, 16):
            r = s.infer("net", {"x": e["net.0"][:rows]})
            close(r.as_numpy(r.get_response()["outputs"][0]["name"]), e["net.1"][:rows], f"{rows} rows on a GPU")
        s.web.close()
        s.stop()
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()


def main(o):
    exports(o.library)
    with numpy.load(os.path.join(o.work, "expected.npz")) as stored:
        e = dict(stored)
    s = Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=*")
    try:
        begun = time.monotonic()
        for name, part in {"configs": lambda: configs(s), "answers": lambda: answers(s, e), "batches": lambda: batches(s, e), "spread": lambda: spread(s, e), "refused": lambda: refused(s, e),
                           "sequences": lambda: sequences(s), "decoding": lambda: decoding(o, s), "training": lambda: training(s, e), "streams": lambda: streams(s, e), "interrupted": lambda: interrupted(s), "bad loads": lambda: bad_loads(o, s),
                           "reloads": lambda: reloads(o, s, e), "drains": lambda: drains(s, e)}.items():
            if o.parts and name not in o.parts:
                continue
            part()
            print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)
    finally:
        if s.process.poll() is None:
            s.process.kill()
            s.process.wait()
    if o.parts:
        return
    abandoned(o, e)
    print("ok abandoned", flush=True)
    on_gpu(o, e)
    print("ok on a GPU", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--reloads", type=int, default=8)
    parser.add_argument("--driver", default="")
    parser.add_argument("--runtime", default="", help="folder of the package aotc_runtime")
    parser.add_argument("parts", nargs="*", help="which parts; default: all")
    main(parser.parse_args())
