"""Conversation memory by token budget, for LangChain chains and LangGraph graphs and agents.

More names are in `counting`, `errors`, `events`, `graphs`, `modes`, `notes`, `recall`,
`summarizers`, `tools` and `types`. Names load on first use, so that importing the package stays
light.
"""

from langchain_tokenmem._lazy import loader

__getattr__, __dir__, __all__ = loader(__name__, __file__)
