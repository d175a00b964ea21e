# The names of the package, for type checkers and for `_lazy.loader`.
from langchain_tokenmem.notes.json_store import JsonStore as JsonStore
from langchain_tokenmem.notes.note import Note as Note
from langchain_tokenmem.notes.sql_store import SqlStore as SqlStore
