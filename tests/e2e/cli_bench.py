"""What the tests of the command line share: the archive, a folder for each test, helpers. TESTS: (test, has a cache of its own)."""
import json
import os
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PT2 = os.path.join(HERE, "archives", "torch_2_11.pt2")
USAGE, BAD_INPUT, TOOLCHAIN, IO = 2, 3, 5, 6
TESTS = []


def test(f):
    TESTS.append((f, False))
    return f


def test_of_caches(f):
    """A test whose objects must not be compiled before it."""
    TESTS.append((f, True))
    return f


class Bench:
    """A folder of its own for one test; the cache of objects is in it or in `cache`."""

    def __init__(self, aotc, seal_check, folder, cache=None):
        self.aotc, self.seal_check, self.folder = aotc, seal_check, folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.env = {**os.environ, "XDG_CACHE_HOME": cache or self.at("cache")}

    def at(self, *names):
        return os.path.join(self.folder, *names)

    def run(self, *words, env={}, **kwargs):
        return subprocess.run([self.aotc, *words], capture_output=True, text=True, timeout=120, env={**self.env, **env}, cwd=self.folder, **kwargs)

    def ok(self, *words, **kwargs):
        r = self.run(*words, **kwargs)
        assert r.returncode == 0, f"{words}: exit {r.returncode}\n{r.stdout}{r.stderr}"
        return r

    def refused(self, code, text, *words, **kwargs):
        r = self.run(*words, **kwargs)
        assert r.returncode == code, f"{words}: exit {r.returncode}, not {code}\n{r.stdout}{r.stderr}"
        assert text in r.stderr, f"{words}: no '{text}' in\n{r.stderr}"
        return r

    def build(self, name="model.so", *more, **kwargs):
        self.ok("build", PT2, "-o", self.at(name), "--quiet", *more, **kwargs)
        return self.at(name)


def inputs_of(b, so):
    """-i options for a run on zeros."""
    words = []
    for i in json.loads(b.ok("inspect", so, "--json").stdout)["inputs"]:
        assert i["dtype"] == "float32" and all(isinstance(d, int) for d in i["shape"])
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({''.join(f'{d}, ' for d in i['shape'])}), }}"
        header += " " * (63 - (10 + len(header)) % 64) + "\n"
        size = 4
        for d in i["shape"]:
            size *= d
        with open(b.at(i["name"] + ".npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(size))
        words += ["-i", f"{i['name']}={b.at(i['name'] + '.npy')}"]
    return words


def files_below(folder):
    return sorted(os.path.join(d, f) for d, _, names in os.walk(folder) for f in names)


def hidden(b):
    return [f for f in os.listdir(b.folder) if f.startswith(".aotc")]


def slow_compiler(b):
    """A g++ that waits while the file 'go' is missing; its process ids go to the file 'compilers'."""
    with open(b.at("slow"), "w") as f:
        f.write(f'#!/bin/sh\n[ "$1" = --version ] || {{ echo $$ >> {b.at("compilers")}; until [ -e {b.at("go")} ]; do sleep 0.1; done; }}\nexec g++ "$@"\n')
    os.chmod(b.at("slow"), 0o755)
    return {**b.env, "CXX": b.at("slow")}


def wait_for(what, seconds=60):
    end = time.time() + seconds
    while not what():
        assert time.time() < end, "it does not happen"
        time.sleep(0.05)
