"""Notes that are kept deliberately, and stores for them."""

from langchain_tokenmem._lazy import loader

__getattr__, __dir__, __all__ = loader(__name__, __file__)
