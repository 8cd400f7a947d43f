"""samples/ray on three raylets of this machine: models made beside torch, served by replicas without it, under load while a replica and a raylet are
killed and the model is replaced.

    ray_serve.py --aotc BIN --python-package DIR --plain BIN --work DIR [--haproxy] [--driver DIR]     makes the models, then goes on with Ray's Python
      AOTC_RAY_VENV    an environment with ray[serve] (default: ~/.cache/aotc/ray; AOTC_RAY_VENV=.. packaging/setup.sh makes it). Without it: 77, skipped

Clients retry, as a load balancer in front of Ray would; with --haproxy Ray has one itself, and they don't. No request may fail beyond that, and every answer is
eager's of one of the versions. With --driver, the folder of the emulated GPU's libcuda.so.1, replicas share GPUs that a raylet says it has.
"""
import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, ".."))
import thirds

SAMPLES = os.path.join(HERE, "..", "..", "samples")
ROWS, CACHE = 24, 48


def make(o):
    import torch
    import transformers
    from torch import nn

    sys.path.insert(0, os.path.join(SAMPLES, "llm"))
    import slots

    expected = {}

    def build(out, archive, *options):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        r = subprocess.run([o.aotc, "build", archive, "-o", out, "--cpu", "portable", "--quiet", *options], capture_output=True, text=True)
        assert r.returncode == 0, r.stdout + r.stderr

    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(10, 4)

        def forward(self, rows, scale):
            return {"sums": self.table(rows).sum(1) * scale, "counts": (rows > 3).sum(1)}

    batch = torch.export.Dim("batch", min=1, max=32)
    x = torch.randn(ROWS, 32)
    for version in ("1", "2"):
        torch.manual_seed(int(version))
        net = nn.Sequential(nn.Linear(32, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.Tanh(), nn.Linear(2048, 8)).eval()
        archive, out = o.at(f"net{version}.pt2"), o.at(version, "net.so")
        torch.export.save(torch.export.export(net, (x[:4],), dynamic_shapes=({0: batch},)), archive)
        build(out, archive)
        expected |= {"x": x, "y" + version: net(x)}
    r = subprocess.run([o.aotc, "references", o.at("1", "net.so"), "--against", o.at("net1.pt2"), "-o", o.at("1", "net.refs"), "--quiet"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    shutil.copytree(o.at("2"), o.at("strange"))
    shutil.copytree(o.at("1", "net.refs"), o.at("strange", "net.refs"))  # the canary of another model
    build(o.at("ill", "net.so"), o.at("net1.pt2"), "--weights-file")
    shutil.copytree(o.at("1", "net.refs"), o.at("ill", "net.refs"))
    shutil.copytree(o.at("2"), o.at("cut"))
    os.truncate(o.at("cut", "net.so"), os.path.getsize(o.at("cut", "net.so")) // 2)

    if o.driver:
        sys.path.insert(0, os.path.join(HERE, "..", "gpu"))
        import emulate

        os.makedirs(o.at("gpu"))
        small = nn.Sequential(nn.Linear(32, 24), nn.ReLU(), nn.Linear(24, 8)).eval()
        torch.export.save(torch.export.export(small, (x[:4],), dynamic_shapes=({0: batch},)), o.at("gpu.pt2"))
        expected["gpu"] = small(x)
        env = dict(os.environ, VIRTUAL_ENV=os.environ.get("VIRTUAL_ENV", sys.prefix))  # where aotc looks for NVRTC
        r = subprocess.run([o.aotc, "build", o.at("gpu.pt2"), "-o", o.at("gpu", "net.so"), "--cuda", "sm_90", "--keep", o.at("gpu", "kept"), "--quiet"],
                           capture_output=True, text=True, env=env)
        if r.returncode and "NVRTC" in r.stdout + r.stderr:
            print("there is no NVRTC: no replicas on GPUs")
        else:
            assert r.returncode == 0, r.stdout + r.stderr
            emulate.compile_host(o.at("gpu", "kept", "kernels.cu"), o.at("gpu", "host"), o.at("gpu", "kernels.so"), "c++")

    rows, scale = torch.arange(6).reshape(3, 2), torch.full((3, 1), 2.0)
    for n in range(3):
        lookup = Lookup()
        torch.export.save(torch.export.export(lookup, (rows, scale), dynamic_shapes=({0: batch}, {0: batch})), o.at("lookup.pt2"))
        build(o.at("zoo", f"lookup{n}.so"), o.at("lookup.pt2"))
        expected[f"lookup{n}"] = lookup(rows, scale)["sums"]

    torch.manual_seed(3)
    config = transformers.LlamaConfig(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
                                      max_position_embeddings=64, initializer_range=0.3, eos_token_id=None, bos_token_id=None, pad_token_id=0)
    llama = transformers.LlamaForCausalLM(config).eval()
    prompts = torch.randint(1, 96, (5, 11))
    told = [llama.generate(p[None], max_new_tokens=20, do_sample=False)[0, 11:] for p in prompts]
    expected |= {"prompts": prompts, "told": torch.stack(told)}
    program = slots.SlotDecoder(llama, 2, CACHE)
    torch.export.save(slots.export(program, 4), o.at("teller.pt2"))
    with open(o.at("teller.shapes.json"), "w") as f:
        json.dump(slots.shapes(program, 4), f)
    build(o.at("teller.so"), o.at("teller.pt2"), "--shapes", o.at("teller.shapes.json"))

    import numpy
    numpy.savez(o.at("expected.npz"), **{k: v.detach().numpy() for k, v in expected.items()})


class Client:
    """One connection pool. Answers of 5xx and broken connections are tried again, for a minute."""
    tries = 60

    def __init__(self, base):
        import urllib3
        again = urllib3.Retry(total=self.tries, backoff_factor=0.1, backoff_max=1, status_forcelist=[500, 502, 503, 504], allowed_methods=None)
        self.base, self.pool, self.once = base, urllib3.PoolManager(retries=again, timeout=120), urllib3.PoolManager(retries=False, timeout=120)
        self.again = 0

    def send(self, path, body=None, headers=(), once=False):
        """Status and body."""
        wire = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        r = (self.once if once else self.pool).request("GET" if body is None else "POST", self.base + path, body=wire, headers=dict(headers))
        self.again += len(r.retries.history) if r.retries else 0
        return r.status, r.data

    def infer(self, model, inputs, prefix="", headers=()):
        """Outputs by name, and the version."""
        import numpy
        types = {"float32": "FP32", "int64": "INT64"}
        body = {"inputs": [{"name": n, "shape": x.shape, "datatype": types[str(x.dtype)], "data": x.ravel().tolist()} for n, x in inputs.items()]}
        status, said = self.send(f"{prefix}/v2/models/{model}/infer", body, headers)
        assert status == 200, (status, said[:500])
        said = json.loads(said)
        back = {wire: name for name, wire in types.items()}
        return {t["name"]: numpy.array(t["data"], back[t["datatype"]]).reshape(t["shape"]) for t in said["outputs"]}, said["model_version"]


class Load:
    """Clients that ask until stop(), each row by itself or a few; what fails is kept."""

    def __init__(self, base, expected, clients=4):
        self.base, self.expected, self.ends, self.failed, self.seen = base, expected, False, [], []
        self.threads = [threading.Thread(target=self.ask, args=(n,), daemon=True) for n in range(clients)]
        for t in self.threads:
            t.start()

    def ask(self, n):
        import numpy
        random, client = numpy.random.default_rng(n), Client(self.base)
        while not self.ends:
            a = int(random.integers(0, ROWS - 3))
            b = a + int(random.integers(1, 4))
            start = time.monotonic()
            try:
                got, version = client.infer("net", {"input": self.expected["x"][a:b]})
                near = numpy.allclose(next(iter(got.values())), self.expected["y" + version][a:b], atol=1e-4)
                if not near:
                    self.failed.append(f"rows {a} to {b} of version {version} are wrong")
                self.seen.append((time.monotonic(), time.monotonic() - start, version, client.again))
            except Exception as e:
                self.failed.append(repr(e)[:500])
            client.again = 0

    def more(self, count, version=None):
        """Waits for so many further answers, of that version."""
        from ray_cluster import until
        start = len(self.seen)
        until(f"{count} further answers of version {version}", lambda: self.failed or sum(version in (None, s[2]) for s in self.seen[start:]) >= count)

    def stop(self, what):
        self.ends = True
        for t in self.threads:
            t.join()
        again, times = sum(s[3] for s in self.seen), sorted(s[1] for s in self.seen)
        print(f"{what}: {len(self.seen)} answers, {again} tries again, p50 {1e3 * times[len(times) // 2]:.0f} ms, p99 {1e3 * times[len(times) * 99 // 100]:.0f} ms", flush=True)
        assert not self.failed, self.failed[:3]


def pss(pid, file):
    """Bytes of the mappings of the file in this process: its share of them, and all; and its share of everything it holds."""
    share = whole = 0
    inside = False
    with open(f"/proc/{pid}/smaps") as f:
        for line in f:
            first = line.split()[0]
            if not first.endswith(":"):
                inside = line.rstrip().endswith(file)
            elif inside and first in ("Pss:", "Rss:"):
                share, whole = share + (first == "Pss:") * int(line.split()[1]) * 1024, whole + (first == "Rss:") * int(line.split()[1]) * 1024
    with open(f"/proc/{pid}/smaps_rollup") as f:
        rollup = next(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    return share, whole, rollup


def check_answers(client, expected):
    import numpy
    x, y = expected["x"], expected["y1"]
    status, said = client.send("/v2/models/net")
    said = json.loads(said)
    assert status == 200 and said["canary"] and said["most_rows"] == 32 and said["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 32]}], said
    got, version = client.infer("net", {"input": x})
    assert version == "1" and numpy.allclose(next(iter(got.values())), y, atol=1e-5)
    # The protocol's binary extension, as tritonclient sends it.
    head = json.dumps({"inputs": [{"name": "input", "shape": x.shape, "datatype": "FP32", "parameters": {"binary_data_size": x.nbytes}}]}).encode()
    status, said = client.send("/v2/models/net/infer", head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))})
    assert status == 200 and numpy.allclose(numpy.frombuffer(said[-y.nbytes:], "float32").reshape(y.shape), y, atol=1e-5)
    good = {"name": "input", "shape": [1, 32], "datatype": "FP32", "data": [0] * 32}
    for wrong, status in ((b"{", 400), ({}, 400), ({"inputs": [dict(good, shape=[1, 31])]}, 400), ({"inputs": [dict(good, shape=[1, 16], data=[0] * 16)]}, 400),
                          ({"inputs": [dict(good, datatype="BF16")]}, 400), ({"inputs": [dict(good, datatype="INT64")]}, 400),
                          ({"inputs": [dict(good, name="other")]}, 400), ({"inputs": [dict(good, shape=[40, 32], data=[0] * 1280)]}, 400),
                          ({"inputs": [dict(good, parameters=None)]}, 400), ({"inputs": [dict(good, data=[[1], 2])]}, 400), ([], 400),
                          ({"inputs": [good], "outputs": [{"name": "none"}]}, 400)):
        assert client.send("/v2/models/net/infer", wrong)[0] == status, (wrong, client.send("/v2/models/net/infer", wrong))
    assert client.send("/v2/models/net/infer", head + x.tobytes()[:-4], {"Inference-Header-Content-Length": str(len(head))})[0] == 400
    assert client.send("/v2/models/net/infer", b"{}", {"Inference-Header-Content-Length": "-9"})[0] == 400
    assert client.send("/v2/models/other/infer", {"inputs": [good]})[0] == 404 and client.send("/nothing")[0] == 404
    assert client.send("/v2/health/ready")[0] == 200


def check_zoo(client, expected):
    """Three models in a folder, of which a replica holds two; the header says which replica has one already."""
    import numpy
    rows, scale = numpy.arange(6).reshape(3, 2), numpy.full((3, 1), 2, "float32")
    for n in (0, 1, 2, 0, 2, 1):
        got, _ = client.infer(f"lookup{n}", {"rows": rows, "scale": scale}, "/zoo", {"serve_multiplexed_model_id": f"lookup{n}"})
        assert numpy.allclose(got["sums"], expected[f"lookup{n}"], atol=1e-6) and got["counts"].tolist() == [0, 0, 2], got
    for name in ("lookup9", "..%2Fzoo%2Flookup0"):
        assert client.send(f"/zoo/v2/models/{name}")[0] == 404
    # Of requests that go together, one that asks past the table fails alone.
    ends = []

    def ask(row):
        body = {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "INT64", "data": [row, 1]}, {"name": "scale", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}
        ends.append((row, Client(client.base).send("/zoo/v2/models/lookup0/infer", body)[0]))

    asking = [threading.Thread(target=ask, args=(row,)) for row in (1, 99, 3, 4, 98, 6)]
    for t in asking:
        t.start()
    for t in asking:
        t.join()
    assert all(status == (200 if row < 10 else 400) for row, status in ends), ends


def check_telling(client, expected):
    """Five prompts at once over two slots, token by token what transformers' generate says; one that hangs up frees its slot."""
    prompts, told = expected["prompts"], expected["told"]
    r = client.pool.request("POST", client.base + "/tell", body=json.dumps({"ids": prompts[0].tolist(), "max_tokens": 30}), preload_content=False)
    r.read(10)
    r.close()
    answers = [None] * len(prompts)

    def ask(n):
        status, lines = Client(client.base).send("/tell", {"ids": prompts[n].tolist(), "max_tokens": 20})
        answers[n] = status, [json.loads(line)["id"] for line in lines.splitlines()]

    asking = [threading.Thread(target=ask, args=(n,)) for n in range(len(prompts))]
    for t in asking:
        t.start()
    for t in asking:
        t.join()
    assert answers == [(200, t.tolist()) for t in told], (answers, told)
    ids = prompts[1].tolist()
    assert client.send("/tell", {"ids": ids, "max_tokens": 20, "stop": [int(told[1][3])]})[1].count(b"\n") == told[1].tolist().index(told[1][3]) + 1
    for wrong in ({"ids": []}, {"ids": [96]}, {"ids": [1] * CACHE}, {"ids": [1], "max_tokens": 0}, {}):
        assert client.send("/tell", wrong)[0] == 400, wrong


def maps(pid):
    """The files that a process has in memory; nothing of one that has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/maps") as f:
        return f.read()
    return ""


def check_gpus(o, cluster, client, expected):
    """Four replicas share the two GPUs of one machine; each sees its own as the first."""
    import numpy
    of = [(pid, ip, maps(pid)) for pid, ip in cluster.replicas()]
    on = [(pid, ip) for pid, ip, files in of if o.at("gpu", "kernels.so") in files]
    assert [ip for _, ip in on] == ["127.0.0.3"] * 4, on
    assert not [pid for pid, _, files in of if "libcuda" in files and (pid, "127.0.0.3") not in on], "a replica without GPUs has a driver"
    for _ in range(20):
        got, _ = client.infer("net", {"input": expected["x"][:5]}, "/gpu")
        assert numpy.allclose(next(iter(got.values())), expected["gpu"][:5], atol=1e-4)
    assert json.loads(client.send("/gpu/v2/models/net")[1])["platform"].startswith("aotc_sm_90")
    print("GPUs: four replicas on the two of one machine", flush=True)


def check_health(o, cluster, client, expected):
    """A replica whose canary is wrong, here since its weights' file has changed, is given up; another one does not begin before the file is right."""
    import numpy
    from ray_cluster import until
    file = o.at("ill", "net.weights")
    mine = lambda: [pid for pid, _ in cluster.replicas() if file in maps(pid)]
    (ill,) = mine()
    with open(file, "r+b") as f:
        whole = f.read()
        f.seek(len(whole) // 4)
        f.write(bytes(len(whole) // 2))
    until("the replica is given up", lambda: ill not in [pid for pid, _ in cluster.replicas()])
    with open(file, "r+b") as f:
        f.write(whole)
    until("another one stands in", lambda: mine())
    got, _ = client.infer("net", {"input": expected["x"][:5]}, "/ill")
    assert numpy.allclose(next(iter(got.values())), expected["y1"][:5], atol=1e-4)
    print("health: a replica whose canary is wrong is replaced", flush=True)


def check_memory(o, cluster):
    """Replicas of one machine have one copy of the weights: the file's pages."""
    file = os.path.join("1", "net.so")
    weights = [f for f in (o.at("1", "net.weights"), o.at("1", "net.so")) if os.path.exists(f)][0]
    rows = [pss(pid, weights) for pid, _ in cluster.replicas() if any(weights in line for line in open(f"/proc/{pid}/maps"))]
    assert len(rows) == 3, (file, rows)
    share, whole = sum(r[0] for r in rows), sum(r[1] for r in rows)
    print(f"memory: {weights[-12:]} is mapped by 3 replicas, {whole / 2**20:.1f} MB in all, of which they hold {share / 2**20:.1f} MB together (PSS)", flush=True)
    assert whole > 3 * 16 * 2**20 and share < 0.45 * whole, rows


def check_metrics(cluster):
    from ray_cluster import until
    import urllib.request

    def told():
        with open(os.path.join(cluster.temporary, "prom_metrics_service_discovery.json")) as f:
            targets = [t for group in json.load(f) for t in group["targets"]]
        text = ""
        for t in targets:
            with contextlib.suppress(OSError):
                text += urllib.request.urlopen(f"http://{t}/metrics", timeout=30).read().decode()
        return all(f'{name}{{' in text for name in ("ray_aotc_requests_total", "ray_aotc_runs_total", "ray_aotc_run_ms_count")) and 'model="net"' in text

    until("the metrics are told", told)


def throughput(base, expected, seconds, servers, clients=8):
    """Requests a second, and milliseconds of processor time that each takes of the servers beyond what they take idle: this hangs little on what else the
    machine does."""
    from ray_cluster import processor_seconds
    used = lambda: (time.monotonic(), processor_seconds(servers()))
    start, before = used()
    time.sleep(seconds)
    end, after = used()
    idle = (after - before) / (end - start)
    load = Load(base, expected, clients)
    load.more(2 * clients)
    begin, (start, before) = len(load.seen), used()
    time.sleep(seconds)
    count, (end, after) = len(load.seen) - begin, used()
    each = (after - before - idle * (end - start)) / max(count, 1) * 1e3
    load.stop(f"{clients} clients of one to three rows, {each:.2f} ms of processor time a request")
    return count / (end - start), each


def drive(o):
    import numpy
    import yaml
    from ray_cluster import HAPROXY, Cluster, below, free_port, until

    expected = dict(numpy.load(o.at("expected.npz")))
    shutil.rmtree(o.at("log"), ignore_errors=True)
    os.makedirs(o.at("log"))
    on_gpu = os.path.exists(o.at("gpu", "kernels.so"))
    cluster = Cluster(o.at("log"), [os.path.join(SAMPLES, "ray"), o.python_package], gpus={"127.0.0.3": 2}, environment=HAPROXY if o.haproxy else {})
    try:
        host = "0.0.0.0" if o.haproxy else "127.0.0.2"
        port = free_port(host)
        base = f"http://127.0.0.2:{port}"
        Client.tries = 0 if o.haproxy else Client.tries
        with open(os.path.join(SAMPLES, "ray", "serve.yaml")) as f:
            config = yaml.safe_load(f)
        net = config["applications"][0]
        net["args"] |= {"artifact": o.at("1", "net.so"), "most_replicas": 3}
        net["deployments"][0]["user_config"]["artifact"] = o.at("1", "net.so")
        zoo = {"name": "zoo", "route_prefix": "/zoo", "import_path": "serving:app",
               "args": {"artifact": o.at("zoo"), "resident": 2, "most_replicas": 2, "queue": 1, "scale_s": 1, "cpus": 0.5}}
        tell = {"name": "tell", "route_prefix": "/tell", "import_path": "telling:app", "args": {"artifact": o.at("teller.so"), "cpus": 0.5}}
        gpu = {"name": "gpu", "route_prefix": "/gpu", "import_path": "serving:app", "args": {"artifact": o.at("gpu", "net.so"), "gpus": 0.5, "cpus": 0, "replicas": 4, "health_s": 3600},
               "runtime_env": {"env_vars": {"LD_LIBRARY_PATH": o.driver, "AOTC_EMULATED_KERNELS": o.at("gpu", "kernels.so")}}}
        config["http_options"] = {"host": host, "port": port}
        ill = {"name": "ill", "route_prefix": "/ill", "import_path": "serving:app", "args": {"artifact": o.at("ill", "net.so"), "health_s": 1, "cpus": 0.5}}
        passing = [ill, gpu] if on_gpu else [ill]
        config["applications"] += [zoo, tell, *passing]
        cluster.deploy(config)
        print("deployed:", sorted(ip for _, ip in cluster.replicas()), flush=True)
        client = Client(base)
        check_answers(client, expected)
        check_zoo(client, expected)
        check_telling(client, expected)
        if on_gpu:
            check_gpus(o, cluster, client, expected)
        check_health(o, cluster, client, expected)
        config["applications"] = [a for a in config["applications"] if a not in passing]
        cluster.deploy(config)
        until("their replicas are gone", lambda: len(cluster.replicas()) == 5)
        check_memory(o, cluster)
        check_metrics(cluster)

        rate, each = throughput(base, expected, o.seconds, lambda: below(os.getpid()))
        with open(o.at("log", "plain.log"), "w") as log:
            plain = subprocess.Popen([o.plain, o.at("1", "net.so"), "--host", "127.0.0.1", "--port", "0", "--contexts", "3", "--batch", "32"],
                                     stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            at = plain.stdout.readline().split("http://")[1].split("/")[0]
            plain_rate, plain_each = throughput("http://" + at, expected, o.seconds, lambda: [plain.pid])
            print(f"throughput: {rate:.0f} requests/s, {rate / plain_rate:.2f} of the plain service's; {each / plain_each:.1f} times its processor time a request", flush=True)
        finally:
            plain.kill()
            plain.wait()

        def update(version, folder):
            net["deployments"][0]["user_config"] = {"artifact": o.at(folder, "net.so"), "version": version}
            cluster.deploy(config)

        load = Load(base, expected)
        load.more(50, "1")
        victim = next(pid for pid, _ in cluster.replicas() if any("/1/net." in line for line in open(f"/proc/{pid}/maps")))
        os.kill(victim, 9)
        until("another replica stands in", lambda: len(cluster.replicas()) == 5 and victim not in [pid for pid, _ in cluster.replicas()])
        load.more(50)
        load.stop("kill -9 of one of three replicas")

        load = Load(base, expected)
        load.more(50, "1")
        update("2", "2")
        load.more(100, "2")
        assert load.seen[-1][2] == "2", "the old version still answers after the update"
        for version, folder in (("3", "cut"), ("4", "strange")):  # what does not load, or fails its canary, is not taken
            update(version, folder)
        load.more(50, "2")
        assert {s[2] for s in load.seen} == {"1", "2"}
        load.stop("other weights in place, then two artifacts that are refused")

        load = Load(base, expected)
        load.more(50, "2")
        net["args"], net["deployments"] = dict(net["args"], artifact=o.at("1", "net.so"), version="1", contexts=2), []
        before = {pid for pid, _ in cluster.replicas()}
        cluster.deploy(config)
        load.more(100, "1")
        until("all replicas are new", lambda: len([p for p, _ in cluster.replicas() if p not in before]) == 3)
        load.stop("new replicas, one by one")

        load = Load(base, expected)
        load.more(50)
        lost = [pid for pid, ip in cluster.replicas() if ip == "127.0.0.4"]
        cluster.kill_raylet("127.0.0.4")
        until("replicas stand elsewhere", lambda: len(cluster.replicas()) >= 5 and not any(ip == "127.0.0.4" for _, ip in cluster.replicas()))
        load.more(100)
        load.stop(f"kill -9 of a raylet with {len(lost)} replicas")

        ended = []
        body = {"inputs": [{"name": "rows", "shape": [1, 2], "datatype": "INT64", "data": [1, 1]}, {"name": "scale", "shape": [1, 1], "datatype": "FP32", "data": [1]}]}

        def crowd():
            mine = Client(base)
            while not ended:
                assert mine.send("/zoo/v2/models/lookup1/infer", body)[0] == 200

        crowding = [threading.Thread(target=crowd, daemon=True) for _ in range(12)]
        for t in crowding:
            t.start()
        until("the queue has made a second replica of the zoo", lambda: len(cluster.replicas()) == 6)
        ended.append(True)
        for t in crowding:
            t.join()
        print("autoscaling: a second replica by the length of the queue", flush=True)
    except BaseException:
        keep = o.at("log", "session")
        shutil.copytree(os.path.join(cluster.temporary, "session_latest", "logs"), keep, ignore_dangling_symlinks=True, dirs_exist_ok=True)
        print(f"Ray's logs: {keep}", flush=True)
        raise
    finally:
        cluster.stop()
    print("ray_serve: all as expected")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--aotc")
    p.add_argument("--python-package", required=True)
    p.add_argument("--plain", required=True, help="samples/kubernetes/server.cpp, built")
    p.add_argument("--work", required=True)
    p.add_argument("--haproxy", action="store_true", help="before the replicas, in place of Ray's proxy")
    p.add_argument("--driver", default="", help="the emulated GPU's")
    p.add_argument("--seconds", type=float, default=3, help="that throughput is measured for")
    p.add_argument("--drive", action="store_true", help="with models that are made, by a Python that has ray")
    o = p.parse_args()
    for name in ("python_package", "plain", "work", "driver"):
        setattr(o, name, getattr(o, name) and os.path.abspath(getattr(o, name)))
    o.at = lambda *names: os.path.join(o.work, *names)
    sys.path.insert(0, HERE)
    if o.drive:
        drive(o)
    else:
        from ray_cluster import python_with_ray

        python = python_with_ray()
        if not thirds.takes(*((2, "Ray Serve's sample behind HAProxy") if o.haproxy else (0, "Ray Serve's sample"))):
            sys.exit(77)
        shutil.rmtree(o.work, ignore_errors=True)
        os.makedirs(o.work)
        make(o)
        os.execv(python, [python, os.path.abspath(__file__), *sys.argv[1:], "--drive"])
