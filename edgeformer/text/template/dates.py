"""strftime in English, whatever the locale: the model was trained on English names."""

import datetime
import re
from typing import Any

from edgeformer.text.template.limits import Budget, Refused

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = ("January", "February", "March", "April", "May", "June")
_MONTHS += ("July", "August", "September", "October", "November", "December")
_DIRECTIVE = re.compile(r"%([-_0^]?)(.?)", re.DOTALL)
_WHOLE = {
    "c": "%a %b %e %H:%M:%S %Y",
    "D": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "h": "%b",
    "r": "%I:%M:%S %p",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "x": "%m/%d/%y",
    "X": "%H:%M:%S",
}


def strftime(budget: Budget, now: datetime.datetime, format: str) -> str:
    """now.strftime(format) as it is in the C locale."""
    budget.text(len(format))

    def one(match: Any) -> str:
        budget.step(20)
        flag, letter = match.groups()
        if letter in _WHOLE:
            return _DIRECTIVE.sub(one, _WHOLE[letter])
        return _flagged(flag, _named(now, letter) or _numbered(now, letter, flag))

    made = _DIRECTIVE.sub(one, format)
    budget.text(len(made))
    return made


def _flagged(flag: str, made: str) -> str:
    return made.upper() if flag == "^" else made


def _named(now: datetime.datetime, letter: str) -> str:
    names = {
        "a": _DAYS[now.weekday()][:3],
        "A": _DAYS[now.weekday()],
        "b": _MONTHS[now.month - 1][:3],
        "B": _MONTHS[now.month - 1],
        "p": "AM" if now.hour < 12 else "PM",
        "P": "am" if now.hour < 12 else "pm",
        "n": "\n",
        "t": "\t",
        "%": "%",
    }
    return names.get(letter, "")


def _numbered(now: datetime.datetime, letter: str, flag: str) -> str:
    if letter in ("z", "Z"):
        return (now.strftime("%z") if letter == "z" else now.tzname()) or ""
    day = now.timetuple().tm_yday
    iso_year, iso_week, iso_day = now.isocalendar()
    numbers = {  # value, width, what fills the width
        "C": (now.year // 100, 2, "0"),
        "d": (now.day, 2, "0"),
        "e": (now.day, 2, " "),
        "f": (now.microsecond, 6, "0"),
        "g": (iso_year % 100, 2, "0"),
        "G": (iso_year, 4, "0"),
        "H": (now.hour, 2, "0"),
        "I": (now.hour % 12 or 12, 2, "0"),
        "j": (day, 3, "0"),
        "k": (now.hour, 2, " "),
        "l": (now.hour % 12 or 12, 2, " "),
        "m": (now.month, 2, "0"),
        "M": (now.minute, 2, "0"),
        "s": (int(now.timestamp()), 1, "0"),
        "S": (now.second, 2, "0"),
        "u": (iso_day, 1, "0"),
        "U": ((day + 6 - now.isoweekday() % 7) // 7, 2, "0"),
        "V": (iso_week, 2, "0"),
        "w": (now.isoweekday() % 7, 1, "0"),
        "W": ((day + 6 - now.weekday()) // 7, 2, "0"),
        "y": (now.year % 100, 2, "0"),
        "Y": (now.year, 4, "0"),
    }
    if letter not in numbers:
        raise Refused("strftime does not know %%%s" % letter)
    value, width, fill = numbers[letter]
    fill = {"-": "", "_": " ", "0": "0"}.get(flag, fill)
    return str(value).rjust(width, fill) if fill else str(value)
