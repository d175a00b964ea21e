"""Sections of talk: topics, entities, facts about the user."""

from __future__ import annotations

from dataclasses import replace

from langchain_tokenmem.core.working_notes.mode_profiles import CONVERSATION
from langchain_tokenmem.core.working_notes.notes_draft import MAX_NAMES
from tests.core.working_notes.notes_reading import assistant, bash, items, read, texts, user


def test_names_that_are_said_twice_are_entities_with_their_count() -> None:
    messages = [
        user("We met Emma Kim in Lyon."),
        assistant("How is Emma Kim? And Lyon?"),
        user("Well, we like Lyon and saw Paris."),
    ]
    state = read(messages)
    assert [(one["text"], one.get("count")) for one in items(state, "entities")] == [
        ("Emma Kim", 2),
        ("Lyon", 3),
    ]


def test_names_come_from_the_user_only() -> None:
    said = "The plan of Robert Brown is here."
    assert texts(read([assistant(said), assistant(said), *bash("cat a", said)]), "entities") == []


def test_headings_and_months_are_no_names() -> None:
    said = "## Key Takeaways And Next Steps\nit is due in March, in the month of May"
    assert texts(read([user(said), user(said), user(said)]), "entities") == []


def test_phrases_that_are_said_three_times_are_topics() -> None:
    said = [user(f"The error handling of part {n} and the API.") for n in range(3)]
    state = read(said[:2])
    assert texts(state, "topics") == []
    assert texts(read(said, state), "topics") == ["API", "error handling"]


def test_the_rarest_topic_makes_room_for_one_that_is_said_as_often() -> None:
    limits = replace(CONVERSATION, max_topics=1)
    talk = [user("error handling please") for _ in range(3)]
    talk += [user("access rights please") for _ in range(3)]
    state = read(talk, limits=limits)
    assert texts(state, "topics") == ["access rights"]
    more = [*talk, *(user("access rights please") for _ in range(3))]
    more += [user("error handling please") for _ in range(3)]
    assert texts(read(more, limits=limits), "topics") == ["access rights"]


def test_the_counted_names_stay_few() -> None:
    state = read(
        [user(f"we saw Name{chr(97 + n % 26)}{chr(97 + n // 26)} there") for n in range(99)]
    )
    assert len(state["names"]) <= MAX_NAMES


def test_facts_come_from_the_user_and_one_of_the_same_kind_replaces_the_other() -> None:
    state = read(
        [
            user("My name is Ada. I live in Berlin."),
            assistant("I live in the cloud."),
            user("Sorry, my name is Eve."),
        ]
    )
    assert texts(state, "facts") == ["my name is Eve", "I live in Berlin"]
    assert {one["by"] for one in items(state, "facts")} == {"rule"}


def test_the_newest_facts_stay() -> None:
    state = read([user(f"I love dish{n} from Lyon.") for n in range(25)], limits=CONVERSATION)
    assert texts(state, "facts") == [f"I love dish{n} from Lyon" for n in range(5, 25)]
