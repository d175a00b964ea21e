"""`Recall`: search over words and meaning, within a scope."""

from __future__ import annotations
