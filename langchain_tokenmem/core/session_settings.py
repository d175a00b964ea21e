"""Settings of one session or one user, which take precedence over those of the memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from typing_extensions import TypedDict

from langchain_tokenmem.core.argument_checks import as_budget, described
from langchain_tokenmem.core.budget import TokenBudget
from langchain_tokenmem.errors import ConfigurationError


class ScopedSettings(TypedDict, total=False):
    """Keywords of `set_settings`; omitted ones stay unchanged, None resets a setting.

    Attributes:
        budget: A `TokenBudget`, or a window in tokens.
        mode: Name of a mode; empty for no mode.
        summarizer: Name of the model for summaries, `provider:model`, or `extractive`.
        enabled: False for no summaries, recall, notes or mode.
    """

    budget: TokenBudget | int | None
    mode: str | None
    summarizer: str | None
    enabled: bool | None


@dataclass(frozen=True)
class SessionSettings:
    """Settings of a session or a user; None falls back to the user's, then the memory's setting.

    Attributes:
        budget: The budget.
        mode: Name of the mode; empty for none.
        summarizer: Name of the summarizer.
        enabled: False if the memory is off.

    Raises:
        ConfigurationError: When a value is of another type.
    """

    budget: TokenBudget | None = None
    mode: str | None = None
    summarizer: str | None = None
    enabled: bool | None = None

    def __post_init__(self) -> None:
        for name, kind in (("mode", str), ("summarizer", str), ("enabled", bool)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                belongs = "True or False" if kind is bool else "a name"
                raise ConfigurationError(f"{name} is {described(value)}; pass {belongs}.")
        if self.summarizer is not None and not self.summarizer.strip():
            raise ConfigurationError('summarizer is empty; "extractive" needs no model.')

    def changed(self, given: Mapping[str, Any]) -> SessionSettings:
        """Return these settings updated with the given ones; keys as in `ScopedSettings`.

        Raises:
            ConfigurationError: When there is no such setting, or a value is invalid.
        """
        held = vars(self)
        if unknown := [name for name in given if name not in held]:
            raise ConfigurationError(
                f"A session and a user have no setting {', '.join(unknown)}; they have "
                f"{', '.join(held)}."
            )
        changed = {**held, **given}
        return SessionSettings(**{**changed, "budget": as_budget(changed["budget"])})

    def over(self, other: SessionSettings) -> SessionSettings:
        """Return these settings, with missing ones from the other settings."""
        return other.changed(self._given())

    def _given(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value is not None}

    def stored(self) -> dict[str, Any] | None:
        """Return the stored form, plain JSON; None if there are no settings."""
        given = self._given()
        if self.budget is not None:
            given["budget"] = asdict(self.budget)
        return given or None

    @classmethod
    def loaded(cls, stored: Mapping[str, Any] | None) -> SessionSettings:
        """Return the settings from their stored form."""
        given = dict(stored or {})
        if "budget" in given:
            given["budget"] = TokenBudget.loaded(given["budget"])
        return cls(**given)
