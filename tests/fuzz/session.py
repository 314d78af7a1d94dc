"""Making, running and judging cases: for people who look at a few, and for tests that ask for many."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.fuzz.cases import Case, Earlier, make_case
from tests.fuzz.runner import Outcome, run_case, warm_up
from tests.fuzz.verdicts import broken_rules

__all__ = ["serve", "show"]


def judge(seed: int, earlier: Earlier, directory: Path) -> tuple[Case, Outcome, list[str]]:
    """Make and run one case."""
    case = make_case(seed, earlier)
    outcome = run_case(case, directory)
    return case, outcome, broken_rules(case, outcome, directory)


def serve() -> None:
    """Answer seeds with the rules that they break."""
    earlier = warm_up()
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            case, _, broken = judge(int(line), earlier, Path(name))
        said = {"seed": case.seed, "command": _command(case), "broken": broken}
        sys.stdout.write(json.dumps(said) + "\n")
        sys.stdout.flush()


def show(seeds: list[int]) -> int:
    """Print what each case breaks; the details of a single one."""
    earlier, total = warm_up(), Counter[str]()
    kept = Path(tempfile.mkdtemp(prefix="fuzz-"))
    for seed in seeds:
        directory = kept / str(seed)
        case, outcome, broken = judge(seed, earlier, directory)
        total["cases"] += 1
        total[f"exit {outcome.code}"] += 1
        if len(seeds) == 1:
            _say(_details(case, outcome))
        elif not broken:
            shutil.rmtree(directory)
        for rule in broken:
            total[rule.partition(":")[0]] += 1
            _say(f"{seed} {case.command}: {rule}")
    _say(", ".join(f"{name} {count}" for name, count in total.items()))
    _say(f"directories: {kept}")
    return int(total.total() > total["cases"] + sum(total[f"exit {code}"] for code in (0, 1, 2)))


def _command(case: Case) -> str:
    return ascii(shlex.join(["partialfair", *case.arguments.words]))[1:-1]


def _details(case: Case, outcome: Outcome) -> str:
    files = [f"  {name!r}: {len(content):,} bytes" for name, content in case.files.items()]
    streams = [ascii(stream.decode("utf-8", "replace")) for stream in (outcome.out, outcome.err)]
    return "\n".join(
        [
            _command(case),
            *files,
            *(text.replace("\\n", "\n")[:5000] for text in streams),
            f"exit {outcome.code}, signal {outcome.signal}, {outcome.wall_seconds:.2f} s, "
            f"{outcome.peak_bytes >> 20:,} MiB",
        ]
    )


def _say(text: str) -> None:
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode() + "\n")
    sys.stdout.flush()
