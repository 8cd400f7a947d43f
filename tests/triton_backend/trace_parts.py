"""W3C trace ids of requests, as a tool of NVTX sees them with the runs (tests/abi/nvtx_tool.cpp)."""
import os
import re

from served import Server, all_threads, close, grpc, http

SENT = [f"00-{i + 1:032x}-{i + 0xab:016x}-01" for i in range(8)]
SPAN = re.compile("00-[0-9a-f]{32}-[0-9a-f]{16}-01")


def runs(o, e, *options):
    """The names of the ranges with a request's: of a run without the header, of four with SENT's first, by HTTP and gRPC, and of one of all eight."""
    log = os.path.join(o.work, "nvtx.log")
    if os.path.exists(log):
        os.remove(log)
    seen = 0

    def told():
        nonlocal seen
        with open(log) as f:
            names = f.read().split("\n")[:-1]
        seen, new = len(names), names[seen:]
        assert new
        return [n for n in new if n.startswith("00-")]

    with Server(o, os.path.join(o.work, "models"), "--model-control-mode=explicit", "--load-model=net", "--load-model=net_eights", *options,
                env=dict(os.environ, NVTX_INJECTION64_PATH=o.nvtx, AOTC_NVTX_LOG=log)) as s:
        assert s.get("/v2/health/ready") is not None, s.said()[-6000:]
        x, y, name = e["net.0"], e["net.1"], s.get("/v2/models/net/config")["output"][0]["name"]
        told()  # of loading
        s.infer("net", {"x": x[:1]})
        out = [told()]
        for sent, client, module in zip(SENT, (s.web, s.grpc) * 2, (http, grpc) * 2):
            close(s.infer("net", {"x": x[:1]}, client=client, module=module, headers={"traceparent": sent}).as_numpy(name), y[:1], "traced")
            out.append(told())
        all_threads(s, [lambda i=i: s.infer("net_eights", {"x": x[i:i + 1]}, headers={"traceparent": SENT[i]}) for i in range(8)])
        out.append(told())
        s.web.close()
        s.stop()
    return out


def traceparent(o, e):
    if not o.nvtx:
        return "no tool of NVTX: skipped"
    assert runs(o, e) == [[]] * 6
    alone, *four, (batch,) = runs(o, e, "--http-header-forward-pattern=traceparent", "--grpc-header-forward-pattern=traceparent")
    assert alone == [] and four == [[sent] for sent in SENT[:4]] and batch in SENT, (alone, four, batch)
    # The server's own spans, in the traces of the clients.
    (alone,), *four, (batch,) = runs(o, e, "--trace-config=mode=opentelemetry", "--trace-config=rate=1", "--trace-config=level=TIMESTAMPS",
                                     "--trace-config=opentelemetry,url=http://127.0.0.1:9/v1/traces")
    assert SPAN.fullmatch(alone), alone
    for sent, (name,) in zip(SENT, four, strict=False):
        assert SPAN.fullmatch(name) and name[:36] == sent[:36] and name != sent, (sent, name)
    assert batch[:36] in {sent[:36] for sent in SENT} and batch not in SENT, batch


APART = {"traceparent": traceparent}
