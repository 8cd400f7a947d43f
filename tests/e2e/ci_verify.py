"""verify: tolerances of the user's, beside numpy's own judgement; JUnit, as junitparser reads it; references of another archive."""
import json
import os

import numpy as np
from ci_case import test
from json_schema import validate
from junitparser import Error, Failure, JUnitXml


@test
def tolerances(c):
    pt2 = c.net()
    so = c.built(pt2)
    # Generous and impossible: both the archive's own way and stored files.
    told = c.json("verify", "verify", so, "--against", pt2, "--rtol", "1e-3", "--atol", "1e-3")
    assert told["pass"] and all(r["outside"] == 0 and r["elements"] > 0 for r in told["outputs"]), told
    assert told["about"]["artifact"]["archive"] == json.loads(c.run("inspect", pt2, "--json").stdout)["id"]
    told = c.json("verify", "verify", so, "--against", pt2, "--atol", "0", "--samples", "2", exit_code=1)
    worst = [r for r in told["outputs"] if r["name"] == "scores"][0]
    assert worst["outside"] > 0 and worst["worst"]["got"] != worst["worst"]["expected"] and "--rtol" in worst["why"], worst
    assert all(r["pass"] for r in told["outputs"] if r["name"] == "best"), told  # integers are what they should be
    told = c.json("verify", "verify", so, "--against", pt2, "--max-error", "1e-12", exit_code=1)
    assert any(r["limit"] == 1e-12 and not r["pass"] for r in told["outputs"]), told
    c.run("verify", so, "--against", pt2, "--max-error", "1e-3", "--rtol", "1e-3", "--atol", "1e-3")
    assert c.run("verify", so, "--against", pt2, "--rtol", "-1", exit_code=2)

    # Stored outputs that somebody changed: the verdict is numpy's.
    refs = c.at("refs")
    c.run("references", so, "--against", pt2, "-o", refs)
    inputs, expected = os.path.join(refs, "inputs"), os.path.join(refs, "expected")
    for name in os.listdir(expected):
        if ".eager" in name or name == "references.json":
            os.remove(os.path.join(expected, name))
    file = os.path.join(expected, "scores.npy")
    got, random = np.load(file), np.random.default_rng(1)
    for scale in (0.0, 1e-4, 3e-3, 0.1):
        changed = got * (1 + scale * random.uniform(-1, 1, got.shape)) + scale / 10
        np.save(file, changed.astype(np.float32))
        for rtol, atol in ((1e-3, 0), (0, 1e-3), (1e-2, 1e-2), (0.2, 0.2)):
            off = ~np.isclose(got, changed.astype(np.float32), rtol=rtol, atol=atol)
            edge = np.abs(np.abs(got - changed) - (atol + rtol * np.abs(changed))) < 1e-5  # where the artifact's own rounding decides
            if edge.any():
                continue
            told = c.json("verify", "verify", so, "--inputs", inputs, "--expected", expected, "--rtol", str(rtol), "--atol", str(atol),
                          tool=c.device, exit_code=int(off.any()))
            row = [r for r in told["outputs"] if r["name"] == "scores"][0]
            assert row["outside"] == int(off.sum()) and row["pass"] != bool(off.any()), (scale, rtol, atol, row, int(off.sum()))
    np.save(file, np.where(got > 0, got, np.nan).astype(np.float32))  # a NaN is nothing near a number
    c.run("verify", so, "--inputs", inputs, "--expected", expected, "--rtol", "1e9", "--atol", "1e9", tool=c.device, exit_code=1)
    np.save(file, (got * 1.01).astype(np.float32))
    for option in ("--max-error", "--tolerance"):
        c.run("verify", so, "--inputs", inputs, "--expected", expected, option, "0.02", tool=c.device)
        c.run("verify", so, "--inputs", inputs, "--expected", expected, option, "0.005", tool=c.device, exit_code=1)


@test
def junit(c):
    pt2 = c.net()
    so, xml = c.built(pt2), c.at("out.xml")
    told = c.json("verify", "verify", so, "--against", pt2, "--junit", xml)
    suite = list(JUnitXml.fromfile(xml))[0]
    assert suite.tests == len(told["outputs"]) == len(list(suite)) and suite.failures == suite.errors == 0 and suite.time > 0
    properties = {p.name: p.value for p in suite.properties()}
    assert properties["artifact_id"] == told["about"]["artifact"]["id"] and properties["artifact"] == so, properties
    assert {case.name for case in suite} == {f"{r['name']} [{r['sizes']}]" for r in told["outputs"]}

    told = c.json("verify", "verify", so, "--against", pt2, "--atol", "1e-300", "--junit", xml, exit_code=1)
    suite = list(JUnitXml.fromfile(xml))[0]
    failed = [case for case in suite if any(isinstance(r, Failure) for r in case.result)]
    assert suite.failures == len(failed) == sum(not r["pass"] for r in told["outputs"]) > 0 and "--rtol" in failed[0].result[0].message

    # What does not come to a verdict is an error; names of files may have what XML does not take.
    odd = c.at('a<b>&"c\x01.so')
    os.link(so, odd)
    refs = c.at("refs")
    c.run("references", so, "--against", pt2, "-o", refs)
    words = ("--inputs", c.at("refs", "inputs"), "--expected", c.at("refs", "expected"))
    c.run("verify", odd, *words, "--junit", xml, tool=c.device)
    assert len(list(list(JUnitXml.fromfile(xml))[0])) == 2
    os.remove(c.at("refs", "inputs", "x.npy"))
    c.run("verify", odd, *words, "--junit", xml, tool=c.device, exit_code=6)
    suite = list(JUnitXml.fromfile(xml))[0]
    assert suite.errors == 1 and isinstance(list(suite)[0].result[0], Error) and "x.npy" in list(suite)[0].result[0].message
    c.run("verify", so, "--against", pt2, "--junit", pt2, exit_code=2)
    c.run("verify", so, *words, "--junit", c.at("refs", "expected", "best.npy"), tool=c.device, exit_code=2)
    c.run("verify", so, "--against", pt2, "--junit", c.at("no", "such.xml"), exit_code=6)
    assert not [f for f in os.listdir(c.folder) if f.endswith(".tmp")]


@test
def references_of_another_archive(c):
    pt2, other = c.net(), c.net("other", seed=1)
    so = c.built(pt2)
    refs = c.at("refs")
    c.json("references", "references", so, "--against", pt2, "-o", refs)
    ids = [json.loads(c.run("inspect", p, "--json").stdout)["id"] for p in (pt2, other)]
    words = ("--inputs", c.at("refs", "inputs"), "--expected", c.at("refs", "expected"))
    c.json("verify", "verify", so, *words, tool=c.device)
    for tool in (c.aotc, c.device):
        said = c.run("verify", c.built(other), *words, tool=tool, exit_code=3).stderr
        assert all(i in said for i in ids), said
    said = c.run("references", so, "--against", other, "-o", c.at("none"), exit_code=3).stderr
    assert all(i in said for i in ids) and not os.path.exists(c.at("none")), said


@test
def every_verb_says_where_its_json_comes_from(c):
    pt2 = c.net()
    so = c.at("net.so")
    report = c.json("report", "build", pt2, "-o", so, "--cpu", "avx2")
    ids = {report["about"]["artifact"]["id"]}
    for schema, *words in (("metadata", "inspect", so), ("explain", "explain", so), ("bench", "bench", so, "--seconds", "0.05")):
        ids.add(c.json(schema, *words)["about"]["artifact"]["id"])
    kernel = json.loads(c.run("explain", so, "--json").stdout)["kernels"][0]["name"]
    ids.add(c.json("explain", "explain", so, "--kernel", kernel)["about"]["artifact"]["id"])
    c.run("references", so, "--against", pt2, "-o", c.at("refs"))
    out = c.json("run", "run", so, "-i", "x=" + c.at("refs", "inputs", "x.npy"), "-o", c.at("out"))
    ids.add(out["about"]["artifact"]["id"])
    for schema, *words in (("probe", "probe", so), ("bench", "bench", so, "--seconds", "0.05", "--profile"), ("run", "run", so, "-i", "x=" + c.at("refs", "inputs", "x.npy"), "-o", c.at("out"))):
        ids.add(c.json(schema, *words, tool=c.device)["about"]["artifact"]["id"])
    assert len(ids) == 1, ids
    c.json("ops", "ops"), c.json("explain", "explain", pt2), c.json("tune", "tune", pt2, "--tune-budget", "0", "--tuning-db", c.at("db.json"), exit_code=1)
    error = json.loads(c.run("inspect", c.at("nothing.so"), "--json", exit_code=6).stdout)
    validate("error", error)
    # Another build is another artifact of the same archive.
    again = c.json("report", "build", pt2, "-o", c.at("other.so"), "--cpu", "avx512")["about"]["artifact"]
    assert again["archive"] == report["about"]["artifact"]["archive"] and again["id"] not in ids
