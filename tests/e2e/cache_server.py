"""A cache behind HTTP for tests, good and bad: objects in memory, and a log of what was asked. KINDS names how it can answer a GET or a PUT."""
import http.server
import ssl
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def go_on(self):
        try:
            self.of_kind()
        except OSError:  # the client has gone
            self.close_connection = True

    do_GET = do_PUT = go_on

    def of_kind(self):
        of, length = self.server.of, int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length)
        with of.lock:
            of.log.append((self.command, self.path, self.headers.get("Authorization")))
        kind = of.kind[self.command]
        if kind in ("403", "500", "503"):
            return self.answer(int(kind))
        if kind == "redirects":
            return self.answer(302, Location=of.elsewhere + self.path)
        if kind == "stalls":
            of.ends.wait()
            self.close_connection = True
            return None
        if kind == "no_http":
            self.close_connection = True
            return self.wfile.write(b"220 mail ready\r\n")
        if kind == "hangs_up":
            self.close_connection = True
            return None
        if self.command == "PUT":
            with of.lock:
                of.objects[self.path] = sent
            return self.answer(201)
        body = of.objects.get(self.path)
        if kind == "endless_headers":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not of.ends.is_set():
                self.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")
        if kind == "endless":
            self.send_response(200)
            self.end_headers()
            while not of.ends.is_set():
                self.wfile.write(b"x" * 65536)
            self.close_connection = True
            return None
        if body is None:
            return self.answer(404)
        if kind == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
            return None
        if kind == "cut_unsaid":  # no length: the end of the connection is the end of the body
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body[:len(body) // 2])
            self.close_connection = True
            return None
        if kind == "drips":
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for i in range(len(body)):
                self.wfile.write(body[i:i + 1])
                if of.ends.wait(0.1):
                    break
            self.close_connection = True
            return None
        return self.answer(200, DAMAGES[kind](body, of) if kind in DAMAGES else body)


# Answers that are no good object.
DAMAGES = {
    "flipped": lambda body, of: body[:-1] + bytes([body[-1] ^ 1]),
    "flipped_hash": lambda body, of: body[:50] + bytes([body[50] ^ 1]) + body[51:],
    "longer": lambda body, of: body + b"x",
    "page": lambda body, of: b"<html>Sign in</html>" * 20,
    "empty": lambda body, of: b"",
    "another": lambda body, of: max(b for b in of.objects.values() if b != body),
}
GET_KINDS = ("403", "500", "503", "redirects", "stalls", "no_http", "hangs_up", "endless_headers", "endless", "cut", "cut_unsaid", "drips", *DAMAGES)
PUT_KINDS = ("403", "500", "redirects", "stalls", "hangs_up")


class Server:
    """with Server() as s: s.url, s.objects (path: bytes), s.log [(method, path, Authorization)], s.kind {"GET": .., "PUT": ..}"""

    def __init__(self, tls=None):
        self.objects, self.log, self.lock, self.ends = {}, [], threading.Lock(), threading.Event()
        self.kind, self.elsewhere = {"GET": "good", "PUT": "good"}, ""
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads, self.http.of = True, self
        self.http.handle_error = lambda *_: None  # clients that refuse the certificate or go away
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.http.server_address[1]}"

    def asked(self, method):
        return [entry for entry in self.log if entry[0] == method]

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.http.shutdown()
        self.http.server_close()
