"""Artifacts behind Ray Serve, by the same HTTP protocol as Triton and KServe (v2), for replicas that have aotc_runtime and no torch.

    serve run --working-dir . serving:app artifact=net.so replicas=3            POST /v2/models/net/infer
    serve run --working-dir . serving:app artifact=folder resident=4     folder/NAME.so: many models; the header serve_multiplexed_model_id finds a replica that has one
    serve deploy serve.yaml                                              Ray's own file; a changed user_config alone restarts no replica

GET /v2/health/ready, /v2/models/NAME; tensors as JSON or as the protocol's binary extension.
"""
import asyncio
import collections
import concurrent.futures
import json
import logging
import os
import time
import weakref
from typing import Optional

import numpy
from pydantic import BaseModel
from ray import serve
from ray.util import metrics
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from artifact import Artifact

WIRE = {"bool": "BOOL", "uint8": "UINT8", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "float16": "FP16", "float32": "FP32", "float64": "FP64"}
TYPES = {wire: name for name, wire in WIRE.items()}
BINARY = "inference-header-content-length"
log = logging.getLogger("ray.serve")


class Options(BaseModel):
    artifact: str  # a file, or a folder of them
    version: str = "1"  # another one says that the file is another: it is loaded beside the one that serves
    replicas: int = 1  # the least
    most_replicas: Optional[int] = None  # more by the length of the queue: `queue` requests a replica
    queue: float = 8
    scale_s: float = 30  # that a queue must be longer before there are more
    cpus: float = 1
    gpus: float = 0  # 0.25: four replicas share a GPU
    threads: int = 1  # of a run
    contexts: int = 1  # runs at one time in a replica
    batch: int = 64  # requests of a run, at most
    wait_ms: float = 0  # that a run waits for others; what waits during a run goes together anyway
    resident: int = 4  # models of a folder that a replica holds
    health_s: float = 10
    access_log: bool = False  # a line a request, whose writing in packs holds up those that come then


class Refused(Exception):
    def __init__(self, status, why):
        super().__init__(why)
        self.status = status


def tensors(body, headers):
    """Inputs by name, and whether the answer is to be binary."""
    length = int(headers.get(BINARY, len(body)))
    if not 0 <= length <= len(body):
        raise Refused(400, f"{BINARY}: {length} of a body of {len(body)} bytes")
    said, at, inputs = json.loads(body[:length]), length, {}
    for t in said["inputs"]:
        if t["datatype"] not in TYPES:
            raise Refused(400, f"input {t['name']} has datatype {t['datatype']}: expected one of {', '.join(TYPES)}")
        dtype, size = TYPES[t["datatype"]], t.get("parameters", {}).get("binary_data_size")
        x = numpy.array(t["data"], dtype) if size is None else numpy.frombuffer(body[at:at + abs(int(size))], dtype)
        inputs[t["name"]] = x.reshape(t["shape"])
        at += int(size or 0)
    binary = BINARY in headers or said.get("parameters", {}).get("binary_data_output", False)
    return inputs, binary, {o["name"] for o in said.get("outputs", [])}


def answer(name, version, outputs, binary):
    said, parts = [], []
    for n, y in outputs.items():
        t = {"name": n, "datatype": WIRE.get(str(y.dtype), str(y.dtype).upper()), "shape": list(y.shape)}
        if binary:
            parts.append(numpy.ascontiguousarray(y).tobytes())
            t["parameters"] = {"binary_data_size": len(parts[-1])}
        else:
            t["data"] = y.ravel().tolist()
        said.append(t)
    head = json.dumps({"model_name": name, "model_version": version, "outputs": said}).encode()
    return Response(b"".join([head, *parts]), media_type="application/octet-stream" if binary else "application/json",
                    headers={BINARY: str(len(head))} if binary else None)


class Held:
    """A model of the folder, and of which version it is."""

    def __init__(self):
        self.artifact, self.version, self.loading = None, None, asyncio.Lock()


class Models:
    """What a replica does. deployment() wraps `together` and `resident`, whose bounds Ray wants when the class is made."""

    def __init__(self, device, threads, contexts, wait):
        self.settings = dict(device=device, contexts=contexts, threads=threads)
        self.workers = concurrent.futures.ThreadPoolExecutor(contexts, "aotc")
        self.apart = concurrent.futures.ThreadPoolExecutor(1, "load")
        self.only, self.held, self.config = None, weakref.WeakValueDictionary(), None
        self.wait, self.free = wait, contexts  # free: contexts that no request has
        tags = dict(tag_keys=("model", "version"))
        self.count = {"requests": metrics.Counter("aotc_requests", "requests that ran", **tags),
                      "runs": metrics.Counter("aotc_runs", "runs of a model; requests that waited together are one", **tags),
                      "failed": metrics.Counter("aotc_failed", "requests that the model refused, updates that were not taken", **tags)}
        self.ms = metrics.Histogram("aotc_run_ms", "milliseconds of a run", boundaries=[0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000], **tags)

    async def reconfigure(self, config):
        """Takes `artifact` and `version` while requests go on. What does not load, or fails its canary, is not taken where something serves."""
        if os.path.isdir(config["artifact"]):
            self.only, self.config = None, config
            return
        try:
            self.only, self.config = await self.load(config["artifact"], config["version"]), config
        except Exception as e:
            if self.only is None:
                raise
            self.count["failed"].inc(tags=self.tags(self.only))
            log.error(f"version {config['version']} is not taken, {self.only.version} goes on: {e}")

    async def check_health(self):
        """Called by Ray; a replica that raises is replaced."""
        for a in [self.only] if self.only else [h.artifact for h in self.held.values() if h.artifact]:
            await self.aside(a.check)

    def aside(self, work):
        return asyncio.get_running_loop().run_in_executor(self.apart, work)

    def load(self, path, version):
        return self.aside(lambda: Artifact(path, version, **self.settings))

    def tags(self, a):
        return {"model": a.name, "version": a.version}

    async def resident(self, name):
        self.held[name] = held = Held()
        return held

    async def model(self, name):
        folder, version = self.config["artifact"], self.config["version"]
        if self.only:
            if name != self.only.name:
                raise Refused(404, f"there is no model {name}: expected {self.only.name}")
            return self.only
        path = os.path.join(folder, name + ".so")
        if os.path.basename(name) != name or not os.path.exists(path):
            raise Refused(404, f"there is no model {name}")
        held = await self.resident(name)
        async with held.loading:
            if held.version != (folder, version):
                held.artifact, held.version = await self.load(path, version), (folder, version)
        return held.artifact

    async def together(self, jobs):
        """jobs: (artifact, inputs). An error is an answer, that of its request alone."""
        of, answers = collections.defaultdict(list), [None] * len(jobs)
        for i, (a, _) in enumerate(jobs):
            of[a].append(i)
        for a, group in of.items():
            start = time.perf_counter()
            results = await asyncio.get_running_loop().run_in_executor(self.workers, a.run, [jobs[i][1] for i in group])
            self.ms.observe(1e3 * (time.perf_counter() - start), tags=self.tags(a))
            self.count["runs"].inc(tags=self.tags(a))
            self.count["requests"].inc(len(group), tags=self.tags(a))
            for i, r in zip(group, results):
                answers[i] = r
        return answers

    async def output(self, job):
        """Of a job: by itself where there is nothing to wait for, since Ray's queue takes a quarter of a millisecond."""
        self.free -= 1
        try:
            return await self.together(job) if self.wait or self.free < 0 else (await Models.together(self, [job]))[0]
        finally:
            self.free += 1

    async def infer(self, a, body, headers):
        try:
            inputs, binary, wanted = tensors(body, headers)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as e:
            raise Refused(400, f"this is no request of the protocol v2: {type(e).__name__}: {e}") from e
        outputs = await self.output((a, inputs))
        if isinstance(outputs, Exception):
            self.count["failed"].inc(tags=self.tags(a))
            fault = isinstance(outputs, (ValueError, TypeError, KeyError, IndexError, AssertionError))
            raise Refused(400 if fault else 500, f"{a.name}: {outputs}")
        if wanted - set(outputs):
            raise Refused(400, f"{a.name}: there is no output {min(wanted - set(outputs))}: expected some of {', '.join(outputs)}")
        return answer(a.name, a.version, {n: y for n, y in outputs.items() if not wanted or n in wanted}, binary)

    async def __call__(self, request: Request):
        path = request.url.path.removeprefix(request.scope.get("root_path", "")).strip("/").split("/")
        try:
            if path[:2] == ["v2", "health"]:
                return Response()
            if path[:2] != ["v2", "models"] or len(path) not in (3, 4) or path[3:] not in ([], ["infer"], ["ready"]):
                raise Refused(404, "expected /v2/health/ready, /v2/models/NAME or /v2/models/NAME/infer")
            a = await self.model(path[2])
            if path[3:] == ["infer"]:
                return await self.infer(a, await request.body(), request.headers)
            tell = lambda infos: [{"name": t.name, "datatype": WIRE.get(t.dtype, t.dtype.upper()), "shape": [-1 if d.value is None else d.value for d in t.dims]} for t in infos]
            return JSONResponse({"name": a.name, "versions": [a.version], "platform": "aotc_" + a.model.info.target, "inputs": tell(a.model.inputs),
                                 "outputs": tell(a.model.outputs), "most_rows": a.most, "canary": a.canary is not None})
        except Refused as e:
            return JSONResponse({"error": str(e)}, e.status)


def deployment(o, name="Models"):
    """A Ray Serve deployment with these options."""

    class Served(Models):
        together = serve.batch(max_batch_size=o.batch, batch_wait_timeout_s=o.wait_ms / 1e3, max_concurrent_batches=o.contexts)(Models.together)
        resident = serve.multiplexed(max_num_models_per_replica=o.resident)(Models.resident)

    most = max(o.replicas, o.most_replicas or 0)
    scale = {"num_replicas": o.replicas} if most == o.replicas else {
        "autoscaling_config": {"min_replicas": o.replicas, "max_replicas": most, "target_ongoing_requests": o.queue, "upscale_delay_s": o.scale_s}}
    made = serve.deployment(name=name, max_ongoing_requests=2 * o.batch * o.contexts, health_check_period_s=o.health_s,
                            health_check_timeout_s=max(30, o.health_s), graceful_shutdown_timeout_s=60, ray_actor_options={"num_cpus": o.cpus, "num_gpus": o.gpus},
                            user_config={"artifact": os.path.abspath(o.artifact), "version": o.version}, logging_config={"enable_access_log": o.access_log},
                            **scale)(Served)
    return made.bind("cuda" if o.gpus else "cpu", o.threads, o.contexts, o.wait_ms > 0)


def app(o: Options):
    """For `serve run` and `serve build`."""
    return deployment(o)
