"""A clip that is not decoded, and a server that speaks the protocol."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness_clips import make_clip


@pytest.fixture
def clip():
    return make_clip()


class StubServer:
    """Answers as told: `answer(path, body)` gives (status, headers, JSON or bytes)."""

    def __init__(self, answer):
        self.requests = []
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with lock:
                    stub.requests.append((self.path, body, dict(self.headers)))
                    stub.at_once += 1
                    stub.most_at_once = max(stub.most_at_once, stub.at_once)
                try:
                    status, headers, said = answer(self.path, body)
                finally:
                    with lock:
                        stub.at_once -= 1
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def serve():
    """Start a server that answers by a function; closed when the test ends."""
    servers = []

    def start(answer):
        servers.append(StubServer(answer))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
