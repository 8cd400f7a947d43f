"""Requests a second of an artifact behind Triton, behind the plain C++ service, and of the same program by ONNX Runtime behind a service of the same shape.

    serving.py --models DIR --plain BIN [--steps BIN] --load BIN --triton BIN --backend libtriton_aotc.so [--ort BIN --ort-library libonnxruntime.so.1.32.0] [--out FILE]
               [--grpc] [--floor libtriton_floor.so] [--clients 1,8,64] [--seconds 3] [--rounds 3] [--contexts N] [--batch 8] [--device N] [name ...]

DIR is models.py's. All servers speak the v2 protocol with tensors as bytes over HTTP/1.1, Triton with --grpc by gRPC, too. --floor: Triton with a backend that sends the one
input back (floor_backend.cpp) beside them, for nets whose output is as large as the input, as mlp's. Each server has N contexts (instances, threads that call Run) of one thread and joins up
to `--batch` requests that wait; a training step has one context, since its parameters are the states of one. They run at the same time on the same processors and are asked
in turns within each round, by clients on processors of their own that send again as soon as they are answered. Before that each answers one request, and the answers have to be
the same. Processor time is the server's for a request, which hangs less on what else the machine does. Needs numpy and nothing else of Python. With --device a GPU's artifacts (NAME.cuda.so) are served from it; the tensors are the host's.
"""
import argparse
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

import numpy

STAGES = ("queue", "compute_input", "compute_infer", "compute_output")  # of a request, in Triton's statistics
KINDS = {"plain": "plain", "triton": "Triton", "grpc": "Triton by gRPC", "floor": "Triton without a net", "ort": "ONNX Runtime"}
RATIOS = (("triton", "plain"), ("grpc", "plain"), ("floor", "plain"), ("ort", "plain"), ("triton", "ort"))
TYPES = {"FP32": numpy.float32, "INT64": numpy.int64}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the servers are here, whatever the environment says of proxies


NUMBER = 1000000000  # of a sequence; load.cpp puts others in its place


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, value):
    """A field of a protobuf message: an integer, text, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(message, at):
    """The number and where it ends."""
    n = shift = 0
    while message[at] > 127:
        n |= (message[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return n | message[at] << shift, at + 1


def fields(message):
    """Numbers and values of a message whose fields are integers, texts and messages."""
    at = 0
    while at < len(message):
        key, at = read_varint(message, at)
        value, at = read_varint(message, at)
        if key & 7 == 2:
            value, at = message[at:at + value], at + value
        yield key >> 3, value


def read_varints(message):
    at, all_of = 0, []
    while at < len(message):
        n, at = read_varint(message, at)
        all_of.append(n)
    return all_of


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(port, path, body=None, headers=()):
    """Status, headers, bytes; None while nobody answers."""
    try:
        with OPENER.open(urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, dict(headers)), timeout=300) as r:
            return r.status, r.headers, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.headers, e.read()
    except OSError:
        return None


class Server:
    """One of them, with its request in a file."""

    def __init__(self, o, kind, name, words, port):
        self.kind, self.path, self.port = kind, f"/v2/models/{name}/infer", port
        self.log = os.path.join(o.work, f"{name}.{kind}.log")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=log, preexec_fn=lambda: os.sched_setaffinity(0, o.server_cpus))
        end = time.monotonic() + 300
        while not (answer := get(port, f"/v2/models/{name}/ready")) or answer[0] != 200:
            if self.process.poll() is not None or time.monotonic() > end:
                self.stop()
                with open(self.log) as log:
                    raise RuntimeError(f"{kind} does not serve {name} ({self.process.returncode}): " + log.read()[-6000:])
            time.sleep(0.05)
        self.described = json.loads(get(port, f"/v2/models/{name}")[2])
        self.body, self.head, self.target = os.path.join(o.work, f"{name}.{kind}.body"), 0, [str(port), self.path]

    def ask(self, inputs, sequence=""):
        """The outputs, by place. A step of a sequence is the `first`, the `last` or a `next` one."""
        wired, data = [], b""
        parameters = {"binary_data_output": True}
        if sequence:
            flags = [sequence == "first", sequence == "last"]
            if self.kind != "plain":
                parameters |= {"sequence_id": NUMBER, "sequence_start": flags[0], "sequence_end": flags[1]}
            else:
                wired.append({"name": "sequence", "shape": [3], "datatype": "INT64", "data": [NUMBER, *map(int, flags)]})
        for t in self.described["inputs"]:
            if t["name"] not in inputs:
                continue
            x = inputs[t["name"]]
            wired.append({"name": t["name"], "shape": x.shape, "datatype": t["datatype"], "parameters": {"binary_data_size": x.nbytes}})
            data += x.tobytes()
        head = json.dumps({"inputs": wired, "parameters": parameters}).encode()
        if sequence:
            assert len(head) <= 512
            head = head.ljust(512)  # all three of one length
        self.head = len(head)
        with open(self.body + ({"first": ".first", "last": ".last"}.get(sequence, "")), "wb") as f:
            f.write(head + data)
        status, headers, said = get(self.port, self.path, head + data, {"Inference-Header-Content-Length": str(len(head))})
        assert status == 200, (self.kind, status, said[:2000])
        size, outputs = int(headers["Inference-Header-Content-Length"]), []
        at = size
        for t in json.loads(said[:size])["outputs"]:
            n = t["parameters"]["binary_data_size"]
            outputs.append(numpy.frombuffer(said[at:at + n], TYPES[t["datatype"]]).reshape(t["shape"]))
            at += n
        return outputs

    def used(self):
        """Seconds of processor time so far."""
        with open(f"/proc/{self.process.pid}/stat") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    def counts(self):
        """Requests and runs so far, and of Triton the nanoseconds of all requests in each of its stages."""
        if self.kind in ("triton", "grpc", "floor"):
            stats = json.loads(get(self.port, self.path.replace("/infer", "/stats"))[2])["model_stats"][0]
            return stats["inference_count"], stats["execution_count"], {k: stats["inference_stats"][k]["ns"] for k in STAGES}
        told = dict(line.split() for line in get(self.port, "/metrics")[2].decode().splitlines())
        return int(told["aotc_requests_total"]), int(told["aotc_runs_total"]), {}

    def load(self, o, clients):
        before, counted = self.used(), self.counts()
        r = subprocess.run([o.load, *self.target, self.body, str(self.head), str(clients), str(o.seconds), *([str(o.steps_of)] if o.steps_of else [])], capture_output=True, text=True,
                           preexec_fn=lambda: os.sched_setaffinity(0, o.client_cpus))
        if r.returncode or not r.stdout:
            with open(self.log) as log:
                raise RuntimeError(f"{self.kind} at {clients} clients: {r.stdout}{r.stderr}" + log.read()[-2000:])
        told = json.loads(r.stdout)
        counts = self.counts()
        requests, runs = (b - a for a, b in zip(counted[:2], counts[:2], strict=True))
        stages = {f"{k}_us": (counts[2][k] - ns) / 1e3 / max(1, requests) for k, ns in counted[2].items()}
        return told | {"cpu_ms": 1e3 * (self.used() - before) / max(1, told["all"]), "rows_a_run": requests / max(1, runs)} | stages

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


class OverGrpc(Server):
    """Triton that runs already, by its other door."""

    def __init__(self, o, name, triton):
        self.kind, self.path, self.port, self.log, self.process, self.described = "grpc", triton.path, triton.port, triton.log, triton.process, triton.described
        self.o, self.name = o, name
        self.body, self.head, self.target = os.path.join(o.work, f"{name}.grpc.body"), "grpc", [str(o.grpc_port), "/inference.GRPCInferenceService/ModelInfer"]

    def ask(self, inputs, sequence=""):
        parameters = {"sequence_id": field(3, str(NUMBER)), "sequence_start": field(1, sequence == "first"), "sequence_end": field(1, sequence == "last")} if sequence else {}
        tensors = [(t, inputs[t["name"]]) for t in self.described["inputs"]]
        message = field(1, self.name) + b"".join(field(4, field(1, k) + field(2, v)) for k, v in parameters.items())
        message += b"".join(field(5, field(1, t["name"]) + field(2, t["datatype"]) + field(3, b"".join(map(varint, x.shape)))) for t, x in tensors) + b"".join(field(7, x.tobytes()) for _, x in tensors)
        with open(self.body + {"first": ".first", "last": ".last"}.get(sequence, ""), "wb") as f:
            f.write(message)
        return [] if sequence else self.answer()

    def answer(self):
        """The outputs of one request, by place."""
        subprocess.run([self.o.load, *self.target, self.body, self.head, "1", "0.01"], check=True, stdout=subprocess.DEVNULL)
        with open(self.body + ".answer", "rb") as f:
            said = list(fields(f.read()[5:]))
        told = [dict(fields(value)) for number, value in said if number == 5]
        return [numpy.frombuffer(value, TYPES[t[2].decode()]).reshape(read_varints(t[3])) for t, value in zip(told, (value for number, value in said if number == 6), strict=True)]


def model_folder(o, kind, name):
    folder = os.path.join(o.work, kind + ".repositories", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, name, "1"))
    return folder


def repository(o, name, artifact, contexts, batch, steps):
    """A folder for tritonserver with one model in it."""
    folder = model_folder(o, "triton", name)
    os.symlink(os.path.abspath(artifact), os.path.join(folder, name, "1", "model.so"))
    parameter = 'parameters { key: "%s" value { string_value: "%s" } }\n'
    kind = "KIND_CPU" if o.device < 0 else f"KIND_GPU gpus: [ {o.device} ]"
    with open(os.path.join(folder, name, "config.pbtxt"), "w") as f:
        f.write(f'backend: "aotc"\ninstance_group {{ kind: {kind} count: {contexts} }}\n' + (parameter % ("threads", "1") if o.device < 0 else ""))
        f.writelines(parameter % tuple(p.split("=", 1)) for p in o.parameter)
        batching = f"dynamic_batching {{ {o.batching} }}\n" if o.batching else ""  # else the backend's
        f.write(f"max_batch_size: {batch}\n{batching}" if batch > 1 else parameter % (("sequences", max(o.clients)) if steps else ("states", "instance")))
    return folder


def floor(o, name, contexts, batch):
    """The same of the backend that does nothing."""
    folder = model_folder(o, "floor", name)
    with open(os.path.join(o.models, name + ".json")) as f:
        (only,) = json.load(f)["inputs"].values()
    with open(os.path.join(folder, name, "config.pbtxt"), "w") as f:
        tensor = f"data_type: TYPE_{only['dtype']} dims: {only['shape'][1:]}"
        f.write(f'backend: "floor"\nmax_batch_size: {batch}\ninstance_group {{ kind: KIND_CPU count: {contexts} }}\ndynamic_batching {{ {o.batching or "max_queue_delay_microseconds: 1"} }}\n'
                f'input {{ name: "input" {tensor} }}\noutput {{ name: "output" {tensor} }}\n')
    return folder


def servers(o, name, batched, steps):
    """What starts each of them."""
    contexts, batch = (o.contexts, o.batch if batched else 1) if batched or steps else (1, 1)
    artifact = os.path.join(o.models, name + (".so" if o.device < 0 else ".cuda.so"))
    plain = os.path.join(o.work, name + ".so")  # the service calls a model as its file
    if not os.path.exists(plain):
        os.symlink(os.path.abspath(artifact), plain)
    options = ["--host", "127.0.0.1", "--contexts", str(contexts), "--batch", str(batch), "--drain", "0", "--threads", "1"]
    port = free_port()
    yield lambda: Server(o, "plain", name, [o.steps if steps else o.plain, plain, *options, "--port", str(port), *(["--device", str(o.device)] if o.device >= 0 else [])], port)
    backends = os.path.join(o.work, "backends")
    for backend, library in (("aotc", o.backend), ("floor", o.floor)):
        if library:
            os.makedirs(os.path.join(backends, backend), exist_ok=True)
            shutil.copy(library, os.path.join(backends, backend, f"libtriton_{backend}.so"))

    def triton(kind, folder, *doors):
        port = free_port()
        return Server(o, kind, name, [o.triton, "--model-repository=" + folder, "--backend-directory=" + backends, "--http-address=127.0.0.1", f"--http-port={port}", *doors, "--allow-metrics=false",
                                      "--exit-timeout-secs=5", *o.triton_option], port)

    o.grpc_port = free_port()
    doors = ["--grpc-address=127.0.0.1", f"--grpc-port={o.grpc_port}"] if o.grpc else ["--allow-grpc=false"]
    yield lambda: triton("triton", repository(o, name, artifact, contexts, batch, steps), *doors)
    if o.floor:
        yield lambda: triton("floor", floor(o, name, contexts, batch), "--allow-grpc=false")
    onnx = os.path.join(o.models, name + ".onnx")
    if o.ort and o.device < 0 and os.path.exists(onnx):
        port = free_port()
        yield lambda: Server(o, "ort", name, [o.ort, o.ort_library, onnx, *options, "--port", str(port)], port)


def inputs_of(o, name):
    with open(os.path.join(o.models, name + ".json")) as f:
        told = json.load(f)
    g = numpy.random.default_rng(3)
    draw = lambda i: g.standard_normal(i["shape"], numpy.float32) if i["dtype"] == "FP32" else g.integers(i.get("least", 0), max(i["below"], i.get("least", 0) + 1), i["shape"], numpy.int64)
    return {k: draw(i) for k, i in told["inputs"].items()}, told["batch"], told.get("steps", 0)


def measure(o, name, rows):
    """Adds to the rows; a server that does not start is told at the end, the others are asked."""
    inputs, batched, o.steps_of = inputs_of(o, name)
    running, absent = [], []
    try:
        for start in servers(o, name, batched, o.steps_of):
            try:
                running.append(start())
            except RuntimeError as e:
                absent.append(str(e))
        if not running:
            raise RuntimeError("; ".join(absent))
        running += [OverGrpc(o, name, s) for s in running if o.grpc and s.kind == "triton"]
        asks = ("first", "next", "next", "last") if o.steps_of else ("",)
        answers = {s.kind: [y for a in asks for y in s.ask(inputs, a)] for s in running}
        first = next(iter(answers.values()))
        apart = {kind: max(float(numpy.abs(a.astype(numpy.float64) - b).max() / max(1e-9, numpy.abs(b).max())) for a, b in zip(x, first, strict=True)) for kind, x in answers.items() if x and kind != "floor"}
        if max(apart.values()) > o.apart:
            raise RuntimeError(f"{name}: answers are apart by {apart}")
        for clients in o.clients:
            seen = {s.kind: [] for s in running}
            for r in range(o.rounds):
                for s in running[r % len(running):] + running[:r % len(running)]:
                    seen[s.kind].append(s.load(o, clients))
            row = {"model": name, "clients": clients, "contexts": o.contexts if batched or o.steps_of else 1, "batch": o.batch if batched else 1, "device": o.device} | ({"told": [*o.parameter, o.batching]} if o.parameter or o.batching else {})
            for kind, runs in seen.items():
                row[kind] = {k: statistics.median(run[k] for run in runs) for k in ("rate", "p50", "p90", "p99", "cpu_ms", "rows_a_run", *(f"{s}_us" for s in STAGES)) if k in runs[0]} | {"rates": [run["rate"] for run in runs]}
            for a, b in RATIOS:
                if a in seen and b in seen and all(run["rate"] for run in seen[b]):
                    row[f"{a}_over_{b}"] = statistics.median(x["rate"] / y["rate"] for x, y in zip(seen[a], seen[b], strict=True))
            rows.append(row)
            print(json.dumps(row), flush=True) if o.json else show(o, row)
    finally:
        for s in running:
            s.stop()
    if absent:
        raise RuntimeError("; ".join(absent))


def show(o, row):
    cells = [f"{row[k]['rate']:.1f} | {row[k]['p50'] / 1e3:.2f}, {row[k]['p99'] / 1e3:.2f}, {row[k]['cpu_ms']:.2f}" if k in row else "- | -" for k in o.kinds]
    ratios = [f"{row[k]:.2f}" if (k := f"{a}_over_{b}") in row else "-" for a, b in o.ratios]
    print("| " + " | ".join([row["model"], str(row["clients"]), *cells, *ratios]) + " |", flush=True)


def main(o):
    cpus = sorted(os.sched_getaffinity(0))
    clients = max(1, len(cpus) // 4)
    o.server_cpus, o.client_cpus = set(cpus[:-clients] or cpus), set(cpus[-clients:])
    o.contexts = o.contexts or len(o.server_cpus)
    o.clients = [int(c) for c in o.clients.split(",")]
    known = [n for n in ("minilm", "resnet50", "decoder", "steps", "train") if (n != "steps" or o.steps) and os.path.exists(os.path.join(o.models, n + (".so" if o.device < 0 else ".cuda.so")))]
    o.kinds = [k for k in KINDS if k in ("plain", "triton") or getattr(o, k)]
    o.ratios = [(a, b) for a, b in RATIOS if a in o.kinds and b in o.kinds]
    if not o.json:
        print(f"{len(o.server_cpus)} processors serve, {len(o.client_cpus)} ask; {o.contexts} contexts of one thread, {o.batch} rows a batch, {o.rounds} rounds of {o.seconds} s in turns\n")
        titles = ["model", "clients", *(t for k in o.kinds for t in (KINDS[k] + " /s", "p50, p99, processor ms")), *(f"{KINDS[a]} / {KINDS[b]}" for a, b in o.ratios)]
        print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|", flush=True)
    rows, failed = [], []
    with tempfile.TemporaryDirectory(prefix="serving") as o.work:
        for name in o.names or known:
            try:
                measure(o, name, rows)
            except (RuntimeError, AssertionError, OSError) as e:  # the others are still told
                failed.append(name)
                print(f"{name}: {e}", file=sys.stderr, flush=True)
            if o.out:
                with open(o.out, "w") as f:
                    f.writelines(json.dumps(r) + "\n" for r in rows)
    sys.exit(f"failed: {', '.join(failed)}" if failed or not rows else 0)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("models", "plain", "load", "triton", "backend"):
        p.add_argument("--" + name, required=True)
    for name in ("steps", "ort", "ort-library", "floor", "out"):
        p.add_argument("--" + name)
    p.add_argument("--grpc", action="store_true")
    p.add_argument("--clients", default="1,8,64")
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--contexts", type=int)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--device", type=int, default=-1)
    p.add_argument("--json", action="store_true", help="prints rows as JSON instead of a table, with what is left out there: rows a run, Triton's stages, the rounds")
    p.add_argument("--apart", type=float, default=1e-3, help="of the largest number of an answer, at most")
    p.add_argument("--triton-option", action="append", default=[], help="one more word for tritonserver")
    p.add_argument("--parameter", action="append", default=[], metavar="NAME=VALUE", help="one more for the backend")
    p.add_argument("--batching", default="", help="what the config has in dynamic_batching; default: what the backend fills in")
    p.add_argument("names", nargs="*", metavar="name")
    main(p.parse_args())
