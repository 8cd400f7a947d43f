"""serving.py end to end, for moments: a small net behind the plain service and behind Triton answers alike, is asked, and both are told; what is wrong is said.

    serving_test.py --aotc BIN --plain BIN --load BIN --backend FILE --work DIR

Without tritonserver (in AOTC_TRITON_VENV, which packaging/setup.sh makes) the exit status is 77. No figure is looked at: they are the machine's.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import serving  # noqa: E402

p = argparse.ArgumentParser()
for name in ("aotc", "plain", "steps", "load", "backend", "floor", "work"):
    p.add_argument("--" + name, required=True)
o = p.parse_args()
venv = os.environ.get("AOTC_TRITON_VENV") or os.path.expanduser("~/.cache/aotc/triton")
found = glob.glob(os.path.join(venv, "lib", "python3*", "site-packages", "pytriton", "tritonserver", "bin", "tritonserver"))
if not found:
    print(f"there is no tritonserver in {venv}: skipped")
    sys.exit(77)
shutil.rmtree(o.work, ignore_errors=True)
models = os.path.join(o.work, "models")
os.environ.setdefault("AOTC_TEST_PARENT", str(os.getppid()))
subprocess.run([sys.executable, "-IS", os.path.join(HERE, "..", "..", "torch_process.py"), os.path.join(HERE, "models.py"), "--aotc", o.aotc, "--work", models, "--cpu", "portable", "--layers", "1", "mlp", "steps"], check=True)
out = os.path.join(o.work, "rows.jsonl")
words = [sys.executable, os.path.join(HERE, "serving.py"), "--models", models, "--plain", o.plain, "--steps", o.steps, "--load", o.load, "--backend", o.backend, "--seconds", "0.5", "--rounds", "2", "--clients", "1,5",
         "--contexts", "2", "--out", out]
r = subprocess.run([*words, "--triton", found[0], "--grpc", "--floor", o.floor, "mlp"], capture_output=True, text=True)
assert r.returncode == 0, r.stdout + r.stderr
with open(out) as f:
    rows = [json.loads(line) for line in f]
assert [(row["model"], row["clients"], row["contexts"], row["batch"]) for row in rows] == [("mlp", 1, 2, 8), ("mlp", 5, 2, 8)], rows
assert all(len(row[kind]["rates"]) == 2 and row[kind]["p50"] <= row[kind]["p99"] for row in rows for kind in ("plain", "triton", "grpc", "floor")) and r.stdout.count("| mlp |") == 2, r.stdout
assert all(1 <= row[kind]["rows_a_run"] <= 8 for row in rows for kind in ("plain", "triton")), rows
# Sequences, a client each: the steps of both are alike (serving.py compares them).
r = subprocess.run([*words, "--triton", found[0], "--grpc", "--clients", "3", "--json", "steps"], capture_output=True, text=True)
assert r.returncode == 0, r.stdout + r.stderr
row = json.loads(r.stdout)
assert (row["model"], row["clients"], row["contexts"], row["batch"]) == ("steps", 3, 2, 1) and all(row[kind]["rows_a_run"] == 1 for kind in ("plain", "triton", "grpc")), row
r = subprocess.run([*words, "--triton", found[0], "--triton-option=--backend-config=nothing", "mlp"], capture_output=True, text=True)
assert r.returncode == 1 and "triton does not serve mlp" in r.stderr and "failed: mlp" in r.stderr, r.stdout + r.stderr
with open(out) as f:
    rows = [json.loads(line) for line in f]
assert len(rows) == 2 and all("plain" in row and "triton" not in row and "triton_over_plain" not in row for row in rows), rows
# The clients count what is not answered with 200 or OK, and do not call it speed.
body = os.path.join(o.work, "body")


def faults(count, port, path, content, head):
    with open(body, "wb") as f:
        f.write(content)
    r = subprocess.run([o.load, str(port), path, body, head, "3", "0.2"], capture_output=True, text=True)
    told = json.loads(r.stdout)
    assert (r.returncode, told["errors"], told["requests"] > 0) == (int(count > 0), count, count == 0), (r.stdout, r.stderr)


server = subprocess.Popen([o.plain, os.path.join(models, "mlp.so"), "--host", "127.0.0.1", "--port", "0", "--drain", "0"], stdout=subprocess.PIPE, text=True)
try:
    port = server.stdout.readline().split("127.0.0.1:")[1].split("/")[0]
    faults(3, port, "/v2/models/mlp/infer", b"{}", "0")
    faults(3, port, "/inference.GRPCInferenceService/ModelInfer", b"", "grpc")  # which does not speak it
finally:
    server.terminate()
    assert server.wait(60) == 0
told = argparse.Namespace(models=models, work=o.work, plain=o.plain, load=o.load, triton=found[0], backend=o.backend, floor=None, ort=None, grpc=True, device=-1, contexts=1, batch=8, parameter=[], batching="",
                          triton_option=[], server_cpus=os.sched_getaffinity(0))
triton = list(serving.servers(told, "mlp", True, 0))[1]()
try:
    grpc = serving.OverGrpc(told, "mlp", triton)
    grpc.ask(serving.inputs_of(told, "mlp")[0])
    with open(grpc.body, "rb") as f:
        good = f.read()
    faults(0, *grpc.target, good, "grpc")
    faults(0, *grpc.target, good + serving.field(1000, bytes(1 << 20)), "grpc")  # a field that nobody knows, of more bytes than fit a window
    faults(3, *grpc.target, good + serving.field(1, "other"), "grpc")  # another model
    faults(3, grpc.target[0], "/inference.GRPCInferenceService/Nothing", good, "grpc")
finally:
    triton.stop()
print("both were served and asked; faults are told")
