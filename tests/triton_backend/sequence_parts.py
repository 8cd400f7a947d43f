"""Sequences behind the server's sequence batcher: a context or a slot each."""
import os
import sys

from served import all_threads, close, grpc, http, numpy
from tritonclient.utils import InferenceServerException


def sequences(o, s, e):
    """Two sequences beside each other, over gRPC and HTTP, with numbers and with names."""
    one = numpy.ones(4, "float32")
    name = s.get("/v2/models/counter/config")["output"][0]["name"]
    totals = {7: 0, "b": 0}
    for step, (which, scale) in enumerate([(7, 1), ("b", 10), (7, 2), ("b", 20), ("b", 30), (7, 3)]):
        totals[which] += scale
        client, module = ((s.web, http), (s.grpc, grpc))[step % 2]
        r = s.infer("counter", {"x": one * scale}, client=client, module=module, sequence_id=which, sequence_start=step < 2, sequence_end=step > 3)
        assert (r.as_numpy(name) == totals[which]).all(), (step, r.as_numpy(name), totals)
    assert (s.infer("counter", {"x": one}, sequence_id=7, sequence_start=True, sequence_end=True).as_numpy(name) == 1).all()
    for which in range(100, 120):  # more than an instance keeps: those that have ended make room, and leave nothing behind
        got = [s.infer("counter", {"x": one}, sequence_id=which, sequence_start=i == 0, sequence_end=i == 2).as_numpy(name)[0] for i in range(3)]
        assert got == [1, 2, 3], (which, got)
    try:
        s.infer("counter", {"x": one}, sequence_id=99)
        raise AssertionError("a sequence without a start was taken")
    except InferenceServerException as error:
        assert "sequence" in str(error), error


class Alone:
    """A sequence's steps by the C ABI alone, in a context of its own."""

    def __init__(self, model):
        self.context = model.context(threads=1)

    def step(self, ids):
        logits, filled = self.context.run([ids])
        return logits, filled


def decoding(o, s, e):
    """A decoder with a static cache: sequences of unlike lengths beside each other have the logits, to the bit, of contexts of their own; those for
    which there is no room wait, or end by their timeout; what a sequence holds is free when it ends."""
    if not o.runtime:
        return "there is no aotc_runtime: skipped"
    sys.path.insert(0, o.runtime)
    import aotc_runtime

    model = aotc_runtime.load(os.path.join(o.work, "models", "speaker", "1", "model.so"))
    draw = numpy.random.default_rng(4)

    def step(served, which, ids, alone, first=False, last=False, module=http, **more):
        client = s.grpc if module is grpc else None
        r = s.infer(served, {"ids": ids}, client=client, module=module, sequence_id=which, sequence_start=first, sequence_end=last, **more)
        if alone:
            logits, filled = alone.step(ids)
            assert (r.as_numpy("logits") == logits).all() and (r.as_numpy("filled") == filled).all(), (served, which)
        return int(r.as_numpy("logits").argmax())

    def sequence(served, which, prompt, steps, module):
        """A prompt, then what was said."""
        alone, ids = Alone(model), prompt
        for i in range(steps):
            ids = numpy.array([step(served, which, ids, alone, i == 0, i == steps - 1, module)])
    prompts = [draw.integers(0, 40, n) for n in (1, 8, 3, 5, 2, 7, 4, 6, 1, 8, 3, 5)]
    lengths = [1, 9, 4, 16, 2, 11, 3, 7, 20, 1, 5, 12]
    # In turns by one thread, three that live at once.
    alone, ids = [Alone(model) for _ in range(3)], prompts[:3]
    for turn in range(12):
        for i in range(3):
            last = (4, 12, 7)[i] - 1
            if turn <= last:
                ids[i] = numpy.array([step("speaker", 50 + i, ids[i], alone[i], turn == 0, turn == last, (http, grpc)[turn % 2])])
    # At once, more than there is room for: the others wait until one has ended.
    for served in ("speaker", "speakers"):
        done = all_threads(s, [lambda i=i: sequence(served, 200 + i, prompts[i], lengths[i], (http, grpc)[i % 2]) for i in range(12)])
        assert not any(done), done
    # No room: told to who will not wait, and there is some when one of the three ends. What one has too much is its own fault.
    held = [Alone(model) for _ in range(3)]
    for i in range(3):
        step("speaker", 300 + i, prompts[1], held[i], first=True)
    try:
        step("speaker", 303, prompts[0], None, first=True, timeout=100000)
        raise AssertionError("a fourth sequence was taken")
    except InferenceServerException as error:
        assert "timeout" in str(error), error
    step("speaker", 301, prompts[2], held[1], last=True)
    fresh = Alone(model)
    step("speaker", 303, prompts[3], fresh, first=True)
    for _ in range(2):
        step("speaker", 300, prompts[1], held[0])
    try:
        step("speaker", 300, prompts[0], None)
        raise AssertionError("a token behind the end of the cache was taken")
    except InferenceServerException as error:
        assert "index" in str(error), error
    step("speaker", 302, prompts[2], held[2], last=True)
    step("speaker", 303, prompts[0], fresh, last=True)
    step("speaker", 300, prompts[0], Alone(model), first=True, last=True)


def slots(o, s, e):
    """Sequences that are rows of one artifact's runs: each answer's logits are those of the model by itself, whatever runs beside it."""
    tokens, logits = ([e[f"talker.{i}.{k}"] for i in range(24)] for k in range(2))

    def feed(model, i, at, n, which, last=False, module=http):
        r = s.infer(model, {"input_ids": tokens[i][None, at:at + n]}, client=s.grpc if module is grpc else None, module=module, sequence_id=which, sequence_start=at == 0, sequence_end=last)
        close(r.as_numpy(r.get_response()["outputs"][0]["name"] if module is http else r.get_response().outputs[0].name), logits[i][None, at + n - 1], (model, i, at, n))

    def sequence(model, i, prompt, which, module):
        """A prompt, then token by token, to the end."""
        at, n = 0, min(prompt, len(tokens[i]))
        while at < len(tokens[i]):
            feed(model, i, at, n, which, at + n == len(tokens[i]), module)
            at, n = at + n, 1
    told = []
    for model in ("talker", "talkers", "talker_direct"):
        c = s.get(f"/v2/models/{model}/config")
        assert c["max_batch_size"] == 6 and [(t["name"], t["dims"], t["allow_ragged_batch"]) for t in c["input"]] == [("input_ids", [-1], True)] and c["output"][0]["dims"] == [96], c
        # More than there is room for; prompts of 1 to 20 tokens, a row has 8 at most.
        for i, done in enumerate(all_threads(s, [lambda i=i: sequence(model, i, 1 + (5 * i) % 20, 400 + i, (http, grpc)[i % 2]) for i in range(24)])):
            assert done is None, (model, i, done)
        fed = sum(1 + max(0, len(t) - 1 - (5 * i) % 20) for i, t in enumerate(tokens))
        runs = s.counted(model, lambda x: x["inference_stats"]["success"]["count"] >= fed)
        assert runs["inference_stats"]["fail"]["count"] == 0, runs
        told.append(f"{fed} requests in {runs['execution_count']} runs")
    # Slots of a method of another kind, with a number of each request.
    def added(which, pieces):
        total = 0
        for i, piece in enumerate(pieces):
            total += sum(piece)
            r = s.infer("sums", {"ids": numpy.array([piece]), "scale": numpy.full((1, 1), which, "float32")}, sequence_id=which, sequence_start=i == 0, sequence_end=i + 1 == len(pieces))
            assert r.as_numpy("sum").tolist() == [[total * which]], (which, i, r.as_numpy("sum"))
    pieces = ([[1, 2, 3, 4, 5, 6, 7, 8, 9]], [[5], [6], [7]], [[1, 2], [3], [4, 5, 6, 7, 8, 9]], [[9, 8, 7, 6, 5], [4]])
    for done in all_threads(s, [lambda i=i: added(1 + i, pieces[i % 4]) for i in range(12)]):
        assert done is None, done
    # A run that fails when states are written: told to all whose state is lost by it, and nobody else.
    def add(which, piece, **more):
        try:
            return s.infer("sums", {"ids": numpy.array([piece]), "scale": numpy.ones((1, 1), "float32")}, sequence_id=which, **more).as_numpy("sum").tolist()
        except InferenceServerException as error:
            return str(error)
    assert add(20, [7], sequence_start=True) == [[7]]
    said = add(21, [98, 5], sequence_start=True)
    assert "index" in said, said
    again = add(20, [1])
    assert again == [[8]] or "start it again" in again, again  # indices may be looked at before anything is written
    assert add(20, [3], sequence_start=True) == [[3]] and add(22, [4], sequence_start=True, sequence_end=True) == [[4]]
    assert add(20, [3], sequence_end=True) == [[6]] and add(21, [1], sequence_start=True, sequence_end=True) == [[1]]
    # Which run together: steps of all, prompts of unlike lengths, and a long one that would make the others wait by itself.
    runs = lambda: {b["batch_size"]: b["compute_infer"]["count"] for b in s.stats("talker_fours")["batch_stats"]}
    count = lambda n: s.counted("talker_fours", lambda x: x["inference_stats"]["success"]["count"] >= n)
    at = [0, 0, 0, 0]
    for turn, pieces in enumerate(((2, 3, 2, 3), (1, 1, 1, 1), (1, 1, 7, 1), (1, 2, 1, 2))):
        before = runs()
        done = all_threads(s, [lambda i=i: feed("talker_fours", 5 + i, at[i], pieces[i], 500 + i, turn == 3) for i in range(4)])
        assert not any(done), done
        count(4 * (turn + 1))
        new = {k: v - before.get(k, 0) for k, v in runs().items() if v > before.get(k, 0)}
        assert new == ({3: 1, 1: 1} if turn == 2 else {4: 1}), (turn, new)
        at = [a + n for a, n in zip(at, pieces, strict=True)]
    # What is wrong with one request is said to it alone, and its sequence goes on from where it was.
    feed("talker", 5, 0, 9, 600)
    def refused(words, value, which=600, **more):
        try:
            s.infer("talker", {"input_ids": numpy.array(value)}, sequence_id=which, **more)
        except InferenceServerException as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{value} was taken")
    refused("index 96", [[3, 4, 96]])
    refused("beyond its 47", [list(range(39))])
    refused("START", [[1]], which=601)
    refused("batch-size", [[1], [2]])
    refused("47", [list(range(48))], which=602, sequence_start=True)
    feed("talker", 5, 9, 1, 600)
    bad = lambda: refused("index 96", [[1] * 17 + [96]], which=603, sequence_start=True, sequence_end=True)
    for done in all_threads(s, [bad] + [lambda i=i: sequence("talker", i, 4, 610 + i, http) for i in range(4)]):
        assert done is None, done
    feed("talker", 5, 10, 1, 600, last=True)
    return "; ".join(told)


PARTS = {"sequences": sequences, "decoding": decoding, "slots": slots}
