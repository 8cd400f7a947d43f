"""Scripts that torch_process.py runs are told from those that Python runs by nothing but their time.

    torch_process_test.py
"""
import os
import signal
import subprocess
import sys
import tempfile
import time

PROCESS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_process.py")
NAMED = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/"), "AOTC_TEST_PARENT": str(os.getpid())}

SCRIPT = """import atexit, os, signal, sys
import torch
atexit.register(lambda: print("at exit", flush=True))
forked = os.getppid() != int(os.environ["CALLER"])
print(__name__, os.path.basename(__file__), os.path.basename(sys.path[0] or "."), sys.argv[1:], os.getcwd(), os.environ["WORD"], "AOTC_OTHER" in os.environ)
print(sys.stdin.read(), file=sys.stderr)
assert sys.stdout.write_through == ("PYTHONUNBUFFERED" in os.environ) and sys.dont_write_bytecode == ("PYTHONDONTWRITEBYTECODE" in os.environ)
class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1
assert torch.equal(torch.export.export(Net(), (torch.zeros(3),)).module()(torch.zeros(3)), torch.ones(3))
open("forked", "w").write(str(forked))
end = sys.argv[1]
if end == "signal":
    os.kill(os.getpid(), signal.SIGSEGV)
if end == "raise":
    raise ValueError("no such value")
sys.exit({"words": "what is wrong", "none": None}.get(end, end) if not end.isdigit() else int(end))
"""

LONG = """import os, time
open("pid", "w").write(str(os.getpid()))
os.rename("pid", "ready")
time.sleep(600)
"""


def run(folder, *words, fork, variables={}):
    environment = {**NAMED, "WORD": "w", "CALLER": str(os.getpid()), "AOTC_TEST_FORK": "1" if fork else "0", **variables}
    command = [sys.executable, "-IS", PROCESS, *words]
    r = subprocess.run(command, cwd=folder, env=environment, input="a line", capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


ENDS = {"0": 0, "3": 3, "none": 0, "words": 1, "raise": 1, "signal": -signal.SIGSEGV}
SAID = {"words": ["what is wrong"], "raise": ["ValueError: no such value"]}


def check_ends(folder):
    script = os.path.join(folder, "script.py")
    with open(script, "w") as f:
        f.write(SCRIPT)
    for end, wanted in ENDS.items():
        for fork in (False, True) if end == "raise" else (True,):  # a Python of its own takes seconds
            code, out, err = run(folder, script, end, "more words", fork=fork)
            with open(os.path.join(folder, "forked")) as f:
                assert f.read() == str(fork), (end, fork, err)
            first = f"__main__ script.py {os.path.basename(folder)} {[end, 'more words']} {os.path.realpath(folder)} w False\n"
            assert (code, out) == (wanted, "" if end == "signal" else first + "at exit\n"), (end, fork, code, out, err)
            said = [line for line in err.splitlines() if line[:1] not in ("", " ") and "Traceback" not in line]
            assert said == ["a line", *SAID.get(end, [])], (end, fork, err)


def check_variables(folder):
    """What Python reads as it starts: a fork does as well, or it is another Python."""
    script = os.path.join(folder, "script.py")
    for fork, variables in ((True, {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"}), (False, {"PYTHONHASHSEED": "0"})):
        code, out, err = run(folder, script, "0", fork=True, variables=variables)
        with open(os.path.join(folder, "forked")) as f:
            assert (code, f.read()) == (0, str(fork)), (variables, out, err)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what):
    """As long as it takes: ctest ends what hangs."""
    while not (found := what()):
        time.sleep(0.02)
    return found


def check_killed(folder):
    """What the caller runs ends with it."""
    script = os.path.join(folder, "long.py")
    with open(script, "w") as f:
        f.write(LONG)
    caller = subprocess.Popen([sys.executable, "-IS", PROCESS, script], cwd=folder, env=NAMED)
    wait_for(lambda: os.path.exists(os.path.join(folder, "ready")))
    with open(os.path.join(folder, "ready")) as f:
        worker = int(f.read())
    assert worker != caller.pid and is_running(worker)
    caller.kill()
    caller.wait()
    wait_for(lambda: not is_running(worker))


def main():
    with tempfile.TemporaryDirectory() as folder:
        check_ends(folder)
        check_variables(folder)
        check_killed(folder)
    print("torch_process: scripts run, fail and end as by themselves")


if __name__ == "__main__":
    main()
