"""What users say themselves in messages that a program made from a template."""

# ruff: noqa: RUF001 - the colon of Chinese is meant

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_tokenmem.core.facts.own_words import FEWEST_DATA, own_words

DOCUMENTS = "Refunds are never above $50. Question: who pays?\n" * 12
CHAT = "Human: Hi.\nAI: Hello.\n" * 30
PROMPTS = (
    f"""Use the following pieces of context to answer the question at the end.

{DOCUMENTS}

Question: Can I?
Helpful Answer:""",
    f"""Use the following pieces of retrieved context to answer the question.
Question: Can I?
Context: {DOCUMENTS}
Answer:""",
    f"""Context information is below.
---------------------
{DOCUMENTS}
---------------------
Given the context information and not prior knowledge, answer the query.
Query: Can I?
Answer: """,
    f"""Given the following conversation and a follow up question, rephrase it.

Chat History:
{CHAT}
Follow Up Input: Can I?
Standalone question:""",
    f"""Answer with the following documents.
## Documents
{DOCUMENTS}
## User question
Can I?""",
    f"**Kontext:**\n{DOCUMENTS}\n**Frage:**\nCan I?\n\nAntwort:",
    f"已知信息：\n{DOCUMENTS}\n问题：Can I?\n回答：",
    f"""<context>
<document>{DOCUMENTS}</document> <query>No.</query>
</context>
<user_query>Can I?</user_query>
Answer in two sentences.""",
    "<question>\nCan I?\n</question>\n<results>No.</results>",
    "<editorContext>\na.py\n</editorContext>\n<userRequest>\nCan I?\n</userRequest>",
    "<system-reminder>\nThe to-do list is empty.\n</system-reminder>\nCan I?",
    f"<context>{DOCUMENTS}</context>\nAnswer the question.\nQuestion: Can I?\nAnswer:",
)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_the_question_of_a_template_is_what_the_user_says(prompt):
    assert own_words(prompt) == "Can I?"


LONG = "We run a bike shop in Lyon and never sell electric ones. " * 10


@pytest.mark.parametrize(
    "said",
    [
        "Context: we use Flask 3.\nTask: migrate it to FastAPI.",
        f"Context: {LONG}\nTask: Write a page.\nConstraints:\n- Never mention prices.",
        f"Use the following context:\nContext: {DOCUMENTS}\nMy exam is near.\nQuestion:",
        f"Medical history: {LONG}\nQuestion: can I run a marathon?",
        f"Here is the page:\n{DOCUMENTS}\nWhat does it say?",
        f"{LONG}\nExample:\nInput: [3]\nOutput: 3\n\ndef f(x):",
        "Question: a?\nAnswer: b.\nQuestion: c?\nAnswer:",
        "<context>We have a budget of 500 euros.</context>\nPlan a weekend.",
        f"<context>{DOCUMENTS}</context>",
        f"<context>\n{LONG}\n</context>\nWrite a page.",
        "Context: we use Flask and must stay on Python 3.9.\nQuestion: can I upgrade?\nAnswer:",
        "<context>\nis not closed. Can I?",
        f"How do I read this?\n```xml\n<documents>\n{DOCUMENTS}</documents>\n```",
        f"It says <documents> {DOCUMENTS} </documents> here.",
        "<issue_description>It fails on <file> names.</issue_description>\nCan you fix it?",
        "Can I?\n",
        "",
    ],
)
def test_what_has_no_data_of_a_template_is_returned_as_it_is(said):
    assert own_words(said) == said


def test_words_around_the_data_that_speak_of_the_user_stay():
    data = f"<file path='a.py'>{'a = 1 ' * FEWEST_DATA}</file>"
    assert own_words(f"Fix it.\n{data}\nBe brief.").split() == ["Fix", "it.", "Be", "brief."]
    prompt = f"Answer politely.\nI live in Lyon.\n{data}\n<question>How?</question>"
    assert own_words(prompt) == "How?\nI live in Lyon."
    exam = f"My exam is on May 3. {PROMPTS[0]}"
    assert own_words(exam).splitlines() == ["Can I?", exam.splitlines()[0]]


@given(
    st.lists(st.sampled_from([*"<>/_# \nx:", "context", "Question", "</", "```", "Answer:", "my "]))
)
def test_every_line_is_of_the_message(parts):
    text = "".join(parts)
    assert all(line in text for line in own_words(text).splitlines())


@pytest.mark.parametrize("tag", ["<a" + "_" * 38 + ">\n", "<" + "a_" * 20 + "x>\n"])
def test_a_form_to_fill_in_is_read_at_once(tag):
    assert own_words(tag * 1_000) == tag * 1_000
