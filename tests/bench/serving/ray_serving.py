"""Requests a second of an artifact behind samples/ray on raylets of this machine, beside the plain C++ service, and of an echo of the same requests: Ray's own part.

    RAY-PYTHON ray_serving.py --models DIR --plain BIN --load BIN --python-package DIR [--modes default,optimized,haproxy] [--clients 1,8,64] [--seconds 3] [--rounds 3] [--out FILE] name ...

DIR is models.py's; the Python is of AOTC_RAY_VENV. A mode is how Ray is started; each has a cluster of its own, whose services and the plain one are asked in turns.
Tensors are bytes. Each raylet has a replica with one context of one thread, the plain service as many contexts; all join up to --batch requests. Each answers once
before, and the answers have to be the same. Processor time is that of the processes that a request passes, less what they take idle; Ray's others (raylets, stores,
dashboard) are put on the clients' processors.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path[:0] = [HERE, os.path.join(ROOT, "tests", "e2e")]
import numpy

import serving
from ray_cluster import HAPROXY, Cluster, below, processes, processor_seconds

OPTIMIZED = {"RAY_SERVE_THROUGHPUT_OPTIMIZED": "1"}
MODES = {"default": {}, "optimized": OPTIMIZED | {"RAY_SERVE_ENABLE_DIRECT_INGRESS": "0"}, "haproxy": HAPROXY}
PATH = ("ray::ServeReplica", "ray::ProxyActor", "haproxy -")  # what a request passes


def move(pid, cpus):
    """All threads of a process to these processors."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cpus)


class Ray(serving.Server):
    """One application of the cluster."""

    def __init__(self, o, cluster, kind, prefix, name):
        self.kind, self.path, self.port, self.cluster, self.log = kind, f"{prefix}/v2/models/{name}/infer", cluster.http, cluster, os.path.join(o.work, "node.127.0.0.2.log")
        self.body, self.head = os.path.join(o.work, f"{name}.{kind}.body"), 0

    def used(self):
        return processor_seconds(self.cluster.path)

    def counts(self):
        return 0, 0, {}


def idle(cluster, seconds):
    """Seconds of processor time a second, while nobody asks."""
    begin, before = time.monotonic(), processor_seconds(cluster.path)
    time.sleep(seconds)
    return (processor_seconds(cluster.path) - before) / (time.monotonic() - begin)


def plain(o, name):
    port = serving.free_port()
    link = os.path.join(o.work, name + ".so")  # the service calls a model as its file
    if not os.path.exists(link):
        os.symlink(os.path.abspath(os.path.join(o.models, name + ".so")), link)
    words = [o.plain, link, "--host", "127.0.0.1", "--port", str(port), "--contexts", str(o.replicas), "--batch", str(o.batch), "--drain", "0", "--threads", "1"]
    return serving.Server(o, "plain", name, words, port)


def started(o, name, size, mode):
    """The cluster, with the sample at / and the echo at /echo."""
    cluster = Cluster(o.work, [os.path.join(ROOT, "samples", "ray"), HERE, o.python_package], nodes=o.replicas, environment=MODES[mode])
    cluster.http = serving.free_port()
    try:
        deploy(o, cluster, name, size)
    except BaseException:
        cluster.stop()
        raise
    return cluster


def deploy(o, cluster, name, size):
    cluster.deploy({"proxy_location": "EveryNode", "http_options": {"host": "0.0.0.0", "port": cluster.http}, "applications": [
        {"name": "net", "route_prefix": "/", "import_path": "serving:app", "args": {"artifact": os.path.join(o.work, name + ".so"), "replicas": o.replicas, "batch": o.batch}},
        {"name": "echo", "route_prefix": "/echo", "import_path": "ray_echo:app", "args": {"replicas": o.replicas, "ongoing": 2 * o.batch, "size": size}}]})
    of = processes()
    cluster.path = [p for p in below(os.getpid()) if any(part in of[p][1] for part in PATH)]
    for p in set(below(os.getpid())) - set(cluster.path) - {o.plain_pid}:
        move(p, o.client_cpus)


def measure(o, name, mode, rows):
    inputs, _, o.steps_of = serving.inputs_of(o, name)
    servers, cluster = [plain(o, name)], None
    o.plain_pid = servers[0].process.pid
    try:
        expected = servers[0].ask(inputs)
        cluster = started(o, name, sum(y.nbytes for y in expected) + 256, mode)
        served = Ray(o, cluster, "ray", "", name)
        served.described = servers[0].described
        echo = Ray(o, cluster, "echo", "/echo", name)
        for got, y in zip(served.ask(inputs), expected, strict=True):
            assert numpy.allclose(got, y, atol=1e-3 * abs(y).max()), f"{name}: the answers of Ray's replicas differ"
        echo.body, echo.head = served.body, served.head
        servers += [served, echo]
        rest = idle(cluster, 5)
        for clients in o.clients:
            seen = {s.kind: [] for s in servers}
            for r in range(o.rounds):
                for s in servers[r % len(servers):] + servers[:r % len(servers)]:
                    told = s.load(o, clients)
                    if s is not servers[0]:
                        told["cpu_ms"] -= 1e3 * rest * (o.seconds + 0.5) / max(1, told["all"])
                    assert not told["errors"], (s.kind, told)
                    seen[s.kind].append(told)
            row = {"model": name, "mode": mode, "clients": clients, "idle": rest}
            row |= {kind: {k: statistics.median(run[k] for run in runs) for k in ("rate", "p50", "p99", "cpu_ms")} for kind, runs in seen.items()}
            for kind in ("ray", "echo"):
                row[kind + "_over_plain"] = statistics.median(x["rate"] / y["rate"] for x, y in zip(seen[kind], seen["plain"], strict=True))
            rows.append(row)
            cell = lambda k: f"{row[k]['rate']:.0f} | {row[k]['p50'] / 1e3:.1f}, {row[k]['p99'] / 1e3:.1f}, {row[k]['cpu_ms']:.2f}"
            print(f"| {name} | {mode} | {clients} | {cell('plain')} | {cell('ray')} | {cell('echo')} | {row['ray_over_plain']:.2f} | {row['echo_over_plain']:.2f} |", flush=True)
    finally:
        servers[0].stop()
        if cluster:
            cluster.stop()


def main(o):
    cpus = sorted(os.sched_getaffinity(0))
    asking = max(1, len(cpus) // 4)
    o.server_cpus, o.client_cpus = set(cpus[:-asking] or cpus), set(cpus[-asking:])
    os.sched_setaffinity(0, o.server_cpus)
    o.clients = [int(c) for c in o.clients.split(",")]
    print(f"{len(o.server_cpus)} processors serve, {len(o.client_cpus)} ask; {o.replicas} replicas, {o.batch} requests a batch, {o.rounds} rounds of {o.seconds} s in turns\n")
    print("| model | Ray | clients | plain /s | p50, p99, processor ms | Ray /s | p50, p99, processor ms | echo /s | p50, p99, processor ms | Ray / plain | echo / plain |\n" + "|---" * 11 + "|", flush=True)
    rows = []
    for mode in o.modes.split(","):
        for name in o.names:
            with tempfile.TemporaryDirectory(prefix="serving") as o.work:
                measure(o, name, mode, rows)
    if o.out:
        with open(o.out, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in rows)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("models", "plain", "load", "python-package"):
        p.add_argument("--" + name, required=True)
    p.add_argument("--out")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--clients", default="1,8,64")
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--replicas", type=int, default=3)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("names", nargs="+", metavar="name")
    main(p.parse_args())
