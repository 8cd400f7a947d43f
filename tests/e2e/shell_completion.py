#!/usr/bin/env python3
"""shell_completion.py AOTC AOTC_DEVICE WORK: what real shells complete, the man pages as groff formats them, `--version --json`, and what the
command line says of words that it does not know. A shell that is not installed is left out; at least bash is."""
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

AOTC, DEVICE, WORK = sys.argv[1], sys.argv[2], Path(sys.argv[3])
WORK.mkdir(parents=True, exist_ok=True)
failures = []


def check(condition, text):
    if not condition:
        failures.append(text)
        print("FAIL", text)


def run(*words, **more):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120, **more)


def script(program, shell):
    r = run(program, "completion", shell)
    check(r.returncode == 0 and r.stdout, f"{program} completion {shell}: {r.stderr}")
    path = WORK / f"{Path(program).name}.{shell}"
    path.write_text(r.stdout)
    return path


def in_bash(program, words):
    """What bash offers for the last of the words."""
    line = " ".join(words)
    code = f"""
source {script(program, 'bash')}
COMP_WORDS=({' '.join("'" + w + "'" for w in words)}) COMP_CWORD={len(words) - 1} COMP_LINE='{line}' COMP_POINT={len(line)}
$(complete -p {words[0]} | sed -E 's/.*-F ([^ ]+).*/\\1/')
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    r = run("bash", "--norc", "-c", code)
    check(r.returncode == 0 and not r.stderr, f"bash {words}: {r.stderr}")
    return r.stdout.split()


def in_fish(program, words):
    r = run("fish", "--no-config", "-c", f"source {script(program, 'fish')}; complete -C '{' '.join(words)}'", env={"HOME": str(WORK), "PATH": "/usr/bin:/bin"})
    check(r.returncode == 0 and not r.stderr, f"fish {words}: {r.stderr}")
    return [line.split("\t")[0] for line in r.stdout.split("\n") if line]


def in_zsh(program, words):
    """The words typed to a zsh at a terminal, and what it shows after the tabulator key."""
    terminal, other = pty.openpty()
    env = {"PATH": "/usr/bin:/bin", "HOME": str(WORK), "TERM": "dumb", "COLUMNS": "400", "LINES": "200", "LANG": "C.UTF-8"}
    child = subprocess.Popen(["zsh", "-f", "-i"], stdin=other, stdout=other, stderr=other, env=env, cwd=WORK, start_new_session=True)
    os.close(other)

    def until(text):
        seen, end = "", time.monotonic() + 60
        while text not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 1)[0]:
                seen += os.read(terminal, 65536).decode(errors="replace")
        return seen

    try:
        os.write(terminal, f"unsetopt zle_bracketed_paste beep prompt_sp; PS1=; LISTMAX=0; autoload -Uz compinit; compinit -u -d {WORK}/zcompdump; "
                           f"source {script(program, 'zsh')}; print READY-$((1 + 1))\n".encode())
        check("READY-2" in until("READY-2"), "zsh did not start")
        os.write(terminal, (" ".join(words) + "\t").encode())
        time.sleep(1)
        os.write(terminal, b"\t")  # what they begin alike was put in; now the list
        time.sleep(1)
        os.write(terminal, b"\x15print DONE-$((1 + 1))\n")
        return re.findall(r"[\w-]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|.\x08", "", until("DONE-2")))
    finally:
        child.terminate()
        os.close(terminal)
        child.wait()


def completions():
    shells = {"bash": in_bash, "fish": in_fish, "zsh": in_zsh}
    for shell, complete in shells.items():
        if not shutil.which(shell):
            print(f"{shell} is not installed")
            check(shell != "bash", "no bash")
            continue
        for program, words, offered, not_offered in (
            (AOTC, ["aotc", "b"], {"build", "bench"}, {"verify", "cubin-worker"}),
            (AOTC, ["aotc", "build", "--sh"], {"--shapes"}, {"--against"}),
            (AOTC, ["aotc", "build", "--mode", "max"], {"max-autotune", "max-autotune-no-cudagraphs"}, {"default"}),
            (AOTC, ["aotc", "verify", "--ag"], {"--against"}, {"--shapes"}),
            (AOTC, ["aotc", "completion", ""], {"bash", "zsh", "fish"}, {"build"}),
            (DEVICE, ["aotc-device", "pr"], {"probe"}, {"bench"}),
            (DEVICE, ["aotc-device", "verify", "--exp"], {"--expected"}, set()),
        ):
            got = set(complete(program, words))
            check(offered <= got and not got & not_offered, f"{shell}: {words} gives {sorted(got)}, expected {sorted(offered)}")
    for shell in ("zsh", "fish", "bash"):
        if shutil.which(shell):
            for program in (AOTC, DEVICE):
                r = run(shell, "-n", script(program, shell))
                check(r.returncode == 0 and not r.stderr, f"{shell} -n: {r.stderr}")


def man_pages():
    folder = WORK / "man"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for program in (AOTC, DEVICE):
        check(run(program, "man-pages", folder).returncode == 0, "man-pages")
    help_text = run(AOTC, "build", "--help").stdout
    check({"aotc.1", "aotc-build.1", "aotc-device.1", "aotc-device-probe.1"} <= {p.name for p in folder.iterdir()}, "pages are missing")
    check(not list(folder.glob("*worker*")), "a hidden verb has a page")
    if shutil.which("groff"):
        for page in sorted(folder.iterdir()):
            r = run("groff", "-man", "-Tascii", "-P-cbou", "-ww", "-rLL=200n", page)
            check(r.returncode == 0 and not r.stderr, f"{page.name}: {r.stderr}")
            if page.name == "aotc-build.1":
                for option in {w.strip(",") for w in help_text.split() if w.startswith("--")}:
                    check(option.split(",")[0] in r.stdout, f"aotc-build.1 lacks {option}")
    r = run(AOTC, "man-pages", "/nonexistent")
    check(r.returncode == 6 and "cannot write /nonexistent/aotc.1" in r.stderr, f"man-pages: {r.stderr}")


def version():
    for program in (AOTC, DEVICE):
        name = Path(program).name
        text = run(program, "--version").stdout.strip()
        for words in (["--version", "--json"], ["--json", "--version"]):
            j = json.loads(run(program, *words).stdout)
            check(text == f"{name} {j['version']}" and j["program"] == name and j["abi_version"] >= 1 and "GCC" in j["compiler"] + "GCC", f"{words}: {j}")
    check(all(v.startswith("2.") for v in j.get("libtorch", [])), f"libtorch: {j}")
    check(json.loads(run(AOTC, "--version", "--json").stdout)["libtorch"], "no LibTorch is named")


def words_that_are_not_known():
    for program, words, text in (
        (AOTC, ["biuld"], "aotc: error: there is no command 'biuld'; did you mean 'build'?"),
        (AOTC, ["xyzzy"], "aotc: error: there is no command 'xyzzy'\n"),
        (AOTC, ["--vresion"], "aotc: error: there is no option '--vresion'; did you mean '--version'?"),
        (AOTC, ["build", "m.pt2", "--shpes", "s.json"], "aotc: error: build has no option '--shpes'; did you mean '--shapes'?\n"),
        (AOTC, ["build", "m.pt2", "--thread=3"], "did you mean '--threads'?"),
        (AOTC, ["build", "m.pt2", "--frobnicate"], "aotc: error: build has no option '--frobnicate'\n"),
        (AOTC, ["verify", "m.so", "n.so", "--against", "m.pt2"], "aotc: error: verify takes no further argument: 'n.so'"),
        (AOTC, ["build", "m.pt2", "--mode", "fast"], "aotc: error: --mode: fast not in"),
        (AOTC, ["build"], "aotc: error: model is required"),
        (AOTC, [], "aotc: error: A subcommand is required"),
        (AOTC, ["completion", "csh"], "aotc: error: shell: csh not in"),
        (DEVICE, ["prob", "m.so"], "aotc-device: error: there is no command 'prob'; did you mean 'probe'?"),
        (DEVICE, ["verify", "m.so", "--expcted", "x"], "did you mean '--expected'?"),
    ):
        r = run(program, *words)
        check(r.returncode == 2 and text in r.stderr and not r.stdout, f"{words}: exit {r.returncode}: {r.stderr}{r.stdout}")
    r = run(DEVICE, "probe", "/nope")
    check(r.returncode == 6 and r.stderr.startswith("aotc-device: error: "), r.stderr)


for test in (completions, man_pages, version, words_that_are_not_known):
    test()
sys.exit(1 if failures else 0)
