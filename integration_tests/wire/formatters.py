"""The JSON bodies that LangChain's own integrations put on the wire, without sending them."""

import copy
import warnings
from collections.abc import Sequence
from typing import Any

import pytest
from langchain_core.messages import BaseMessage

REASON = "pip install 'langchain-tokenmem[peers]' brings LangChain's integrations of the providers"
anthropic = pytest.importorskip("langchain_anthropic", reason=REASON)
openai = pytest.importorskip("langchain_openai", reason=REASON)
google = pytest.importorskip("langchain_google_genai", reason=REASON)

MODELS: dict[str, Any] = {
    "anthropic": anthropic.ChatAnthropic(model="claude-sonnet-4-5", api_key="none"),
    "openai": openai.ChatOpenAI(model="gpt-4o", api_key="none", use_responses_api=False),
    "responses": openai.ChatOpenAI(model="gpt-5", api_key="none", use_responses_api=True),
    "gemini": google.ChatGoogleGenerativeAI(model="gemini-2.5-flash", api_key="none"),
}


def body_of(provider: str, messages: Sequence[BaseMessage]) -> dict[str, Any]:
    """Return the body of a request; the formatters change lists in place, so they get copies."""
    given = copy.deepcopy(list(messages))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if provider != "gemini":
            return dict(MODELS[provider]._get_request_payload(given))
        request = MODELS[provider]._prepare_request(given)
    system = request["config"].system_instruction
    return {
        "contents": [_plain(content) for content in request["contents"]],
        **({"system_instruction": _plain(system)} if system is not None else {}),
    }


def _plain(content: Any) -> Any:
    return content.model_dump(mode="json", exclude_none=True, by_alias=False)
