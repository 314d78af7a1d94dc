"""Writes files atomically, also several together; all files are written by this module.

All files are staged first: each file's content is written to a temporary next to its target and synced to the
disk. Then the targets are replaced, each by one `os.replace`, so that after a full disk, a fault or a kill
every file has either its old or its new content. A new directory is built under a temporary name, and
renamed.

    target exists, or its directory does     .partialfair-…            →  replaces  directory/metrics.csv
    neither does                             .partialfair-…/metrics.csv →  becomes   directory/metrics.csv

Several files are replaced in the order given. With a record as the last file, with `digests` of the others,
`check_set` detects a mix of two runs. Links are followed: the link remains and its target is replaced. A new
file's mode follows the umask; a replaced file keeps its mode and owner.

Temporaries have random names, because hosts and process ids repeat: in a restarted container both may be
those of the killed run. The writer locks each of them until the process ends. An unlocked temporary that is
an hour old is a leftover, and the next writer in its directory removes it. The age limit protects writers on
other hosts, whose locks may be invisible on a shared disk.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from partialfair.exceptions import InputError

if sys.platform != "win32":
    import fcntl

PathLike: TypeAlias = str | os.PathLike[str]

# Bytes of a record that are read; one of 1,000 columns has less than a thousandth of them.
_LARGEST_RECORD = 1 << 26
_LONGEST_NAME = 255  # bytes, on most systems

_TEMPORARY = re.compile(r"\.partialfair-[0-9a-f]{16}")
_MOST_NAMES = 100  # number of attempts; collisions have a probability of 2⁻⁶⁴
_LEFTOVER_SECONDS = 3600.0  # age from which an unlocked temporary is a leftover
_LONGEST_WAIT = 5.0  # seconds for another writer to replace its files, which takes milliseconds


class _Temporaries:
    """Temporaries of this process that have not replaced their targets; safe to clear from another thread.

    Both creation and replacement hold the lock. `abandon` never releases it, so that no set is split and no
    temporary is missed.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.paths: dict[Path, int | None] = {}  # with the descriptor of the lock
        self.handed_over = False

    def make(self, directory: Path, *, is_directory: bool = False) -> Path:
        """Make an empty file or directory with an unused name; the caller holds `lock`."""
        for _ in range(_MOST_NAMES):
            path = directory / f".partialfair-{os.urandom(8).hex()}"
            with suppress(FileExistsError):
                path.mkdir() if is_directory else path.touch(exist_ok=False)
                self.paths[path] = _lock(path)
                return path
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(directory))

    def remove(self, path: Path) -> None:
        """Remove a temporary, if it is still there."""
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):  # a later writer removes the leftover
                path.unlink()
        self.forget(path)

    def forget(self, path: Path) -> None:
        """Release a temporary that has replaced its target or was removed."""
        descriptor = self.paths.pop(path, None)
        if descriptor is not None:
            os.close(descriptor)


_temporaries = _Temporaries()


def abandon() -> bool:
    """Remove every temporary and prevent further writes; return whether any existed.

    Called at the end of a process. It waits for a set that is being replaced.
    """
    _temporaries.lock.acquire()  # never released: other threads block before they write
    for path in list(_temporaries.paths):
        _temporaries.remove(path)
    return _temporaries.handed_over


def write_file(path: PathLike, content: bytes) -> None:
    """Write one file atomically into an existing directory."""
    check_file(path)
    write_files({Path(path): content})


def check_file(path: PathLike) -> None:
    """Raise `InputError`, before any long work, for a file that `write_file` could not write."""
    check_targets([Path(path)])
    directory = _real(Path(path)).parent
    if not directory.is_dir():
        raise InputError(f"{path} cannot be written: there is no directory {directory}")


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write all files or none, replaced in this order; missing directories are made."""
    staging = _Staging()
    try:
        for path, content in files.items():
            with _name_file_in_errors(path):
                staging.add(path, content)
        staging.hand_over()
    finally:
        staging.clear()
    for directory in staging.directories:
        _remove_leftovers(directory)


class _Staging:
    """Temporaries and their targets."""

    def __init__(self) -> None:
        self.moves: dict[Path, Path] = {}
        self.members: dict[Path, list[Path]] = {}  # files of each new directory, relative to it, in order
        self.directories: set[Path] = set()

    def add(self, path: Path, content: bytes) -> None:
        """Write the content next to its target, or into the temporary tree of a new directory."""
        target = _real(path)
        # A directory that another writer makes meanwhile stays new here, so that the set remains together.
        new = next(filter(target.is_relative_to, self.members), None) or _missing_directory(target)
        if new is None:
            self._write(self._temporary(target, is_directory=False), content, like=target)
            return
        inside = self._temporary(new, is_directory=True) / target.relative_to(new)
        self.members.setdefault(new, []).append(target.relative_to(new))
        with _temporaries.lock:
            inside.parent.mkdir(parents=True, exist_ok=True)
        self._write(inside, content)
        _settle(inside.parent)

    def hand_over(self) -> None:
        """Replace the targets, without interruption by signals or other writers."""
        with _exclusive(self.directories), _temporaries.lock:
            for done, (target, temporary) in enumerate(self.moves.items()):
                try:
                    self._replace(target, temporary)
                except OSError as error:
                    mixed = "; the files before it are new, it and those after it are not" if done else ""
                    raise InputError(f"{target} cannot be written: {error.strerror}{mixed}") from error
                _temporaries.forget(temporary)
                _temporaries.handed_over = True
        for directory in self.directories:
            _settle(directory)

    def _replace(self, target: Path, temporary: Path) -> None:
        """Replace a target by its temporary; files go into a directory that another writer has made."""
        try:
            os.replace(temporary, target)
        except OSError:
            if target not in self.members or not target.is_dir():
                raise
            with _exclusive([target]):
                for member in self.members[target]:
                    (target / member).parent.mkdir(parents=True, exist_ok=True)
                    os.replace(temporary / member, target / member)
            _temporaries.remove(temporary)
            _settle(target)

    def clear(self) -> None:
        """Remove the remaining temporaries."""
        for temporary in self.moves.values():
            if temporary in _temporaries.paths:
                _temporaries.remove(temporary)

    def _temporary(self, target: Path, *, is_directory: bool) -> Path:
        """Return the temporary of a target; a tree is made once."""
        if target not in self.moves:
            with _temporaries.lock:
                self.moves[target] = _temporaries.make(target.parent, is_directory=is_directory)
            self.directories.add(target.parent)
        return self.moves[target]

    @staticmethod
    def _write(path: Path, content: bytes, like: Path | None = None) -> None:
        """Write and sync to the disk; the mode is that of the replaced file, or by the umask."""
        with _temporaries.lock:  # `abandon` must not be undone
            file = path.open("wb")
        with file:
            if like is not None and like.exists():
                _hand_on(like.stat(), path)  # first, so that the content is not readable by others
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def check_targets(targets: Sequence[Path], inputs: Iterable[Path] = ()) -> None:
    """Raise `InputError`, before any long work, for files that could not be written, or must not.

    These are files that are not regular files, are one file by two names or one of the inputs (also through
    links), or lie where nothing can be written.
    """
    inputs = [path for path in inputs if os.path.exists(path)]
    seen: dict[Path, Path] = {}
    for target in targets:
        with _name_file_in_errors(target):
            real = _real(target)
            _check_kind(target, real)
            if real in seen:
                raise InputError(f"{target} and {seen[real]} are one file, and both would be written")
            seen[real] = target
            for path in inputs:
                if _real(path) == real or (real.exists() and path.samefile(real)):
                    raise InputError(f"{target} cannot be written: it is the input {path}")
    for directory in dict.fromkeys(_existing_directory(real) for real in seen):
        target = next(seen[real] for real in seen if real.is_relative_to(directory))
        # Permissions, quotas and kinds of disks can only be checked by writing.
        with _name_file_in_errors(target), _temporaries.lock:
            _temporaries.remove(_temporaries.make(directory))


def _check_kind(target: Path, real: Path) -> None:
    if real.is_symlink():
        raise InputError(f"{target} cannot be written: it is a link that leads to itself")
    # The given name, because the target of /dev/stdout may have none.
    if not target.exists():
        return
    mode = target.stat().st_mode
    if stat.S_ISDIR(mode):
        raise InputError(f"{target} cannot be written: it is a directory")
    if not stat.S_ISREG(mode):
        raise InputError(f"{target} cannot be written: it is not a regular file")
    if not os.access(target, os.W_OK):
        raise InputError(f"{target} cannot be written: it is read-only")


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """Make a temporary directory inside another one, which is made if missing; it is always removed."""
    directory.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(directory)
    with _temporaries.lock:
        temporary = _temporaries.make(directory, is_directory=True)
    try:
        yield temporary
    finally:
        _temporaries.remove(temporary)


def digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each content, in hexadecimal."""
    from hashlib import sha256

    return {name: sha256(content).hexdigest() for name, content in files.items()}


def check_set(directory: Path, record_name: str) -> dict[str, Any]:
    """Return the record of a directory; raise `InputError` for files of another run.

    The record's ``files`` maps names to `digests`. Removed files are ignored.
    """
    record = _read_record(directory / record_name)
    known = record.get("files", {})
    if not (isinstance(known, dict) and all(map(is_file_name, known))):
        raise InputError(
            f"{directory / record_name} is damaged: its files are not a mapping from their names"
        )
    for name, digest in known.items():
        path = directory / name
        if not path.is_file():
            continue
        if digests({name: path.read_bytes()})[name] != digest:
            raise InputError(
                f"{path} is not the file that {directory / record_name} describes: the directory holds files "
                "of two runs, or one was changed since; run the command again, or name the file you want"
            )
    return record


def is_file_name(name: object) -> bool:
    """Return whether a value of a record is the name of a file in its directory."""
    if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name or Path(name).name != name:
        return False
    try:
        return len(os.fsencode(name)) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


def _read_record(path: Path) -> dict[str, Any]:
    import json

    try:
        if path.stat().st_size > _LARGEST_RECORD:
            raise InputError(f"{path} is larger than {_LARGEST_RECORD >> 20} MiB, as no record is")
        record = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except InputError:
        raise
    except (RecursionError, ValueError) as error:
        raise InputError(f"{path} is damaged: it is not JSON") from error
    if not isinstance(record, dict):
        raise InputError(f"{path} is damaged: it holds no record")
    return record


@contextmanager
def _name_file_in_errors(path: Path) -> Iterator[None]:
    """Convert system errors to an `InputError` that names the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _real(path: Path) -> Path:
    """Return the path of a file after following links."""
    return Path(os.path.realpath(path))


def _existing_directory(target: Path) -> Path:
    """Return the nearest directory above a target that exists."""
    return next(parent for parent in target.parents if parent.exists())


def _missing_directory(target: Path) -> Path | None:
    """Return the topmost directory above a target that does not exist."""
    existing = _existing_directory(target)
    return None if existing == target.parent else existing / target.relative_to(existing).parts[0]


def _hand_on(old: os.stat_result, path: Path) -> None:
    """Give a new file the mode of an old one, and its owner where permitted."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, old.st_uid, old.st_gid)
    if path.stat().st_mode != old.st_mode:  # after chown, which clears some bits of it
        path.chmod(stat.S_IMODE(old.st_mode))


def _settle(directory: Path) -> None:
    """Sync a directory to the disk, where the system supports it."""
    if os.name != "posix":
        return
    with suppress(OSError):
        opened = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _remove_leftovers(directory: Path) -> None:
    """Remove temporaries of processes that were killed."""
    with suppress(OSError):
        for path in directory.iterdir():
            if not _TEMPORARY.fullmatch(path.name):
                continue
            with suppress(OSError):  # another writer was first
                is_old = time.time() - path.lstat().st_mtime > _LEFTOVER_SECONDS
                # A running writer holds a lock on its temporary.
                if is_old and (descriptor := _lock(path)) is not None:
                    _temporaries.remove(path)
                    os.close(descriptor)


@contextmanager
def _exclusive(directories: Iterable[Path]) -> Iterator[None]:
    """Let one writer at a time replace files in these directories, so that sets are not mixed.

    Without locks files are still complete, and a record detects mixed sets.
    """
    # In one order, so that two writers never wait for each other.
    held = [_lock(directory, _LONGEST_WAIT) for directory in sorted(directories)]
    try:
        yield
    finally:
        for descriptor in held:
            if descriptor is not None:
                os.close(descriptor)


def _lock(path: Path, seconds: float = 0.0) -> int | None:
    """Lock a file or directory until the descriptor is closed; None if it is locked, or cannot be."""
    if sys.platform == "win32":
        return None
    deadline = time.monotonic() + seconds
    with suppress(OSError):
        # Not a link, nor a pipe, which would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return descriptor
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise
                    time.sleep(0.005)
        except OSError:
            os.close(descriptor)
    return None
