"""Chat models of LangChain's integrations, as they are installed, in front of a local server."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any


def anthropic(url: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="claude-sonnet-4-5", base_url=url, api_key="none", max_retries=0)


def google(url: str, **mode: Any) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    given = {"model": "gemini-2.5-flash", "base_url": url, "api_key": "none", **mode}
    return ChatGoogleGenerativeAI(**{key: one for key, one in given.items() if one is not None})


def google_vertex_mode(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials

    credentials: Any = AnonymousCredentials()
    credentials.token = "none"  # noqa: S105  no one's
    place = {"vertexai": True, "project": "p", "location": "us-central1"}
    return google(url, api_key=None, credentials=credentials, **place)


def vertex(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_google_vertexai import ChatVertexAI

        return ChatVertexAI(
            model="gemini-2.5-flash",
            project="p",
            location="us-central1",
            credentials=AnonymousCredentials(),
            api_transport="rest",
            api_endpoint=url,
            max_retries=1,
        )


def bedrock_converse(url: str) -> Any:
    from langchain_aws import ChatBedrockConverse

    return ChatBedrockConverse(model="anthropic.claude-sonnet-4-20250514-v1:0", **_aws(url))


def bedrock(url: str) -> Any:
    from langchain_aws import ChatBedrock

    return ChatBedrock(model="us.anthropic.claude-sonnet-4-20250514-v1:0", **_aws(url))


def _aws(url: str) -> dict[str, Any]:
    from botocore.config import Config

    return {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "none",
        "config": Config(retries={"total_max_attempts": 1}),
    }


def mistral(url: str) -> Any:
    from langchain_mistralai import ChatMistralAI

    return ChatMistralAI(model="mistral-large-latest", endpoint=url, api_key="none")


def openai(url: str, model: str = "gpt-4o") -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=model, base_url=url, api_key="none")


Make = Callable[[str], Any]

ASKED: dict[str, Make] = {
    "ChatAnthropic": anthropic,
    "ChatGoogleGenerativeAI": google,
    "ChatGoogleGenerativeAI, Vertex mode": google_vertex_mode,
    "ChatVertexAI": vertex,
    "ChatBedrockConverse": bedrock_converse,
    "ChatBedrock": bedrock,
}
"""Integrations with an endpoint that counts."""

NOT_ASKED: dict[str, Make] = {
    "ChatMistralAI": mistral,
    "ChatOpenAI": openai,
    "ChatOpenAI, another server": lambda url: openai(url, "my-llama-deployment"),
}
"""Integrations without one."""
