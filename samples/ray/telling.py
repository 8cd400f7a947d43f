"""A decoder with slots (samples/llm/export.py) behind Ray Serve: many answers at once from one KV cache, each streamed token by token.

    serve run telling:app artifact=smol/model.so

POST / {"ids": [504, 3575, 282], "max_tokens": 20, "stop": [2]}  ->  a line for each token, {"id": 260}; greedy. samples/llm_server is the whole API, in C++.
"""
import asyncio
import json
import os
from typing import Optional

import aotc_runtime
import numpy
from pydantic import BaseModel
from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse


class Options(BaseModel):
    artifact: str
    replicas: int = 1
    most_replicas: Optional[int] = None  # more by the length of the queue
    cpus: float = 1
    gpus: float = 0
    threads: int = 1
    queue: int = 64  # requests that wait for a slot of a replica; more are answered 503


class Sequence:
    def __init__(self, ids, most, stop):
        self.ids, self.fed, self.most, self.stop = list(ids), 0, most, set(stop)
        self.slot, self.told = None, asyncio.Queue()  # of tokens; None: the end; an exception


class Slots:
    """Feeds the sequences that have a slot; a step of all that continue alternates with a chunk of the prompts."""

    def __init__(self, path, device, threads):
        self.model = aotc_runtime.load(path, device, own_weights=False if device == "cpu" else None)
        most = {t.name: [d.max if d.value is None else d.value for d in t.dims] for t in self.model.inputs}
        if list(most) != ["input_ids", "slots", "positions", "lengths", "span", "wanted"]:
            raise ValueError(f"{path} is no program of samples/llm: its inputs are {', '.join(most)}")
        (count, self.chunk), (self.cache,) = most["input_ids"], most["span"]
        self.context = self.model.context(threads)
        self.free, self.waiting, self.active, self.stepping = list(range(count)), [], [], None

    def step(self, sequences):
        """Feeds the next tokens of each, at most a chunk; gives the token that follows where all is fed."""
        parts = [s.ids[s.fed:s.fed + self.chunk] for s in sequences]
        lengths = numpy.array([len(p) for p in parts])
        ids = numpy.zeros((len(parts), lengths.max()), numpy.int64)
        for row, part in zip(ids, parts):
            row[:len(part)] = part
        at = numpy.array([s.fed for s in sequences])
        logits = self.context.run([ids, numpy.array([s.slot for s in sequences]), at, lengths, numpy.arange((at + lengths).max()),
                                   numpy.arange(len(parts)) * ids.shape[1] + lengths - 1])[0]
        for s, n in zip(sequences, lengths):
            s.fed += int(n)
        return logits.argmax(-1).tolist()

    async def go_on(self):
        """Works while there are sequences."""
        prompts = True
        while self.waiting or self.active:
            while self.waiting and self.free:
                s = self.waiting.pop(0)
                s.slot = self.free.pop()
                self.active.append(s)
            fresh = [s for s in self.active if len(s.ids) - s.fed > 1]
            others = [s for s in self.active if len(s.ids) - s.fed == 1]
            now = fresh if fresh and (prompts or not others) else others
            prompts = not prompts
            try:
                tokens = await asyncio.get_running_loop().run_in_executor(None, self.step, now)
            except Exception as e:  # of all that were in the run
                for s in now:
                    s.told.put_nowait(e)
                    self.leave(s)
                continue
            for s, token in zip(now, tokens):
                if s not in self.active or s.fed < len(s.ids):
                    continue  # hung up, or more of its prompt follows
                s.ids.append(token)
                s.most -= 1
                s.told.put_nowait(token)
                if s.most == 0 or token in s.stop or len(s.ids) > self.cache:
                    s.told.put_nowait(None)
                    self.leave(s)

    def leave(self, s):
        if s in self.active:
            self.active.remove(s)
            self.free.append(s.slot)
        elif s in self.waiting:
            self.waiting.remove(s)

    async def tell(self, s):
        self.waiting.append(s)
        if self.stepping is None or self.stepping.done():
            self.stepping = asyncio.create_task(self.go_on())
        try:
            while (token := await s.told.get()) is not None:
                if isinstance(token, Exception):
                    raise token
                yield json.dumps({"id": token}) + "\n"
        finally:  # also where the client hangs up
            self.leave(s)


class Teller:
    def __init__(self, artifact, device, threads, queue):
        self.slots, self.queue = Slots(artifact, device, threads), queue

    def check_health(self):
        self.slots.model.probe()

    async def __call__(self, request: Request):
        slots = self.slots
        try:
            said = json.loads(await request.body())
            ids, most, stop = said["ids"], said.get("max_tokens", 16), said.get("stop", [])
            vocabulary = slots.model.outputs[0].dims[-1].value
            if not ids or not all(isinstance(i, int) and 0 <= i < vocabulary for i in [*ids, *stop]) or not isinstance(most, int) or most < 1:
                raise ValueError(f"ids and stop are numbers below {vocabulary}, max_tokens is at least 1")
            if len(ids) > slots.cache:
                raise ValueError(f"{len(ids)} ids: the cache has room for {slots.cache}")
        except (ValueError, KeyError, TypeError) as e:
            return JSONResponse({"error": f"{type(e).__name__}: {e}"}, 400)
        if len(slots.waiting) >= self.queue:
            return JSONResponse({"error": "too many wait for a slot"}, 503)
        return StreamingResponse(slots.tell(Sequence(ids, most, stop)), media_type="application/x-ndjson")


def app(o: Options):
    scale = {"num_replicas": o.replicas} if (o.most_replicas or 0) <= o.replicas else {
        "autoscaling_config": {"min_replicas": o.replicas, "max_replicas": o.most_replicas, "target_ongoing_requests": o.queue / 4}}
    made = serve.deployment(name="Teller", max_ongoing_requests=4 * o.queue, graceful_shutdown_timeout_s=60,
                            ray_actor_options={"num_cpus": o.cpus, "num_gpus": o.gpus}, **scale)(Teller)
    return made.bind(os.path.abspath(o.artifact), "cuda" if o.gpus else "cpu", o.threads, o.queue)
