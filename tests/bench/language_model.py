"""A language model's artifacts (token ids and cache positions in, logits out, samples/chat/export.py) beside llama.cpp.

    language_model.py quality --text FILE [--text FILE] --chunk 400 --most 4000 F32.so INT8.so FILE.gguf ...
        perplexity, how often the most likely token is that of the first one named, and the largest difference of logits (the largest of each taken
        off): all see the same chunks of the texts, each from an empty cache; ids by the tokenizer of the first .gguf (of --tokenizer, where none is named)
    language_model.py speed --aotc BIN --threads 1,2 --rounds 3 [--prefix "nice -n -10"] F32.so=F32.gguf INT8.so=Q8_0.gguf ...
        tokens a second of one token (at 32 in the cache) and of prompts, in turns, a process each; the medians over the rounds. llama.cpp computes
        the logits of a prompt's last token alone, as artifacts of samples/chat/export.py do; with its --all-logits (what quality needs) they compute
        those of all, a fifth of SmolLM2-135M's prompts.

Needs numpy and llama-cpp-python.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))
PROMPTS = (32, 128, 400)


class Artifact:
    def __init__(self, path):
        import binding
        self.binding, self.artifact = binding, binding.Artifact(os.path.abspath(path))
        self.artifact.create(binding.HOST)
        self.inputs = [(i.name.decode(), i.dtype, i.rank) for i in self.artifact.io(0)]

    def logits(self, ids):
        values = {1: np.arange(len(ids), dtype=np.int64), 2: np.array([ids], dtype=np.int64)}  # by rank: positions, ids
        context = self.artifact.context()
        given = self.binding.tensors([values[rank] for _, _, rank in self.inputs], [t for _, t, _ in self.inputs])
        out = context.output_arrays(given)
        context.run(given, self.binding.tensors(out, [i.dtype for i in context.out_infos]))
        context.close()
        return out[0].reshape(len(ids), -1)


class Gguf:
    def __init__(self, path):
        import llama_cpp
        self.model = llama_cpp.Llama(path, n_ctx=512, logits_all=True, verbose=False)

    def logits(self, ids):
        self.model.reset()
        self.model.eval(ids)
        return np.array(self.model.scores[:len(ids)])


def quality(o):
    import llama_cpp
    named = o.tokenizer or next(m for m in o.models if m.endswith(".gguf"))
    tokenizer = llama_cpp.Llama(named, vocab_only=True, verbose=False)
    chunks, left = [], o.most
    for path in o.text:
        ids = tokenizer.tokenize(open(path, "rb").read(), add_bos=False)[:left]
        left -= len(ids)
        chunks += [ids[i:i + o.chunk] for i in range(0, len(ids), o.chunk)]
    chunks = [ids for ids in chunks if len(ids) > 1]
    print(f"{sum(map(len, chunks))} tokens in {len(chunks)} chunks")
    first = []
    for path in o.models:
        model = (Gguf if path.endswith(".gguf") else Artifact)(path)
        loss, same, furthest, count = 0.0, 0, 0.0, 0
        for n, ids in enumerate(chunks):
            x = model.logits(ids)
            x = x - x.max(-1, keepdims=True)
            loss += (np.log(np.exp(x).sum(-1, dtype=np.float64))[:-1] - x[np.arange(len(ids) - 1), ids[1:]]).sum()
            if path == o.models[0]:
                first.append((x.argmax(-1), x))
            same += (x.argmax(-1) == first[n][0]).sum()
            furthest = max(furthest, np.abs(x - first[n][1]).max())
            count += len(ids)
        print(f"{os.path.basename(path):<40} perplexity {np.exp(loss / (count - len(chunks))):8.3f}   the same first choice {100 * same / count:6.2f} %"
              f"   logits at most {furthest:.3g} apart", flush=True)
        del model


def peer(path, threads):
    """One process of llama.cpp: tokens a second, by prompt and (1) of one token after a prompt of 32."""
    import llama_cpp
    model = llama_cpp.Llama(path, n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)

    def seconds(ids):
        start = time.perf_counter()
        model.eval(ids)
        return time.perf_counter() - start
    rates = {}
    for n in reversed(PROMPTS):
        times = []
        for _ in range(4):
            model.reset()
            times.append(seconds(list(range(1000, 1000 + n))))
        rates[n] = n / min(times)
    rates[1] = 1 / statistics.median(seconds([1234]) for _ in range(40))
    print(json.dumps(rates))


def speed(o):
    prefix = o.prefix.split()
    for threads in (int(t) for t in o.threads.split(",")):
        rates = {}
        for _ in range(o.rounds):
            for pair in o.models:
                so, gguf = pair.split("=")
                pinned = ["taskset", "-c", o.cpus.split(";")[0] if threads == 1 else o.cpus.split(";")[-1], *prefix]
                r = subprocess.run([*pinned, sys.executable, __file__, "peer", gguf, str(threads)], capture_output=True, text=True, check=True)
                for n, rate in json.loads(r.stdout.splitlines()[-1]).items():
                    rates.setdefault((pair, int(n)), ([], [], []))[1].append(rate)
                for n in (1, *PROMPTS):
                    r = subprocess.run([*pinned, o.aotc, "bench", so, "--dim", f"seq={n}", "--threads", str(threads), "--json"], capture_output=True,
                                       text=True, check=True)
                    report = json.loads(r.stdout)
                    rates[pair, n][0].append(n / (report["p50_us"] if n == 1 else report["min_us"]) * 1e6)
                    rates[pair, n][2].append(report["first_call_us"] / report["p50_us"])
        for (pair, n), (own, other, first) in sorted(rates.items(), key=lambda x: (o.models.index(x[0][0]), x[0][1])):
            a, b = statistics.median(own), statistics.median(other)
            print(f"{threads} threads  {os.path.basename(pair.split('=')[0]):<12} {'decode' if n == 1 else f'prompt of {n}':<14} "
                  f"aotc {a:7.1f}  llama.cpp {b:7.1f} tokens/s  ratio {a / b:.2f}   first call {statistics.median(first):.1f} x p50", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = p.add_subparsers(dest="verb", required=True)
    q = verbs.add_parser("quality")
    q.add_argument("models", nargs="+")
    q.add_argument("--text", action="append", required=True)
    q.add_argument("--tokenizer")
    q.add_argument("--chunk", type=int, default=400)
    q.add_argument("--most", type=int, default=4000)
    s = verbs.add_parser("speed")
    s.add_argument("models", nargs="+", help="ARTIFACT=GGUF")
    s.add_argument("--aotc", required=True)
    s.add_argument("--threads", default="1,2")
    s.add_argument("--rounds", type=int, default=3)
    s.add_argument("--prefix", default="")
    s.add_argument("--cpus", default="1;0-1", help="of one thread; of several")
    one = verbs.add_parser("peer")
    one.add_argument("model")
    one.add_argument("threads", type=int)
    o = p.parse_args()
    peer(o.model, o.threads) if o.verb == "peer" else {"quality": quality, "speed": speed}[o.verb](o)


main()
