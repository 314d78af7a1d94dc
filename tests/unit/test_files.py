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

from partialfair.exceptions import InputError
from partialfair.utils import files as writing
from partialfair.utils.files import check_set, check_targets, digests, scratch, write_file, write_files

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
        code = "from partialfair.utils.files import write_file; write_file('/dev/stdout', b'content')"
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
from partialfair.utils import files as writing
step, wanted, directory = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
real, calls = getattr(os, step), []

def killing(*arguments):
    calls.append(arguments)
    if len(calls) == wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*arguments)

setattr(os, step, killing)
files = {name: b"new" * 1000 for name in ("a", "b")}
record = json.dumps({"files": writing.digests(files)})
writing.write_files({**{directory / n: c for n, c in files.items()}, directory / "record": record.encode()})
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
        """What the dead left behind disturbs no writer, and goes an hour later."""
        left = {name for name in names(where) if name.startswith(".partialfair-")}
        assert left
        write_files({directory / name: b"whole" for name in ("a", "b", "record")})
        assert {name for name in names(where) if name.startswith(".")} == left
        age(where)
        write_files({where / "another": b"whole"})
        assert not {name for name in names(where) if name.startswith(".")}


def age(directory: Path, seconds: float = 3700.0) -> None:
    """Make everything in a directory older."""
    for path in directory.iterdir():
        then = path.lstat().st_mtime - seconds
        os.utime(path, (then, then), follow_symlinks=False)


@posix
class TestLeftovers:
    """Only temporaries of nobody are removed."""

    def test_those_of_a_live_writer_stay(self, tmp_path):
        code = """
import sys
from pathlib import Path
from partialfair.utils.files import scratch
with scratch(Path(sys.argv[1])):
    print(flush=True)
    sys.stdin.read()
"""
        with subprocess.Popen(
            [sys.executable, "-c", code, tmp_path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as writer:
            writer.stdout.readline()
            (made,) = names(tmp_path)
            age(tmp_path)
            write_file(tmp_path / "a", b"")
            assert names(tmp_path) == {"a", made}
            writer.kill()
            writer.wait()
            write_file(tmp_path / "a", b"")
            assert names(tmp_path) == {"a"}

    def test_other_files_stay(self, tmp_path):
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "file").touch()
        directory = tmp_path / "directory"
        directory.mkdir()
        os.symlink(outside, directory / f".partialfair-{0:016x}")
        os.mkfifo(directory / f".partialfair-{1:016x}")  # to open it must not wait for its other end
        (directory / ".partialfair-notes").touch()
        (directory / ".other").touch()
        age(directory)
        write_file(directory / "a", b"")
        assert names(outside) == {"file"}
        assert names(directory) >= {"a", ".partialfair-notes", ".other"}

    def test_scratch_removes_them(self, tmp_path):
        left = tmp_path / f".partialfair-{2:016x}"
        left.mkdir()
        (left / "draft").touch()
        age(tmp_path)
        with scratch(tmp_path):
            assert left.name not in names(tmp_path)

    def test_a_restart_with_the_same_process_id(self, tmp_path):
        """In a container the command is process 7 of the same host, and counts from 0, every time."""
        code = """
import os, pathlib, sys
os.getpid = lambda: 7
from partialfair.utils import files as writing
if sys.argv[2] == "killed":
    real, os.replace = os.replace, lambda *names: os._exit(9)
writing.check_targets([pathlib.Path(sys.argv[1]) / "new" / "a"])
writing.write_files({pathlib.Path(sys.argv[1]) / "new" / name: b"new" for name in "ab"})
writing.write_files({pathlib.Path(sys.argv[1]) / name: b"new" for name in "cd"})
"""
        ends = [
            subprocess.run([sys.executable, "-c", code, tmp_path, how], check=False).returncode
            for how in ("killed", "killed", "whole", "whole")
        ]
        assert ends == [9, 9, 0, 0]
        assert {name for name in names(tmp_path) if not name.startswith(".")} == {"new", "c", "d"}

    def test_a_name_that_is_taken(self, tmp_path, monkeypatch):
        drawn = iter([bytes(8), bytes(8), b"\x11" * 8])
        monkeypatch.setattr(os, "urandom", lambda n: next(drawn))
        with scratch(tmp_path) as first, scratch(tmp_path) as second:
            assert (first.name, second.name) == (f".partialfair-{'0' * 16}", f".partialfair-{'1' * 16}")


class TestTwoWriters:
    """Both of two writers of one new directory end well, and leave the set of one of them."""

    def test_the_second_finds_the_directory_there(self, tmp_path, monkeypatch):
        staged = writing._Staging.hand_over

        def overtaken(self):
            monkeypatch.setattr(writing._Staging, "hand_over", staged)
            write_files({tmp_path / "new" / name: b"other" for name in ("a", "record", "more")})
            staged(self)

        monkeypatch.setattr(writing._Staging, "hand_over", overtaken)
        write_files({tmp_path / "new" / name: b"own" for name in ("a", "deep/b", "record")})
        assert names(tmp_path) == {"new"}
        written = {name: (tmp_path / "new" / name).read_bytes() for name in ("a", "deep/b", "record", "more")}
        assert written == {"a": b"own", "deep/b": b"own", "record": b"own", "more": b"other"}

    def test_a_file_in_its_place_is_refused(self, tmp_path, monkeypatch):
        staged = writing._Staging.hand_over

        def overtaken(self):
            (tmp_path / "new").write_bytes(b"file")
            staged(self)

        monkeypatch.setattr(writing._Staging, "hand_over", overtaken)
        with pytest.raises(InputError, match="new cannot be written: Not a directory"):
            write_files({tmp_path / "new" / "a": b"own"})
        assert names(tmp_path) == {"new"}

    @posix
    def test_many_at_once(self, tmp_path):
        code = """
import json, pathlib, sys
from partialfair.utils import files as writing
root, writer = pathlib.Path(sys.argv[1]), sys.argv[2]
print(flush=True)
sys.stdin.readline()
for number in range(20):
    files = {name: f"{writer}{name}".encode() for name in ("a", "b", "c", "d")}
    record = json.dumps({"files": writing.digests(files), "writer": writer}).encode()
    directory = root / str(number)
    writing.write_files({**{directory / n: c for n, c in files.items()}, directory / "record": record})
"""
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", code, tmp_path, str(number)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for number in range(3)
        ]
        for writer in writers:
            writer.stdout.readline()
        for writer in writers:  # all are ready
            writer.stdin.write(b"\n")
            writer.stdin.flush()
        for writer in writers:
            writer.communicate()
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        assert names(tmp_path) == {str(number) for number in range(20)}
        for number in range(20):
            assert check_set(tmp_path / str(number), "record")["writer"] in {"0", "1", "2"}


def test_scratch_is_gone_however_it_ends(tmp_path):
    def stopped() -> None:
        with scratch(tmp_path / "deep") as directory:
            (directory / "draft").write_bytes(b"draft")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert not names(tmp_path / "deep")
