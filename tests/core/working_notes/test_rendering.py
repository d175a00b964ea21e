"""Working notes as a request shows them: fences, freshness, and what gives way."""

from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.working_notes import mode_profiles
from langchain_tokenmem.core.working_notes.mode_profiles import CODE, CONVERSATION, REASONING
from langchain_tokenmem.core.working_notes.sections import render_notes
from tests.fakes import CharCounter

COUNT = CharCounter().text


def item(text, turn=1, **keys):
    return {"text": text, "turn": turn, "source": 1, "by": "rule", **keys}


def modes_of(turn=1, **sections):
    changed = dict.fromkeys(sections, 1)
    modes = mode_profiles.new_modes_state("reasoning")
    return {**modes, "turn": turn, "sections": sections, "changed": changed}


def notes_of(modes, profile=REASONING, most=1_000, live=None):
    return render_notes(modes, profile, most, COUNT, live)


def shown(modes, *given, **options):
    """Return the lines of notes without their fence and heading."""
    return notes_of(modes, *given, **options).text.splitlines()[2:-1]


def test_a_section_changed_in_turn_1_is_shown_in_turn_4_and_gone_in_turn_5():
    assert shown(modes_of(turn=4, phase=[item("build")])) == ["Phase: build"]
    assert notes_of(modes_of(turn=5, phase=[item("build")])).text == ""


def test_facts_objective_constraints_and_unresolved_errors_stay_however_old():
    facts = modes_of(turn=99, facts=[item("I live in Oslo")], topics=[item("tram")])
    assert shown(facts, CONVERSATION) == ["About the user: I live in Oslo"]
    old = modes_of(turn=99, objective=[item("Ship")], constraints=[item("Budget: 5")])
    assert shown(old) == ["Objective: Ship", "Constraints: Budget: 5"]
    assert "tests fail" in str(shown(modes_of(turn=99, errors=[item("tests fail")]), CODE))


def test_the_oldest_items_of_the_longest_section_go_first():
    files = [item(f"src/module_{n}/file_{n}.py", verb="read") for n in range(40)]
    text = notes_of(modes_of(task=[item("Fix it")], files=files), CODE, most=100).text
    assert "Task: Fix it" in text
    assert "file_39.py" in text
    assert "file_0.py" not in text


SIZES = st.lists(st.integers(0, 300), max_size=6)


@given(st.dictionaries(st.sampled_from(REASONING.sections), SIZES), st.integers(0, 300))
def test_notes_never_pass_their_share(sizes, most):
    items = {name: [item("word " * size) for size in some] for name, some in sizes.items()}
    assert COUNT(notes_of(modes_of(**items), most=most).text) <= most


def test_only_new_items_of_a_section_are_shown_again_unless_one_shown_no_longer_holds():
    names = [item("Marta"), item("Ania")]
    live = notes_of(modes_of(entities=names), CONVERSATION).sections
    more = modes_of(entities=[*names, item("Helen")])
    assert shown(more, CONVERSATION, live=live) == ["Entities: Helen"]
    assert notes_of(modes_of(entities=names), CONVERSATION, live=live).text == ""
    limits = [item("Budget: 5", key="budget"), item("Never on Sundays")]
    live = notes_of(modes_of(constraints=limits)).sections
    changed = modes_of(constraints=[item("Budget: 7", key="budget"), limits[1]])
    assert shown(changed, live=live) == ["Constraints: Budget: 7; Never on Sundays"]


def test_a_full_section_that_drops_its_oldest_item_is_not_shown_whole_again():
    names = [item(f"Name{n}") for n in range(CONVERSATION.limits["entities"])]
    live = notes_of(modes_of(entities=names), CONVERSATION).sections
    later = modes_of(entities=[*names[1:], item("Helen")])
    assert shown(later, CONVERSATION, live=live) == ["Entities: Helen"]
    for place in (0, 5):  # a new value takes the place of the one before
        changed = [*names[:place], item("Helen"), *names[place + 1 :]]
        again = notes_of(modes_of(entities=changed), CONVERSATION, live=live).text
        assert [one["text"] for one in changed if one["text"] not in again] == []


@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=12), most=st.integers(60, 100))
def test_later_turns_show_what_was_left_out_for_the_share(sizes, most):
    facts = modes_of(facts=[item(f"{n}: {'x' * size}.") for n, size in enumerate(sizes)])
    texts, live = [], {}
    for _ in sizes:
        notes = notes_of(facts, CONVERSATION, most, live)
        texts, live = [*texts, notes.text], live | notes.sections
    assert all(one["text"] in "".join(texts) for one in facts["sections"]["facts"])
    assert notes_of(facts, CONVERSATION, most, live).text == ""
