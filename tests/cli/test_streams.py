"""Standard streams that are closed, full, or have no reader: exit codes stay, and nothing is called a bug."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="of a POSIX shell")


def run(shell: str, *words: str, cwd=None) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that redirects its streams, and print the exit code of the command."""
    script = f'exec 3>&1; {{ {{ "$@"; echo code $? >&3; }} {shell}; }}'
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "partialfair", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


@pytest.mark.parametrize(
    ("shell", "words", "code", "said"),
    [
        (">&-", "--version", 0, ""),
        (">&-", "data list", 0, ""),
        ("2>&- >&-", "data list", 0, ""),
        ("2>&-", "data path nonsense", 2, ""),
        (">&- <&-", "audit - --score s --group g", 2, "error: - is empty"),
        ("2>&1 >/dev/full", "--version", 2, "No space left on device"),
        ("| true", "data list", 0, ""),
        ("2>&1 | true", "data path nonsense", 2, ""),
    ],
)
def test_streams_that_nobody_reads(shell, words, code, said):
    ended = run(shell, *words.split())
    assert f"code {code}\n" in ended.stdout
    assert said in ended.stdout + ended.stderr
    for word in ("bug", "Traceback", "Exception ignored"):
        assert word not in ended.stdout + ended.stderr


def test_the_verdict_of_an_audit_whose_streams_are_closed(tmp_path):
    (tmp_path / "t.csv").write_text("s,g\n" + "".join(f"{row},{row % 2}\n" for row in range(40)))
    words = ["audit", "t.csv", "--score", "s", "--group", "g", "--fail-above", "0", "--out", "set"]
    ended = run(">&- 2>&- <&-", *words, cwd=tmp_path)
    assert ended.stdout == "code 1\n"
    assert b"statistical_parity" in (tmp_path / "set" / "metrics.csv").read_bytes()
