"""Legality profiles: what each provider refuses, and which profile fits a model.

Sources: the providers' API references (OpenAI chat and responses, Anthropic messages, Gemini
generateContent, Bedrock Converse) and the chat templates of Mistral, as of November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from langchain_tokenmem.core import block_types
from langchain_tokenmem.core.block_types import BlockTypes
from langchain_tokenmem.core.chat_models import limits_of_model, model_name, unwrap_model
from langchain_tokenmem.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class LegalityProfile:
    """Requirements of one provider for a list of messages.

    Common to all profiles: system text at the beginning, a human message first, each tool call
    directly followed by its results, no empty assistant message.

    Args:
        name: Name of the profile.
        providers: Prefixes of LangChain's name for the provider in
            `response_metadata["model_provider"]`; empty for any.
        alternates: Human and assistant must alternate: neighbours of one role are merged.
        answers_results: An assistant message must separate a tool result from a human message;
            a minimal one is inserted.
        ends_with_input: The last message must not be the assistant's; if it is, the model is asked
            to continue.
        refuses_blank: A human message without content is refused; a text in brackets replaces it.
        pairs_reasoning: A reasoning item belongs to the item that follows it: one at the end of an
            assistant message, left by an aborted call, is omitted.
        drops_foreign_reasoning: Reasoning of another provider's model is left out of the view,
            because its signatures are refused.
        strips_server_ids: Ids of items on the provider's server (`rs_`, `msg_`, `fc_`) are left
            out, and so is reasoning that consists only of such an id: for `store=False`.
        strict_calls: Arguments of a tool call must be a JSON object; others are wrapped in one.
        call_id: Pattern of the ids of tool calls; other ids are replaced.
        call_name: Pattern of the names of tools; other names are replaced.
        not_in_names: Pattern of a character that the name of a speaker must not have; `_` replaces
            it. None for any name.
        blocks: Types of content blocks that the provider accepts; others are shown as text. None
            for any.
        cache_marks: Maximum `cache_control` marks of a request; the newest stay. None for no limit.
        one_text: The content of a message is one text: what is added to a text is joined with it.

    Example:
        >>> profile_named("mistral").alternates
        True
    """

    name: str
    providers: tuple[str, ...] = ()
    alternates: bool = False
    answers_results: bool = False
    ends_with_input: bool = False
    refuses_blank: bool = False
    pairs_reasoning: bool = False
    drops_foreign_reasoning: bool = False
    strips_server_ids: bool = False
    strict_calls: bool = False
    call_id: str = r".+"
    call_name: str = r".+"
    not_in_names: str | None = None
    blocks: BlockTypes | None = None
    cache_marks: int | None = None
    one_text: bool = False

    @property
    def fits(self) -> bool:
        """Whether the profile changes single messages."""
        return (
            self.refuses_blank
            or self.pairs_reasoning
            or self.drops_foreign_reasoning
            or self.strips_server_ids
            or self.blocks is not None
        )

    @property
    def shapes(self) -> bool:
        """Whether the profile changes neighbours in a list."""
        return self.alternates or self.answers_results or self.ends_with_input


COMMON = LegalityProfile("common")
"""Requirements that all profiles share: used if nothing is known about the model."""

_PLAIN_NAME = r"[a-zA-Z0-9_-]{1,64}"
_OPENAI = LegalityProfile(
    "openai",
    ("openai", "azure"),
    pairs_reasoning=True,
    drops_foreign_reasoning=True,
    strict_calls=True,
    call_id=r".{1,40}",
    call_name=_PLAIN_NAME,
    not_in_names=r"[\s<|\\/>]",  # from the API's error message; not tried against the API
    blocks=block_types.OPENAI,
    cache_marks=0,
)
# Neighbours of one role are merged by the API itself. Models since Claude 4.6 refuse a list that
# ends with the assistant (a prefill); to prefill an older one, pass a custom profile.
_ANTHROPIC = LegalityProfile(
    "anthropic",
    ("anthropic",),
    ends_with_input=True,
    refuses_blank=True,
    drops_foreign_reasoning=True,
    strict_calls=True,
    call_id=_PLAIN_NAME,
    call_name=_PLAIN_NAME,
    blocks=block_types.ANTHROPIC,
    cache_marks=4,
)
# A function call comes directly after a user or function-response turn.
_GEMINI = LegalityProfile(
    "gemini",
    ("google",),
    alternates=True,
    ends_with_input=True,
    refuses_blank=True,
    drops_foreign_reasoning=True,
    strict_calls=True,
    call_name=r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}",
    blocks=block_types.GEMINI,
    cache_marks=0,
)
# Tool results are user turns there: a human message after them is part of that turn.
_BEDROCK = LegalityProfile(
    "bedrock",
    alternates=True,
    ends_with_input=True,
    refuses_blank=True,
    strict_calls=True,
    call_id=_PLAIN_NAME,
    call_name=_PLAIN_NAME,
    blocks=block_types.BEDROCK,
    cache_marks=4,
)
_MISTRAL = LegalityProfile(
    "mistral",
    ("mistral",),
    alternates=True,
    answers_results=True,
    ends_with_input=True,
    drops_foreign_reasoning=True,
    strict_calls=True,
    call_id=_PLAIN_NAME,
    call_name=_PLAIN_NAME,
    blocks=block_types.MISTRAL,
    cache_marks=0,
    one_text=True,
)
# Templates of local models: Llama, Gemma, Mistral under vLLM, llama.cpp, Ollama.
_STRICT = LegalityProfile(
    "strict",
    alternates=True,
    answers_results=True,
    ends_with_input=True,
    strict_calls=True,
    blocks=block_types.STRICT,
    cache_marks=0,
    one_text=True,
)

PROFILES = {
    profile.name: profile
    for profile in (COMMON, _OPENAI, _ANTHROPIC, _GEMINI, _BEDROCK, _MISTRAL, _STRICT)
}

# Parts of the names of providers and models, by the profile they need; the first match wins.
_SIGNS = (
    ("bedrock", re.compile(r"bedrock|^(?:us|eu|apac|global)\.(?:anthropic|amazon|meta|mistral)\.")),
    ("anthropic", re.compile(r"anthropic|claude")),
    ("gemini", re.compile(r"google|gemini|vertexai")),
    ("mistral", re.compile(r"mistral|mixtral|ministral|magistral|codestral|devstral")),
    ("openai", re.compile(r"openai|azure|^(?:chat)?gpt|^o[134]\b")),
    ("strict", re.compile(r"ollama|llama|vllm|huggingface|gemma|^chatlocal")),
)


def profile_named(legality: LegalityProfile | str) -> LegalityProfile:
    """Return the profile with that name, or the given profile.

    Raises:
        ConfigurationError: When there is no profile with that name.
    """
    if isinstance(legality, LegalityProfile):
        return legality
    if not isinstance(legality, str) or legality not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        raise ConfigurationError(f"legality is {legality!r}; known are auto, {known}.")
    return PROFILES[legality]


def profile_for(provider: str | None, name: str | None = None) -> LegalityProfile:
    """Return the profile for a provider, or for a model's name if the provider is unknown."""
    for sign in filter(None, (provider, name)):
        for profile, pattern in _SIGNS:
            if pattern.search(sign.lower()):
                return PROFILES[profile]
    return COMMON


def provider_of(model: Any) -> str | None:
    """Return a chat model's name for its provider, or its class if it has none.

    `_get_ls_params` is what LangChain's own tracing reads, and every integration provides it.
    """
    inner = unwrap_model(model)
    params = getattr(inner, "_get_ls_params", None)
    found = params().get("ls_provider") if callable(params) else None
    own = type(inner).__name__.lower()
    return found if found and profile_for(found) is not COMMON else own or None


def profile_of_model(model: Any) -> LegalityProfile:
    """Return the profile for a chat model."""
    name = model_name(model)
    profile = profile_for(provider_of(model), name)
    if profile is _OPENAI and "/" in (name or ""):
        # behind a gateway such as OpenRouter, whose other models accept marks for their caches
        return replace(profile, cache_marks=None)
    return profile


_SETTINGS = {"google": "max_output_tokens", "ollama": "num_predict"}
"""Name of the setting if it is not `max_tokens`, by a prefix of the provider's name."""

_OWN_SETTINGS = ("max_tokens", "max_output_tokens", "max_completion_tokens", "num_predict")
"""Fields in which chat models store the maximum with which they were created."""


def output_setting(
    model: Any, settings: Mapping[str, Any], left: int, name: str | Literal[True]
) -> dict[str, Any]:
    """Return model settings that limit the answer to `left` tokens.

    Args:
        model: The chat model; the maximum with which it was created, and `max_output_tokens` of its
            profile, apply if they are smaller.
        settings: Settings of the application; a smaller maximum in them applies.
        left: Tokens that the request leaves for the answer.
        name: Name of the setting, or True to choose it by the provider.
    """
    provider = provider_of(model) or ""
    by_provider = (own for begin, own in _SETTINGS.items() if provider.startswith(begin))
    key = name if isinstance(name, str) else next(by_provider, "max_tokens")
    inner = unwrap_model(model)
    own = (getattr(inner, field, None) for field in dict.fromkeys((key, *_OWN_SETTINGS)))
    known = (settings.get(key), limits_of_model(model).get("max_output_tokens"), *own)
    most = [value for value in known if type(value) is int and value > 0]
    return {**settings, key: max(1, min([left, *most]))}
