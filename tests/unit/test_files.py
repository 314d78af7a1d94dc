"""Files are whole or absent, whatever stops the writer."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from partialfair import _files
from partialfair._files import check_set, check_targets, digests, scratch, write_file, write_files
from partialfair.exceptions import InputError

posix = pytest.mark.skipif(os.name != "posix", reason="of links, modes and signals as POSIX has them")


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.fixture
def umask():
    """Set the umask, and put it back."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


class TestOneFile:
    def test_it_is_made_and_replaced(self, tmp_path):
        for content in (b"first", b"", b"second"):
            write_file(tmp_path / "a", content)
            assert (tmp_path / "a").read_bytes() == content
            assert names(tmp_path) == {"a"}

    @posix
    @pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
    def test_a_new_files_mode_follows_the_umask(self, tmp_path, umask, mask):
        umask(mask)
        write_files({tmp_path / "a": b"", tmp_path / "new" / "b": b""})
        for path, open_to_all in {"a": 0o666, "new": 0o777, "new/b": 0o666}.items():
            assert stat.S_IMODE((tmp_path / path).stat().st_mode) == open_to_all & ~mask

    @posix
    def test_a_replaced_file_hands_on_its_mode(self, tmp_path):
        (tmp_path / "a").write_bytes(b"old")
        (tmp_path / "a").chmod(0o640)
        write_file(tmp_path / "a", b"new")
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640

    @posix
    @pytest.mark.parametrize("exists", [True, False])
    def test_links_stay_and_lead_to_the_new_content(self, tmp_path, exists):
        (tmp_path / "elsewhere").mkdir()
        target = tmp_path / "elsewhere" / "target"
        if exists:
            target.write_bytes(b"old")
        (tmp_path / "link").symlink_to("elsewhere/target")
        write_file(tmp_path / "link", b"new")
        assert (tmp_path / "link").is_symlink()
        assert target.read_bytes() == b"new"
        assert (names(tmp_path), names(target.parent)) == ({"link", "elsewhere"}, {"target"})

    def test_a_long_name_is_no_longer_in_between(self, tmp_path):
        write_file(tmp_path / ("n" * 255), b"content")
        assert names(tmp_path) == {"n" * 255}
        with pytest.raises(InputError, match="cannot be written: File name too long"):
            write_file(tmp_path / ("n" * 256), b"content")

    def test_it_needs_a_directory(self, tmp_path):
        with pytest.raises(InputError, match=r"there is no directory .*nowhere"):
            write_file(tmp_path / "nowhere" / "a", b"")
        assert not names(tmp_path)

    def test_a_link_into_no_directory(self, tmp_path):
        (tmp_path / "link").symlink_to("nowhere/a")
        with pytest.raises(InputError, match=r"link cannot be written: there is no directory .*nowhere$"):
            write_file(tmp_path / "link", b"")


@posix
class TestKinds:
    """Whatever is no regular file is left as it is."""

    @pytest.mark.parametrize("path", ["/dev/null", "/dev/zero"])
    def test_devices(self, path):
        with pytest.raises(InputError, match=f"{path} cannot be written: it is not a regular file"):
            write_file(path, b"content")

    def test_standard_output_that_is_a_pipe(self):
        code = "from partialfair._files import write_file; write_file('/dev/stdout', b'content')"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
        assert done.stdout == b""
        assert b"/dev/stdout cannot be written: it is not a regular file" in done.stderr

    def test_pipes_sockets_directories_and_loops(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)  # names of sockets must be short
        os.mkfifo("pipe")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
        Path("directory").mkdir()
        Path("loop").symlink_to("loop")
        for name in names(tmp_path):
            with pytest.raises(InputError, match=f"{name} cannot be written: it is"):
                check_targets([Path(name)])
        assert names(tmp_path) == {"pipe", "socket", "directory", "loop"}

    def test_what_may_not_be_written(self, tmp_path, monkeypatch):
        (tmp_path / "a").write_bytes(b"mine")
        monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write all
        with pytest.raises(InputError, match="a cannot be written: it is read-only"):
            check_targets([tmp_path / "a"])

    @pytest.mark.skipif(sys.platform != "linux", reason="of /proc")
    def test_where_nothing_can_be_made(self):
        with pytest.raises(InputError, match=r"/proc/new/a\.csv cannot be written: "):
            check_targets([Path("/proc/new/a.csv")])


class TestInputs:
    @pytest.fixture(autouse=True)
    def table(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        Path("table.csv").write_bytes(b"a,b\n")

    def test_other_files_are_fine(self):
        check_targets([Path("other.csv"), Path("new/table.csv")], [Path("table.csv"), Path("absent.csv")])

    @pytest.mark.parametrize("name", ["table.csv", "./table.csv", "../{here}/table.csv"])
    def test_by_any_name(self, tmp_path, name):
        name = name.format(here=tmp_path.name)
        with pytest.raises(InputError, match=r"cannot be written: it is the input table\.csv"):
            check_targets([Path("other.csv"), Path(name)], [Path("table.csv")])

    @posix
    @pytest.mark.parametrize("link", [os.symlink, os.link])
    def test_through_links(self, link):
        link("table.csv", "link.csv")
        for target, source in (("table.csv", "link.csv"), ("link.csv", "table.csv")):
            with pytest.raises(InputError, match=f"{target} cannot be written: it is the input {source}"):
                check_targets([Path(target)], [Path(source)])

    @posix
    def test_one_file_twice(self):
        os.symlink("table.csv", "link.csv")
        with pytest.raises(InputError, match=r"link\.csv and table\.csv are one file"):
            check_targets([Path("table.csv"), Path("link.csv")])


class TestSeveralFiles:
    def test_new_directories_appear_whole(self, tmp_path, monkeypatch):
        seen = []
        replace = os.replace

        def watched(source, target):
            seen.append({name for name in names(tmp_path) if not name.startswith(".")})
            replace(source, target)

        monkeypatch.setattr(os, "replace", watched)
        deep = tmp_path / "a" / "b"
        write_files({deep / "1": b"one", tmp_path / "page": b"page", deep / "2": b"two"})
        assert seen == [set(), {"a"}]
        assert (names(tmp_path), names(deep)) == ({"a", "page"}, {"1", "2"})

    def test_they_are_replaced_in_order(self, tmp_path, monkeypatch):
        order = []
        replace = os.replace
        monkeypatch.setattr(
            os, "replace", lambda source, target: (order.append(target.name), replace(source, target))
        )
        write_files({tmp_path / name: b"" for name in ("z", "a", "record")})
        assert order == ["z", "a", "record"]

    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_a_full_disk_destroys_nothing(self, tmp_path, monkeypatch, step):
        old = {tmp_path / name: b"old" for name in "abc"}
        write_files(old)
        calls = []
        last = 3 if step == "fsync" else 1  # the last to be staged, the first to be replaced

        def full(*arguments):
            calls.append(arguments)
            if len(calls) == last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, step, full)
        with pytest.raises(InputError, match=r"cannot be written: No space left on device$"):
            write_files({**dict.fromkeys(old, b"new"), tmp_path / "new" / "d": b"new"})
        assert names(tmp_path) == {"a", "b", "c"}
        assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"old"}

    def test_a_set_cut_in_two_says_so(self, tmp_path):
        (tmp_path / "b").mkdir()
        with pytest.raises(InputError, match=r"b cannot be written: .*; the files before it are new"):
            write_files({tmp_path / name: b"new" for name in "abc"})
        assert names(tmp_path) == {"a", "b"}

    @pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root may mount")
    @pytest.mark.parametrize("where", [".", "new"])
    def test_a_disk_that_is_really_full(self, tmp_path, where):
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("mounting is not allowed here")
        try:
            write_files({tmp_path / "a": b"old", tmp_path / "b": b"old"})
            with pytest.raises(InputError, match="No space left on device"):
                write_files({tmp_path / where / "a": b"new", tmp_path / where / "b": b"x" * (1 << 17)})
            assert names(tmp_path) == {"a", "b"}
            assert (tmp_path / "a").read_bytes() == b"old"
        finally:
            subprocess.run(["umount", tmp_path], check=True)


class TestSets:
    @pytest.fixture
    def directory(self, tmp_path):
        files = {"model": b"weights", "table.csv": b"a,b\n"}
        self.write(tmp_path, files, {"files": digests(files), "model": "model"})
        return tmp_path

    def write(self, directory, files, record):
        for name, content in files.items():
            (directory / name).write_bytes(content)
        (directory / "record.json").write_text(json.dumps(record))

    def test_digests_are_those_of_the_files(self, directory):
        record = check_set(directory, "record.json")
        assert record["files"]["model"] == hashlib.sha256(b"weights").hexdigest()

    @pytest.mark.parametrize("name", ["model", "table.csv"])
    def test_a_file_of_another_run_is_named(self, directory, name):
        (directory / name).write_bytes(b"another")
        with pytest.raises(InputError, match=rf"{name} is not the file that .*record\.json describes"):
            check_set(directory, "record.json")

    def test_files_that_are_gone_are_not_missed(self, directory):
        (directory / "table.csv").unlink()
        assert check_set(directory, "record.json")["model"] == "model"

    def test_sets_from_before_digests(self, directory):
        self.write(directory, {"model": b"any"}, {"model": "model"})
        assert check_set(directory, "record.json") == {"model": "model"}

    @pytest.mark.parametrize("text", ["", "[", "[]", '{"files": []}', "[" * 100_000, "\udc80"])
    def test_damaged_records(self, directory, text):
        (directory / "record.json").write_text(text, errors="surrogateescape")
        with pytest.raises(InputError, match=r"record\.json is damaged"):
            check_set(directory, "record.json")

    @pytest.mark.parametrize("name", ["../model", "/etc/passwd", "..", "a/b", "", "x" * 300, "\ud800", "\0"])
    def test_no_other_directory_is_looked_at(self, directory, name):
        self.write(directory, {}, {"files": {name: "0"}})
        with pytest.raises(InputError, match=r"record\.json is damaged: its files"):
            check_set(directory, "record.json")


@posix
class TestKilled:
    """SIGKILL just before the k-th file is replaced, or while it is staged."""

    code = """
import json, os, pathlib, signal, sys
from partialfair import _files
step, wanted, directory = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
real, calls = getattr(os, step), []

def killing(*arguments):
    calls.append(arguments)
    if len(calls) == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

setattr(os, step, killing)
files = {name: b"new" * 1000 for name in ("a", "b")}
record = json.dumps({"files": _files.digests(files)})
_files.write_files({**{directory / n: c for n, c in files.items()}, directory / "record": record.encode()})
"""

    @pytest.mark.parametrize(
        ("step", "wanted"), [("fsync", 2), ("replace", 1), ("replace", 2), ("replace", 3)]
    )
    def test_each_file_is_old_or_new_and_mixtures_are_recognised(self, tmp_path, step, wanted):
        old = dict.fromkeys(("a", "b"), b"old")
        contents = {**old, "record": json.dumps({"files": digests(old)}).encode()}
        write_files({tmp_path / name: content for name, content in contents.items()})
        done = subprocess.run([sys.executable, "-c", self.code, step, str(wanted), tmp_path], check=False)
        assert done.returncode == -signal.SIGKILL
        found = [(tmp_path / name).read_bytes() for name in ("a", "b")]
        n_new = wanted - 1 if step == "replace" else 0
        assert found == [b"new" * 1000] * n_new + [b"old"] * (2 - n_new)
        if n_new:
            with pytest.raises(InputError, match="a is not the file"):
                check_set(tmp_path, "record")
        else:
            check_set(tmp_path, "record")
        self.check_leftovers(tmp_path, tmp_path)

    @pytest.mark.parametrize(("step", "wanted"), [("fsync", 1), ("fsync", 5), ("replace", 1)])
    def test_a_new_directory_is_absent(self, tmp_path, step, wanted):
        directory = tmp_path / "new"
        subprocess.run([sys.executable, "-c", self.code, step, str(wanted), directory], check=False)
        assert not directory.exists()
        self.check_leftovers(directory, tmp_path)

    def check_leftovers(self, directory, where):
        """What the dead left behind goes with the next success, and nothing else does."""
        assert any(name.startswith(".partialfair-") for name in names(where))
        spared = {f".partialfair-{_files._host:08x}-{os.getpid()}-9999", ".partialfair-00000000-99999999-0"}
        for name in spared:
            (where / name).touch()
        write_files({directory / name: b"whole" for name in ("a", "b", "record")})
        assert {name for name in names(where) if name.startswith(".")} == spared


def test_scratch_is_gone_however_it_ends(tmp_path):
    def stopped() -> None:
        with scratch(tmp_path / "deep") as directory:
            (directory / "draft").write_bytes(b"draft")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not names(tmp_path / "deep")
