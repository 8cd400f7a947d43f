"""explain --html: one file that is HTML, asks nothing of a network, holds data as the schema says, and draws in a browser where there is one."""
import html.parser
import json
import os
import re
import shutil
import subprocess

import torch
from ci_case import test
from json_schema import validate
from torch import nn

VOID = {"meta", "br", "input", "link", "img"}


class Page(html.parser.HTMLParser):
    """Elements in order, their attributes, the text of scripts; raises where they are not nested."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.scripts, self.text = [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_data(self, data):
        if self.open:
            self.text[self.open[-1]] = self.text.get(self.open[-1], "") + data
            if self.open[-1] == "script":
                self.scripts.append(data)


def rows(columns, key=None, variants=()):
    """Objects of the page's columns; what is null was not there. A column that is a number is that of an earlier variant."""
    keys = [k for k in columns if k != "count"]
    for k in keys:
        if isinstance(columns[k], int):
            columns[k] = variants[columns[k]][key][k]
    return [{k: columns[k][i] for k in keys if columns[k] and columns[k][i] is not None} for i in range(columns["count"])]


def page_of(c, *words, name="page.html"):
    """The page's data, checked."""
    path = c.at(name)
    c.run("explain", *words, "--html", path, "--quiet")
    assert os.path.getsize(path) < 3_000_000, os.path.getsize(path)
    with open(path, encoding="utf-8") as f:
        text = f.read()
    page = Page(text)
    assert [a for t, a in page.elements if t == "script"] == [{"type": "application/json", "id": "data"}, {}], page.elements
    (policy,) = [a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'") and "http" not in policy, policy
    assert not [a for _, a in page.elements if "src" in a or "href" in a or any(k.startswith("on") for k in a)], page.elements
    frame = text.replace(page.scripts[0], "")  # all but the data, in which any words may stand
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(|innerHTML|document\.write|eval\(", frame)
    data = json.loads(page.scripts[0])
    for part in data["parts"]:
        e = json.loads(json.dumps(part["explain"]))
        e["steps"] = rows(e["steps"])
        packed = part["explain"]["variants"]
        for v, own in zip(e["variants"], packed):
            assert all(v["ranges"][s]["min"] <= n <= v["ranges"][s].get("max", n) for s, n in v["chosen_for"].items()) and len(v["chosen_for"]) == len(v["ranges"]), v["chosen_for"]
            for key in ("args", "labels", "kernels"):
                if isinstance(v.get(key), int):
                    v[key] = own[key] = packed[v[key]][key]
            for key in ("buffers", "demands"):
                if key in v:
                    v[key] = rows(own[key], key, packed)
        validate("explain", {**e, "about": data["about"]})
    return path, data


def drawn(path, tab):
    """The page's elements after its script ran, by headless Chromium; None without one."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        print("     no Chromium: the page is not drawn")
        return None
    words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={path}.browser", "--virtual-time-budget=4000",
             "--dump-dom", f"file://{path}#{tab}"]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout


@test
def page_of_an_artifact(c):
    pt2 = c.net(depth=3)
    so = c.built(pt2)
    bench = c.at("bench.json")
    with open(bench, "w") as f:
        f.write(c.run("bench", so, "--profile", "--seconds", "0.1", "--json").stdout)
    path, data = page_of(c, so, "--bench", bench)
    (part,) = data["parts"]
    assert part["method"] == "forward" and data["bench"]["profile"]["steps"], part["method"]
    assert any("ci_case.py" in line for line in part["explain"]["lines"]), part["explain"]["lines"]
    # Every step names its line and the buffers that it takes.
    v = part["explain"]["variants"][0]
    assert len(v["args"]) == v["steps"] == part["explain"]["steps"]["count"] and all(v["args"]), v["args"]
    assert all(max(a) < v["buffers"]["count"] for a in v["args"]), v
    dom = drawn(path, "steps")
    if dom is not None:
        assert part["explain"]["steps"]["label"][0] in dom.split('id="data"')[0] and "all steps, measured" in dom, dom[:3000]
    told = c.json("explain", "explain", so, "--html", c.at("again.html"))
    assert told["page"] == c.at("again.html") and told["bytes"] == os.path.getsize(c.at("again.html")), told
    # Of another artifact, or no times.
    c.run("explain", c.built(c.net("other", depth=2)), "--html", c.at("no.html"), "--bench", bench, exit_code=3)
    with open(bench, "w") as f:
        f.write("[]")
    c.run("explain", so, "--html", c.at("no.html"), "--bench", bench, exit_code=3)
    c.run("explain", so, "--html", so, exit_code=2)
    c.run("explain", so, "--bench", bench, exit_code=2)
    c.run("explain", so, "--html", c.at("no", "such.html"), exit_code=6)
    assert not os.path.exists(c.at("no.html"))


@test
def page_of_hostile_names(c):
    class Hostile(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module('a"</script><script>alert(1)</script><!--', nn.Linear(8, 8))
            self.add_module("b'&amp;\u2028@DATA@ @JS@", nn.Linear(8, 8))

        def forward(self, x):
            for layer in self.children():
                x = layer(x).softmax(-1)
            return {"</title><b>": x}

    pt2 = c.exported("hostile", Hostile().eval(), torch.randn(2, 8))
    so = c.at('x"<b>&<script>@DATA@.so')
    c.run("build", pt2, "-o", so, "--cpu", "avx2", "--quiet")
    path, data = page_of(c, so)
    assert data["title"] == os.path.basename(so), data["title"]
    names = data["parts"][0]["explain"]["variants"][0]["buffers"]["name"]
    assert any("</script><script>alert(1)" in n for n in names) and any("@DATA@" in n for n in names), names
    with open(path, encoding="utf-8") as f:
        assert Page(f.read()).text["title"] == os.path.basename(so) + " explained by aotc"
    dom = drawn(path, "weights")
    assert dom is None or ("@DATA@ @JS@" in dom and dom.count("<script") == 2), dom[:3000]


@test
def page_of_many_steps(c):
    class Long(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(16, 16) / 4)

        def forward(self, x):
            for _ in range(2000):
                x = x @ self.weight
            return x

    rows_of = torch.export.Dim("rows", min=1, max=4096)
    pt2 = c.exported("long", Long(), torch.randn(4, 16), dynamic_shapes={"x": {0: rows_of}})
    path, data = page_of(c, pt2, "--cpu", "avx2")
    variants = data["parts"][0]["explain"]["variants"]
    v = variants[0]
    assert len(variants) > 1 and all(len(w["args"]) == w["steps"] and len(w["buffers"]["offset"]) == w["buffers"]["count"] for w in variants), data["left_out"]
    assert v["steps"] >= 2000 and len(v["args"]) == v["steps"], v["steps"]
    dom = drawn(path, "steps")  # of a list, the rows in sight alone
    assert dom is None or (dom.count('class="row') < 200 and "2000" in dom), dom[:3000]


@test
def page_of_methods(c):
    a, b = c.net("a"), c.net("b", depth=2)
    so = c.at("two.so")
    c.run("build", f"first={a}", f"second={b}", "-o", so, "--cpu", "portable", "--quiet")
    _, data = page_of(c, so)
    assert {p["method"] for p in data["parts"]} == {"first", "second"}, [p["method"] for p in data["parts"]]
    _, data = page_of(c, so, "--method", "second")
    assert {p["method"] for p in data["parts"]} == {"second"}
    c.run("explain", so, "--method", "third", "--html", c.at("no.html"), exit_code=2)
