"""A local server that misbehaves on demand, and a data directory that is not the user's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from partialfair.datasets import find_entry, source
from partialfair.datasets.task import Dataset


@dataclass(frozen=True)
class Reply:
    body: bytes
    status: int = 200
    announced_length: int | None = None


@dataclass
class Server:
    url: str
    replies: dict[str, Reply] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def serve(self, name: str, body: bytes, **options: int) -> str:
        self.replies[f"/{name}"] = Reply(body, **options)
        return f"{self.url}/{name}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """An HTTP server on this machine; what it was not told to serve is a 404."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state.requests.append(self.path)
            reply = state.replies.get(self.path, Reply(b"no such file", status=404))
            self.send_response(reply.status)
            self.send_header("Content-Length", str(reply.announced_length or len(reply.body)))
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as httpd:
        state = Server(f"http://127.0.0.1:{httpd.server_port}")
        thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        httpd.shutdown()
        thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache in place of the user's, and no $PARTIALFAIR_DATA."""
    directory = tmp_path / "cache"
    monkeypatch.setattr(source, "cache_directory", lambda: directory)
    monkeypatch.delenv(source.DATA_VARIABLE, raising=False)
    return directory


@pytest.fixture
def load_real(data_dir: Path) -> Callable[..., Dataset]:
    """Load a dataset by name from the real files, or skip if one of them is not there."""

    def load(name: str, **options: object) -> Dataset:
        entry = find_entry(name)
        absent = [file.name for file in entry.files if source.find(file, data_dir) is None]
        if absent:
            pytest.skip(f"no real data: {data_dir} has no {absent[0]}")
        return entry.loader(path=data_dir, **options)

    return load
