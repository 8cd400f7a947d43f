"""bench beside a baseline. What noise may do to the verdict is tried on drawn times (unit_cli); here are verdicts that no machine is too loaded for."""
import json

import torch

from ci_case import test


@test
def baseline(c):
    one, many = c.built(c.net("one", depth=1)), c.built(c.net("many", depth=24))
    words = ("--dim", "x_0=64", "--seconds", "0.3")
    # Twenty-four layers beside one are slower, one beside twenty-four is not.
    for tool in (c.aotc, c.device):
        told = c.json("bench", "bench", many, "--baseline", one, "--max-regression", "50%", *words, tool=tool, exit_code=1)["baseline"]
        assert told["verdict"] == "slower" and told["how"] == "in turns" and told["ratio"] > 1.5 and 1.5 < told["low"] <= told["ratio"] <= told["high"], told
        told = c.json("bench", "bench", one, "--baseline", many, *words, tool=tool)["baseline"]
        assert told["verdict"] == "not slower" and told["ratio"] < 1 and told["max_regression"] == 0.05, told
        assert told["artifact"]["id"] == json.loads(c.run("inspect", many, "--json").stdout)["about"]["artifact"]["id"]
    # Beside itself: no alarm at a bound that is far from 1.
    told = c.json("bench", "bench", one, "--baseline", one, "--max-regression", "1.5", *words)["baseline"]
    assert told["verdict"] != "slower", told
    assert "times as long" in c.run("bench", one, "--baseline", many, *words).stdout
    assert "slower than the baseline" in c.run("bench", many, "--baseline", one, "--max-regression", "50%", *words, exit_code=1).stderr


@test
def stored_baseline(c):
    one, many = c.built(c.net("one", depth=1)), c.built(c.net("many", depth=24))
    words = ("--dim", "x_0=64", "--seconds", "0.3")
    files = {}
    for name, so in (("one", one), ("many", many)):
        files[name] = c.at(name + ".json")
        told = c.json("bench", "bench", so, *words)
        assert 5 <= len(told["block_p50_us"]) <= 40
        with open(files[name], "w") as f:
            json.dump(told, f)
    told = c.json("bench", "bench", many, "--baseline", files["one"], "--max-regression", "50%", *words, exit_code=1)["baseline"]
    assert told["verdict"] == "slower" and told["how"] == "stored" and told["artifact"]["file"] == one, told
    assert c.json("bench", "bench", one, "--baseline", files["many"], *words)["baseline"]["verdict"] == "not slower"
    # Of another machine, other threads, other sizes, or none at all.
    with open(files["one"]) as f:
        told = json.load(f)
    told["about"]["machine"]["cpu"] = "Z80"
    with open(c.at("elsewhere.json"), "w") as f:
        json.dump(told, f)
    assert "Z80" in c.run("bench", one, "--baseline", c.at("elsewhere.json"), *words, exit_code=3).stderr
    assert "threads" in c.run("bench", one, "--baseline", files["one"], *words, "--threads", "2", exit_code=3).stderr
    assert "inputs" in c.run("bench", one, "--baseline", files["one"], "--dim", "x_0=3", "--seconds", "0.1", exit_code=3).stderr
    for text in ("[]", "{", '{"about": {"verb": "verify"}}'):
        with open(c.at("none.json"), "w") as f:
            f.write(text)
        assert "bench --json" in c.run("bench", one, "--baseline", c.at("none.json"), exit_code=3).stderr
    for bound in ("-1", "5 percent", "%", "nan"):
        c.run("bench", one, "--baseline", many, "--max-regression", bound, exit_code=2)
    c.run("bench", one, "--baseline", c.at("nothing.so"), exit_code=6)


class Divides(torch.nn.Module):
    def forward(self, x, y):
        return x // y


class Needs(torch.nn.Module):
    def forward(self, x, y):
        torch._assert_async((y > 1).all(), "two or more")
        return x // y


@test
def refused_inputs(c):
    """Integers are zeros where nothing else is said; a divisor is 1 then, and what no such number suits asks for inputs."""
    so = c.built(c.exported("divides", Divides(), torch.arange(8), torch.arange(1, 9)))
    for tool in (c.aotc, c.device):
        assert c.json("bench", "bench", so, "--seconds", "0.05", tool=tool)["p50_us"] > 0
    so = c.built(c.exported("needs", Needs(), torch.arange(8), torch.arange(2, 10)))
    assert "--inputs DIR" in c.run("bench", so, "--seconds", "0.05", exit_code=3).stderr
