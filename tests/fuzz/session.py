"""Making, running and judging cases: for people who look at a few, and for tests that ask for many."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from signal import SIGINT

from tests.fuzz.cases import Case, Earlier, make_case
from tests.fuzz.kills import HANDFUL, campaign, faults, run_and_kill, state
from tests.fuzz.runner import Outcome, run_call, run_case, warm_up, warm_up_calls
from tests.fuzz.verdicts import broken_by_call, broken_rules

__all__ = ["CALL", "serve", "serve_calls", "show", "show_calls", "show_kills"]

CALL = "call-"
"""What names of calls of the Python interface begin with; a number follows."""


def judge(seed: int, earlier: Earlier, directory: Path) -> tuple[Case, Outcome, list[str]]:
    """Make and run one case."""
    case = make_case(seed, earlier)
    outcome = run_case(case, directory)
    return case, outcome, broken_rules(case, outcome, directory)


def judge_call(seed: int, directory: Path) -> tuple[Outcome, list[str]]:
    """Make and run one call of the Python interface."""
    outcome = run_call(seed, directory)
    return outcome, broken_by_call(outcome)


def serve() -> None:
    """Answer seeds and names of kills with the rules that they break."""
    earlier, kills = warm_up(), {str(kill): kill for kill in (*HANDFUL, *campaign())}
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        root = Path(name)
        (root / "earlier").mkdir()
        for line in map(str.strip, sys.stdin):
            if line in kills:
                ending = run_and_kill(kills[line], root / line, root / "earlier")
                broken, command = list(faults(kills[line], ending)), line
            else:
                case, _, broken = judge(int(line), earlier, root / line)
                command = _command(case)
            shutil.rmtree(root / line)
            sys.stdout.write(json.dumps({"name": line, "command": command, "broken": broken}) + "\n")
            sys.stdout.flush()


def serve_calls() -> None:
    """Answer seeds with the rules that calls of the Python interface break."""
    warm_up_calls()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        for line in map(str.strip, sys.stdin):
            outcome, broken = judge_call(int(line), Path(name) / line)
            shutil.rmtree(Path(name) / line)
            command = outcome.out.decode(errors="replace").partition(":")[0]
            answer = {"name": f"{CALL}{line}", "command": command, "broken": broken}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def show_kills() -> int:
    """Run the campaign; print what each kill broke, and count how they ended."""
    endings: dict[str, Counter[str]] = {}
    slowest, slowest_wall, n_faults = 0.0, 0.0, 0
    warm_up()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        root = Path(name)
        (root / "earlier").mkdir()
        for kill in campaign():
            ending = run_and_kill(kill, root / str(kill), root / "earlier")
            broken = list(faults(kill, ending))
            how = f"{kill.signal.name} {'while writing' if kill.aimed else 'at any moment'}"
            endings.setdefault(how, Counter())[f"exit {ending.code}, files {state(ending)}"] += 1
            if kill.signal == SIGINT:
                slowest = max(slowest, ending.seconds)
                slowest_wall = max(slowest_wall, ending.wall_seconds)
            n_faults += len(broken)
            for sentence in broken:
                _say(f"{kill}: {sentence}")
    for how, counts in endings.items():
        _say(
            f"{how}, {counts.total()} hits: " + "; ".join(f"{count} × {end}" for end, count in counts.items())
        )
    _say(f"slowest end after SIGINT: {slowest:.2f} s of computing, {slowest_wall:.2f} s in all")
    return int(n_faults > 0)


def show_calls(seeds: list[int]) -> int:
    """Print what each call of the Python interface breaks; the streams of a single one."""
    total, place = Counter[str](), Path(tempfile.mkdtemp(prefix="fuzz-"))
    warm_up_calls()
    for seed in seeds:
        outcome, broken = judge_call(seed, place / str(seed))
        total[f"exit {outcome.code}"] += 1
        if len(seeds) == 1:
            _say(f"{outcome.out.decode(errors='replace')}{outcome.err.decode(errors='replace')}")
        for rule in broken:
            total[rule.partition(":")[0]] += 1
            _say(f"{CALL}{seed}: {rule}")
    shutil.rmtree(place)
    _say(", ".join(f"{name} {count}" for name, count in total.items()))
    return int(total.total() > len(seeds))


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
