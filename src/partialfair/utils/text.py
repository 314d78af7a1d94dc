"""Formats text from data (cells, names of columns, groups and files) for messages and terminals."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

_NEGATIVE = frozenset(
    {"no", "not", "none", "never", "false", "negative", "neg", "bad", "fail", "failed"}
    | {"reject", "rejected", "deny", "denied", "decline", "declined", "refused"}
)
"""Words for the negative label, because sorting would put "denied" after "approved"."""

LONGEST_MESSAGE = 999
"""Largest number of characters; longer text may be the content of a file."""

_DECIMALS_THAT_COUNT = 12
"""The HTML report computes gaps in another order, so that later digits may differ and are ignored."""

# Control characters (C0, DEL, C1) move the cursor, change colors or answer the terminal's queries; the others
# reorder the surrounding text; surrogates are bytes of names that are not UTF-8 and cannot be encoded.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSEEN_BUT_LINES = re.compile(_UNSEEN.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text with control characters as escapes, such as ``\x1b``.

    Parameters
    ----------
    text
        Anything.
    lines
        Whether line breaks stay.

    Examples
    --------
    >>> visible("plain \x1b[31mred")
    'plain \\x1b[31mred'
    """
    return (_UNSEEN_BUT_LINES if lines else _UNSEEN).sub(_escape, text)


def json_visible(text: str) -> str:
    """Return the same JSON with control characters in its strings as JSON escapes."""
    return _UNSEEN_BUT_LINES.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def message_text(message: str, most: int = LONGEST_MESSAGE) -> str:
    """Return a message on one line, with escapes, and cut after ``most`` characters."""
    # Cut first as well: escapes would make a long text up to six times as long.
    text = visible(" ".join(message[: most + 1].split("\n")))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Join the first few texts and add the number of the others: "a, b and c", or "a, b, c and 5 more".

    The caller quotes and shortens them.
    """
    first, n_more = list(texts[:most]), len(texts) - most
    if n_more > 0:
        return f"{', '.join(first)} and {n_more:,} more"
    return " and ".join(filter(None, [", ".join(first[:-1]), *first[-1:]]))


def reads_as_negative(label: object) -> bool:
    """Return whether a label is text whose first word is negative: "no", "denied", "not hired"."""
    # The first word decides: "not hired" and "no_offer" are negative.
    words = str(label).lower().replace("_", " ").replace("-", " ").split()
    return isinstance(label, str) and bool(words) and words[0] in _NEGATIVE


def shorten(text: str, most: int = 40) -> str:
    """Return a text on one line, cut if it is long."""
    line = " ".join(text.split()) or "(blank)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


def fixed(value: float, digits: int = 3) -> str:
    """Return a number with that number of decimals, without the rounding errors of its computation.

    The HTML report uses the same rules: `fixed` in numbers.js.
    """
    return f"{round(float(value), _DECIMALS_THAT_COUNT) + 0.0:.{digits}f}"  # + 0.0: no minus before zero


def gap_text(gap: float, limit: float) -> str:
    """Return a gap with three digits, or with more if needed to show the side of its limit."""
    for digits in range(3, 17):
        text = f"{gap:.{digits}g}"
        if (float(text) <= limit) == (gap <= limit):
            break
    return text


def percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction in percent with that number of decimals: "95.0%"."""
    return f"{fixed(100 * fraction, digits)}%"


def short_percent(fraction: float) -> str:
    """Return a fraction in percent with as many digits as needed, up to four: "95%", "12.5%"."""
    percents = round(100 * float(fraction), _DECIMALS_THAT_COUNT) + 0.0
    text = f"{percents:.4g}"
    # A confidence of 99.999% must not become 100%.
    return f"{percents:g}%" if float(text) == 100 else f"{text}%"


def _escape(character: re.Match[str]) -> str:
    code = ord(character[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


class MessageFormatter(logging.Formatter):
    """Writes log lines as messages: the program's name, and one visible line that is not too long."""

    def __init__(self, program: str) -> None:
        super().__init__()
        self.program = program

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return f"{self.program}: {message_text(record.getMessage())}"
