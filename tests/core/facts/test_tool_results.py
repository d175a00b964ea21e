"""Values of a tool result as a line of an entry shows them: whole, and none that says nothing."""

from __future__ import annotations

import time

import pytest

from langchain_tokenmem.core.facts.tool_results import ends_of, values_of


def texts_of(result: str) -> list[str]:
    return [value.text for value in values_of(ends_of(result))]


def test_a_key_whose_values_stand_below_is_no_value():
    found = texts_of("owner: ann_lee\nshared_with:\n  bob_ray@example.com: rw\nlast_size: 1464\n")
    assert "shared_with" not in found
    assert any("bob_ray@example.com" in text for text in found)


def test_a_quotation_at_the_end_of_a_value_is_closed():
    found = texts_of('1 #include "parser_api.h"\n2 #include <stdio.h>\n')
    assert '1 #include "parser_api.h"' in found


def test_a_bracket_that_is_closed_is_opened():
    found = texts_of("the office\n(403) 555-0123 is the number of sarah.johnson@example.com\n")
    assert any(text.startswith("(403) 555-0123") for text in found)


def test_the_number_of_a_row_of_code_alone_is_no_value():
    found = texts_of("1468:    if (some_name) {\n1469:    }\n1470:\n1471: return other_name;\n")
    assert not any(text.strip(":} ").isdigit() for text in found)


def test_rows_of_python_read_like_rows_of_json():
    found = texts_of("[{'PostalCode': 'T2P 2T3', 'Phone': '+1 (403) 262-3443', 'Id': 1}]")
    assert found
    assert not any("': " in text for text in found)


@pytest.mark.parametrize("words", ["", "Deleted file_4711."])
def test_a_wrapper_of_text_is_read_as_its_text(words):
    assert ends_of(f'{{"type": "text", "content": "{words}"}}') == words


def test_a_result_of_backslashes_is_read_in_linear_time():
    began = time.process_time()
    assert ends_of("Done.\n" + "\\" * 15_000).startswith("Done.")
    assert time.process_time() - began < 0.3  # 2.8 s where each backslash is tried as a beginning
