"""Makes text from anywhere (cells, names of columns, groups and files) fit for messages and terminals."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

_NEGATIVE = frozenset(
    {"no", "not", "none", "never", "false", "negative", "neg", "bad", "fail", "failed"}
    | {"reject", "rejected", "deny", "denied", "decline", "declined", "refused"}
)
"""Words for the label that is not wanted: the alphabet would put "denied" after "approved"."""

LONGEST_MESSAGE = 999
"""Characters; what is longer is not read, and may be a whole file that was taken for a name."""

_DECIMALS_THAT_COUNT = 12
"""The HTML report computes gaps in another order, so that later digits may differ: they must not decide."""

# Control characters (C0, DEL, C1) move the cursor, change colours or answer to the terminal's queries; the
# others reorder the text around them, so that a line reads as what it is not; surrogates are bytes of names
# that are not UTF-8, which no encoding writes.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_UNSEEN_BUT_LINES = re.compile(_UNSEEN.pattern.replace("\x00-\x1f", "\x00-\x09\x0b-\x1f"))


def visible(text: str, *, lines: bool = False) -> str:
    r"""Return text with characters that would act on a terminal written as escapes, ``\x1b`` say.

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
    """Return the same JSON with such characters, which stand in its strings only, as JSON's own escapes."""
    return _UNSEEN_BUT_LINES.sub(lambda character: f"\\u{ord(character[0]):04x}", text)


def message_text(message: str, most: int = LONGEST_MESSAGE) -> str:
    """Return a message on one line, visible, and cut where it is longer than messages are."""
    # Cut first as well: escapes would make a long text up to six times as long.
    text = visible(" ".join(message[: most + 1].split("\n")))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def listed(texts: Sequence[str], most: int = 3) -> str:
    """Join the first few texts and say how many more there are: "a, b and c", or "a, b, c and 5 more".

    Quoting and cutting them is left to the caller.
    """
    first, n_more = list(texts[:most]), len(texts) - most
    if n_more > 0:
        return f"{', '.join(first)} and {n_more:,} more"
    return " and ".join(filter(None, [", ".join(first[:-1]), *first[-1:]]))


def reads_as_negative(label: object) -> bool:
    """Whether a label is text whose first word stands for the negative: "no", "denied", "not hired"."""
    # The first word decides: "not hired" and "no_offer" are negative.
    words = str(label).lower().replace("_", " ").replace("-", " ").split()
    return isinstance(label, str) and bool(words) and words[0] in _NEGATIVE


def shorten(text: str, most: int = 40) -> str:
    """Write a text on one line; of a long one the end is left out."""
    line = " ".join(text.split()) or "(blank)"
    return line if len(line) <= most else f"{line[: most - 1]}…"


def fixed(value: float, digits: int = 3) -> str:
    """Write a number with so many decimals; 0.4065 is 0.4065 whichever way it was computed.

    Terminal and HTML report write numbers alike: `fixed` in numbers.js has these rules.
    """
    return f"{round(float(value), _DECIMALS_THAT_COUNT) + 0.0:.{digits}f}"  # + 0.0: no minus before zero


def gap_text(gap: float, limit: float) -> str:
    """Write a gap with three digits, or with as many as show on which side of its limit it is."""
    for digits in range(3, 17):
        text = f"{gap:.{digits}g}"
        if (float(text) <= limit) == (gap <= limit):
            break
    return text


def percent(fraction: float, digits: int = 1) -> str:
    """Write a fraction in percents with so many decimals: "95.0%"."""
    return f"{fixed(100 * fraction, digits)}%"


def short_percent(fraction: float) -> str:
    """Write a fraction in percents with as many digits as it needs, up to four: "95%", "12.5%"."""
    percents = round(100 * float(fraction), _DECIMALS_THAT_COUNT) + 0.0
    text = f"{percents:.4g}"
    # A confidence of 99.999% is not one of 100%.
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
