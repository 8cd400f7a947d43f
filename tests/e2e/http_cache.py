"""The cache of compiled objects behind HTTP: jobs share it, and nothing that a server does breaks a build.

    http_cache.py --aotc BIN --probe CACHE_PROBE --archive PT2 --work DIR
"""
import argparse
import contextlib
import ctypes
import json
import os
import re
import shutil
import socket
import subprocess
import sys

from cache_server import GET_KINDS, PUT_KINDS, Server
from json_schema import validate

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import thirds  # noqa: E402

SECRET = "s3cret-of-the-test"


class Builds:
    def __init__(self, aotc, prober, archive, work):
        self.aotc, self.prober, self.archive, self.work = aotc, prober, archive, work
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(work)
        # The user's own folder of objects is the front one: an empty one in each place.
        self.environment = {k: v for k, v in os.environ.items() if k.lower() not in ("http_proxy", "https_proxy", "all_proxy")}
        self.environment.update(AOTC_CACHE_TOKEN=SECRET, NO_PROXY="127.0.0.1")

    def folder(self, place):
        return os.path.join(self.work, place, "aotc", "objects")

    def command(self, place, *words):
        if "--cache-timeout" not in words:
            words = (*words, "--cache-timeout", "300")  # whatever else the machine does
        return subprocess.run([self.aotc, "build", self.archive, "--cpu", "portable", "-o", os.path.join(self.work, "model.so"), *words],
                              capture_output=True, text=True, env={**self.environment, "XDG_CACHE_HOME": os.path.join(self.work, place)}, timeout=600)

    def refused(self, exit_code, *words):
        r = self.command("refused", *words)
        assert r.returncode == exit_code and SECRET not in r.stdout + r.stderr, (words, r.returncode, r.stdout, r.stderr)
        return r.stderr

    def __call__(self, place, *words):
        """The report and the artifact's bytes; the token is in neither, nor in what is printed."""
        r = self.command(place, *words, "--json")
        assert r.returncode == 0, f"{words}: exit {r.returncode}\n{r.stdout}\n{r.stderr}"
        report = json.loads(r.stdout)
        validate("report", report)
        kept = open(os.path.join(self.work, "model.report.json")).read()
        assert json.loads(kept)["objects"] == report["objects"]
        artifact = open(os.path.join(self.work, "model.so"), "rb").read()
        assert SECRET not in r.stdout + r.stderr + kept and SECRET.encode() not in artifact, words
        return report, artifact

    def probe(self, verb, url, n, timeout=60):
        r = subprocess.run([self.prober, verb, url, str(timeout), str(n)], capture_output=True, text=True, env=self.environment, timeout=300)
        assert r.returncode == 0, (verb, url, r.returncode, r.stdout, r.stderr)
        return json.loads(r.stdout)

    def warning(self, report, server):
        """The one line, which names the server and is not among those of the artifact."""
        warning = report["objects"]["server"]["warning"]
        assert server in warning and "\n" not in warning and not any(server in w for w in report["warnings"]), (warning, report["warnings"])
        return warning


def shares(b):
    """The second job takes all from the server, with its token, into its own folder; a third needs no server."""
    with Server() as s:
        url = s.url + "/a/path//"
        first, artifact = b("first", "--cache", url)
        n = first["objects"]["compiled"]
        assert n >= 3 and first["objects"] == {"compiled": n, "cached": 0, "server": {"url": s.url + "/a/path", "hits": 0, "misses": n, "stored": n, "failed": 0}}, first["objects"]
        assert len(s.objects) == n and all(re.fullmatch(r"/a/path/[0-9a-f]{64}", path) for path in s.objects), list(s.objects)
        assert {token for _, _, token in s.log} == {"Bearer " + SECRET}
        assert len(os.listdir(b.folder("first"))) == n

        s.log.clear()
        second, same = b("second", "--cache", url)
        assert second["objects"] == {"compiled": 0, "cached": n, "server": {"url": s.url + "/a/path", "hits": n, "misses": 0, "stored": 0, "failed": 0}}, second["objects"]
        assert same == artifact and not s.asked("PUT") and len(s.asked("GET")) == n
        assert len(os.listdir(b.folder("second"))) == n

        s.log.clear()
        third, same = b("second", "--cache", url)
        assert third["objects"]["cached"] == n and third["objects"]["server"]["hits"] == 0 and same == artifact and not s.log

        # Read only: taken and kept here, nothing is given.
        taken, path = dict(s.objects), next(iter(s.objects))
        del s.objects[path]
        reader, same = b("reader", "--cache", url, "--cache-read-only")
        told = reader["objects"]["server"]
        assert (told["hits"], told["misses"], told["stored"], told["failed"]) == (n - 1, 1, 0, 0) and same == artifact, told
        assert not s.asked("PUT") and set(s.objects) == set(taken) - {path} and len(os.listdir(b.folder("reader"))) == n
        # A folder that is named beside it, too, is only read; none is fine.
        os.makedirs(os.path.join(b.work, "named", "objects"))
        named, same = b("none", "--cache", os.path.join(b.work, "named"), "--cache", url, "--cache-read-only")
        assert named["objects"]["cached"] == n - 1 and same == artifact and os.listdir(os.path.join(b.work, "named", "objects")) == []
        none, same = b("none", "--cache", "none", "--cache", url)
        assert none["objects"]["cached"] == n - 1 and none["objects"]["server"]["stored"] == 1 and same == artifact
        assert s.objects == taken and not os.path.exists(b.folder("none"))
    return artifact, taken


def bad_servers(b):
    """Whatever they do, what comes is right, three requests are all that is tried, and one line tells of it."""
    n = 20
    with Server() as good, contextlib.ExitStack() as stack:
        told = b.probe("put", good.url, n)
        assert (told["stored"], told["failed"], told["warning"]) == (n, 0, "") and len(good.objects) == n, told
        told = b.probe("take", good.url, n)
        assert (told["right"], told["wrong"], told["hits"], told["misses"], told["warning"]) == (n, 0, n, 0, ""), told
        objects, good.objects = good.objects, {}
        told = b.probe("take", good.url, n)
        assert (told["right"], told["misses"], told["failed"], told["warning"]) == (0, n, 0, "") and len(good.asked("GET")) == 2 * n, told
        good.log.clear()
        for method, kind in [("GET", k) for k in GET_KINDS] + [("PUT", k) for k in PUT_KINDS]:
            s = stack.enter_context(Server())
            s.kind[method], s.elsewhere = kind, good.url
            if method == "GET":
                s.objects = dict(objects)
            told = b.probe({"GET": "take", "PUT": "put"}[method], s.url, n, timeout=0.3 if kind in ("stalls", "drips") else 60)
            assert (told["right"], told["wrong"], told["stored"], told["misses"], told["failed"]) == (0, 0, 0, 0, 3), (method, kind, told)
            assert s.url in told["warning"] and "any more in this build" in told["warning"], (method, kind, told)
            assert ("larger than what is read" in told["warning"]) == kind.startswith("endless"), (kind, told)  # by size, not when the time is over
            # Of short requests the server may hear later than the client has given them up.
            assert len(s.log) <= 3 if kind in ("stalls", "drips") else len(s.asked(method)) == len(s.log) == 3, (method, kind, s.log)
            print("ok  ", method, kind, "--", told["warning"].split(" (", 1)[1][:200], flush=True)
        assert not good.log, "redirects are not followed: the token is not for other servers"


def builds_beside_bad_servers(b, artifact, objects):
    """A build ends, with the same bytes and one warning."""
    for kind in ("500", "stalls", "flipped", "endless"):
        with Server() as s:
            s.objects, s.kind["GET"] = {path.replace("/a/path", ""): body for path, body in objects.items()}, kind
            report, same = b("get_" + kind, "--cache", s.url, "--cache-timeout", "0.3" if kind == "stalls" else "60", "--cache-read-only")
            assert same == artifact and report["objects"]["cached"] == report["objects"]["server"]["hits"] == 0 and report["objects"]["server"]["failed"] >= 3, report["objects"]
            assert "any more in this build" in b.warning(report, s.url)
            if kind == "500":
                r = b.command("printed", "--cache", s.url, "--cache-read-only")
                assert r.returncode == 0 and r.stderr.count("warning") == r.stderr.count(s.url) == 1 and SECRET not in r.stdout + r.stderr, r.stderr

    # One that is damaged is made again, and the server has it whole afterwards.
    with Server() as s:
        s.objects = {path.replace("/a/path", ""): body for path, body in objects.items()}
        whole, path = dict(s.objects), next(iter(s.objects))
        s.objects[path] = whole[path][:100]
        report, same = b("healed", "--cache", s.url)
        told = report["objects"]["server"]
        assert same == artifact and (told["hits"], told["stored"], told["failed"]) == (len(whole) - 1, 1, 1) and s.objects == whole, told
        assert "any more" not in b.warning(report, s.url)

    # Away: nothing listens at a port that is taken, and no such name.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for url in (f"http://127.0.0.1:{taken.getsockname()[1]}", "http://nowhere.invalid/cache"):
            report, same = b("away" + url[7:10], "--cache", url, "--cache-timeout", "5")
            assert same == artifact and report["objects"]["server"]["stored"] == 0, report["objects"]
            print("ok   away --", b.warning(report, url), flush=True)


def over_tls(b, artifact):
    """A certificate that the machine does not trust is no server; SSL_CERT_FILE says which is."""
    pem, key = os.path.join(b.work, "cert.pem"), os.path.join(b.work, "key.pem")
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-days", "2", "-subj", "/CN=127.0.0.1",
                           "-addext", "subjectAltName=IP:127.0.0.1"], capture_output=True, text=True) if shutil.which("openssl") else None
    if made is None or made.returncode:
        print("left out: https, since there is no openssl that makes a certificate", made.stderr if made else "")
        return
    with Server(tls=(pem, key)) as s:
        report, same = b("untrusted", "--cache", s.url)
        assert same == artifact and not s.objects, report["objects"]
        if "not supported" in b.warning(report, s.url):
            print("left out: https, which this libcurl does not have")
            return
        b.environment["SSL_CERT_FILE"] = pem
        first, same = b("trusted", "--cache", s.url)
        second, same_again = b("trusted_too", "--cache", s.url)
        n = first["objects"]["compiled"]
        assert artifact == same == same_again and first["objects"]["server"]["stored"] == second["objects"]["server"]["hits"] == n == len(s.objects), (first, second)
        del b.environment["SSL_CERT_FILE"]


def usage(b):
    for url, says in (("ftp://127.0.0.1/x", "neither http nor https"), ("http://me:" + SECRET + "@127.0.0.1/x", "AOTC_CACHE_TOKEN"), ("http:///x", "without a server"),
                      ("http://127.0.0.1/a b", "a blank"), ("http://127.0.0.1/?x", "'?'")):
        assert says in b.refused(2, "--cache", url), url
    assert "one folder and one URL" in b.refused(2, "--cache", "http://127.0.0.1:1/", "--cache", "http://127.0.0.1:2/")
    assert "one folder and one URL" in b.refused(2, "--cache", "a", "--cache", "b")
    assert "--cache-timeout" in b.refused(2, "--cache", "http://127.0.0.1:1/", "--cache-timeout", "0")
    for token in ("a\r\nX-Injected: yes", "two words", "\u00fcmlaut"):
        b.environment["AOTC_CACHE_TOKEN"] = token
        said = b.refused(2, "--cache", "http://127.0.0.1:1/")
        assert "AOTC_CACHE_TOKEN has a character" in said and token not in said, said
    del b.environment["AOTC_CACHE_TOKEN"]
    with Server() as s:
        b("no_token", "--cache", s.url, "--cache-read-only")
        assert s.log and {token for _, _, token in s.log} == {None}


def libcurl():
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "probe", "archive", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    b = Builds(os.path.abspath(o.aotc), os.path.abspath(o.probe), os.path.abspath(o.archive), os.path.abspath(o.work))
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", o.aotc], capture_output=True, text=True, check=True).stdout)
    assert needed and not any("curl" in library for library in needed), needed
    if libcurl() is None:
        assert "libcurl4" in b.refused(5, "--cache", "http://127.0.0.1:1/")
        print("left out: all else, since libcurl is not on this machine (packaging/setup.sh installs it)")
        return
    artifact, objects = shares(b)
    print("ok   shared", flush=True)
    parts = {"bad servers": lambda: bad_servers(b), "builds beside bad servers": lambda: builds_beside_bad_servers(b, artifact, objects),
             "https": lambda: over_tls(b, artifact), "usage": lambda: usage(b)}
    for name in thirds.some(parts, "parts of http_cache.py"):
        parts[name]()
        print("ok  ", name, flush=True)


if __name__ == "__main__":
    main()
