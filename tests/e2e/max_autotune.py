"""One model built with max-autotune and a small budget: what it measures stands in the report of the kernel and in the tuning database, the
artifact verifies, and the next builds take every choice from the database instead of measuring.

    max_autotune.py --aotc BIN --work DIR
"""
import json
import os
import re
import subprocess
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(__file__))
from run_models import sh, validate
from work_folder import WorkFolder

LEAST_FAR = 24 << 20  # bytes of results that may be stored past the caches, and that those of a server hold
BACK = "comparison with default"  # who decided what was taken back
MOST_BUILDS = 12  # until a budget has reached every contract


class Net(nn.Module):
    """Products, convolutions of both directions and attention, each with several candidates."""

    def __init__(self):
        super().__init__()
        self.conv, self.up = nn.Conv2d(3, 40, 3, padding=1), nn.ConvTranspose2d(40, 12, 2, stride=2)
        self.qkv, self.out = nn.Linear(48, 3 * 48), nn.Linear(48, 70)

    def forward(self, image, words):
        q, k, v = (t.view(2, 64, 4, 12).transpose(1, 2) for t in self.qkv(words).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 64, 48)
        return self.up(self.conv(image).relu()), self.out(attended)


class Filters(nn.Module):
    """3x3 convolutions that go by minimal filtering: the larger tiles are faster and less accurate."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*(nn.Conv2d(c, 64, 3, padding=1) for c in (16, 64, 64)))

    def forward(self, x):
        return self.body(x).relu()


class Products(nn.Module):
    """Products that Strassen's seven multiplications compute faster and less accurately; with rows that are far apart in size, of which one
    spoils the other, and which are brought together in the end."""

    def __init__(self, ratio):
        super().__init__()
        self.first, self.second = nn.Linear(512, 1024), nn.Linear(1024, 512)
        self.register_buffer("scale", torch.tensor([1.0, ratio]).repeat_interleave(7).repeat(14)[:192, None].clone())

    def forward(self, x):
        return self.second(self.first(x * self.scale).relu()) / self.scale


class Folder(WorkFolder):
    def build(self, name, db, *options, archive="net.pt2"):
        """The choices of the artifact that had a contract, and its report."""
        sh(self.aotc, "build", self(archive), "-o", self(name), "--quiet", "--tuning-db", self(db), *options)
        report = json.load(open(self(name[:-3] + ".report.json")))
        validate("report", report)
        explained = json.loads(sh(self.aotc, "explain", self(name), "--json"))
        return [c for c in explained["choices"] if "contract" in c], report

    def verify(self, name, archive="net.pt2"):
        assert json.loads(sh(self.aotc, "verify", self(name), "--against", self(archive), "--json"))["pass"], name

    def bytes(self, name):
        return open(self(name), "rb").read()


def several(choice):
    return len(choice["candidates"]) + choice["others"] > 1


def check_table(at, name, choice):
    """`explain --kernel` says what was measured and which was taken."""
    text = sh(at.aotc, "explain", at(name), "--kernel", choice["kernel"])
    assert f"({choice['by']})" in text and f"contract: {choice['contract']}" in text, text
    assert re.search(r"^ *predicted us +measured us +candidate$", text, re.M), text
    rows = re.findall(r"^ +([0-9.]+) +([0-9.]+|-)  (\S.*?)(  <- taken)?$", text, re.M)
    taken = [r for r in rows if r[3]]
    assert len(rows) == len(choice["candidates"]) and [r[2] for r in taken] == [choice["choice"]], text
    assert taken[0][1] != "-", text
    assert not choice["by"].startswith("measured") or sum(r[1] != "-" for r in rows) >= 2, text


def check_records(db, choices):
    validate("tuning", db)
    measured = {c["contract"]: c for c in choices if c["by"].startswith("measured") or c["by"] == BACK}
    assert {r["contract"] for r in db["records"]} == set(measured), "records and measured choices differ"
    for r in db["records"]:
        assert (r["choice"] == measured[r["contract"]]["choice"]) == (measured[r["contract"]]["by"] != BACK), r
        assert r["measured"] >= 2 and 0 < r["ns"] and 0 < r["default_ns"], r
        near = 1.1 if measured[r["contract"]]["by"] == "measured in the whole" else 1  # by itself
        assert r["ns"] <= near * r["default_ns"], r


class Long(nn.Module):
    """Results that fill more than the caches of a core: they may be stored past these."""

    def forward(self, x):
        return x.relu() * 2 + 1


def check_alternatives(at, machine):
    """What was measured of the whole program is told, decides the next build bit for bit, and has to be known. Results that fill L2
    are stored past the caches only where that was measured, unless the last cache is small."""
    l2, l3 = (int(re.search(rf"{cache} (\d+){unit}", machine)[1]) << shift for cache, unit, shift in (("L2", "K", 10), ("L3", "M", 20)))
    size = max(3 * l2, LEAST_FAR)
    if size >= 2 * l3:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Long(), (torch.randn(size // 4),)), at("long.pt2"))
    for _ in range(MOST_BUILDS):
        measured, report = at.build("long.so", "long.json", "--mode", "max-autotune", "--tune-budget", "20", archive="long.pt2")
        if "alternatives" in report:
            break
    assert report["tuning"]["budget_s"] == 20 and 0 < report["tuning"]["seconds"], report["tuning"]
    db = json.load(open(at("long.json")))
    validate("tuning", db)
    tried = report["alternatives"]["tried"]
    assert [t["name"] for t in tried] == ["stores_far"] and all(t["us"] > 0 and t["own_us"] > 0 and t["why"] for t in tried), tried
    assert report["alternatives"]["taken"] == [t["name"] for t in tried if t["taken"]]
    again, repeated = at.build("far.so", "long.json", "--error-on-tuning-miss", archive="long.pt2")
    assert [c["choice"] for c in again] == [c["choice"] for c in measured], (again, measured)
    assert repeated.get("comparison") == report.get("comparison"), repeated
    artifacts = []
    db.pop("comparisons", None)
    for taken in (True, False):  # the record decides, whatever was measured
        db["alternatives"][0]["tried"][0]["taken"] = taken
        json.dump(db, open(at("long.json"), "w"))
        choices, _ = at.build("far.so", "long.json", archive="long.pt2")
        artifacts.append(at.bytes("far.so"))
        told = sh(at.aotc, "explain", at("far.so"))
        assert ("  with stores_far: " if taken else "  without stores_far: ") in told and ("loop_far" in told.split("steps")[-1] or not taken), told
        at.verify("far.so", "long.pt2")
        at.build("far.so", "long.json", archive="long.pt2")
        assert at.bytes("far.so") == artifacts[-1]
    assert artifacts[0] != artifacts[1]

    def refused(name):
        r = subprocess.run([at.aotc, "build", at("long.pt2"), "-o", at("bad.so"), "--quiet", "--tuning-db", at(name), "--error-on-tuning-miss"],
                           capture_output=True, text=True)
        assert r.returncode == 3 and not os.path.exists(at("bad.so")), r.stderr
        return r.stderr

    db["alternatives"][0]["tried"][0]["name"] = "rows_inverted"
    json.dump(db, open(at("unknown.json"), "w"))
    assert "alternatives[0].tried[0].name" in (e := refused("unknown.json")) and "'rows_inverted' is no alternative; there are" in e, e
    assert "alternatives of " in (e := refused("nothing.json")), e


def check_comparison(at, report, db):
    """The whole was compared with what default makes; what is not kept is taken back, and the record decides that."""
    told = report["comparison"]
    groups = set(f"{told['kept']} {told['taken_back']}".split())
    assert {"kernels", "weights"} <= groups <= {"kernels", "trades", "weights"}, told
    assert told["tried"] and all(t["us"] > 0 and t["default_us"] > 0 and t["ratio"] > 0 for t in told["tried"]), told
    assert not told["kept"] or any(t["kept"] == told["kept"] and t["ratio"] < 1 for t in told["tried"]), told
    taken = lambda choices: {c["kernel"]: c["choice"] for c in choices}
    default = taken(at.build("default.so", "no.json")[0])
    for kept in ("", " ".join(sorted(groups))):
        edited = json.load(open(at(db)))
        for c in edited["comparisons"]:
            c["kept"], c["taken_back"], c["complete"] = kept, " ".join(sorted(groups - set(kept.split()))), True
        json.dump(edited, open(at("compared.json"), "w"))
        choices, report = at.build("compared.so", "compared.json", "--mode", "max-autotune", "--error-on-tuning-miss")
        assert report["comparison"]["kept"] == kept
        assert {c["by"] for c in choices} & {BACK} == ({BACK} if "kernels" in groups and not kept else set()), choices
        told = sh(at.aotc, "explain", at("compared.so"))
        assert f"beside default: kept {kept or 'nothing'}" in told, told
        assert (taken(choices) == default) == (not kept), "what is taken back is not what default makes"
        inspected = json.loads(sh(at.aotc, "inspect", at("compared.so"), "--json"))
        assert bool(inspected.get("own_weights")) == bool(kept), inspected.get("own_weights")
        at.verify("compared.so")
    del edited["comparisons"]
    json.dump(edited, open(at("compared.json"), "w"))
    r = subprocess.run([at.aotc, "build", at("net.pt2"), "-o", at("bad.so"), "--quiet", "--tuning-db", at("compared.json"), "--error-on-tuning-miss"],
                       capture_output=True, text=True)
    assert r.returncode == 3 and "comparison of " in r.stderr, r.stderr


def check_trades(at, name, model, example, choice, *options):
    """What was traded (`choice`) is told, within the bound, and is the same from the database; nothing is without a judgement."""
    archive = name + ".pt2"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(model.eval(), (example,)), at(archive))
    larger = lambda choices: {c["contract"] for c in choices if re.match(choice, c["choice"])}
    assert not larger(at.build("plain.so", "no.json", *options, archive=archive)[0])
    for _ in range(MOST_BUILDS):  # a budget may end before what is asked last
        choices, report = at.build(name + ".so", name + ".json", "--mode", "max-autotune", "--tune-budget", "25", *options, archive=archive)
        db = json.load(open(at(name + ".json")))
        if "trades" in db:
            break
    validate("tuning", db)
    assert len(db["trades"]) == 1, db["trades"]
    steps = report.get("trades", {"steps": []})["steps"]
    taken = {s["contract"] for s in steps if s["taken"]}
    assert larger(choices) == taken, (choices, steps)
    assert not taken or 0 < report["trades"]["error"] <= 0.9 * report["trades"]["bound"], report["trades"]
    assert all(s["us"] < s["accurate_us"] and s["why"] for s in steps), steps
    told = sh(at.aotc, "explain", at(name + ".so"))
    assert told.count("\n  taken ") == len(taken) and ("accuracy for time" in told) == bool(steps), told
    at.verify(name + ".so", archive)
    again, report_again = at.build(name + "2.so", name + ".json", *options, archive=archive)
    assert larger(again) == taken and report_again.get("trades") == report.get("trades"), report_again
    return len(taken), len(steps)


def check_all_trades(at):
    """Strassen's products allowed everywhere verify; as a trade they are left alone where rows are far apart in size. Tile registers are
    faster than they: code for AVX2 has none."""
    without_tiles = ["--cpu", "avx2", "--threads", str(len(os.sched_getaffinity(0)))]
    winograd = check_trades(at, "filters", Filters(), torch.randn(1, 16, 56, 56), "conv_winograd .*kp=4")
    strassen = check_trades(at, "alike", Products(1.0), torch.randn(192, 512), "gemm_strassen ", *without_tiles)
    choices, _ = at.build("strassen.so", "strassen.json", "--strassen", *without_tiles, archive="alike.pt2")
    assert any(c["choice"].startswith("gemm_strassen ") for c in choices), choices
    at.verify("strassen.so", "alike.pt2")
    apart = check_trades(at, "apart", Products(1e4), torch.randn(192, 512), "gemm_strassen ", *without_tiles)
    assert apart[0] == 0, apart
    return [sum(x) for x in zip(winograd, strassen, apart)]


def main():
    at = Folder()
    torch.manual_seed(1)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(Net().eval(), (torch.randn(2, 3, 20, 20), torch.randn(2, 64, 48))), at("net.pt2"))

    tune = ("--mode", "max-autotune", "--tune-budget", "4")
    choices, report = at.build("tuned.so", "db.json", *tune)
    assert report["mode"] == "max-autotune" and "tune" in [x["name"] for x in report["phases"]], report["phases"]
    at.verify("tuned.so")
    check_records(json.load(open(at("db.json"))), choices)
    for c in choices:
        if c["by"].startswith("measured"):
            check_table(at, "tuned.so", c)
    first = {c["kernel"]: c["choice"] for c in choices if c["by"].startswith("measured")}

    # What no time was left for is told.
    _, report = at.build("none.so", "none.json", "--mode", "max-autotune", "--tune-budget", "0")
    assert {x["why"] for x in report["not_measured"]} == {"the time for measuring ran out"}, report["not_measured"]
    assert any("were not measured" in w for w in report["warnings"]), report["warnings"]

    # The budget may end before the last contract; another build goes on where it ended.
    for _ in range(MOST_BUILDS):
        if all(c["by"] != "cost model" for c in choices if several(c)):
            break
        choices, _ = at.build("more.so", "db.json", *tune)
    kinds = {c["contract"].split()[0] for c in choices if several(c)}
    assert {"gemm", "conv", "attention"} <= kinds, kinds

    # So may it before the last comparison of wholes. Nothing that the database has is measured again: other times would be written.
    for _ in range(MOST_BUILDS):
        text = open(at("db.json")).read()
        choices, report = at.build("again.so", "db.json", *tune)
        if open(at("db.json")).read() == text:
            break
    assert open(at("db.json")).read() == text, "what the database has was measured again"
    for c in filter(several, choices):
        assert c["by"] in ("tuning database", BACK), c
        check_table(at, "again.so", c)
        assert c["by"] == BACK or first.get(c["kernel"], c["choice"]) == c["choice"], c
    again = at.bytes("again.so")
    own = ["--own-weights"] if "weights" in report["comparison"]["kept"].split() else []  # max-autotune's other half
    compared = report["comparison"]
    defaults, report = at.build("again.so", "db.json", *own)
    assert report["mode"] == "default" and "tune" not in [x["name"] for x in report["phases"]], report["phases"]
    assert [c["choice"] for c in defaults] == [c["choice"] for c in choices], "default mode does not take what the database has"
    if report.get("comparison") == compared:  # else it was of the weights alone, which this mode does not decide
        assert at.bytes("again.so") == again, "default mode makes another artifact of what the database has"
    at.verify("again.so")

    # It is the database that decides: a choice that nobody measured is taken from there as well.
    db = json.loads(text)
    edited = {}
    for c in filter(several, choices):
        record = next(r for r in db["records"] if r["contract"] == c["contract"])
        record["choice"] = edited[c["kernel"]] = next(x["choice"] for x in c["candidates"] if x["choice"] != c["choice"])
    json.dump(db, open(at("edited.json"), "w"))
    choices, _ = at.build("edited.so", "edited.json")
    assert {c["kernel"]: c["choice"] for c in choices if c["kernel"] in edited} == edited
    at.verify("edited.so")
    _, report = at.build("edited.so", "edited.json", *tune)
    check_comparison(at, report, "edited.json")

    db["records"][0]["choice"] = "fft radix=4"
    json.dump(db, open(at("bad.json"), "w"))
    r = subprocess.run([at.aotc, "build", at("net.pt2"), "-o", at("bad.so"), "--quiet", "--tuning-db", at("bad.json")], capture_output=True, text=True)
    assert r.returncode == 3 and "records[0].choice" in r.stderr and not os.path.exists(at("bad.so")), r.stderr
    check_alternatives(at, report["machine"])
    taken, tried = check_all_trades(at)
    print("max-autotune:", len(db["records"]), "contracts measured:", ", ".join(sorted(kinds)), f"- {taken} of {tried} faster and less accurate choices taken")


if __name__ == "__main__":
    main()
