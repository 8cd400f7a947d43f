"""Three raylets on this machine, each at an address of its own (127.0.0.2, .3, .4: Ray takes 127.0.0.1 for another name of the machine)."""
import contextlib
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PATIENCE = 600  # seconds; nothing is judged by how long it takes


def python_with_ray():
    """Of AOTC_RAY_VENV, an environment with ray[serve] (default: ~/.cache/aotc/ray). Without it the process ends with 77: skipped."""
    python = os.path.join(os.environ.get("AOTC_RAY_VENV") or os.path.expanduser("~/.cache/aotc/ray"), "bin", "python")
    if not os.path.exists(python):
        print(f"there is no {python} (AOTC_RAY_VENV=FOLDER packaging/setup.sh makes it): skipped")
        sys.exit(77)
    return python


def until(what, condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = condition()
        if got:
            return got
        time.sleep(0.1)
    raise AssertionError(f"not within {PATIENCE} s: {what}")


def processes():
    """{pid: (parent, command line)} of all that run."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                state, parent = f.read().rsplit(")", 1)[1].split()[:2]
            with open(f"/proc/{pid}/cmdline") as f:
                if state != "Z":
                    found[int(pid)] = (int(parent), f.read().replace("\0", " ").strip())
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def below(pid):
    """The processes that `pid` started, and those that they started."""
    of, out = processes(), []
    queue = [pid]
    while queue:
        at = queue.pop()
        more = [p for p, (parent, _) in of.items() if parent == at]
        out += more
        queue += more
    return out


def processor_seconds(pids):
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            total += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return total


def free_port(host="127.0.0.2"):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]


# HAProxy before the replicas in place of Ray's proxy, as samples/README.md has it; what is lost with a replica is sent again by it, not to one that has just failed.
HAPROXY = {"RAY_SERVE_ENABLE_HA_PROXY": "1", "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1", "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response 502 503 504",
           "RAY_SERVE_HAPROXY_RETRIES": "10", "RAY_SERVE_HAPROXY_OBSERVE_ERROR_LIMIT": "1", "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": "5"}


class Cluster:
    def __init__(self, work, path, nodes=3, cpus=4, gpus={}, environment={}):
        """path: folders of PYTHONPATH. gpus: how many a node says that it has."""
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: what a raylet leaves behind becomes ours, and ends with us
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
        self.work, self.nodes, self.cpus, self.gpus = work, {}, cpus, gpus
        self.temporary = tempfile.mkdtemp(prefix="aotcray")  # paths of sockets have at most 107 bytes, of HAProxy's 97
        self.env = dict(os.environ, PYTHONPATH=os.pathsep.join(path), RAY_USAGE_STATS_ENABLED="0", RAY_DISABLE_MEMORY_MONITOR="1", OMP_NUM_THREADS="1", **environment)
        for name, file in (("CONFIG_FILE_LOC", "haproxy.cfg"), ("SOCKET_PATH", "admin.sock"), ("METRICS_SOCKET_PATH", "metrics.sock"), ("SERVER_STATE_BASE", ""), ("SERVER_STATE_FILE", "state")):
            self.env["RAY_SERVE_HAPROXY_" + name] = os.path.join(self.temporary, file)
        self.port, self.rest = free_port(), free_port()
        self.address = f"127.0.0.2:{self.port}"
        try:
            self.join("127.0.0.2", "--head", f"--port={self.port}", f"--temp-dir={self.temporary}", "--include-dashboard=true", "--dashboard-host=127.0.0.2",
                      f"--dashboard-port={self.rest}", f"--ray-client-server-port={free_port()}")
            for n in range(3, 2 + nodes):  # one after the other: two that start at once may take each other's files
                self.join(f"127.0.0.{n}", f"--address={self.address}")
        except BaseException:
            self.stop()
            raise

    def join(self, ip, *options):
        """A raylet gives up when what it starts takes long, as it does on a busy machine: then again."""
        for _ in range(10):
            self.start(ip, *options)
            until(f"{ip} is there", lambda: self.nodes[ip].poll() is not None or ip in self.machines())
            if self.nodes[ip].poll() is None:
                return
        with open(os.path.join(self.work, f"node.{ip}.log")) as f:
            raise AssertionError(f"{ip} does not start:\n{f.read()[-3000:]}")

    def start(self, ip, *options):
        log = open(os.path.join(self.work, f"node.{ip}.log"), "w")
        env = dict(self.env)
        if "RAY_SERVE_ENABLE_HA_PROXY" in env:  # ports of a machine, which all are here
            for port in ("HAPROXY_METRICS_PORT", "HAPROXY_STATS_PORT", "WORKER_PROXY_HTTP_PORT"):
                env["RAY_SERVE_" + port] = str(free_port(""))
        self.nodes[ip] = subprocess.Popen(
            [os.path.join(os.path.dirname(sys.executable), "ray"), "start", "--block", f"--node-ip-address={ip}", f"--num-cpus={self.cpus}",
             f"--num-gpus={self.gpus.get(ip, 0)}", "--object-store-memory=80000000", "--disable-usage-stats", *options], stdout=log, stderr=subprocess.STDOUT, env=env, cwd=self.work)
        log.close()

    def machines(self):
        """Addresses of the raylets that are alive."""
        got = self.try_get("/nodes?view=summary") or {"data": {"summary": []}}
        return [n.get("ip") for n in got["data"]["summary"] if n.get("raylet", {}).get("state") == "ALIVE"]

    def try_get(self, path):
        try:
            return json.loads(urllib.request.urlopen(f"http://127.0.0.2:{self.rest}{path}", timeout=30).read())
        except OSError:
            return None

    def deploy(self, config):
        """As `serve deploy`: until it runs."""
        wire = urllib.request.Request(f"http://127.0.0.2:{self.rest}/api/serve/applications/", json.dumps(config).encode(), {"Content-Type": "application/json"}, method="PUT")
        urllib.request.urlopen(wire, timeout=PATIENCE).read()

        def runs():
            apps = (self.try_get("/api/serve/applications/") or {}).get("applications", {})
            failed = [a for a in apps.values() if a["status"] == "DEPLOY_FAILED"]
            assert not failed, failed[0]["message"]
            return len(apps) == len(config["applications"]) and all(a["status"] == "RUNNING" for a in apps.values())

        time.sleep(1)  # that the controller has begun
        until("the applications run", runs)

    def replicas(self):
        """pid and node of each replica that runs."""
        apps = (self.try_get("/api/serve/applications/") or {}).get("applications", {})
        return [(r["pid"], r["node_ip"]) for a in apps.values() for d in a["deployments"].values() for r in d["replicas"] if r["state"] == "RUNNING"]

    def kill_raylet(self, ip):
        of = processes()
        raylet = next(p for p in below(self.nodes[ip].pid) if "/raylet/raylet " in of[p][1])
        os.kill(raylet, signal.SIGKILL)
        return raylet

    def stop(self):
        for _ in range(100):
            rest = below(os.getpid())
            if not rest:
                break
            for pid in rest:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass
        shutil.rmtree(self.temporary, ignore_errors=True)
