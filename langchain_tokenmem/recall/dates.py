"""Dates and times that a question names, in English: days, spans, the first or the latest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

Order = Literal["first", "latest"]

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

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
        rf"\b(?P<day>\d{{1,2}})\.(?P<number>\d{{1,2}})\.{_YEAR}\b",
        rf"\b{_DAY}\s+(?:of\s+)?(?P<month>{_MONTH})\b\.?(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?\s+{_DAY}(?!\d)\b(?:,?\s+{_YEAR}\b)?",
        rf"\b(?P<month>{_MONTH})\b\.?,?\s+(?:of\s+)?{_YEAR}\b",
        rf"\b(?:in|last|since|until|during)\s+(?P<month>{_MONTH})\b",
        rf"\b{_YEAR}\b",
    )
)


@dataclass(frozen=True, slots=True)
class NamedDate:
    """A date that a question names, at least in part.

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

        People often report things a day later, and time zones differ.
        """
        if self.year is not None and moment.year != self.year:
            return False
        if self.month is not None and moment.month != self.month:
            return False
        return self.day is None or abs(moment.day - self.day) <= 1


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """Days from a first to a last one."""

    first: date
    last: date

    def fits(self, moment: datetime) -> bool:
        """Return whether a moment is on one of the days."""
        return self.first <= moment.date() <= self.last


_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_COUNTS = {"a": 1, **{word: count for count, word in enumerate(_NUMBERS, 1)}}
_NEAR = {"today": 0, "yesterday": 1, "day before yesterday": 2}
_DISTANCES = re.compile(
    rf"\b(?:(?:the )?(?P<day>{'|'.join(_NEAR)})"
    r"|(?P<word>this|last|past) (?P<unit>week|month|year)"
    rf"|last (?P<weekday>{'|'.join(_WEEKDAYS)})"
    rf"|(?:(?P<until_now>the (?:last|past)) )?(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)})"
    r" (?P<units>day|week|month|year)s?(?(until_now)| ago))\b",
    re.IGNORECASE | re.ASCII,
)
_DAYS = {"day": 1, "week": 7, "month": 30, "year": 365}


_ORDERS: dict[Order, re.Pattern[str]] = {
    "latest": re.compile(r"\b(?:latest|newest|most recent(?:ly)?|last time)\b", re.IGNORECASE),
    "first": re.compile(r"\b(?:first|earliest|oldest)\b", re.IGNORECASE),
}


def order_in(question: str) -> Order | None:
    """Return whether a question asks for the latest or the first of something, in English.

    Example:
        >>> order_in("What is the latest budget?")
        'latest'
    """
    found = [order for order, pattern in _ORDERS.items() if pattern.search(question)]
    return found[0] if len(found) == 1 else None


def dates_in(question: str, now: datetime | None = None) -> list[NamedDate | NamedSpan]:
    """Return the dates that a question names, in English or as ISO 8601.

    Args:
        question: The question as asked.
        now: When it was asked; without it, "yesterday" and "two weeks ago" are not recognised.

    Example:
        >>> dates_in("What did she say on 7 May 2023, and last June?")
        [NamedDate(year=2023, month=5, day=7), NamedDate(year=None, month=6, day=None)]
    """
    found: list[NamedDate | NamedSpan] = list(_found(question))
    return found if now is None else [*found, *_spans(question, now.date())]


def span_in(question: str, now: datetime) -> NamedSpan | None:
    """Return the days of the time that a question names; None unless it names exactly one.

    A month without a year is the last one that has begun. A date is three days: people often
    report things a day later.

    Example:
        >>> span_in("What did we do in May?", datetime(2026, 3, 1))
        NamedSpan(first=datetime.date(2025, 5, 1), last=datetime.date(2025, 5, 31))
    """
    found = dates_in(question, now)
    if len(found) != 1:
        return None
    one = found[0]
    if isinstance(one, NamedSpan):
        return one
    year = one.year or now.year
    try:
        first = date(year, one.month or 1, one.day or 1)
        if one.year is None and first > now.date():
            first = first.replace(year=year - 1)
    except ValueError:  # 30 February
        return None
    if one.day:  # as `NamedDate.fits`
        return NamedSpan(first - timedelta(1), first + timedelta(1))
    last = first.replace(month=one.month or 12, day=28) + timedelta(4)  # in the next month
    return NamedSpan(first, last - timedelta(last.day))


def without_times(question: str) -> str:
    """Return a question without the dates and times that it names."""
    for form in (*_FORMS, _DISTANCES):
        question = form.sub(" ", question)
    return question


def with_dates(question: str, today: date) -> str:
    """Return a question with days such as "yesterday" as dates, and without longer spans.

    A message's date is among its terms; "3" and "week" would match anything.
    """

    def dated(match: re.Match[str]) -> str:
        if match.start() and match[0][0].isupper():  # a title
            return match[0]
        (span,) = _spans(match[0], today)
        day = span.first
        return f"{day.day} {MONTHS[day.month - 1]}" if day == span.last else " "

    return _DISTANCES.sub(dated, question)


def _spans(question: str, today: date) -> Iterator[NamedSpan]:
    """Yield the days named relative to today; for counted units, half a unit more and less."""
    for match in _DISTANCES.finditer(question):
        if named := match["day"]:
            day = today - timedelta(_NEAR[named.lower()])
            yield NamedSpan(day, day)
        elif weekday := match["weekday"]:
            day = today - timedelta((today.weekday() - _WEEKDAYS.index(weekday.lower())) % 7 or 7)
            yield NamedSpan(day, day)
        elif counted := match["count"]:
            count = _COUNTS.get(counted.lower()) or int(counted)
            days = _DAYS[match["units"].lower()]
            middle, half = today - timedelta(count * days), timedelta(days // 2)
            is_ago = match["until_now"] is None
            yield NamedSpan(middle - half, middle + half) if is_ago else NamedSpan(middle, today)
        else:
            unit, is_this = match["unit"].lower(), match["word"].lower() == "this"
            first = _first_of(unit, today)
            last = first - timedelta(1)
            yield NamedSpan(first, today) if is_this else NamedSpan(_first_of(unit, last), last)


def _first_of(unit: str, day: date) -> date:
    """Return the first day of a day's week, month or year."""
    if unit == "week":
        return day - timedelta(day.weekday())
    return day.replace(day=1) if unit == "month" else day.replace(month=1, day=1)


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
