# The names of the package, for type checkers and for `_lazy.loader`.
from langchain_tokenmem.recall.chroma import ChromaIndex as ChromaIndex
from langchain_tokenmem.recall.embeddings import HashingEmbeddings as HashingEmbeddings
from langchain_tokenmem.recall.vector_store import VectorStoreIndex as VectorStoreIndex
from langchain_tokenmem.recall.words import LexicalIndex as LexicalIndex
