#!/usr/bin/env python3
"""trace_test.py TOY_METHODS NVTX_TOOL: traceparent from OpenTelemetry's propagator to what a tool of NVTX is told (tests/abi/nvtx_tool.cpp) and back,
and which headers are malformed by OpenTelemetry's reading. Exit 77 (skipped) where the environment AOTC_PACKAGE_VENV (packaging/setup.sh) has no
opentelemetry-api.
"""
import ctypes
import glob
import os
import random
import sys

import numpy as np

tools = os.environ.get("AOTC_PACKAGE_VENV") or os.path.expanduser("~/.cache/aotc/package")
sys.path += glob.glob(os.path.join(tools, "lib", "python3*", "site-packages"))
try:
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as e:
    print(f"skipped: {e} ({tools}, packaging/setup.sh)")
    sys.exit(77)

import aotc_runtime as aotc

toy, tool = sys.argv[1:]
told = ctypes.CDLL(tool).nvtx_tool_told
told.restype = ctypes.c_char_p
os.environ["NVTX_INJECTION64_PATH"] = tool
context = aotc.load(toy).context()
propagator = TraceContextTextMapPropagator()
x = np.arange(8, dtype=np.float32)
rng = random.Random(7)


def ranges(header):
    """The names of the ranges of a run, and what it gives."""
    told()
    y, = context.run(x, method="peek", traceparent=header)
    names = [w[len("push "):] for w in told().decode().split("; ") if w.startswith("push ")]
    assert "peek" in names[:2], names
    return names[:names.index("peek")], y


def spans(header):
    """What OpenTelemetry reads: nothing, or the span's context."""
    span = trace.get_current_span(propagator.extract({"traceparent": header})).get_span_context()
    return span if span.is_valid else None


plain = ranges(None)[1]
assert ranges(None)[0] == []
headers = []
for _ in range(200):
    span = trace.SpanContext(rng.getrandbits(128) or 1, rng.getrandbits(64) or 1, False, trace.TraceFlags(rng.choice((0, 1))))
    carrier = {}
    propagator.inject(carrier, trace.set_span_in_context(trace.NonRecordingSpan(span)))
    (name,), y = ranges(carrier["traceparent"])
    assert name == carrier["traceparent"] and (y == plain).all()
    back = spans(name)
    assert (back.trace_id, back.span_id, back.trace_flags) == (span.trace_id, span.span_id, span.trace_flags)
    headers.append(name)

taken = 0
for _ in range(20000):
    header = list(rng.choice(headers))
    for _ in range(rng.choice((1, 1, 2, 8))):
        at, kind = rng.randrange(len(header) + 1), rng.randrange(4)
        if kind == 0:
            header[at:at] = rng.choice("0af-gA_.é\udc80")
        elif kind == 1:
            del header[at:at + 1]
        elif kind == 2:
            header[at:at + 1] = rng.choice("0123456789abcdef")
        else:
            field, digit = rng.choice(((0, 2), (3, 35), (36, 52), (53, 55))), rng.choice("0fc")
            header[field[0]:field[1]] = digit * len(header[field[0]:field[1]])
    header = "".join(header)
    span, (names, _) = spans(header), ranges(header)
    assert bool(span) == bool(names), (header, span, names)
    if names:
        back = spans(names[0])
        assert header.startswith(names[0]) and (back.trace_id, back.span_id) == (span.trace_id, span.span_id), (header, names)
        taken += 1
assert 1000 < taken < 19000, taken
for wrong in (7, b"00-" + b"1" * 32):
    try:
        context.run(x, method="peek", traceparent=wrong)
        assert False, wrong
    except TypeError:
        pass
print(f"200 spans there and back; of 20000 damaged headers {taken} are valid to both")
