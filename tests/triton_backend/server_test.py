"""The backend in a real tritonserver, driven by tritonclient over HTTP and gRPC; the answers are eager PyTorch's (make_models.py).

    server_test.py --library libtriton_aotc.so --work DIR [--reloads 8] [--driver DIR] [--runtime DIR] [--nvtx LIBRARY] [--gpu] [part ...]

The driver's folder has the emulated GPU's libcuda.so.1, that of the runtime the package aotc_runtime. With --gpu DIR is of make_models.py --cuda, and all
instances are on the machine's GPUs.

Nothing here depends on how fast the machine is: what is awaited is polled for minutes, and batches are made by queues that wait for their rows.
Without nvidia-pytriton and tritonclient (packaging/setup.sh) the exit status is 77.
"""
import argparse
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
import traceback
import urllib.request

from served import PATIENCE, Server, all_threads, close, grpc, http, mapped, numpy, resident, stream, until  # first: ends where there is no server
from tritonclient.utils import InferenceServerException

import gpu_parts
import sequence_parts
import trace_parts


def exports(o, e):
    if not shutil.which("readelf"):
        return "there is no readelf: skipped"
    table = subprocess.run(["readelf", "-W", "--dyn-syms", "-d", o.library], capture_output=True, text=True, check=True).stdout
    defined = [row.split()[7].split("@")[0] for row in table.splitlines() if re.match(r"\s*\d+:", row) and len(row.split()) > 7 and row.split()[6] not in ("UND", "ABS")]
    assert len(defined) == 9 and all(name.startswith("TRITONBACKEND_") for name in defined), defined
    loose = [row.split()[7] for row in table.splitlines() if re.match(r"\s*\d+:", row) and len(row.split()) > 7 and row.split()[6] == "UND" and row.split()[4] == "GLOBAL"
             and "@" not in row.split()[7]]
    assert loose and all(name.startswith(("TRITONBACKEND_", "TRITONSERVER_")) for name in loose), loose
    needed = re.findall(r"NEEDED.*\[(.*)\]", table)
    assert not [n for n in needed if not re.match(r"lib(c|m|dl|pthread)\.so|ld-linux", n)], needed


def configs(o, s, e):
    kind = "KIND_GPU" if o.gpu else "KIND_CPU"

    def config(model):
        c = s.get(f"/v2/models/{model}/config")
        dims = lambda kind: {t["name"]: (t["data_type"], t["dims"]) for t in c[kind]}
        return c, dims("input"), dims("output")
    c, i, o = config("net")
    assert c["max_batch_size"] == 16 and int(c["dynamic_batching"]["max_queue_delay_microseconds"]) == 1 and i == {"x": ("TYPE_FP32", [32])} and list(o.values()) == [("TYPE_FP32", [8])], c
    assert [(g["kind"], g["count"]) for g in c["instance_group"]] == [(kind, 1)], c
    devices = max(1, len(c["instance_group"][0].get("gpus", ())))
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
    # One copy of an artifact on each device, whoever serves it: seven models of net's file, five of teller's.
    loads = re.findall(r"aotc: (\S+): loaded for", s.said())
    assert sum("/net/1/" in p for p in loads) == devices and sum("/teller/1/" in p for p in loads) == devices, loads


def answers(o, s, e):
    x, y = e["net.0"], e["net.1"]
    for client, module in ((s.web, http), (s.grpc, grpc)):
        for model in ("net", "net_whole", "net_threads"):
            for rows in (1, 3, 16):
                name = s.get(f"/v2/models/{model}/config")["output"][0]["name"]
                close(s.infer(model, {"x": x[:rows]}, client=client, module=module).as_numpy(name), y[:rows], (model, rows))
        r = s.infer("mixing", {"x": e["mixing.0"]}, client=client, module=module)
        close(r.as_numpy(r.get_response()["outputs"][0]["name"] if module is http else r.get_response().outputs[0].name), e["mixing.1"], "mixing")
        close(s.infer("chain", {"x": e["chain.0"]}, client=client, module=module).as_numpy("z"), e["chain.1"], "two models behind one another")
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


def batches(o, s, e):
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


def spread(o, s, e):
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


def instances(o, s, e):
    """Four of one model answer 24 clients at once."""
    x, y = e["net.0"], e["net.1"]
    name = s.get("/v2/models/net_four/config")["output"][0]["name"]
    for rs in all_threads(s, [lambda i=i: [s.infer("net_four", {"x": x[i % 16:i % 16 + 1]}).as_numpy(name) - y[i % 16:i % 16 + 1] for _ in range(40)] for i in range(24)]):
        assert not isinstance(rs, Exception) and all(abs(r).max() < 1e-4 for r in rs), rs
    stats = s.counted("net_four", lambda x: x["inference_stats"]["success"]["count"] >= 960)
    return f"{stats['execution_count']} runs for 960 requests"


def refused(o, s, e):
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
    answers(o, s, e)


def training(o, s, e):
    names = [t["name"] for t in s.get("/v2/models/train/config")["input"]]
    losses = []
    for _ in range(5):
        r = s.infer("train", dict(zip(names, (e["train.0"], e["train.1"]))))
        losses.append(r.as_numpy(s.get("/v2/models/train/config")["output"][0]["name"])[0])
    close(numpy.array(losses), e["train.2"], "losses")


def streams(o, s, e):
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
    prompt = e["teller.0"][:1]
    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=teller_forever") as s:
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
            sizes.append((resident(s), gpu_parts.used() if o.gpu else 1))
    finally:
        over.set()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]
    until("the old artifacts are unmapped", lambda: mapped(s, "/net/1/") <= 2, s)  # net's, and the file that models beside it still have
    told = f"{o.reloads} reloads under load, {sum(served)} requests, none failed; resident {sizes[0][0]} to {sizes[-1][0]} KB" + (
        f", of the GPU {sizes[0][1] >> 20} to {sizes[-1][1] >> 20} MB" if o.gpu else "")
    if o.reloads >= 40:
        for late in zip(*sizes[len(sizes) // 4:], strict=True):
            assert max(late) < 1.1 * min(late), sizes
    # Unload, load again.
    s.web.unload_model("net")
    until("unloaded", lambda: not s.web.is_model_ready("net"), s)
    assert s.post("/v2/models/net/infer", {"inputs": []})[0] >= 400
    s.web.load_model("net")
    assert s.web.is_model_ready("net")
    return told


def versions(o, s, e):
    """Two versions beside each other; a third comes while they serve; a policy that keeps the latest takes the others away."""
    folder, x = os.path.join(o.work, "models", "versions"), e["net.0"][:2]
    name = s.get("/v2/models/versions/config")["output"][0]["name"]
    ask = lambda version: s.infer("versions", {"x": x}, model_version=version).as_numpy(name)
    first = ask("1")
    close(ask("2"), e["other.1"][:2], "version 2")
    assert not numpy.allclose(first, e["other.1"][:2])
    os.makedirs(os.path.join(folder, "3"), exist_ok=True)
    shutil.copy(os.path.join(o.work, "models", "net", "1", "model.so"), os.path.join(folder, "3"))
    over, wrong = threading.Event(), []

    def load():
        while not over.is_set():
            if not (ask("1") == first).all():
                wrong.append("version 1 is another")
        s.web.close()
    t = threading.Thread(target=load)
    t.start()
    try:
        s.web.load_model("versions")
        close(ask("3"), e["net.1"][:2], "version 3")
        close(ask(""), e["net.1"][:2], "the latest")
    finally:
        over.set()
        t.join()
    assert not wrong, wrong
    config = os.path.join(folder, "config.pbtxt")
    with open(config) as f:
        kept = f.read()
    try:
        with open(config, "w") as f:
            f.write(kept.replace("all {}", "latest { num_versions: 1 }"))
        s.web.load_model("versions")
        until("the others are gone", lambda: s.get("/v2/models/versions")["versions"] == ["3"], s)
        close(ask("3"), e["net.1"][:2], "version 3")
    finally:
        with open(config, "w") as f:
            f.write(kept)
        shutil.rmtree(os.path.join(folder, "3"))


def limited(o, e):
    """Instances share a resource of the server's rate limiter; what needs more than there is does not load."""
    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=net_limited", "--rate-limit=execution_count", "--rate-limit-resource=turns:1") as s:
        name = s.get("/v2/models/net_limited/config")["output"][0]["name"]
        for i, r in enumerate(all_threads(s, [lambda i=i: s.infer("net_limited", {"x": e["net.0"][i:i + 1]}) for i in range(16)])):
            close(r.as_numpy(name), e["net.1"][i:i + 1], "in turns")
        status, text = s.post("/v2/repository/models/net_greedy/load", b"")
        assert status == 400 and "turns" in text, (status, text)
        s.web.close()
        s.stop()


def levels(o, e):
    """The backend's messages are of the server's log levels, which are changed while it runs."""
    said = []
    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--log-info=false") as s:
        for level in ("false", "true"):
            status, text = s.post("/v2/logging", f'{{"log_info": {level}}}'.encode())
            assert status == 200, text
            s.web.load_model("mixing")
            said.append("aotc: requests are not batched" in s.said())
            s.web.unload_model("mixing")
            until("it is unloaded", lambda: s.get("/v2/models/mixing/ready") is None, s)
        s.web.close()
        s.stop()
    assert said == [False, True], said


def interrupted(o, s, e):
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
    return f"three interrupted runs {interrupted:.2f} s, a whole one {time.monotonic() - begun:.2f} s"


def bad_loads(o, s, e):
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
    attempt(parameter % ("device", "cpu" if o.gpu else "0"), "model.so")
    attempt('max_batch_size: 4\ninput { name: "x" data_type: TYPE_FP32 dims: [ 33 ] }\n', "33", "32")
    attempt('max_batch_size: 4\ninput { name: "x" data_type: TYPE_INT32 dims: [ 32 ] }\n', "TYPE_INT32", "TYPE_FP32")
    attempt('max_batch_size: 4\ninput { name: "z" data_type: TYPE_FP32 dims: [ 32 ] }\n', "'z'", "x")
    attempt("max_batch_size: 2\n", "states", artifact=os.path.join(o.work, "models", "counter", "1", "model.so"))
    attempt("sequence_batching { oldest { max_candidate_sequences: 17 } }\n", "max_candidate_sequences 17", "keeps 16", artifact=os.path.join(o.work, "models", "counter", "1", "model.so"))
    talker = os.path.join(o.work, "models", "talker", "1", "model.so")
    attempt(parameter % ("states", "slots"), "no slots", "input_ids", artifact=os.path.join(o.work, "models", "counter", "1", "model.so"))
    attempt(parameter % ("slots", "tokens=words"), "words", artifact=talker)
    attempt(parameter % ("slots", "token=input_ids"), "'token'", "tokens, slot, position", artifact=talker)
    attempt(parameter % ("slots", "tokens=slots"), "2 dims", artifact=talker)
    attempt("max_batch_size: 7\n", "7", "6", artifact=talker)
    attempt("sequence_batching { oldest { max_candidate_sequences: 7 } }\n", "max_candidate_sequences 7", "keeps 6", artifact=talker)
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


def drains(o, s, e):
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


PARTS = {"configs": configs, "answers": answers, "batches": batches, "spread": spread, "instances": instances, "refused": refused, **sequence_parts.PARTS, "training": training,
         "streams": streams, "interrupted": interrupted, "bad loads": bad_loads, "reloads": reloads, "versions": versions, "drains": drains}
ON_GPU = {name: part for name, part in PARTS.items() if name not in ("spread", "interrupted", "drains")} | gpu_parts.PARTS | {"drains": drains}  # CPUs alone, and the last
APART = {"abandoned": abandoned, "limited": limited, "levels": levels, "emulated": lambda o, e: gpu_parts.emulated(o, e, sequence_parts.sequences, training), **trace_parts.APART}  # in servers of their own
APART_ON_GPU = {"abandoned": abandoned, "limited": limited} | gpu_parts.APART


def main(o):
    with numpy.load(os.path.join(o.work, "expected.npz")) as stored:
        e = dict(stored)
    failed, begun = [], time.monotonic()

    def play(name, part, *server):
        if o.parts and name not in o.parts:
            return
        try:
            told = part(o, *server, e)
            print(f"ok {name} ({time.monotonic() - begun:.1f} s){': ' + told if told else ''}", flush=True)
        except Exception:  # the others are played, too
            traceback.print_exc()
            print(f"FAILED {name}", flush=True)
            failed.append(name)
    play("exports", exports)
    served = sorted(os.listdir(os.path.join(o.work, "models")))
    models = [f"--load-model={name}" for name in served if name not in ("net_limited", "net_greedy")]
    waiting = list((ON_GPU if o.gpu else PARTS).items())
    while waiting:
        with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", *models) as s:
            assert s.process.poll() is None, s.said()[-6000:]
            while waiting and s.process.poll() is None:
                play(*waiting.pop(0), s)
            if waiting and s.process.poll() is not None:
                print(f"the server ended with {s.process.returncode}: {s.said()[-3000:]}", flush=True)
    for name, part in (APART_ON_GPU if o.gpu else APART).items():
        play(name, part)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--reloads", type=int, default=8)
    parser.add_argument("--driver", default="")
    parser.add_argument("--runtime", default="", help="folder of the package aotc_runtime")
    parser.add_argument("--nvtx", default="", help="tests/abi/nvtx_tool.cpp, built")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("parts", nargs="*", help="which parts; default: all")
    main(parser.parse_args())
