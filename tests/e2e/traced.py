"""Which requests the runs of a server were for, as a tool of NVTX sees them (tests/abi/nvtx_tool.cpp)."""
import concurrent.futures
import contextlib
import os

VARIABLES = "NVTX_INJECTION64_PATH", "AOTC_NVTX_LOG"


@contextlib.contextmanager
def nvtx(tool, log):
    """Programs that are started meanwhile write the names of their ranges to `log`."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(log)
    os.environ.update(zip(VARIABLES, (tool, log)))
    try:
        yield
    finally:
        for name in VARIABLES:
            del os.environ[name]


def check(ask, log):
    """ask(headers): a request to a server that was started within nvtx()."""
    seen = 0

    def told(*headers):
        """The names of the ranges of these requests, at one time."""
        nonlocal seen
        with concurrent.futures.ThreadPoolExecutor(len(headers)) as pool:
            list(pool.map(ask, headers))
        with open(log) as f:
            names = f.read().split("\n")[:-1]
        seen, new = len(names), names[seen:]
        return new

    header = lambda i: f"00-{i + 1:032x}-{i + 0xab:016x}-01"
    requests = lambda names: [n for n in names if n.startswith("00-")]
    assert told({}) and not requests(told({}))
    assert not requests(told({"traceparent": header(0).upper()}, {"traceparent": header(0) + "-"}, {"traceparent": "00-"}))
    for name in ("traceparent", "Traceparent"):
        names = told({name: header(1)})
        assert set(requests(names)) == {header(1)} and set(names) != {header(1)}, names
        assert names[0] == header(1) and not names[1].startswith("00-"), names
    some = [header(i) for i in range(2, 14)]
    names = set(requests(told(*({"traceparent": h} for h in some))))
    assert names and names <= set(some), names
    return names
