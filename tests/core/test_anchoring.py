"""Factors that correct estimated counts by what a provider has reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.anchoring import (
    LEAST_FACTOR,
    MOST_FACTOR,
    NO_CORRECTION,
    UNSEEN_KINDS,
    Factors,
    ReportedRequest,
    TokensByKind,
    fitted_factors,
)


def growing(factors: Factors, replies: int = 8) -> tuple[ReportedRequest, ...]:
    """Return the reports of a conversation that grows by prose and data in turns."""
    found, prose, data = [], 400.0, 100.0
    for number in range(replies):
        prose, data = prose + 300, data + 500 * (number % 2)
        messages = TokensByKind(prose, data, other=20.0)
        true = factors.tokens(messages) + 200 * factors.tools + factors.hidden
        found.append(ReportedRequest(messages, 200.0, round(true)))
    return tuple(found)


def predicted(factors: Factors, report: ReportedRequest) -> float:
    return factors.tokens(report.messages) + factors.tools * report.tools + factors.hidden


@pytest.mark.parametrize(
    "true", [Factors(1.3, 1.3, tools=1.3), Factors(1.0, 1.15), Factors(0.8, 0.9, tools=0.8)]
)
def test_after_three_replies_the_next_request_is_met_within_three_per_cent(true):
    reports = growing(true)
    for known in range(3, 8):
        factors = fitted_factors(reports[:known])
        assert abs(predicted(factors, reports[known]) / reports[known].tokens - 1) < 0.03


def test_the_request_of_the_newest_reply_is_met():
    reports = growing(Factors(1.2, 1.4, tools=1.1))
    factors = fitted_factors(reports)
    assert abs(predicted(factors, reports[-1]) / reports[-1].tokens - 1) < 0.01


def test_tokens_that_the_provider_adds_to_every_request_are_met_too():
    reports = growing(Factors(hidden=346))
    factors = fitted_factors(reports[:7])
    assert abs(predicted(factors, reports[7]) / reports[7].tokens - 1) < 0.03
    assert factors.hidden > 100


def test_nothing_is_lowered_by_fewer_than_three_replies():
    reports = growing(Factors(*[0.7] * 6))
    assert min(fitted_factors(reports[:2])[:-1]) >= 1.0
    assert fitted_factors(reports[:3]).prose < 0.8


def test_replies_that_do_not_fit_each_other_lower_nothing():
    reports = growing(NO_CORRECTION)
    torn = tuple(
        ReportedRequest(r.messages, r.tools, round(r.tokens * (0.95 if n % 2 else 0.55)))
        for n, r in enumerate(reports)
    )
    assert min(fitted_factors(torn)[:-1]) >= 1.0


def test_a_report_of_quite_another_request_does_not_count():
    messages = TokensByKind(1_000, other=10)
    assert fitted_factors((ReportedRequest(messages, 0, 12),)) == NO_CORRECTION
    assert fitted_factors((ReportedRequest(messages, 0, 200_000),)) == NO_CORRECTION


def test_a_request_that_was_left_out_in_part_does_not_count():
    messages = TokensByKind(10_000, other=10)
    reports = (ReportedRequest(messages, 0, 7_000),) * 4
    assert fitted_factors(reports, limit=7_200) == NO_CORRECTION
    assert fitted_factors(reports, limit=20_000).prose < 0.75


def test_earlier_factors_hold_where_no_reply_can_be_compared_yet():
    kept = Factors(1.2, 1.3, tools=1.1, hidden=30)
    assert fitted_factors((), kept) == kept


def test_calls_and_results_of_tools_have_factors_of_their_own():
    true, found, said, answered = Factors(tool_prose=1.15, tool_data=1.15), [], 1_500.0, 0.0
    for number in range(6):
        said, answered = said + 40, answered + 300 * (number % 3)
        messages = TokensByKind(said, tool_data=answered)
        found.append(ReportedRequest(messages, 0, true.tokens(messages)))
    factors = fitted_factors(tuple(found))
    large = TokensByKind(found[-1].messages.prose, tool_prose=4_000, tool_data=answered)
    assert abs(factors.tokens(large) / true.tokens(large) - 1) < 0.03


def test_until_a_reply_tells_of_a_kind_it_is_taken_for_dearer():
    english = (ReportedRequest(TokensByKind(1_000, 500), 0, 1_500),) * 3
    found = fitted_factors(english)
    assert (found.prose, found.data) == (1.0, 1.0)
    assert found == UNSEEN_KINDS
    chinese = (ReportedRequest(TokensByKind(100, 50, 2_000), 0, 2_150),) * 3
    assert fitted_factors(chinese).scripts < 1.05


sizes = st.floats(0, 1e6, allow_nan=False)
reported = st.builds(
    ReportedRequest,
    messages=st.builds(TokensByKind, *[sizes] * len(TokensByKind._fields)),
    tools=sizes,
    tokens=st.integers(1, 10**7),
)


@given(reports=st.lists(reported, max_size=12), limit=st.none() | st.integers(1, 10**6))
def test_factors_never_leave_their_bounds_whatever_is_reported(reports, limit):
    factors = fitted_factors(tuple(reports), limit=limit)
    assert all(LEAST_FACTOR <= factor <= MOST_FACTOR for factor in factors[:-1])
    assert factors.hidden >= 0
    assert factors == fitted_factors.__wrapped__(tuple(reports), limit=limit)
