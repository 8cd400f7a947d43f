"""The cache of compiled objects that jobs share."""
import os

from ci_case import test


def objects(folder):
    return sorted(os.listdir(os.path.join(folder, "objects"))) if os.path.isdir(os.path.join(folder, "objects")) else []


@test
def cache(c):
    pt2, shared = c.net(), c.at("shared cache")

    def build(*words, exit_code=0):
        words = ("build", pt2, "-o", c.at("net.so"), "--cpu", "avx2", *words)
        return c.json("report", *words)["objects"] if exit_code == 0 else c.run(*words, exit_code=exit_code).stderr

    first = build("--cache", shared)
    assert first["cached"] == 0 and first["compiled"] > 0 and len(objects(shared)) == first["compiled"], (first, objects(shared))
    data = open(c.at("net.so"), "rb").read()
    again = build("--cache", shared, "--cache-read-only")
    assert again["cached"] == first["compiled"] + first["cached"] and again["compiled"] == 0, again
    assert open(c.at("net.so"), "rb").read() == data
    assert build("--cache", "none")["cached"] == 0
    os.makedirs(c.at("empty"))
    assert build("--cache", c.at("empty"), "--cache-read-only")["cached"] == 0 and objects(c.at("empty")) == []
    # One byte is room for nothing: a build goes on without.
    build("--cache", c.at("small"), "--cache-limit", "1")
    assert objects(c.at("small")) == []
    for wrong in ("0", "-1", "5 GB", "2X", "99999999999999T"):
        assert "--cache-limit" in build("--cache-limit=" + wrong, exit_code=2), wrong
    assert "no such folder" in build("--cache", c.at("nowhere"), "--cache-read-only", exit_code=2)
