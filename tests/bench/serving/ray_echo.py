"""What Ray Serve takes of a request by itself: deployments that read a request and answer with as many bytes as they are told (ray_serving.py). Needs no aotc."""
from ray import serve
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment
class Echo:
    def __init__(self, size):
        self.said = bytes(size)

    async def __call__(self, request: Request):
        await request.body()
        return Response(self.said, media_type="application/octet-stream")


def app(o: dict):
    return Echo.options(num_replicas=int(o["replicas"]), max_ongoing_requests=int(o["ongoing"]), ray_actor_options={"num_cpus": 1}).bind(int(o["size"]))
