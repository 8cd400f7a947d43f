"""Work in a process of its own: what torch's kernels do with random programs may end it."""
import mmap
import os
import pickle
import signal
import struct
import sys
import tempfile
import time
import traceback

GRACE_S = 120  # beyond the end of the time: a pack that is being built and run is still finished


class Died(Exception):
    """The process ended without an answer. at: the seed that it was at, or None."""

    def __init__(self, why, at):
        super().__init__(why)
        self.why, self.at = why, at


class OutOfTime(Exception):
    """It was ended."""


class Watch:
    """Until when there is time (0 seconds: without an end), and which seed is being looked at, which another process may ask."""

    def __init__(self, seconds=0, clock=time.monotonic):
        self.clock, self.end = clock, clock() + seconds if seconds else None
        self.cell = mmap.mmap(-1, 8)
        self.at(None)

    def over(self):
        return self.end is not None and self.clock() > self.end

    def at(self, seed):
        """None: several, or none."""
        self.cell[:8] = struct.pack("<q", -1 if seed is None else seed)

    def seed(self):
        (seed,) = struct.unpack("<q", self.cell[:8])
        return None if seed < 0 else seed


def warm():
    """What the first export of a process takes seconds for, so that no child does it again."""
    import torch

    torch.set_num_threads(1)  # a fork has none of the others
    torch.export.export(torch.nn.Linear(2, 2).eval(), (torch.zeros(3, 2),))


def run(watch, f, *args):
    """f(*args) of a fork of this process. Raises what f raises, as a RuntimeError."""
    watch.at(None)
    sys.stdout.flush()
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            try:
                os.setpgid(0, 0)
                try:
                    result = (True, f(*args))
                except Exception:
                    result = (False, traceback.format_exc())
                pickle.dump(result, answer)
                answer.flush()
                sys.stdout.flush()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(70)
        status = wait(child, watch)
        if status is None:
            raise OutOfTime
        answer.seek(0)
        if status == 0:
            good, result = pickle.load(answer)
            if not good:
                raise RuntimeError(result)
            return result
    raise Died(signal.Signals(-status).name if status < 0 else f"exit {status}", watch.seed())


def wait(child, watch):
    """The exit status (negative: of a signal); None where the time and what is granted beyond it were over, and it was ended with all that it started."""
    pause = 0.001
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        if watch.end is not None and watch.clock() > watch.end + GRACE_S:
            try:
                os.killpg(child, signal.SIGKILL)
            except ProcessLookupError:  # it is no group yet
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def each(watch, f, items, seed_of):
    """[(items, answer)] of f(items): of all at once, or, where the process dies, without the one that it was at, or of halves. The answer to
    an item that it dies of alone is Died. Ends early when the time is over."""
    left, out = [list(items)], []
    while left and not watch.over():
        some = left.pop()
        try:
            out.append((some, run(watch, f, some)))
        except OutOfTime:
            break
        except Died as died:
            guilty = some if len(some) == 1 else [i for i in some if seed_of(i) == died.at]
            if guilty:
                out.append((guilty, died))
                others = [i for i in some if i not in guilty]
                left += [others] if others else []
            else:
                left += [some[len(some) // 2 :], some[: len(some) // 2]]
    return out
