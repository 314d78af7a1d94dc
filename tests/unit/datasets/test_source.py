from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import logging
import lzma
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pooch
import pytest

from partialfair.datasets import source
from partialfair.datasets.source import RemoteFile, download, ensure, find, read_all
from partialfair.exceptions import DataFetchError, InputError, MissingExtraError

CONTENT = b"1;2;3\n" * 500


def remote(url: str, members: tuple[str, ...] = (), content: bytes = CONTENT, name: str = "toy/toy.csv"):
    return RemoteFile("toy", name, hashlib.sha256(content).hexdigest(), url, members)


def zipped(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


UNREACHABLE = remote("http://127.0.0.1:9/toy.csv")


@pytest.fixture
def refused_url() -> Iterator[str]:
    """Of a port that is taken, so that nobody else gets it, but at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{probe.getsockname()[1]}/toy.csv"


class TestLocalCopies:
    @pytest.mark.parametrize("folder", ["", "toy"])
    @pytest.mark.parametrize(
        ("suffix", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)]
    )
    def test_plain_and_compressed_copies_are_found_in_both_layouts(self, tmp_path, folder, suffix, pack):
        copy = put(tmp_path / folder / f"toy.csv{suffix}", pack(CONTENT))
        assert find(UNREACHABLE, tmp_path) == copy
        assert read_all([UNREACHABLE], tmp_path) == [CONTENT]

    def test_a_directory_of_the_same_name_is_not_taken_for_the_file(self, tmp_path):
        a9a = RemoteFile("a9a", "a9a/a9a", "0" * 64, "http://127.0.0.1:9/")
        (tmp_path / "a9a").mkdir()
        assert find(a9a, tmp_path) is None
        assert find(a9a, tmp_path / "a9a") is None

    def test_path_may_be_the_file_itself_under_any_name(self, tmp_path):
        copy = put(tmp_path / "renamed.data.gz", gzip.compress(CONTENT))
        assert read_all([UNREACHABLE], str(copy)) == [CONTENT]

    def test_path_comes_before_the_variable_and_the_variable_before_the_cache(
        self, tmp_path, cache, monkeypatch
    ):
        in_cache = put(cache / "toy" / "toy.csv")
        assert find(UNREACHABLE) == in_cache
        in_variable = put(tmp_path / "variable" / "toy.csv")
        monkeypatch.setenv("PARTIALFAIR_DATA", str(tmp_path / "variable"))
        assert find(UNREACHABLE) == in_variable
        in_path = put(tmp_path / "path" / "toy.csv")
        assert find(UNREACHABLE, tmp_path / "path") == in_path

    def test_the_variable_may_lack_what_the_cache_has(self, tmp_path, cache, monkeypatch):
        in_cache = put(cache / "toy" / "toy.csv")
        monkeypatch.setenv("PARTIALFAIR_DATA", str(tmp_path))
        assert find(UNREACHABLE) == in_cache

    def test_a_path_without_the_file_is_an_error_even_if_the_cache_has_it(self, tmp_path, cache):
        put(cache / "toy" / "toy.csv")
        with pytest.raises(DataFetchError, match=r"no toy/toy\.csv .*in path="):
            read_all([UNREACHABLE], tmp_path / "nowhere")

    def test_a_variable_that_names_no_directory_is_an_error(self, tmp_path, cache, monkeypatch):
        monkeypatch.setenv("PARTIALFAIR_DATA", str(tmp_path / "nowhere"))
        with pytest.raises(InputError, match=r"PARTIALFAIR_DATA is .*nowhere"):
            find(UNREACHABLE)

    def test_one_file_cannot_stand_for_two(self, tmp_path):
        copy = put(tmp_path / "toy.csv")
        with pytest.raises(InputError, match="give a directory"):
            read_all([UNREACHABLE, UNREACHABLE], copy)

    @pytest.mark.parametrize("place", ["path", "variable", "cache"])
    def test_a_wrong_copy_is_an_error_and_the_network_is_not_asked(
        self, tmp_path, cache, monkeypatch, server, place
    ):
        file = remote(server.serve("toy.csv", CONTENT))
        wrong = CONTENT[:-1]
        copy = put((cache if place == "cache" else tmp_path / place) / "toy" / "toy.csv", wrong)
        if place == "variable":
            monkeypatch.setenv("PARTIALFAIR_DATA", str(tmp_path / place))
        with pytest.raises(DataFetchError) as caught:
            read_all([file], tmp_path / place if place == "path" else None)
        for part in (str(copy), file.raw_sha256, hashlib.sha256(wrong).hexdigest()):
            assert part in str(caught.value)
        assert server.requests == []
        with pytest.raises(DataFetchError, match="is not the expected"):
            ensure(file, tmp_path / place if place == "path" else None)

    @pytest.mark.parametrize(
        ("suffix", "damaged"),
        [
            (".gz", gzip.compress(CONTENT, mtime=0)[:-12]),
            (".gz", b"no gzip at all"),
            (".xz", lzma.compress(CONTENT)[:-12]),
        ],
    )
    def test_a_damaged_archive_is_named(self, tmp_path, suffix, damaged):
        copy = put(tmp_path / f"toy.csv{suffix}", damaged)
        with pytest.raises(DataFetchError) as caught:
            read_all([UNREACHABLE], tmp_path)
        assert str(copy) in str(caught.value)


class TestDownload:
    def test_a_good_file_is_kept_in_the_cache_and_asked_for_once(self, cache, server):
        file = remote(server.serve("toy.csv", CONTENT))
        assert read_all([file]) == [CONTENT]
        assert read_all([file]) == [CONTENT]
        assert server.requests == ["/toy.csv"]
        assert files_below(cache) == [cache / "toy" / "toy.csv"]
        assert sorted(path.name for path in cache.iterdir()) == ["toy"]

    def test_ensure_puts_the_file_where_it_is_told(self, tmp_path, cache, server):
        file = remote(server.serve("toy.csv", CONTENT))
        assert ensure(file, tmp_path / "mine") == tmp_path / "mine" / "toy" / "toy.csv"
        assert ensure(file, tmp_path / "mine").read_bytes() == CONTENT
        assert not cache.exists()
        assert len(server.requests) == 1

    def test_members_of_nested_archives_are_extracted(self, cache, server):
        inner = zipped(**{"folder/toy.csv": CONTENT, "other": b""})
        url = server.serve("outer.zip", zipped(**{"inner.zip": inner}))
        assert read_all([remote(url, ("inner.zip", "folder/toy.csv"))]) == [CONTENT]
        assert files_below(cache) == [cache / "toy" / "toy.csv"]

    @pytest.mark.parametrize(
        ("case", "words"),
        [
            ("404", "404 Not Found"),
            ("cut short of the announced length", "broke off"),
            ("short", "sha256"),
            ("wrong", "sha256"),
            ("refused", "no connection"),
            ("not an archive", "not the expected archive"),
            ("no such member", "not the expected archive"),
            ("member cut short", "not the expected archive"),
        ],
    )
    def test_failures_are_one_sentence_and_leave_nothing(self, cache, server, refused_url, case, words):
        archive = zipped(**{"toy.csv": CONTENT})
        file = {
            "404": lambda: remote(f"{server.url}/absent.csv"),
            "cut short of the announced length": lambda: remote(
                server.serve("toy.csv", CONTENT[:100], announced_length=len(CONTENT))
            ),
            "short": lambda: remote(server.serve("toy.csv", CONTENT[:100])),
            "wrong": lambda: remote(server.serve("toy.csv", CONTENT.replace(b"1", b"7"))),
            "refused": lambda: remote(refused_url),
            "not an archive": lambda: remote(server.serve("toy.zip", CONTENT), ("toy.csv",)),
            "no such member": lambda: remote(server.serve("toy.zip", archive), ("absent.csv",)),
            "member cut short": lambda: remote(
                server.serve("toy.zip", archive.replace(CONTENT, CONTENT.replace(b"1", b"7"))), ("toy.csv",)
            ),
        }[case]()
        with pytest.raises(DataFetchError) as caught:
            read_all([file])
        message = str(caught.value)
        for part in (file.url, words, "path=", "$PARTIALFAIR_DATA", "`partialfair data fetch toy`"):
            assert part in message
        assert "\n" not in message
        assert files_below(cache) == []
        assert list(cache.iterdir()) == []

    def test_a_failed_download_can_be_tried_again(self, cache, server):
        file = remote(server.serve("toy.csv", CONTENT[:100]))
        with pytest.raises(DataFetchError):
            read_all([file])
        server.serve("toy.csv", CONTENT)
        assert read_all([file]) == [CONTENT]

    def test_a_cache_that_cannot_be_written_is_named(self, cache, server):
        put(cache, b"a file where the directory should be")
        file = remote(server.serve("toy.csv", CONTENT))
        with pytest.raises(DataFetchError, match="could not fetch") as caught:
            file.obtain(cache)
        assert str(cache) in str(caught.value)

    def test_elsewhere_than_on_a_terminal_there_is_a_log_line(self, tmp_path, server, caplog):
        url = server.serve("toy.csv", CONTENT)
        with caplog.at_level(logging.INFO, logger="partialfair"):
            download(url, tmp_path / "toy.csv")
        assert [record.getMessage() for record in caplog.records] == [f"downloading {url}"]

    @pytest.mark.parametrize("terminal", [True, False])
    @pytest.mark.parametrize("tqdm", [True, False])
    def test_a_progress_bar_needs_a_terminal_and_tqdm(self, tmp_path, monkeypatch, terminal, tqdm):
        asked: list[bool] = []

        def fake_downloader(*, progressbar: bool, chunk_size: int, timeout: int):
            asked.append(progressbar)
            return lambda url, output_file, pooch: None

        monkeypatch.setattr(pooch, "HTTPDownloader", fake_downloader)
        monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal, raising=False)
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: object() if tqdm else None)
        download("http://127.0.0.1:9/", tmp_path / "toy.csv")
        assert asked == [terminal and tqdm]


def test_the_users_cache_is_poochs():
    assert source.cache_directory() == Path(pooch.os_cache("partialfair"))


def test_without_pooch_files_are_read_and_fetching_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.setenv(source.DATA_VARIABLE, str(tmp_path))
    assert find(UNREACHABLE) is None
    with pytest.raises(
        MissingExtraError, match=r"fetching public data needs pooch.*pip install 'partialfair\[data\]'"
    ):
        read_all([UNREACHABLE])
    put(tmp_path / "toy.csv")
    assert read_all([UNREACHABLE]) == [CONTENT]


@pytest.mark.parametrize("relative", ["", "relative"])
def test_the_users_cache_is_never_in_the_working_directory(monkeypatch, relative):
    monkeypatch.setenv("XDG_CACHE_HOME", relative)
    assert source.cache_directory().is_absolute()
    assert os.environ["XDG_CACHE_HOME"] == relative


def test_importing_the_datasets_imports_nothing_heavy():
    heavy = ("sklearn", "pooch", "pyarrow", "pandas", "scipy", "requests", "PIL", "torch")
    code = f"import sys, partialfair.datasets; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
