"""The command line on what is not as it should be: files that are none, damaged caches, interrupted builds, wrong archives. Needs no torch: the
archive in archives/ is the model.

    cli_test.py --aotc BIN --work DIR [name ...]
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
PT2 = os.path.join(HERE, "archives", "torch_2_11.pt2")
USAGE, BAD_INPUT, TOOLCHAIN, IO = 2, 3, 5, 6
TESTS = []


def test(f):
    TESTS.append(f)
    return f


class Bench:
    """A folder of its own for one test, with a cache of its own."""

    def __init__(self, aotc, folder):
        self.aotc, self.folder = aotc, folder
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.env = {**os.environ, "XDG_CACHE_HOME": self.at("cache")}

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


@test
def only_regular_files_are_opened(b):
    so = b.build()
    os.mkfifo(b.at("fifo"))
    os.mkdir(b.at("folder"))
    server = socket.socket(socket.AF_UNIX)
    server.bind(os.path.relpath(b.at("socket"), os.getcwd()) if len(b.at("socket")) > 100 else b.at("socket"))
    for what, text in (("fifo", "a FIFO"), ("folder", "a folder"), ("socket", "a socket"), ("/dev/zero", "a device"), ("absent", "no such file")):
        f = what if what[0] == "/" else b.at(what)
        every = [
            ["build", f], ["build", PT2, "--shapes", f], ["explain", f], ["inspect", f],
            ["verify", f, "--against", PT2], ["verify", so, "--against", f], ["bench", f], ["bench", so, "--against", f],
            ["run", f, "-o", b.at("out")], ["opt", f], ["build", PT2, "--tuning-db", f], ["build", PT2, "-o", f],
        ]
        for words in every if what == "fifo" else [["build", f], ["run", f, "-o", b.at("out")]]:
            b.refused(IO, text, *words)
    inputs = [i["name"] for i in json.loads(b.ok("inspect", so, "--json").stdout)["inputs"]]
    b.refused(IO, "a FIFO", "run", so, "-o", b.at("out"), *[w for name in inputs for w in ("-i", f"{name}={b.at('fifo')}")])
    server.close()


@test
def the_artifact_is_written_beside_nothing_that_is_read(b):
    copy = b.at("copy.pt2")
    shutil.copy(PT2, copy)
    b.refused(USAGE, "a name of its own", "build", copy, "-o", copy)
    b.refused(USAGE, "call it .so", "build", copy, "-o", b.at("model.h"))
    b.refused(USAGE, "name the artifact", "build", copy, "-o", b.at("new") + "/")
    assert open(copy, "rb").read() == open(PT2, "rb").read()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--aotc", required=True)
    p.add_argument("--work", required=True)
    p.add_argument("names", nargs="*")
    o = p.parse_args()
    failed = 0
    for t in TESTS:
        if o.names and t.__name__ not in o.names:
            continue
        try:
            t(Bench(os.path.abspath(o.aotc), os.path.join(os.path.abspath(o.work), t.__name__)))
            print("ok  ", t.__name__, flush=True)
        except Exception:
            failed += 1
            print("FAIL", t.__name__, traceback.format_exc()[-4000:], flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
