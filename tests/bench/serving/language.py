"""Tokens a second and times between tokens of samples/llm_server beside llama.cpp's own server, on the same weights, in turns.

    language.py --ours BIN [--llama BIN] MODEL.so[=FILE.gguf] [MODEL.so[=FILE.gguf] ...] [--slots 8] [--context 512] [--threads N] [--streams 1,8,32] [--prompt 64] [--tokens 64]
                [--seconds 20] [--rounds 3] [--hang-up 0.0] [--vocabulary 49152] [--prefix "nice -n -5"] [--out FILE.jsonl]

MODEL.so is samples/llm/export.py's (with its --slots), FILE.gguf the same model (without it the artifact is served alone); llama.cpp's server divides its context among as many slots. Each stream is a client that sends
a prompt of drawn token ids, none like another, reads `--tokens` tokens as server-sent events and asks again; `--hang-up` of them leave in the middle. Both servers are
up all the time and asked in turns within each round. Times are the client's: to the first token, and from one event to the next. Processor time is the server's for a token.
"""
import argparse
import asyncio
import json
import os
import random
import shlex
import socket
import statistics
import subprocess
import time
import urllib.request

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, name, command, port):
        self.name, self.port = name, port
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if OPENER.open(f"http://127.0.0.1:{port}/health", timeout=5).status == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"{' '.join(command)}: ended with {self.process.returncode}")
            time.sleep(0.1)
        raise SystemExit(f"{' '.join(command)}: does not answer")

    def processor(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident(self):
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) // 1024

    def stop(self):
        self.process.terminate()
        self.process.wait()


async def ask(o, server, ids, leave, seen):
    """One answer. `leave`: the number of events after which the client hangs up, or None."""
    body = json.dumps({"prompt": ids, "max_tokens": o.tokens, "temperature": 0, "ignore_eos": True, "stream": True, "cache_prompt": False,
                       "stream_options": {"include_usage": True}}).encode()
    begun = last = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        status = (await reader.readline()).split()
        if status[1:2] != [b"200"]:
            if status[1:2] in ([b"429"], [b"503"]):
                seen["refused"] += 1
                await asyncio.sleep(0.05)
            else:
                seen["failed"].append((status, (await reader.read(2000)).decode(errors="replace")))
            return
        events = 0
        while line := await reader.readline():
            if not line.startswith(b"data: "):
                continue
            now = time.monotonic()
            if line.startswith(b"data: [DONE]"):
                seen["whole"] += 1
                return
            event = json.loads(line[6:])
            if "error" in event:
                seen["failed"].append(event)
                return
            if event.get("usage"):
                seen["tokens"] += event["usage"]["completion_tokens"]
            if not any(c.get("text") for c in event.get("choices", ())):
                continue
            events += 1
            (seen["gaps"] if events > 1 else seen["first"]).append(now - last)
            last = now
            if leave is not None and events >= leave:
                seen["left"] += 1
                seen["tokens"] += events
                return
        seen["failed"].append(f"cut off after {events} events and {time.monotonic() - begun:.2f} s")
    finally:
        writer.close()


async def load(o, server, streams, seed):
    rng = random.Random(seed)
    seen = {"tokens": 0, "whole": 0, "left": 0, "refused": 0, "failed": [], "gaps": [], "first": []}
    end = time.monotonic() + o.seconds

    async def client():
        while time.monotonic() < end:
            ids = [rng.randrange(100, o.vocabulary) for _ in range(o.prompt)]
            await ask(o, server, ids, rng.randrange(1, o.tokens) if rng.random() < o.hang_up else None, seen)

    begun, processor = time.monotonic(), server.processor()
    await asyncio.gather(*(client() for _ in range(streams)))
    seen["seconds"], seen["processor"] = time.monotonic() - begun, server.processor() - processor
    return seen


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * p))] if values else float("nan")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pairs", nargs="+", metavar="MODEL.so[=FILE.gguf]")
    p.add_argument("--ours", required=True, help="samples/llm_server, built")
    p.add_argument("--llama", help="llama.cpp's llama-server")
    for name, value in (("slots", 8), ("context", 512), ("threads", os.cpu_count()), ("prompt", 64), ("tokens", 64), ("rounds", 3), ("vocabulary", 49152), ("queue", 64)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--streams", default="1,8,32")
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--hang-up", type=float, default=0)
    p.add_argument("--prefix", default="")
    p.add_argument("--out")
    o = p.parse_args()
    for pair in o.pairs:
        so, _, gguf = pair.partition("=")
        ports = free_port(), free_port()
        prefix = shlex.split(o.prefix)
        servers = [Server("aotc", [*prefix, o.ours, so, "--port", str(ports[0]), "--threads", str(o.threads), "--queue", str(o.queue)], ports[0])]
        if gguf:
            servers.append(Server("llama.cpp", [*prefix, o.llama, "-m", gguf, "--port", str(ports[1]), "--threads", str(o.threads), "--threads-batch", str(o.threads), "--parallel",
                                                str(o.slots), "--ctx-size", str(o.slots * o.context)], ports[1]))
        try:
            for streams in map(int, o.streams.split(",")):
                rows = {s.name: [] for s in servers}
                for i in range(o.rounds):
                    for s in servers:
                        rows[s.name].append(asyncio.run(load(o, s, streams, f"{s.name}{streams}{i}")))
                rate = {}
                for s in servers:
                    rs = rows[s.name]
                    rate[s.name] = statistics.median(r["tokens"] / r["seconds"] for r in rs)
                    gaps, first = [g for r in rs for g in r["gaps"]], [g for r in rs for g in r["first"]]
                    row = {"pair": "=".join(map(os.path.basename, filter(None, (so, gguf)))), "server": s.name, "streams": streams, "threads": o.threads, "prompt": o.prompt, "tokens": o.tokens,
                           "tokens_s": round(rate[s.name], 1), "first_ms": [round(1e3 * percentile(first, q), 1) for q in (0.5, 0.99)],
                           "between_ms": [round(1e3 * percentile(gaps, q), 2) for q in (0.5, 0.99)], "processor_ms_token": round(1e3 * sum(r["processor"] for r in rs) / max(1, sum(r["tokens"] for r in rs)), 2),
                           **{k: sum(r[k] for r in rs) for k in ("whole", "left", "refused")}, "failed": sum(len(r["failed"]) for r in rs), "resident_mb": s.resident()}
                    print(json.dumps(row), flush=True)
                    for f in [f for r in rs for f in r["failed"]][:3]:
                        print("    ", f)
                    if o.out:
                        with open(o.out, "a") as out:
                            out.write(json.dumps(row) + "\n")
                if gguf:
                    print(f"{streams} streams: aotc / llama.cpp {rate['aotc'] / rate['llama.cpp']:.2f}", flush=True)
        finally:
            for s in servers:
                s.stop()


if __name__ == "__main__":
    main()
