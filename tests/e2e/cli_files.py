"""Files that are none, outputs in the place of what is read, archives that are cut, paths of any bytes."""
import json
import os
import shutil
import socket
import subprocess
import zipfile

from cli_bench import BAD_INPUT, IO, PT2, USAGE, hidden, inputs_of, slow_compiler, test, test_of_caches, wait_for


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


@test
def no_output_takes_the_place_of_what_is_read(b):
    archive, shapes = open(PT2, "rb").read(), b'{"dims": {}}'

    def given(name, content):
        with open(b.at(name), "wb") as f:
            f.write(content)
        return b.at(name)

    def unharmed(*words):
        for name, content in files.items():
            assert open(name, "rb").read() == content, (words, name)
        assert not [f for f in os.listdir(b.folder) if f.startswith(".aotc") or f.endswith(".tmp")]

    def clash(one, other, *words):
        r = b.refused(USAGE, "would be overwritten", *words)
        assert one in r.stderr and other in r.stderr, r.stderr
        unharmed(words)

    files = {given(n, archive): archive for n in ("m.h", "m.weights", "m.report.json", "q.so", "plan.txt")}
    files[given("z.report.json", shapes)] = shapes
    os.link(b.at("m.h"), b.at("hard.h"))
    os.symlink(b.at("m.h"), b.at("soft.h"))
    os.mkdir(b.at("sub"))
    for name in ("m.h", "m.weights", "m.report.json"):
        if name != "m.report.json":
            clash("-o", "model", "build", b.at(name))  # m.so, beside it m.h, m.weights and m.report.json
        clash("-o", "model", "build", b.at(name), "-o", b.at("sub", "..", "m.so"))
    clash("-o", "model", "build", b.at("m.h"), "-o", b.at("hard.so"))
    clash("-o", "model", "build", b.at("m.h"), "-o", b.at("soft.so"))
    clash("-o", "--shapes", "build", PT2, "--shapes", b.at("z.report.json"), "-o", b.at("z.so"))
    clash("-o", "--tuning-db", "build", PT2, "--tuning-db", b.at("q.so"), "-o", b.at("q.so"))
    clash("-o", "--tuning-db", "build", PT2, "--tuning-db", b.at("new.report.json"), "-o", b.at("new.so"), "--mode", "max-autotune")
    clash("--tuning-db", "model", "build", b.at("q.so"), "--tuning-db", b.at("q.so"), "-o", b.at("r.so"), "--mode", "max-autotune")
    clash("--tuning-db", "model", "tune", b.at("q.so"), "--tuning-db", b.at("q.so"))
    clash("--keep", "model", "build", b.at("plan.txt"), "--keep", b.folder, "-o", b.at("r.so"))
    clash("--dump-dir", "model", "build", b.at("plan.txt"), "--dump-dir", b.folder, "-o", b.at("r.so"))
    graph = given("a.graph", b"graph @a {\n}\n")
    files[graph] = open(graph, "rb").read()
    clash("-o", "file", "opt", graph, "-o", graph)
    so = b.build()
    files[so] = open(so, "rb").read()
    clash("--trace", "artifact", "bench", so, "--trace", so)
    clash("--trace", "--against", "bench", so, "--against", b.at("m.h"), "--trace", b.at("m.h"))
    words = inputs_of(b, so)
    output = json.loads(b.ok("inspect", so, "--json").stdout)["outputs"][0]["name"]
    npy = b.at(words[1].split("=")[1])
    renamed = b.at(output + ".npy")
    shutil.copy(npy, renamed)
    files[renamed] = open(renamed, "rb").read()
    name = words[1].split("=")[0]
    clash("--output-dir", "--input " + name, "run", so, "-o", b.folder, "-i", f"{name}={renamed}", *words[2:])


@test
def the_folder_of_an_output_must_be_there(b):
    for words in (["build", PT2, "-o", b.at("no", "such", "x.so")], ["build", PT2, "-o", b.at("x.so"), "--mode", "max-autotune", "--tuning-db", b.at("no", "t.json")],
                  ["tune", PT2, "--tuning-db", b.at("no", "t.json")]):
        b.refused(IO, "there is no folder", *words)
    assert not os.path.exists(b.at("no")) and not os.path.exists(b.at("x.so"))


@test
def an_archive_of_a_later_torch_is_tried_with_a_warning(b):
    with zipfile.ZipFile(PT2) as z, zipfile.ZipFile(b.at("later.pt2"), "w", zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            out.writestr(info.filename, z.read(info).replace(b'"torch_version": "2.11.0', b'"torch_version": "2.99.0'))
    r = b.ok("build", b.at("later.pt2"), "-o", b.at("later.so"))
    assert "aotc: warning: the archive is of torch 2.99.0" in r.stderr, r.stderr
    assert "2.99.0" in json.load(open(b.at("later.report.json")))["warnings"][0]
    assert "the archive is of torch 2.99.0" in b.ok("verify", b.at("later.so"), "--against", b.at("later.pt2"), "--samples", "1").stderr
    assert "warning" not in b.ok("build", PT2, "-o", b.at("own.so")).stderr


def with_other_weights(path):
    """The archive with the sign of every byte of its first weight turned."""
    with zipfile.ZipFile(PT2) as z, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as out:
        for info in z.infolist():
            data = z.read(info)
            out.writestr(info.filename, bytes(x ^ 0x80 for x in data) if info.filename.endswith("/weight_0") else data)


@test
def the_wrong_archive_is_named_as_such(b):
    so, other = b.build(), b.at("other.pt2")
    with_other_weights(other)
    r = b.run("verify", so, "--against", other, "--samples", "1")
    assert r.returncode == 1 and "other.pt2 is not the archive that" in r.stderr, r.stderr
    assert "verify: FAIL; " in r.stdout and "(its id is " in r.stdout, r.stdout
    assert json.loads(b.run("verify", so, "--against", other, "--samples", "1", "--json").stdout)["source_matches"] is False
    b.refused(BAD_INPUT, "is not the archive that", "verify", so, "--against", PT2.replace("2_11", "2_11_cuda_dynamic_decomposed"))
    renamed = b.at("renamed.pt2")
    shutil.copy(PT2, renamed)
    assert "not the archive" not in b.ok("verify", so, "--against", renamed, "--samples", "1").stderr
    told = json.loads(b.ok("inspect", so, "--json").stdout)["source"]
    assert told == {"id": json.loads(b.ok("inspect", renamed, "--json").stdout)["id"]}


@test
def an_archive_gives_the_same_bytes_under_any_name(b):
    os.mkdir(b.at("elsewhere"))
    renamed = b.at("elsewhere/renamed.pt2")
    shutil.copy(PT2, renamed)
    made = []
    for pt2, so in ((PT2, b.at("one.so")), (renamed, b.at("elsewhere/one.so"))):  # SONAME: the file name
        b.ok("build", pt2, "-o", so)
        made.append(open(so, "rb").read())
    assert made[0] == made[1], "the artifact depends on the names of the files"


@test_of_caches
def an_archive_that_loses_its_end_while_it_is_read_is_named(b):
    pt2 = b.at("cut.pt2")
    shutil.copy(PT2, pt2)
    p = subprocess.Popen([b.aotc, "build", pt2, "-o", b.at("model.so"), "--quiet"], env=slow_compiler(b), stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(b.at("compilers")))
    os.truncate(pt2, 0)  # the weights are read when they are put into the artifact
    open(b.at("go"), "w").close()
    assert p.wait(timeout=60) == IO, p.returncode
    assert f"aotc: error: {pt2}: the file was cut off while it was read" in p.stderr.read()
    assert not hidden(b) and not os.path.exists(b.at("model.so"))
    size = os.path.getsize(PT2)
    for part in (0, 1, size // 3, size - 1):
        shutil.copy(PT2, pt2)
        os.truncate(pt2, part)
        b.refused(BAD_INPUT, "cut.pt2", "build", pt2)


@test
def a_zip_with_an_entry_outside_of_its_folder_is_refused(b):
    for name in ("x", "other/file"):
        copy = b.at("copy.pt2")
        shutil.copy(PT2, copy)
        with zipfile.ZipFile(copy, "a", zipfile.ZIP_STORED) as z:
            z.writestr(name, b"1")
        b.refused(BAD_INPUT, f"'{name}' lies outside of the folder", "build", copy, "-o", b.at("x.so"))


@test
def paths_may_hold_any_bytes(b):
    folder = os.path.join(os.fsencode(b.folder), b"a,b \xff'")
    os.mkdir(folder)
    so = os.path.join(folder, b"mo,d\xfeel.so")
    r = subprocess.run([b.aotc, "build", PT2, "-o", so, "--json", "--keep", os.path.join(folder, b"k,eep")], env=b.env, capture_output=True, timeout=120)
    assert r.returncode == 0, r.stderr
    json.loads(r.stdout)
    r = subprocess.run([b.aotc, "verify", so, "--against", PT2, "--samples", "1", "--json"], env=b.env, capture_output=True, timeout=120)
    assert r.returncode == 0 and json.loads(r.stdout)["pass"], r.stderr
    for words in ([b"inspect", so], [b"inspect", os.path.join(folder, b"no\xff.pt2")], [b"build", PT2, b"-o", folder]):
        r = subprocess.run([b.aotc, *words, b"--json"], env=b.env, capture_output=True, timeout=120)
        json.loads(r.stdout)
        assert r.returncode in (0, IO), (words, r.returncode, r.stderr)
