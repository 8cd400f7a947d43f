"""The manifests of samples/kubernetes against schemas: Kubernetes' own objects by kubernetes-validate (strict), KServe's by the models of its Python
package, and the containers in them as those of a pod. The images: their files are run in a root of their own, where that is allowed.

    kubernetes.py                                       the manifests: needs, in AOTC_RAY_VENV (as ray_serve.py), kubernetes-validate and kserve; without them 77, skipped
    kubernetes.py --server BIN --aotc BIN --work DIR    the images, and what their server answers
"""
import argparse
import ast
import concurrent.futures
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import traced

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, "..", "..", "samples", "kubernetes")
VERSIONS = ("1.32.0", "1.35.0")  # since 1.30 a preStop may sleep
KSERVE = {"ServingRuntime": ("v1alpha1", "V1alpha1ServingRuntime"), "InferenceService": ("v1beta1", "V1beta1InferenceService")}


def models():
    """{class: {field in YAML: type}} of KServe, read from its sources: its modules import what is not installed."""
    folder = os.path.join(importlib.util.find_spec("kserve").submodule_search_locations[0], "models")
    found = {}
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(os.path.join(folder, name)) as f:
                tree = ast.parse(f.read())
            for c in [n for n in tree.body if isinstance(n, ast.ClassDef)]:
                tables = {n.targets[0].id: ast.literal_eval(n.value) for n in c.body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Dict)}
                if "openapi_types" in tables:
                    found[c.name] = {tables["attribute_map"][k]: t for k, t in tables["openapi_types"].items()}
    return found


def check(value, kind, known, where, containers):
    """That the value is one of this type; containers of Kubernetes' own type are gathered."""
    plain = {"str": str, "int": int, "bool": bool, "float": float, "object": object}
    if kind.startswith("list["):
        assert isinstance(value, list), f"{where}: expected a list"
        for i, v in enumerate(value):
            check(v, kind[5:-1], known, f"{where}[{i}]", containers)
    elif kind.startswith("dict("):
        assert isinstance(value, dict) and all(isinstance(v, str) for v in value.values()), f"{where}: expected texts by name"
    elif kind in plain:
        assert isinstance(value, plain[kind]), f"{where}: expected {kind}, and it is {value!r}"
    elif kind in known:
        assert isinstance(value, dict), f"{where}: expected an object"
        for name, v in value.items():
            assert name in known[kind], f"{where}.{name}: {kind} has {', '.join(sorted(known[kind]))}"
            check(v, known[kind][name], known, f"{where}.{name}", containers)
    elif kind == "V1Container":
        containers.append(value)


def manifests():
    import kubernetes_validate
    import yaml

    known, count = models(), 0
    for name in sorted(os.listdir(SAMPLES)):
        if not name.endswith(".yaml"):
            continue
        with open(os.path.join(SAMPLES, name)) as f:
            documents = [d for d in yaml.safe_load_all(f) if d]
        for d in documents:
            count += 1
            if d["kind"] in KSERVE:
                version, kind = KSERVE[d["kind"]]
                assert d["apiVersion"] == "serving.kserve.io/" + version, d["apiVersion"]
                containers = []
                check(d, kind, known, f"{name}: {d['kind']}", containers)
                d = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers or [{"name": "x", "image": "x"}]}}
            for version in VERSIONS:
                kubernetes_validate.validate(d, version, strict=True)
    for wrong in ("replica: 2", "replicas: many"):  # the schemas do see faults
        with open(os.path.join(SAMPLES, "triton.yaml")) as f:
            d = next(yaml.safe_load_all(f.read().replace("replicas: 2", wrong)))
        try:
            kubernetes_validate.validate(d, VERSIONS[0], strict=True)
            raise SystemExit(f"{wrong} passes")
        except kubernetes_validate.ValidationError:
            pass
    print(f"{count} objects: as Kubernetes {' and '.join(VERSIONS)} and KServe have them")


def image(o):
    """The files of both images, with the artifact beside the server and in it: small without the weights, and they serve with nothing else around them."""
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    forked = [sys.executable, "-IS", os.path.join(SAMPLES, "..", "..", "tests", "torch_process.py")]
    os.environ.setdefault("AOTC_TEST_PARENT", str(os.getppid()))
    subprocess.run([*forked, os.path.join(SAMPLES, "..", "first", "net.py")], cwd=o.work, check=True)
    build = [o.aotc, "build", os.path.join(o.work, "net.pt2"), "--cpu", "portable", "--weights-file", "--quiet"]
    subprocess.run([*build, "-o", os.path.join(o.work, "net.so")], check=True)
    ways = [("beside", o.server, [os.path.join(o.work, "net.so")], ["/model/net.so"], 20)]
    empty = subprocess.run(["g++", "-static", "-x", "c++", "-", "-o", os.devnull], input=b"int main() {}", capture_output=True)
    if empty.returncode == 0:
        subprocess.run([*build, "--emit", "static", "--prefix", "net", "-o", os.path.join(o.work, "libnet.a")], check=True)
        server = os.path.join(o.work, "net_server")
        subprocess.run(["g++", "-std=c++17", "-O0", "-static", "-Wl,--fatal-warnings", "-DMODEL=net", "-I", os.path.join(SAMPLES, "..", "..", "runtime", "include"),
                        os.path.join(SAMPLES, "server.cpp"), os.path.join(o.work, "libnet.a"), "-o", server], check=True)
        ways.append(("within", server, [], [], 6))
    else:
        print("no static C++ library is there: the server with the artifact in it is not built")
    answers = []
    for name, server, artifacts, words, most in ways:
        out = os.path.join(o.work, name)
        rootfs = lambda out, **more: subprocess.run(["sh", os.path.join(SAMPLES, "rootfs.sh"), out, server, *artifacts], capture_output=True, text=True, env=dict(os.environ, **more))
        bare, r = rootfs(out + "_bare"), rootfs(out, WEIGHTS="1")
        assert bare.returncode == 0 and r.returncode == 0, bare.stderr + r.stderr
        megabytes = float(bare.stdout.split()[0])
        assert megabytes < most, bare.stdout + bare.stderr
        again = rootfs(out)
        assert again.returncode == 3 and "is there already" in again.stderr, again
        chrooted = lambda out: [*(["unshare", "-r"] if os.getuid() else []), "chroot", os.path.join(out, "root"), "/server"]
        if subprocess.run([*chrooted(out), "x", "--port", "x"], capture_output=True).returncode != 2:
            print(f"{name}: {megabytes} MB; a root of its own is not allowed here: not run")
            continue
        r = subprocess.run([*chrooted(out + "_bare"), *words, "--port", "0"], capture_output=True, text=True)
        assert r.returncode == 1 and "net.weights" in r.stderr, r
        answers.append(served([*chrooted(out), *words]))
        print(f"{name}: {megabytes} MB and the weights, served from a root of its own")
    for a in answers[1:]:
        assert a == answers[0], answers
    for wrong in ([o.server], [os.path.join(o.work, "net_server"), os.path.join(o.work, "net.so")]):
        if os.path.exists(wrong[0]):
            r = subprocess.run(["sh", os.path.join(SAMPLES, "rootfs.sh"), os.path.join(o.work, "wrong"), *wrong], capture_output=True, text=True)
            assert r.returncode == 2 and not os.path.exists(os.path.join(o.work, "wrong")), r


class Server:
    def __init__(self, words, drain):
        words = [*words, "--host", "127.0.0.1", "--port", "0", "--batch", "8", "--drain", str(drain)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={n: os.environ[n] for n in ("PATH", *traced.VARIABLES) if n in os.environ})
        line = self.process.stdout.readline()
        assert "listening at " in line, line
        self.base = line.split("listening at ")[1].split("/v2")[0]

    def get(self, path):
        return urllib.request.urlopen(self.base + path, timeout=60).read().decode()

    def infer(self, body, **headers):
        """Status, headers and body."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(self.base + "/v2/models/net/infer", data, headers), timeout=60) as r:
                return r.status, r.headers, r.read()
        except urllib.error.HTTPError as e:
            return e.code, e.headers, e.read()

    def connection(self):
        host, port = self.base.split("//")[1].split(":")
        return socket.create_connection((host, int(port)), timeout=60)


def served(words):
    """What the server answers to two rows."""
    s = Server(words, 0)
    try:
        described = json.loads(s.get("/v2/models/net"))
        assert described["name"] == "net" and [t["shape"] for t in described["inputs"]] == [[-1, 8]], described
        one = dict(described["inputs"][0], shape=[2, 8], data=[0.25 * i for i in range(16)])
        status, _, said = s.infer({"inputs": [one], "id": "seven"})
        said = json.loads(said)
        assert status == 200 and said["id"] == "seven" and said["outputs"][0]["shape"] == [2, 3], said
        assert "aotc_requests_total 1" in s.get("/metrics")
        as_bytes(s, one, said["outputs"][0])
        refused(s, one, said["outputs"][0]["name"])
        together(s, one)
        connections(s, one)
        ends(s, one)
    finally:
        s.process.kill()
        s.process.wait()
    s = Server(words, 600)
    try:
        assert s.get("/v2/health/ready") == "{}" and s.get("/v2/models/net/ready") == "{}"
        s.process.terminate()
        for path in ("/v2/health/ready", "/v2/models/net/ready"):
            while True:
                try:
                    s.get(path)
                except urllib.error.HTTPError as e:
                    assert e.code == 503, e
                    break
        assert s.infer({"inputs": [one]})[0] == 200 and s.get("/v2/health/live") == "{}"
    finally:
        s.process.kill()
        s.process.wait()
    return said["outputs"]


def packed(one, cut=None, **more):
    """The request with its numbers behind the JSON, and the header that says where they begin."""
    numbers = struct.pack(f"<{len(one['data'])}f", *one["data"])[:cut]
    head = json.dumps({"inputs": [dict({k: v for k, v in one.items() if k != "data"}, parameters={"binary_data_size": 4 * len(one["data"])})], **more}).encode()
    return head + numbers, {"Inference-Header-Content-Length": str(len(head))}


def as_bytes(s, one, output):
    """The binary extension: numbers behind the JSON, in either direction, are those that JSON has."""
    for more, binary in (({}, False), ({"parameters": {"binary_data_output": True}}, True), ({"outputs": [{"name": output["name"], "parameters": {"binary_data": True}}]}, True),
                         ({"outputs": [{"name": output["name"]}]}, False)):
        body, headers = packed(one, **more)
        status, told, said = s.infer(body, **headers)
        assert status == 200, said
        size = int(told.get("Inference-Header-Content-Length", len(said)))
        got = json.loads(said[:size])["outputs"][0]
        assert (size < len(said)) == binary and got["name"] == output["name"] and got["shape"] == output["shape"], said
        values = struct.unpack("<6f", said[size:]) if binary else got["data"]
        assert all(abs(a - b) < 1e-6 for a, b in zip(values, output["data"], strict=True)), (values, output)
    body, headers = packed(one, parameters={"binary_data_output": True}, outputs=[])
    assert s.infer(body, **headers)[0] == 200


def refused(s, one, output):
    good, headers = packed(one)
    for body, more in ((b"{", {}), (b"{}", {}), (b"[]", {}), ({"inputs": [dict(one, data=[1])]}, {}), ({"inputs": [dict(one, shape=[16])]}, {}), ({"inputs": [dict(one, datatype="FP64")]}, {}),
                       ({"inputs": [dict(one, name="other")]}, {}), ({"inputs": [one, one]}, {}), ({"inputs": [one], "outputs": [{"name": "none"}]}, {}),
                       ({"inputs": [dict(one, shape=[-2, -8])]}, {}), ({"inputs": [dict(one, shape=[1 << 40, 1 << 40])]}, {}), ({"inputs": [dict(one, shape=[1, 16])]}, {}),
                       ({"inputs": [dict(one, data=["a"] * 16)]}, {}), (packed(one, cut=-4)[0], headers), (good + b"x", headers), (good, {}),
                       (good, {"Inference-Header-Content-Length": "-1"}), (good, {"Inference-Header-Content-Length": str(len(good) + 1)})):
        status, _, said = s.infer(body, **more)
        assert status == 400 and json.loads(said)["error"], (body, more, status, said)
    for path in ("/v2/models/other", "/nothing"):
        try:
            s.get(path)
            raise SystemExit(f"{path} is there")
        except urllib.error.HTTPError as e:
            assert e.code == 404, e


def together(s, one):
    """Many at once, which share runs: each has its own rows' answer."""
    inputs = [dict(one, shape=[1 + i % 3, 8], data=[(i + j) % 7 * 0.5 for j in range(8 * (1 + i % 3))]) for i in range(24)]
    ask = lambda i: json.loads(s.infer({"inputs": [i]})[2])["outputs"][0]
    alone = [ask(i) for i in inputs]
    with concurrent.futures.ThreadPoolExecutor(len(inputs)) as pool:
        for a, b in zip(alone, pool.map(ask, inputs), strict=True):
            assert a["shape"] == b["shape"] and all(abs(x - y) < 1e-5 for x, y in zip(a["data"], b["data"], strict=True)), (a, b)


def wire(body, *headers, line="POST /v2/models/net/infer HTTP/1.1"):
    return "\r\n".join([line, "Host: x", *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body


def read_answer(f):
    """Status, headers, body of one answer."""
    status, headers = int(f.readline().split()[1]), {}
    while (line := f.readline().strip()):
        name, value = line.decode().split(": ", 1)
        headers[name.lower()] = value
    return status, headers, f.read(int(headers.get("content-length", 0)))


def connections(s, one):
    """HTTP as clients of all kinds speak it."""
    body = json.dumps({"inputs": [one]}).encode()
    with s.connection() as c, c.makefile("rb") as f:
        c.sendall(wire(body) * 3)  # three before any answer
        assert [read_answer(f)[0] for _ in range(3)] == [200] * 3
        for byte in wire(body, "X-Long: " + "y" * 300):  # byte by byte
            c.sendall(bytes([byte]))
        assert read_answer(f)[0] == 200
        c.sendall(wire(b"", line="HEAD /v2/models/net HTTP/1.1"))
        assert int(f.readline().split()[1]) == 200 and b"Content-Length: " in b"".join(iter(f.readline, b"\r\n"))
        c.sendall(wire(body, "Expect: 100-continue")[:-len(body)])
        assert read_answer(f)[0] == 100
        c.sendall(body)
        assert read_answer(f)[0] == 200
        c.sendall(wire(b"", line="GET /v2/models/net/infer HTTP/1.1") + wire(b"", line="GET /v2/models/net?a=b HTTP/1.1"))
        assert read_answer(f)[0] == 405 and read_answer(f)[0] == 200
        c.sendall(wire(body, "connection: CLOSE"))
        assert read_answer(f)[1]["connection"] == "close" and f.read() == b""
    for text, status in ((wire(body, line="POST /v2/models/net/infer HTTP/1.0"), 200), (b"POST /v2/models/net/infer HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
                         (b"POST /v2/models/net/infer HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413), (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
                         (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20000, 431), (b"nonsense\r\n\r\n", 400), (b"GET / HTTP/1.1\r\nnone\r\n\r\n", 400)):
        with s.connection() as c, c.makefile("rb") as f:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                c.sendall(text)
            assert read_answer(f)[0] == status and f.read() == b"", (text[:80], status)
    for half in (b"", b"POST /v2/models", wire(body)[:-5]):  # a client that goes
        s.connection().close()
        with s.connection() as c:
            c.sendall(half)
    assert s.infer(body)[0] == 200


def requests(o):
    """Runs carry the traceparent of their requests."""
    log = os.path.join(o.work, "nvtx.log")
    with traced.nvtx(os.path.abspath(o.nvtx), log):
        s = Server([o.server, os.path.join(o.work, "net.so")], 0)
    try:
        one = dict(json.loads(s.get("/v2/models/net"))["inputs"][0], shape=[1, 8], data=[1.0] * 8)

        def ask(headers):
            assert s.infer({"inputs": [one]}, **headers)[0] == 200

        traced.check(ask, log)
    finally:
        s.process.kill()
        s.process.wait()
    print("traceparent of requests reaches their runs")


def ends(s, one):
    """At SIGTERM: connections that wait end, a request that has begun is answered."""
    body = json.dumps({"inputs": [one]}).encode()
    with s.connection() as idle, s.connection() as half, s.connection() as c, c.makefile("rb") as f, idle.makefile("rb") as g:
        idle.sendall(wire(body))
        assert read_answer(g)[0] == 200
        half.sendall(b"POST /v2")
        c.sendall(wire(body, "Expect: 100-continue")[:-len(body)])
        assert read_answer(f)[0] == 100
        s.process.terminate()
        assert g.read() == b""
        c.sendall(body)
        status, headers, _ = read_answer(f)
        assert status == 200 and headers["connection"] == "close", (status, headers)
        assert s.process.wait(60) == 0


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", help="samples/kubernetes/server.cpp, built")
    p.add_argument("--aotc")
    p.add_argument("--work")
    p.add_argument("--nvtx", help="tests/abi/nvtx_tool.cpp, built")
    p.add_argument("--here", action="store_true", help="with this Python, which has the schemas")
    o = p.parse_args()
    if o.here:
        if not importlib.util.find_spec("kubernetes_validate") or not importlib.util.find_spec("kserve"):
            print("kubernetes-validate or kserve is not installed: skipped")
            sys.exit(77)
        manifests()
        sys.exit(0)
    if o.server:
        o.aotc, o.server, o.work = map(os.path.abspath, (o.aotc, o.server, o.work))
        image(o)
        requests(o)
        sys.exit(0)
    sys.path.insert(0, HERE)
    from ray_cluster import python_with_ray

    python = python_with_ray()
    os.execv(python, [python, os.path.abspath(__file__), "--here"])
