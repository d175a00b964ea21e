"""The contract tests of edits, erasing and odd texts, on PostgreSQL."""

from __future__ import annotations

from tests.contract.conftest import way  # noqa: F401
from tests.contract.test_erase import (  # noqa: F401
    store,
    test_a_lease_of_a_clock_that_was_ahead_stops_no_summary,
    test_an_erased_conversation_begins_anew,
    test_an_export_makes_the_same_session_elsewhere,
    test_erasing_needs_a_scope_and_the_owner,
    test_sessions_that_nobody_used_expire_whole,
)
from tests.contract.test_forks_and_edits import (  # noqa: F401
    test_a_message_that_is_sent_again_without_its_metadata_keeps_it,
    test_an_edit_is_shown_and_found_whatever_text_of_the_memory_stands_in_it,
    test_an_edit_of_any_field_is_an_edit,
    test_edited_words_are_in_no_later_request,
)
from tests.contract.test_nothing_lost import (  # noqa: F401
    test_a_session_goes_on_after_half_a_surrogate_pair,
    test_every_place_that_takes_a_text_takes_half_a_surrogate_pair,
)
