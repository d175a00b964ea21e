"""Dates that a question names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from langchain_tokenmem.recall.analysis import MONTHS

_MONTHS = {
    form: number for number, name in enumerate(MONTHS, 1) for form in (name, name[:3], name[:4])
}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d{2})"

_FORMS = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (
        rf"\b{_YEAR}-(?P<number>\d{{2}})-(?P<day>\d{{2}})\b",
        rf"\b{_YEAR}-(?P<number>\d{{2}})\b(?!-)",
        rf"\b{_DAY}\s+(?:of\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}(?!\d)\b(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?:of\s+)?{_YEAR}\b",
        rf"\bin\s+(?P<month>{_MONTH})\b",
        rf"\b{_YEAR}\b",
    )
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date, as far as a question names it.

    Attributes:
        year: Four digits.
        month: 1 to 12.
        day: 1 to 31.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None

    def fits(self, moment: datetime) -> bool:
        """Return whether a moment matches; a day also matches the days before and after it.

        People often report what happened the day before, and time zones differ.
        """
        if self.year is not None and moment.year != self.year:
            return False
        if self.month is not None and moment.month != self.month:
            return False
        return self.day is None or abs(moment.day - self.day) <= 1


def dates_in(question: str) -> list[NamedDate]:
    """Return the dates that a question names, in English or as ISO 8601.

    Example:
        >>> dates_in("What did she say on 7 May 2023, and in June?")
        [NamedDate(year=2023, month=5, day=7), NamedDate(year=None, month=6, day=None)]
    """
    return list(_found(question))


def _found(question: str) -> Iterator[NamedDate]:
    taken = question
    for form in _FORMS:
        for match in form.finditer(taken):
            parts = {key: value for key, value in match.groupdict().items() if value}
            month = _MONTHS.get(parts.get("month", "").lower()) or int(parts.get("number", 0))
            day = int(parts.get("day", 0))
            if month <= 12 and day <= 31:  # noqa: PLR2004  months of a year, days of a month
                year = int(parts["year"]) if "year" in parts else None
                yield NamedDate(year, month or None, day or None)
        taken = form.sub(lambda match: " " * len(match[0]), taken)
