# The names of the package, for type checkers and for `_lazy.loader`.
from langchain_tokenmem.adapters.agents.middleware import (
    TokenMemoryMiddleware as TokenMemoryMiddleware,
)
from langchain_tokenmem.adapters.chains.history import (
    TokenMemoryChatHistory as TokenMemoryChatHistory,
)
from langchain_tokenmem.adapters.chains.runnable import with_token_memory as with_token_memory
from langchain_tokenmem.adapters.checkpoints.saver import TokenMemorySaver as TokenMemorySaver
from langchain_tokenmem.adapters.graphs.memory_nodes import (
    MemoryMessagesState as MemoryMessagesState,
)
from langchain_tokenmem.adapters.graphs.memory_nodes import memory_input as memory_input
from langchain_tokenmem.adapters.graphs.memory_nodes import memory_nodes as memory_nodes
from langchain_tokenmem.adapters.graphs.nodes import CompactNode as CompactNode
from langchain_tokenmem.adapters.graphs.nodes import MemoryNode as MemoryNode
from langchain_tokenmem.adapters.graphs.nodes import RecallNode as RecallNode
from langchain_tokenmem.adapters.graphs.nodes import SummarizeNode as SummarizeNode
from langchain_tokenmem.adapters.memory_tools import memory_tools as memory_tools
from langchain_tokenmem.adapters.retriever import TranscriptRetriever as TranscriptRetriever
from langchain_tokenmem.core.budget import TokenBudget as TokenBudget
from langchain_tokenmem.memory.token_memory import TokenMemory as TokenMemory
from langchain_tokenmem.notes.notebook import Notebook as Notebook
from langchain_tokenmem.recall.recall import Recall as Recall
from langchain_tokenmem.settings.token_memory_settings import (
    TokenMemorySettings as TokenMemorySettings,
)
from langchain_tokenmem.storage.transcript_store import TranscriptStore as TranscriptStore
