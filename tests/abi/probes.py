"""The USDT probes of what aotc builds, as tools from outside see them: readelf, and gdb where it is installed and may trace.

    probes.py --aotc BIN --device BIN --archive PT2 --work DIR
"""
import argparse
import json
import os
import re
import shutil
import subprocess

ARGUMENTS = {"run__start": ["8", "8", "8", "8", "8"], "run__end": ["8", "8", "8", "-4", "8"], "step__start": ["8", "8", "4", "8"], "step__end": ["8", "8", "4", "8"]}


def said(*words, exit_code=0, **kwargs):
    r = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, **kwargs)
    assert exit_code is None or r.returncode == exit_code, f"{words}: exit {r.returncode}\n{r.stdout}\n{r.stderr}"
    return r.stdout


def check(path, models=1):
    """Four probes a model; each is a nop in .text, has the file's base, and a semaphore of its own that may be written."""
    sections = {m[1]: (int(m[2], 16), int(m[3], 16), int(m[4], 16), m[5]) for m in
                re.finditer(r"\] (\S+) +\S+ +([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+) [0-9a-f]+ +(\w+)", said("readelf", "-W", "-S", path))}
    notes = re.findall(r"NT_STAPSDT[^\n]*?\s+Provider: (\S+)\n +Name: (\S+)\n +Location: 0x([0-9a-f]+), Base: 0x([0-9a-f]+), Semaphore: 0x([0-9a-f]+)\n +Arguments: (.*)",
                       said("readelf", "-W", "-n", path))
    assert sorted(n[1] for n in notes) == sorted(list(ARGUMENTS) * models) and {n[0] for n in notes} == {"aotc"}, (path, notes)
    text, where, size, flags = sections[".text"]
    assert flags == "AX"
    semaphores, (first, _, room, flags) = set(), sections[".probes"]
    assert "W" in flags and room == 8 * models, sections[".probes"]
    relro = re.search(r"GNU_RELRO +\S+ (\S+) \S+ \S+ (\S+)", said("readelf", "-W", "-l", path))
    data = open(path, "rb").read()
    for _, name, location, base, semaphore, arguments in notes:
        at, semaphore = int(location, 16), int(semaphore, 16)
        assert text <= at < text + size and data[where + at - text] == 0x90, (path, name, location)
        here, _, bytes_, _ = sections[".stapsdt.base"]
        assert here <= int(base, 16) < here + bytes_, (path, name, base)
        assert first <= semaphore < first + room and semaphore % 2 == 0, (path, name, semaphore)
        assert not relro or not int(relro[1], 16) <= semaphore < int(relro[1], 16) + int(relro[2], 16), (path, "a semaphore that is read only once it is relocated")
        semaphores.add(semaphore)
        words = [re.fullmatch(r"(-?\d)@%[a-z0-9]+", word) for word in arguments.split()]
        assert all(words) and [w[1] for w in words] == ARGUMENTS[name], (path, name, arguments)
    assert len(semaphores) == 4 * models, (path, notes)


def with_gdb(o, so, inputs, at):
    """gdb stops at the probes of a run, and reads their arguments."""
    if not shutil.which("gdb"):
        return "gdb is not installed"
    script = at("script.gdb")
    with open(script, "w") as f:
        f.write("set pagination off\nset confirm off\nset breakpoint pending off\ntcatch load traced.so\nrun\n"
                + "".join(f"break -probe-stap aotc:{name}\ncommands\nsilent\nprintf \"HIT {name} %s %s %d\\n\", (char*)$_probe_arg0, (char*)$_probe_arg1, (int)$_probe_arg{2 if 'step' in name else 3}\ncontinue\nend\n"
                          for name in ("run__start", "run__end", "step__start"))
                + "info probes stap aotc\ncontinue\n")
    r = subprocess.run(["gdb", "-nx", "-batch", "-x", script, "--args", o.device, "run", so, *inputs, "--output-dir", at("results"), "--quiet"], capture_output=True, text=True, timeout=300)
    told = r.stdout + r.stderr
    if re.search(r"ptrace: |Could not trace the inferior", told):
        return "gdb may not trace here: " + told.strip()[-300:]
    hits = re.findall(r"^HIT (\S+) (\S+) (\S+) (-?\d+)$", told, re.M)
    runs = [h for h in hits if h[0] == "run__start"]
    steps = [int(h[3]) for h in hits if h[0] == "step__start"]
    assert len(runs) >= 1 and len(runs) == sum(h[0] == "run__end" and h[3] == "0" for h in hits), told
    assert all(os.path.basename(h[1]) == "traced.so" and h[2] == "forward" for h in hits), told
    assert steps and steps == list(range(len(steps) // len(runs))) * len(runs), told
    assert len(set(re.findall(r"aotc +(\w+__\w+) ", told))) == 4, told
    print(f"ok   gdb: {len(runs)} runs, {len(steps)} steps")
    return ""


def with_uprobes(o, so, inputs, at):
    """The kernel counts runs and steps of a process that begins when a tracer is there already: it finds its file whole, and the semaphores are raised."""
    folder = "/sys/kernel/tracing"
    if not os.environ.get("AOTC_TEST_UPROBES"):
        return "AOTC_TEST_UPROBES is not set: this part registers probes with the machine's kernel, and removes them"
    if not os.access(folder + "/uprobe_events", os.W_OK):
        return "the kernel's uprobe_events cannot be written"
    data, group = said("readelf", "-W", "-S", so), f"aotc_test_{os.getpid()}"
    memory, in_file = (int(re.search(r"\] \.probes +\S+ +([0-9a-f]+) ([0-9a-f]+)", data)[i], 16) for i in (1, 2))
    notes = re.findall(r"Name: (\S+)\n +Location: 0x([0-9a-f]+), Base: \S+ Semaphore: 0x([0-9a-f]+)", said("readelf", "-n", so))
    text = [int(v, 16) for v in re.search(r"\] \.text +\S+ +([0-9a-f]+) ([0-9a-f]+)", data).groups()]

    def write(file_name, line):
        file = os.open(os.path.join(folder, file_name), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, (line + "\n").encode())
        finally:
            os.close(file)

    made = []
    try:
        for name, location, semaphore in notes:
            write("uprobe_events", f"p:{group}/{name} {so}:{int(location, 16) - text[0] + text[1]:#x}({int(semaphore, 16) - memory + in_file:#x})")
            made.append(name)
            write(f"events/{group}/{name}/enable", "1")
    except OSError as error:
        return f"the kernel takes no such probe ({error}): {name}"
    else:
        said(o.device, "run", so, *inputs, "--output-dir", at("results"), "--quiet")
        with open(folder + "/uprobe_profile") as f:
            hits = {m[1]: int(m[2]) for m in re.finditer(re.escape(so) + r" +(\S+) +(\d+)", f.read())}
        assert set(hits) == set(ARGUMENTS) and hits["run__start"] == hits["run__end"] >= 1, hits
        assert hits["step__start"] == hits["step__end"] >= hits["run__start"], hits
        print("ok   uprobes:", hits)
        return ""
    finally:
        for name in made:
            write(f"events/{group}/{name}/enable", "0")
            write("uprobe_events", f"-:{group}/{name}")


def main():
    p = argparse.ArgumentParser()
    for name in ("aotc", "device", "archive", "work"):
        p.add_argument("--" + name, required=True)
    o = p.parse_args()
    shutil.rmtree(o.work, ignore_errors=True)
    os.makedirs(o.work)
    at = lambda *names: os.path.join(os.path.abspath(o.work), *names)
    so = at("traced.so")
    said(o.aotc, "build", o.archive, "--cpu", "avx2", "-o", so, "--quiet")
    check(so)
    said("strip", "-o", at("stripped.so"), so)
    check(at("stripped.so"))
    print("ok   shared object")

    # Two models in one program have probes each: theirs are told apart by the first argument's program and by their addresses.
    for name in ("one", "two"):
        said(o.aotc, "build", o.archive, "--cpu", "avx2", "--emit", "static", "-o", at(name + ".a"), "--quiet")
    with open(at("main.c"), "w") as f:
        f.write('#include "one.h"\n#include "two.h"\nint main(void) { return !one_get_api(AOTC_ABI_VERSION) + !two_get_api(AOTC_ABI_VERSION); }\n')
    for words in ([], ["-Wl,--gc-sections"], ["-static"]):
        said("gcc", at("main.c"), at("one.a"), at("two.a"), *words, "-lpthread", "-ldl", "-o", at("program"))
        said(at("program"))
        check(at("program"), models=2)
    print("ok   linked into programs")

    said(o.aotc, "references", so, "--against", o.archive, "-o", at("references"))
    told = json.loads(said(o.aotc, "inspect", so, "--json"))
    inputs = [w for i in told["inputs"] for w in ("--input", f"{i['name']}={at('references', 'inputs', i['name'] + '.npy')}")]
    for tracer in (with_gdb, with_uprobes):
        why = tracer(o, so, inputs, at)
        if why:
            print("left out:", tracer.__name__, "--", why)


if __name__ == "__main__":
    main()
