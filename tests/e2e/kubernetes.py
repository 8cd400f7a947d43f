"""The manifests of samples/kubernetes against schemas: Kubernetes' own objects by kubernetes-validate (strict), KServe's by the models of its Python
package, and the containers in them as those of a pod. The image: its files are run in a root of their own, where that is allowed.

    kubernetes.py                                       the manifests: needs, in AOTC_RAY_VENV (as ray_serve.py), kubernetes-validate and kserve; without them 77, skipped
    kubernetes.py --server BIN --aotc BIN --work DIR    the image
"""
import argparse
import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request

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
    """The files of Containerfile's image: under 20 MB without the weights, and they serve with nothing else around them."""
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    artifact = os.path.join(o.work, "net.so")
    subprocess.run([sys.executable, os.path.join(SAMPLES, "..", "first", "net.py")], cwd=o.work, check=True)
    subprocess.run([o.aotc, "build", os.path.join(o.work, "net.pt2"), "--cpu", "portable", "--quiet", "-o", artifact], check=True)
    r = subprocess.run(["sh", os.path.join(SAMPLES, "rootfs.sh"), o.work, o.server, artifact], capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    megabytes = float(r.stdout.split()[0])
    assert megabytes < 20, r.stdout + r.stderr
    again = subprocess.run(["sh", os.path.join(SAMPLES, "rootfs.sh"), o.work, o.server, artifact], capture_output=True, text=True)
    assert again.returncode == 3 and "is there already" in again.stderr, again
    server = [*(["unshare", "-r"] if os.getuid() else []), "chroot", os.path.join(o.work, "root"), "/server"]
    if subprocess.run(server, capture_output=True).returncode != 2:
        print(f"image: {megabytes} MB; a root of its own is not allowed here: not run")
        return
    p = subprocess.Popen([*server, "/model/net.so", "--host", "127.0.0.1", "--port", "0", "--drain", "0"], stdout=subprocess.PIPE, text=True, env={"PATH": os.environ["PATH"]})
    try:
        base = p.stdout.readline().split("listening at ")[1].split("/v2")[0]
        get = lambda path: json.loads(urllib.request.urlopen(base + path, timeout=60).read() or "{}")
        described = get("/v2/models/net")
        inputs = []
        for t in described["inputs"]:
            shape = [max(d, 2) if d < 0 else d for d in t["shape"]]
            count = 1
            for d in shape:
                count *= d
            inputs.append({"name": t["name"], "datatype": t["datatype"], "shape": shape, "data": [1] * count})
        wire = urllib.request.Request(base + "/v2/models/net/infer", json.dumps({"inputs": inputs}).encode())
        said = json.loads(urllib.request.urlopen(wire, timeout=60).read())
        assert [t["name"] for t in said["outputs"]] == [t["name"] for t in described["outputs"]], said
        for wrong in (b"{", b"{}", json.dumps({"inputs": [dict(i, data=[1]) for i in inputs]}).encode()):
            try:
                urllib.request.urlopen(urllib.request.Request(base + "/v2/models/net/infer", wrong), timeout=60)
                raise SystemExit(f"{wrong} is answered 200")
            except urllib.error.HTTPError as e:
                assert e.code == 400, e
        assert "aotc_requests_total 1" in urllib.request.urlopen(base + "/metrics", timeout=60).read().decode()
        p.terminate()
        assert p.wait(60) == 0
    finally:
        p.kill()
    print(f"image: {megabytes} MB, served from a root of its own")


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--server", help="samples/kubernetes/server.cpp, built")
    p.add_argument("--aotc")
    p.add_argument("--work")
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
        sys.exit(0)
    sys.path.insert(0, HERE)
    from ray_cluster import python_with_ray

    python = python_with_ray()
    os.execv(python, [python, os.path.abspath(__file__), "--here"])
