"""Has mkdocstrings show the examples of docstrings as code: Griffe expects `Examples:`."""

from __future__ import annotations

from typing import Any

from griffe import Extension, Object


class Examples(Extension):
    """Renames the section `Example:` of each docstring."""

    def on_object(self, *, obj: Object, **_context: Any) -> None:
        """Rename it in one docstring."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
