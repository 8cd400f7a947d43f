"""p50 and tails (p99) of aotc artifacts beside the peers, in one run: engines take turns, round by round, so that drift of the machine hits all alike.

    peers_table.py run --peers PEERS.PY --zoo ZOO --aotc BIN --work DIR --out TABLE.jsonl [--threads 1,2] [--engines eager,aoti_ma,ort,ov_f32]
                       [--modes aotc,aotc_ma,aotc_bf16] [--cpu avx2] [--cpus 0,1] [--real-time 10] [model ...]
    peers_table.py show TABLE.jsonl        a Markdown table of the results

PEERS.PY is the harness of the model zoo (its workers hold the peers; it builds ONNX and AOTInductor artifacts under DIR/peers). aotc runs in a worker
of its own, through the C ABI by ctypes. `aotc_ma` is built with --mode max-autotune for the number of threads, `aotc_bf16` with --precision bf16 (the
peer of that is ov_default: OpenVINO's own precision). Builds may use all of --cpus, the engines the first ones, one thread the last.
--cpu is that of aotc build; the peers are held to the same instructions as far as they have a switch for it (LIMITS). --real-time gives all
engines this priority (of SCHED_FIFO), for machines that have other work.
"""
import argparse
import ctypes
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time

DYNAMIC_KEY = "at"
LEAST_P99 = 50  # runs, for a p99 worth showing
MODES = {"aotc": [], "aotc_own": ["--own-weights"], "aotc_ma": ["--mode", "max-autotune"], "aotc_bf16": ["--precision", "bf16"]}  # flags of aotc build
# Environment that keeps the peers to an instruction set: oneDNN (PyTorch's, and OpenVINO's with its own kernels), ATen, MKL. ONNX Runtime, and
# the MLAS products in OpenVINO, have no switch and take the machine's best.
LIMITS = {"avx2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}}


# ------------------------------------------------------------------------------------------------ the aotc worker
class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p), ("byte_size", ctypes.c_uint64),
                ("rank", ctypes.c_int32), ("dtype", ctypes.c_uint32), ("device", ctypes.c_int32), ("flags", ctypes.c_uint32), ("reserved", ctypes.c_uint64 * 2)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("stream", ctypes.c_void_p), ("threads", ctypes.c_void_p), ("workspace", ctypes.c_void_p),
                ("workspace_size", ctypes.c_size_t), ("num_threads", ctypes.c_int32), ("flags", ctypes.c_uint32)]


API = ["last_error", "status_name", "metadata_json", "probe", "model_create", "model_destroy", "model_get_info", "io_count", "io_get", "workspace_size",
       "context_create", "context_destroy", "context_get_info", "output_bounds", "run"]


class Api(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("abi_version", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [(n, ctypes.c_void_p) for n in API]


DTYPES = {"bool": 1, "uint8": 2, "int8": 3, "int16": 4, "int32": 5, "int64": 6, "float16": 7, "bfloat16": 8, "float32": 9, "float64": 10}


class Artifact:
    def __init__(self, path, threads):
        t0 = time.perf_counter()
        self.lib = ctypes.CDLL(path)
        self.lib.aotc_get_api.restype = ctypes.POINTER(Api)
        self.api = self.lib.aotc_get_api(1).contents
        self.model, self.context = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.call("model_create", None, ctypes.byref(self.model)))
        options = ContextOptions(struct_size=ctypes.sizeof(ContextOptions), num_threads=threads)
        self.check(self.call("context_create", self.model, ctypes.byref(options), ctypes.byref(self.context)))
        self.load_s = time.perf_counter() - t0
        self.run_fn = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(self.api.run)

    def call(self, name, *args):
        return ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * len(args))(getattr(self.api, name))(*args)

    def check(self, status):
        if status:
            raise RuntimeError(ctypes.CFUNCTYPE(ctypes.c_char_p)(self.api.last_error)().decode())

    def bind(self, arrays, dtypes, outs, out_dtypes):
        def tensors(xs, names):
            ts = (Tensor * max(len(xs), 1))()
            for t, x, name in zip(ts, xs, names):
                shape = (ctypes.c_int64 * max(x.ndim, 1))(*x.shape)
                self.keep.append(shape)
                t.data, t.shape, t.byte_size, t.rank, t.dtype, t.device = x.ctypes.data, shape, x.nbytes, x.ndim, DTYPES[name], -1
            return ts

        self.keep = []
        ins, res = tensors(arrays, dtypes), tensors(outs, out_dtypes)
        self.keep += [ins, res, arrays, outs]
        args = (self.context, ctypes.addressof(ins), len(arrays), ctypes.addressof(res), len(outs))
        return lambda: self.check(self.run_fn(*args))


def worker(so, zoo, model, threads, ats):
    import numpy as np

    hint = json.load(open(f"{zoo}/{model}.shapes-hint.json"))
    kind = lambda spec: "uint16" if spec["dtype"] == "bfloat16" else spec["dtype"]
    load = lambda spec, file, shape: np.fromfile(file, dtype=kind(spec)).reshape(shape)

    def data(at):
        if at is None:
            return ([load(i, f"{zoo}/{i['file']}", i["shape"]) for i in hint["inputs"]], [load(o, f"{zoo}/{o['file']}", o["shape"]) for o in hint["outputs"]])
        j = json.load(open(f"{ats}/at{at}.json"))
        return ([load(s, f"{ats}/at{at}.in{i}.bin", j["in"][i]) for i, s in enumerate(hint["inputs"])],
                [load(s, f"{ats}/at{at}.out{i}.bin", j["out"][i]) for i, s in enumerate(hint["outputs"])])

    def wide(x, spec):
        return ((x.astype("uint32") << 16).view("float32") if spec["dtype"] == "bfloat16" else x).astype("float64").ravel()

    artifact = Artifact(so, threads)
    say = lambda **k: print(json.dumps(k), flush=True)
    say(stage="loaded", load_s=artifact.load_s)
    for line in sys.stdin:
        c = json.loads(line)
        if c["do"] == "at":
            ins, ref = data(c["at"])
            outs = [np.empty_like(r) for r in ref]
            call = artifact.bind(ins, [i["dtype"] for i in hint["inputs"]], outs, [o["dtype"] for o in hint["outputs"]])
            call()
            err = max(float(np.linalg.norm(wide(x, s) - wide(r, s)) / max(np.linalg.norm(wide(r, s)), 1e-30)) for x, r, s in zip(outs, ref, hint["outputs"]))
            say(stage="at", rel_err=err)
        elif c["do"] == "time":
            for _ in range(2):
                call()
            ts, end = [], time.perf_counter() + c["budget"]
            while len(ts) < 3 or (time.perf_counter() < end and len(ts) < 3000):
                t0 = time.perf_counter()
                call()
                ts.append(time.perf_counter() - t0)
            say(stage="time", ts=ts)
        elif c["do"] == "quit":
            break


def hurry(pid, o):
    if o.real_time:
        os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(o.real_time))


class Aotc:
    """The parent's side; the same calls as the peers' workers."""

    def __init__(self, name, so, o, model, threads, cpus, ats):
        self.eng, self.ts, self.error = name, [], None
        self.p = subprocess.Popen([sys.executable, __file__, "worker", so, o.zoo, model, str(threads), ats], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        hurry(self.p.pid, o)
        self.load = self.get()

    def get(self):
        line = self.p.stdout.readline()
        if not line:
            self.error = "worker died"
        return json.loads(line) if line else {}

    def ask(self, **k):
        if self.error:
            return {}
        self.p.stdin.write(json.dumps(k) + "\n")
        self.p.stdin.flush()
        return self.get()

    def close(self):
        self.ask_quit = self.p.stdin.write('{"do": "quit"}\n')
        self.p.stdin.flush()
        self.p.wait(20)


# ------------------------------------------------------------------------------------------------ the run
def build(o, model, mode, threads):
    so = os.path.join(o.work, f"{model}.{mode}.t{threads}.so")
    cmd = [o.aotc, "build", f"{o.zoo}/{model}.pt2", "-o", so, "--json", "--threads", str(threads), "--cpu", o.cpu, *MODES[mode]]
    if os.path.exists(f"{o.zoo}/{model}.shapes.json"):
        cmd += ["--shapes", f"{o.zoo}/{model}.shapes.json"]
    if mode == "aotc_ma":
        cmd += ["--tune-budget", str(o.tune_budget), "--tuning-db", os.path.join(o.work, "tuning.json")]
    t0 = time.time()
    subprocess.run(cmd, check=True, stdout=subprocess.DEVNULL)
    return so, time.time() - t0


def run(o):
    os.environ.update(WORK=os.path.join(o.work, "peers"), ZOO=o.zoo, **LIMITS.get(o.cpu, {}))
    spec = importlib.util.spec_from_file_location("peers", o.peers)
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    os.makedirs(os.environ["WORK"], exist_ok=True)
    out = open(o.out, "a")
    models = o.models or subprocess.run([sys.executable, os.path.join(os.path.dirname(o.peers), "zoo.py"), "list"], capture_output=True, text=True).stdout.split()
    for model in models:
        for threads in map(int, o.threads.split(",")):
            cpus = {o.cpus[-1]} if threads == 1 else set(o.cpus[:threads])
            built = lambda what: os.path.exists(peers.art(model, what) + ".json")
            os.makedirs(peers.art(model, ""), exist_ok=True)
            if model in peers.DYN_AT and not os.path.exists(peers.art(model, "ats")):
                peers.finish([peers.start_build(model, "ats", 2, o.cpus)])
            engines = [e for e in o.engines.split(",") if e and not (e == "ov_f32" and model.endswith("_bf16"))]
            if any(e in engines for e in ("ort", "ov_f32", "ov_default")) and not built("onnx"):
                peers.finish([peers.start_build(model, "onnx", 1, o.cpus)])
            for e in engines:
                if e.startswith("aoti") and not built(f"{e}.t{threads}"):
                    peers.finish([peers.start_build(model, e, threads, o.cpus)])
            ours = []
            for mode in o.modes.split(","):
                if mode == "aotc_bf16" and model.endswith("_bf16"):
                    continue
                so, seconds = build(o, model, mode, threads)
                ours.append((Aotc(mode, so, o, model, threads, cpus, peers.art(model, "ats")), seconds))
            theirs = []
            for e in engines:
                if peers.meta(model, e, threads).get("error"):
                    print(json.dumps({"model": model, "engine": e, "threads": threads, "error": peers.meta(model, e, threads)["error"]}), file=out, flush=True)
                    continue
                w = peers.W(model, e, threads, cpus)
                hurry(w.p.pid, o)
                w.upd(w.get())
                w.upd(w.ask(do="load", at=0 if model in peers.DYN_AT else None))
                theirs.append(w)
            for at in range(len(peers.DYN_AT[model])) if model in peers.DYN_AT else [None]:
                errors = {}
                for w, _ in ours:
                    w.ts = []
                    errors[w.eng] = w.ask(do="at", at=at).get("rel_err")
                for w in theirs:
                    w.ts = []
                    if at is not None:
                        w.ask(do="at", at=at)
                for _ in range(o.rounds):
                    for w in [w for w, _ in ours] + theirs:
                        j = w.ask(do="time", budget=o.budget)
                        if j and "ts" in j:
                            w.ts += j["ts"]
                for w in [w for w, _ in ours] + theirs:
                    row = {"model": model, "engine": w.eng, "threads": threads}
                    if at is not None:
                        row[DYNAMIC_KEY] = peers.DYN_AT[model][at]
                    if w.ts:
                        row.update(ms=round(statistics.median(w.ts) * 1e3, 4), ms_min=round(min(w.ts) * 1e3, 4), ms_p99=round(p99(w.ts) * 1e3, 4), n=len(w.ts))
                    if w.eng in errors:
                        row["rel_err"] = errors[w.eng]
                        row["build_s"] = round(next(s for x, s in ours if x is w), 2)
                    print(json.dumps(row), flush=True)
                    print(json.dumps(row), file=out, flush=True)
            for w in [w for w, _ in ours] + theirs:
                w.close()


def show(path):
    rows, tails, engines = {}, {}, []
    for line in open(path):
        r = json.loads(line)
        if "model" not in r:  # what the results are of
            continue
        key = (r["threads"], r["model"] + (" " + "x".join(map(str, r[DYNAMIC_KEY])) if DYNAMIC_KEY in r else ""))
        rows.setdefault(key, {})[r["engine"]] = r.get("ms")
        if r.get("n", 0) >= LEAST_P99:
            tails.setdefault(key, {})[r["engine"]] = r["ms_p99"] / r["ms"]
        if r["engine"] not in engines:
            engines.append(r["engine"])
    for threads in sorted({k[0] for k in rows}):
        print(f"\n{threads} thread{'s' if threads > 1 else ''}, p50 in ms\n\n| model | " + " | ".join(engines) + " | best peer / aotc | bf16 |")
        print("|---" * (len(engines) + 3) + "|")
        for (t, model), r in rows.items():
            if t != threads:
                continue
            # OpenVINO's own precision may be bf16: it is the peer of bf16 alone.
            low = {e for e in r if e in ("aotc_bf16", "ov_default") or "_bf16" in model}
            ratios = [ratio({e: v for e, v in r.items() if (e in low) == bf16}) for bf16 in (False, True)]
            print(f"| {model} | " + " | ".join(f"{r[e]:.3g}" if r.get(e) else "-" for e in engines) + " | " + " | ".join(ratios) + " |")
        if any(t == threads for t, _ in tails):
            print(f"\np99 over p50, of {LEAST_P99} runs or more\n\n| model | " + " | ".join(engines) + " |\n" + "|---" * (len(engines) + 1) + "|")
        for (t, model), r in tails.items():
            if t == threads:
                print(f"| {model} | " + " | ".join(f"{r[e]:.2f}" if e in r else "-" for e in engines) + " |")


def p99(ts):
    return sorted(ts)[max(0, math.ceil(0.99 * len(ts)) - 1)]


def ratio(r):
    ours = min((v for e, v in r.items() if e.startswith("aotc") and v), default=None)
    best = min((v for e, v in r.items() if not e.startswith("aotc") and v), default=None)
    return f"{best / ours:.2f}" if ours and best else "-"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="verb", required=True)
    r = sub.add_parser("run")
    for name in ("peers", "zoo", "aotc", "work", "out"):
        r.add_argument("--" + name, required=True, type=os.path.abspath)
    r.add_argument("--threads", default="1,2")
    r.add_argument("--engines", default="eager,aoti_ma,ort,ov_f32")
    r.add_argument("--modes", default="aotc")
    r.add_argument("--cpu", default="native")
    r.add_argument("--real-time", type=int, default=0)
    r.add_argument("--cpus", type=lambda s: [int(x) for x in s.split(",")], default=[0, 1])
    r.add_argument("--rounds", type=int, default=5)
    r.add_argument("--budget", type=float, default=0.5)
    r.add_argument("--tune-budget", type=float, default=30)
    r.add_argument("models", nargs="*")
    s = sub.add_parser("show")
    s.add_argument("table")
    if len(sys.argv) > 1 and sys.argv[1] == "worker":
        return worker(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6])
    o = p.parse_args()
    run(o) if o.verb == "run" else show(o.table)


if __name__ == "__main__":
    main()
