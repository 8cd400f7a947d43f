"""An artifact for a server: requests joined along the batch dimension, and a canary. Needs aotc_runtime and NumPy; no torch, no Ray."""
import json
import os
import queue
import re

import aotc_runtime
import numpy

UNBOUNDED = 64  # rows of a run, where the batch dimension has no bound


def distance(got, expected):
    """Relative L2; of what is no float the share of elements that differ."""
    if got.shape != expected.shape:
        return float("inf")
    if not numpy.issubdtype(expected.dtype, numpy.inexact):
        return float(numpy.mean(got != expected)) if expected.size else 0.0
    got, expected = got.astype(numpy.complex128).ravel(), expected.astype(numpy.complex128).ravel()
    return float(numpy.linalg.norm(got - expected) / max(numpy.linalg.norm(expected), 1e-30))


class Artifact:
    """A loaded model and its contexts. `run` may be called by any number of threads; as many work as there are contexts.

    canary: NAME.refs beside NAME.so, if `aotc references NAME.so --against NAME.pt2 -o NAME.refs` was run: its outputs must be as near as that says.
    Else inputs are drawn, and what they give at load must come again.
    """

    def __init__(self, path, version="1", device=None, contexts=1, threads=1):
        self.path, self.version, self.name = path, version, re.sub(r"\.so$", "", os.path.basename(path))
        on_cpu = device in (None, "cpu")
        # The pages of the weights are those of the file: all processes of a machine have one copy of them.
        self.model = aotc_runtime.load(path, device, own_weights=False if on_cpu else None)
        self.contexts = queue.SimpleQueue()
        for _ in range(contexts):
            self.contexts.put(self.model.context(threads))
        self.most = self._batch()
        self.canary, self.expected, self.limits = self._stored(re.sub(r"\.so$", "", path) + ".refs") or self._drawn()
        self.check()

    def run(self, requests):
        """For each request (inputs by name) its outputs by name, or the error that it alone meets (ValueError: the request's own fault)."""
        answers, groups = [None] * len(requests), {}
        for i, inputs in enumerate(requests):
            rows = {x.shape[0] for x in inputs.values() if x.ndim}
            alike = self.most and len(rows) == 1 and all(x.ndim for x in inputs.values()) and 0 < min(rows) <= self.most
            # Requests that differ in anything but their rows are run apart, so that one which does not fit fails alone.
            key = tuple(sorted((n, str(x.dtype), x.shape[1:]) for n, x in inputs.items())) if alike else i
            batches = groups.setdefault(key, [])
            count = min(rows) if alike else 0
            if not batches or batches[-1][0] + count > self.most:
                batches.append([0, []])
            batches[-1][0] += count
            batches[-1][1].append(i)
        for batches in groups.values():
            for _, batch in batches:
                for i, answer in zip(batch, self._together([requests[i] for i in batch])):
                    answers[i] = answer
        return answers

    def check(self):
        """Raises where the device cannot run the model any more, or where the canary's outputs are not what they should be."""
        self.model.probe()
        if self.canary is None:
            return
        got = self._one(self.canary)
        for name, expected in self.expected.items():
            far = distance(got[name], expected)
            if not far <= self.limits[name]:
                raise RuntimeError(f"{self.path}: the canary's output {name} is {far:.3g} from what was expected, {self.limits[name]:.3g} is allowed")

    def _one(self, inputs):
        context = self.contexts.get()
        try:
            if self.model.states:
                context.state_reset()  # a request sees no other's state
            return dict(zip([o.name for o in self.model.outputs], context.run(inputs)))
        finally:
            self.contexts.put(context)

    def _together(self, requests):
        if len(requests) > 1:
            try:
                whole = self._one({n: numpy.concatenate([r[n] for r in requests]) for n in requests[0]})
                ends = numpy.cumsum([next(iter(r.values())).shape[0] for r in requests])
                return [{n: y[e - next(iter(r.values())).shape[0]:e] for n, y in whole.items()} for r, e in zip(requests, ends)]
            except aotc_runtime.Error:
                pass  # of one of them: each alone
        answers = []
        for r in requests:
            try:
                answers.append(self._one(r))
            except (aotc_runtime.Error, TypeError, ValueError, KeyError) as e:
                answers.append(e)
        return answers

    def _drawn_inputs(self, rows, seed):
        """Floats from 0.25 to 1; integers are the number of the row, which most tables have. Dimensions are at their least."""
        random = numpy.random.default_rng(seed)
        inputs = {}
        for t in self.model.inputs:
            shape = [d.min if d.value is None else d.value for d in t.dims]
            if rows and shape:
                shape[0] = rows
            if t.dtype.startswith(("float8", "bfloat16")):
                inputs[t.name] = numpy.full(shape, 0x3F00 if t.dtype == "bfloat16" else 0x30, numpy.uint16 if t.dtype == "bfloat16" else numpy.uint8)
            elif t.dtype.startswith(("float", "complex")):
                inputs[t.name] = (0.25 + 0.75 * random.random(shape)).astype(t.dtype)
            else:
                inputs[t.name] = numpy.ones(shape, t.dtype)
        return inputs

    def _batch(self):
        """The most rows of a run; 0: the first dimension is no batch. Names do not tell (positions are a first dimension, too): two rows are run
        together and each alone."""
        tensors = [*self.model.inputs, *self.model.outputs]
        firsts = {t.dims[0].symbol if t.dims else None for t in tensors}
        if self.model.states or len(firsts) != 1 or None in firsts:
            return 0
        most = min(t.dims[0].max or UNBOUNDED for t in tensors)
        if most < 2:
            return 0
        two = self._drawn_inputs(2, 1)
        try:
            together = self._one(two)
            for row in (0, 1):
                alone = self._one({n: x[row:row + 1] for n, x in two.items()})
                if any(not distance(together[n][row:row + 1], y) <= 1e-3 for n, y in alone.items()):
                    return 0
        except aotc_runtime.Error:
            return 0
        return most

    def _stored(self, folder):
        try:
            with open(os.path.join(folder, "expected", "references.json")) as f:
                limits = {o["name"]: o["limit"] for o in json.load(f)["outputs"]}
        except FileNotFoundError:
            return None
        read = lambda kind, names: {n: numpy.load(os.path.join(folder, kind, n + ".npy")) for n in names}
        return read("inputs", [t.name for t in self.model.inputs]), read("expected", limits), limits

    def _drawn(self):
        inputs = self._drawn_inputs(0, 2)
        try:
            outputs = self._one(inputs)
        except aotc_runtime.Error:
            return None, {}, {}  # the model asks more of its inputs: only what is stored can be a canary
        return inputs, outputs, dict.fromkeys(outputs, 1e-3)
