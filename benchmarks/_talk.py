"""Talk without meaning for benchmarks of speed: words by Zipf's law, some of them rare."""

from __future__ import annotations

import random

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

VOCABULARY = 30_000
"""About the words that a person uses in years of talk."""

STOP_WORDS = 120
"""Number of the commonest words that say nothing, as in English."""

_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "il")]


class Talk:
    """Makes messages and questions; the same seed always says the same.

    Args:
        seed: Of its words.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        spelling = random.Random(0)
        words: dict[str, None] = {}
        while len(words) < VOCABULARY:
            words["".join(spelling.choices(_SYLLABLES, k=spelling.randint(2, 4)))] = None
        self._words = list(words)
        weights = [1 / (rank + 2.7) for rank in range(VOCABULARY)]  # Zipf-Mandelbrot
        self._steps = [0.0]
        for weight in weights:
            self._steps.append(self._steps[-1] + weight)
        self._steps.pop(0)

    def words(self, count: int) -> list[str]:
        """Return words, the common ones often."""
        return self._random.choices(self._words, cum_weights=self._steps, k=count)

    def message(self, number: int, *, words: int = 25) -> BaseMessage:
        """Return a message of about `words` words."""
        text = " ".join(self.words(self._random.randint(words // 2, words * 3 // 2)))
        return (HumanMessage if number % 2 == 0 else AIMessage)(f"{text}.", id=f"m{number}")

    def question(self, *, words: int = 6) -> str:
        """Return a question; the commonest words are left out, as an analyser does."""
        common = frozenset(self._words[:STOP_WORDS])
        found = [word for word in self.words(words * 10) if word not in common]
        return " ".join(found[:words]) + "?"
