"""The JSON bodies that LangChain's own integrations put on the wire, without sending them."""

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

REASON = "pip install 'langchain-tokenmem[peers]' brings LangChain's integrations of the providers"
Body = dict[str, Any]


@cache
def _anthropic() -> Any:
    module = pytest.importorskip("langchain_anthropic", reason=REASON)
    return module.ChatAnthropic(model="claude-sonnet-4-5", api_key="none")


@cache
def _openai() -> Any:
    module = pytest.importorskip("langchain_openai", reason=REASON)
    return module.ChatOpenAI(model="gpt-4o", api_key="none", use_responses_api=False)


@cache
def _responses() -> Any:
    module = pytest.importorskip("langchain_openai", reason=REASON)
    return module.ChatOpenAI(model="gpt-5", api_key="none", use_responses_api=True)


@cache
def _gemini() -> Any:
    module = pytest.importorskip("langchain_google_genai", reason=REASON)
    return module.ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="none")


def anthropic_body(messages: Sequence[BaseMessage]) -> Body:
    return dict(_anthropic()._get_request_payload(list(messages)))


def openai_body(messages: Sequence[BaseMessage]) -> Body:
    return dict(_openai()._get_request_payload(list(messages)))


def responses_body(messages: Sequence[BaseMessage]) -> Body:
    return dict(_responses()._get_request_payload(list(messages)))


def gemini_body(messages: Sequence[BaseMessage]) -> Body:
    request = _gemini()._prepare_request(list(messages))
    system = request["config"].system_instruction
    return {
        "contents": [_plain(content) for content in request["contents"]],
        **({"system_instruction": _plain(system)} if system is not None else {}),
    }


def _plain(content: Any) -> Any:
    return content.model_dump(mode="json", exclude_none=True, by_alias=False)


BODIES: dict[str, Callable[[Sequence[BaseMessage]], Body]] = {
    "anthropic": anthropic_body,
    "openai": openai_body,
    "responses": responses_body,
    "gemini": gemini_body,
}


def body_of(provider: str, messages: Sequence[BaseMessage]) -> Body:
    """Return the body of a request; the formatters change lists in place, so they get copies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BODIES[provider](copy.deepcopy(list(messages)))
