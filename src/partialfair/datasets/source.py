"""Finds data files in a given directory or the cache, or fetches them from their public source.

Every file is verified whenever it is read, because a fit on a damaged file would look like a valid result.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import logging
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

from partialfair.exceptions import DataFetchError, InputError
from partialfair.utils.extras import absolute_user_directories, require
from partialfair.utils.files import scratch, write_files

DATA_VARIABLE = "PARTIALFAIR_DATA"

ARCHIVE_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, KeyError)
"""Errors of reading a damaged zip archive, or one without the requested member."""

_SUFFIXES = ("", ".gz", ".xz")
_TIMEOUT_SECONDS = 60
_CHUNK_BYTES = 1 << 16

_logger = logging.getLogger(__name__)

PathLike: TypeAlias = str | os.PathLike[str]


class DataFile(Protocol):
    """A file that a loader reads: how it is verified, and how it is obtained."""

    @property
    def dataset(self) -> str:
        """Name of the dataset it belongs to."""

    @property
    def name(self) -> str:
        """Path below a data directory, such as ``"a9a/a9a.t"``."""

    def check(self, raw: bytes, path: Path) -> None:
        """Raise `DataFetchError` if ``raw``, found at ``path``, is not this file."""

    def obtain(self, directory: Path) -> Path:
        """Get the file from its public source into ``directory / name``, atomically."""


@dataclass(frozen=True)
class RemoteFile:
    """A public file of known content.

    Parameters
    ----------
    dataset
        Name of the dataset it belongs to.
    name
        Path below a data directory. Local copies may be plain, ``.gz`` or ``.xz``.
    raw_sha256
        Hash of the uncompressed, extracted bytes.
    url
        Where it is published.
    members
        Path through (nested) zip archives from the published file to this one.
    """

    dataset: str
    name: str
    raw_sha256: str
    url: str
    members: tuple[str, ...] = ()

    def check(self, raw: bytes, path: Path) -> None:
        """Raise `DataFetchError` if ``raw``, found at ``path``, is not this file."""
        if (digest := sha256(raw)) != self.raw_sha256:
            raise DataFetchError(
                f"{path} is not the expected {self.name}: its content has sha256 {digest}, expected"
                f" {self.raw_sha256}; replace it, or delete it to have it fetched from {self.url}"
            )

    def obtain(self, directory: Path) -> Path:
        """Download, extract and verify the file, then move it to ``directory / name``."""
        target = directory / self.name
        try:
            with scratch(directory) as temporary:
                published = temporary / "published"
                download(self.url, published)
                raw = published.read_bytes()
                for member in self.members:
                    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
                        raw = archive.read(member)
                if (digest := sha256(raw)) != self.raw_sha256:
                    raise fetch_failure(
                        self, self.url, f"what arrived has sha256 {digest}, expected {self.raw_sha256}"
                    )
            write_files({target: raw})
        except (OSError, *ARCHIVE_ERRORS) as error:  # pooch's errors of connections are OSErrors
            raise fetch_failure(self, self.url, describe(error)) from None
        return target


def sha256(raw: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(raw).hexdigest()


def cache_directory() -> Path:
    """Return the user's cache, where downloads go; a relative ``$XDG_CACHE_HOME`` is ignored."""
    pooch = require("pooch", extra="data", purpose="fetching public data")
    with absolute_user_directories():
        return Path(pooch.os_cache("partialfair"))


def _has_cache() -> bool:
    # Without pooch nothing was ever downloaded, and files on this machine are read nevertheless.
    return importlib.util.find_spec("pooch") is not None


def search_directories(path: PathLike | None = None) -> list[Path]:
    """Return the directories to search for files, in order.

    That is ``path`` alone when it is given; otherwise the directory named by ``$PARTIALFAIR_DATA``, if it is
    set, then the user's cache, if pooch is installed.
    """
    if path is not None:
        return [Path(path).expanduser()]
    directories = []
    if named := os.environ.get(DATA_VARIABLE):
        directories.append(Path(named).expanduser())
        if not directories[0].is_dir():
            raise InputError(
                f"${DATA_VARIABLE} is {named!r}, which is not a directory; correct it or unset it"
            )
    return [*directories, *([cache_directory()] if _has_cache() else [])]


def describe_search(path: PathLike | None = None) -> str:
    """Return a short description of `search_directories`, for messages."""
    if path is not None:
        return f"path={os.fspath(path)!r}"
    return f"${DATA_VARIABLE} or the cache, {cache_directory()}" if _has_cache() else f"${DATA_VARIABLE}"


def either_layout(directory: Path, name: str) -> tuple[Path, Path]:
    """Return the possible paths of ``name``: in its own folder, or in the directory itself."""
    return directory / name, directory / Path(name).name


def find(file: DataFile, path: PathLike | None = None) -> Path | None:
    """Return the path of the local copy of a file, which is not verified, or None.

    ``path``, a directory or the file itself, is the only place to search if given; otherwise the
    directory named by ``$PARTIALFAIR_DATA``, then the user's cache.
    """
    return find_named(file.name, path, _SUFFIXES)


def find_named(name: str, path: PathLike | None = None, suffixes: Sequence[str] = ("",)) -> Path | None:
    """Return the local file called ``name``, with one of some suffixes, from where `find` looks; or None."""
    directories = search_directories(path)
    if path is not None and directories[0].is_file():
        return directories[0]
    stems = (stem for directory in directories for stem in either_layout(directory, name))
    candidates = (stem.with_name(stem.name + suffix) for stem in stems for suffix in suffixes)
    return next((candidate for candidate in candidates if candidate.is_file()), None)


def ensure(file: DataFile, directory: PathLike | None = None) -> Path:
    """Return the path of a verified local copy of a file, fetched if there is none.

    With ``directory``, the copy is searched for and stored there, not in the user's cache.
    """
    local = find(file, directory)
    if local is None:
        return file.obtain(cache_directory() if directory is None else Path(directory).expanduser())
    file.check(_read_raw(local), local)
    return local


def read_all(files: Sequence[DataFile], path: PathLike | None = None) -> list[bytes]:
    """Return the verified, uncompressed contents of a dataset's files.

    They are searched for in ``path`` alone if given; otherwise in ``$PARTIALFAIR_DATA``, the user's cache,
    and at the public source.
    """
    if path is not None and len(files) > 1 and Path(path).expanduser().is_file():
        names = " and ".join(file.name for file in files)
        raise InputError(f"path={os.fspath(path)!r} is one file, but {names} are needed; give a directory")
    contents = []
    for file in files:
        local = find(file, path)
        if local is None and path is not None:  # a directory that the user names is never filled silently
            raise DataFetchError(
                f"there is no {file.name} (plain, .gz or .xz) in path={os.fspath(path)!r}; without path= it"
                f" is looked for in ${DATA_VARIABLE}, in the cache, and at its public source"
            )
        if local is None:
            local = file.obtain(cache_directory())
        contents.append(_read_raw(local))
        file.check(contents[-1], local)
    return contents


def _read_raw(path: Path) -> bytes:
    try:
        stored = path.read_bytes()
        if path.suffix == ".gz":
            return gzip.decompress(stored)
        if path.suffix == ".xz":
            return lzma.decompress(stored)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataFetchError(f"{path} cannot be read ({error}); replace or delete it") from error
    return stored


def download(url: str, target: Path) -> None:
    """Download ``url`` to ``target``, with a progress bar on a terminal and a log line elsewhere."""
    pooch = require("pooch", extra="data", purpose="fetching public data")
    # pooch's progress bar is tqdm's.
    progress = sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None
    if not progress:
        _logger.info("downloading %s", url)
    fetch = pooch.HTTPDownloader(progressbar=progress, chunk_size=_CHUNK_BYTES, timeout=_TIMEOUT_SECONDS)
    fetch(url, str(target), None)


def describe(error: Exception) -> str:
    """Return a short reason why a download failed."""
    response = getattr(error, "response", None)
    if response is not None:
        # pooch does not close a rejected response.
        response.close()
        return f"the server answered {response.status_code} {response.reason}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, OSError):
        return f"no connection, or it broke off: {type(error).__name__}"
    # KeyError's text is the repr of its message.
    return f"what arrived is not the expected archive: {error.args[0] if error.args else error!r}"


def fetch_failure(file: DataFile, url: str, reason: str) -> DataFetchError:
    """Return the error for a file that could not be fetched from its public source."""
    return DataFetchError(
        f"could not fetch {file.name} from {url} ({reason}); give path= the file or its directory, set"
        f" ${DATA_VARIABLE} to a directory that holds it, or run `partialfair data fetch {file.dataset}`"
        " where that address can be reached"
    )
