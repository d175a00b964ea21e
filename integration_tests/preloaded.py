"""What forks need, imported once, in the process that is forked."""

import chromadb  # noqa: F401
import pytest  # noqa: F401
from langchain_core.messages import HumanMessage

import langchain_tokenmem.adapters.agents  # noqa: F401
import tests.contract.chats  # noqa: F401
from langchain_tokenmem.counting import counter_for

counter_for(None).count([HumanMessage("The vocabulary takes half a second.")])
