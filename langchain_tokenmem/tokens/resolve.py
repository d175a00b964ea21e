"""Selection of the token counter that fits a model."""

from __future__ import annotations

import functools
import logging
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_tokenmem.core.chat_models import NAME_START, model_name, models_of
from langchain_tokenmem.tokens.counters import TiktokenCounter
from langchain_tokenmem.tokens.encodings import find_encoding

if TYPE_CHECKING:
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.runnables import Runnable

    from langchain_tokenmem.tokens.counters import TokenCounter
    from langchain_tokenmem.tokens.media import ImageRule

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Family:
    """Models that count alike.

    Attributes:
        names: What their names begin with, after provider prefixes.
        encoding: The vocabulary to count with.
        accuracy: Relative error of a text's count; 0.0 where the vocabulary is their own.
        scale: Factor on every text's count.
        image_rule: Formula that counts images.
    """

    names: str
    encoding: str = "o200k_base"
    accuracy: float = 0.0
    scale: float = 1.0
    image_rule: ImageRule = "largest"


# First match wins. OpenAI's vocabularies: tiktoken/model.py (gpt-oss's o200k_harmony has o200k's
# ranks, other special tokens). The factors of the others are on the safe side of published
# comparisons: Claude has 16 % more tokens than GPT-4o for English and 30 % for Python (VentureBeat,
# "Hidden costs in AI deployment", May 2025); Llama 3, Qwen, DeepSeek and Mistral have vocabularies
# of 128k to 152k entries, about cl100k's, and are coarser outside English.
_FAMILIES = (
    _Family(r"(?:chat)?gpt-4o|gpt-4\.[15]|gpt-5|o[134]\b|codex", image_rule="openai"),
    _Family(r"gpt-oss"),
    _Family(r"gpt-4|gpt-3\.?5|text-embedding", "cl100k_base", image_rule="openai"),
    _Family(r"claude", accuracy=0.25, scale=1.3, image_rule="anthropic"),
    _Family(r"gemini|gemma", accuracy=0.20, scale=1.1, image_rule="gemini"),
    _Family(
        r"(?:meta-|codel)?llama|mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|"
        r"qwen|qwq|deepseek|grok|command|glm|kimi|phi|nova",
        accuracy=0.25,
        scale=1.15,
    ),
)
_DEFAULT = _Family("")
_UNKNOWN = _Family("", accuracy=0.25)


def counter_for(
    model: BaseLanguageModel[Any] | Runnable[Any, Any] | str | None = None,
    *,
    nameless: str | None = None,
) -> TokenCounter:
    """Return the counter of a model.

    OpenAI's models are counted exactly with their own vocabulary, models of other vendors with
    o200k_base times a factor on the safe side, and unknown models with plain o200k_base, both as
    estimates. If a call may reach models of several vocabularies (`with_fallbacks`), the one with
    the most tokens is used, as an estimate. The first call reads the vocabulary (about half a
    second, blocking); equal names share one counter and its cache.

    Args:
        model: A chat model, also inside bindings, fallbacks or a sequence, or a model's name; None
            for exact counts of o200k_base.
        nameless: Name of the model whose vocabulary is used, as an estimate, for a chat model
            without a name.

    Returns:
        The counter.

    Example:
        >>> counter_for("gpt-4o").method
        'exact'
    """
    if model is None:
        return _counter(_DEFAULT)
    if isinstance(model, str):
        return _counter(_family_of(model))
    families = {_family_of_model(one, nameless) for one in models_of(model)}
    family = max(families, key=lambda one: (one.scale, one.encoding == "cl100k_base", one.accuracy))
    if len({(one.encoding, one.scale, bool(one.accuracy)) for one in families}) > 1:
        family = _as_estimate(family)
    return _counter(family)


def _family_of_model(model: Any, nameless: str | None) -> _Family:
    name = model_name(model)
    if name:
        return _family_of(name)
    return _as_estimate(_family_of(nameless)) if nameless else _UNKNOWN


def _as_estimate(family: _Family) -> _Family:
    return replace(family, accuracy=max(family.accuracy, _UNKNOWN.accuracy))


@functools.lru_cache(maxsize=256)
def _family_of(name: str) -> _Family:
    for family in _FAMILIES:
        if re.search(f"{NAME_START}(?:{family.names})", name.lower()):
            return family
    logger.warning(
        "The vocabulary of model %r is not known: its tokens are estimated from o200k_base. "
        "Pass counter= for exact numbers.",
        name,
    )
    return _UNKNOWN


@functools.cache
def _counter(family: _Family) -> TokenCounter:
    return TiktokenCounter(
        find_encoding(family.encoding),
        accuracy=family.accuracy,
        scale=family.scale,
        image_rule=family.image_rule,
    )
