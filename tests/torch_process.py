"""Runs a test's script in a fork of one process that has imported torch and exported a program once: both take seconds, which a run of all tests
would spend some fifty times.

    python -IS torch_process.py SCRIPT [ARGUMENT ...]     as `python SCRIPT ARGUMENT ...`: arguments, environment, folder, input and output, exit code

The first call of a ctest starts that process. It serves calls of the same user and parent (ctest; the process that AOTC_TEST_PARENT names) alone,
and ends with that, or after five minutes without calls. Scripts have that parent in AOTC_TEST_PARENT: what they call this way is forked from the same process. A call starts Python
anew where AOTC_TEST_FORK=0, where the environment has what Python or torch read as they start (but for what a fork can do as well: LATER), and where the process cannot be had.
"""
import os
import socket
import sys

IDLE_S = 300
LONGEST_REQUEST = 1 << 24
READ_AT_START = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "ATEN_", "TORCH", "PYTORCH", "PYTHON", "LD_", "GLIBC_", "MALLOC_")
LATER = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")


def server_name(parent):
    """Of an abstract socket: one for each parent, known by its start too, and Python."""
    with open(f"/proc/{parent}/stat") as f:
        started = f.read().rpartition(")")[2].split()[19]
    return f"\0aotc-tests-{os.getuid()}-{parent}-{started}-{sys.executable}"[:107]


def is_mine(connection):
    """Whether the same user is at the other end: it runs what it is told."""
    return int.from_bytes(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], sys.byteorder) == os.getuid()


# --- the caller


def connect(parent):
    name = server_name(parent)
    for _ in range(2):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            s.connect(name)
            return s
        except ConnectionRefusedError:
            s.close()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(name)  # one caller alone can
        except OSError:
            continue  # another one did
        listener.listen(64)
        if os.fork() == 0:
            os.setsid()
            os.chdir("/")
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.set_inheritable(listener.fileno(), True)
            keep = listener.fileno()
            os.closerange(3, keep)
            os.closerange(keep + 1, 1 << 12)
            os.execv(sys.executable, [sys.executable, os.path.abspath(__file__), "--serve", str(keep), str(parent)])
        listener.close()
    return None


def starts_anew():
    return os.environ.get("AOTC_TEST_FORK") == "0" or any(k.startswith(READ_AT_START) and k not in LATER for k in os.environ)


def call(words, parent):
    """The script's wait status, or None where nothing of it ran."""
    import json

    s = connect(parent)
    if s is None or not is_mine(s):
        return None
    with s:
        text = json.dumps({"words": words, "folder": os.getcwd(), "environment": dict(os.environ, AOTC_TEST_PARENT=str(parent))}).encode("ascii")
        socket.send_fds(s, [len(text).to_bytes(4, "little")], [0, 1, 2])
        s.sendall(text)
        if s.recv(1) != b"S":
            return None
        status = b""
        while len(status) < 4:
            more = s.recv(4 - len(status))
            if not more:
                print("torch_process.py: the process that ran this script is gone", file=sys.stderr)
                return 1 << 8
            status += more
        return int.from_bytes(status, "little")


def main(words):
    status = None
    if not starts_anew():
        try:
            status = call(words, int(os.environ.get("AOTC_TEST_PARENT") or os.getppid()))
        except (OSError, ValueError) as error:
            print(f"torch_process.py: {error}; a Python of its own runs {words[0]}", file=sys.stderr)
    if status is None:
        os.execv(sys.executable, [sys.executable, *words])
    if os.WIFSIGNALED(status):
        import signal

        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    sys.exit(os.waitstatus_to_exitcode(status))


# --- the process that is forked


def warm():
    """What every script does first; the state of random numbers stays that of a fresh process."""
    import io

    import numpy  # noqa: F401
    import torch

    random = torch.get_rng_state()
    n = torch.export.Dim("n", min=2, max=8)
    program = torch.export.export(torch.nn.Linear(2, 2).eval(), (torch.zeros(3, 2),), dynamic_shapes=({0: n},))
    saved = io.BytesIO()
    torch.export.save(program, saved)
    saved.seek(0)
    torch.export.load(saved).module()(torch.zeros(4, 2))
    torch.set_rng_state(random)


def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def run(request, fds):
    """In a process of its own: the script as Python's main module. Does not return."""
    import atexit
    import threading
    import traceback
    import types

    for to, fd in enumerate(fds):
        os.dup2(fd, to)
        os.close(fd)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    script = request["words"][0]
    sys.argv = request["words"]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    sys.stdout.reconfigure(write_through=bool(os.environ.get("PYTHONUNBUFFERED")))
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    code = 0
    try:
        with open(script, "rb") as f:
            exec(compile(f.read(), script, "exec"), module.__dict__)
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if code == 1 and e.code != 1:
            print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush(), sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        code = code or 1
    os._exit(code & 0xFF)


def answer(connection):
    """Runs one call's script, kills it where the caller goes."""
    import json
    import select
    import signal

    size, fds, _, _ = socket.recv_fds(connection, 4, 3)
    size = int.from_bytes(size + read(connection, 4 - len(size)), "little")
    if len(fds) != 3 or size > LONGEST_REQUEST:
        return
    request = json.loads(read(connection, size))
    worker = os.fork()
    if worker == 0:
        connection.close()
        os.setpgid(0, 0)
        run(request, fds)
    for fd in fds:
        os.close(fd)
    connection.sendall(b"S")
    ended = os.pidfd_open(worker)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(connection, select.POLLIN)  # it sends no more: readable where it is closed
    if any(fd == ended for fd, _ in poll.poll()):
        connection.sendall(os.waitpid(worker, 0)[1].to_bytes(4, "little"))
        return
    try:
        os.killpg(worker, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(worker, signal.SIGKILL)


def serve(fd, parent):
    import gc
    import select
    import signal

    listener = socket.socket(fileno=fd)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # its threads would not be in a fork
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"  # two tests share the cores: threads that wait leave them
    del sys.path[0]  # as in a script that starts anew
    warm()
    if len(os.listdir("/proc/self/task")) != 1:
        return  # a fork has one thread; callers see the connection end
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(os.pidfd_open(parent), select.POLLIN)
    while events := poll.poll(IDLE_S * 1000):
        if any(got != listener.fileno() for got, _ in events):
            return
        connection, _ = listener.accept()
        if is_mine(connection) and os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            try:
                answer(connection)
            finally:
                os._exit(0)
        connection.close()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        serve(int(sys.argv[2]), int(sys.argv[3]))
    elif len(sys.argv) < 2:
        sys.exit(__doc__)
    else:
        main(sys.argv[1:])
