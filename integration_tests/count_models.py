"""Chat models of LangChain's integrations, as they are installed, in front of a local server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

# Else the import of LiteLLM fetches a list of prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


def anthropic(url: str) -> Any:
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model="claude-sonnet-4-5", base_url=url, api_key="none", max_retries=0)


def google(url: str) -> Any:
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(model="gemini-2.5-flash", base_url=url, api_key="none")


def google_vertex_mode(url: str) -> Any:
    from google.auth.credentials import AnonymousCredentials
    from langchain_google_genai import ChatGoogleGenerativeAI

    return ChatGoogleGenerativeAI(
        model="gemini-2.5-flash",
        base_url=url,
        vertexai=True,
        project="p",
        location="us-central1",
        credentials=_signed(AnonymousCredentials()),
    )


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


def bedrock_without_endpoint(url: str) -> Any:
    from langchain_aws import ChatBedrockConverse

    return ChatBedrockConverse(model="amazon.nova-pro-v1:0", **_aws(url))


def anthropic_bedrock(url: str) -> Any:
    from langchain_aws import ChatAnthropicBedrock

    own = {name: value for name, value in _aws(url).items() if name.startswith("aws_")}
    return ChatAnthropicBedrock(
        model="us.anthropic.claude-sonnet-4-20250514-v1:0",
        region_name="us-east-1",
        base_url=url,
        **own,
    )


def mistral(url: str) -> Any:
    from langchain_mistralai import ChatMistralAI

    return ChatMistralAI(model="mistral-large-latest", endpoint=url, api_key="none")


def litellm(url: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from langchain_litellm import ChatLiteLLM

        return ChatLiteLLM(model="anthropic/claude-sonnet-4-5", api_base=url, api_key="none")


def openai(url: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="gpt-4o", base_url=url, api_key="none")


def openai_compatible(url: str) -> Any:
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model="my-llama-deployment", base_url=url, api_key="none")


def _signed(credentials: Any) -> Any:
    credentials.token = "none"  # noqa: S105  of nobody
    return credentials


def _aws(url: str) -> dict[str, Any]:
    from botocore.config import Config

    return {
        "endpoint_url": url,
        "region_name": "us-east-1",
        "aws_access_key_id": "none",
        "aws_secret_access_key": "none",
        "config": Config(retries={"total_max_attempts": 1}),
    }


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
    "ChatBedrockConverse of Nova": bedrock_without_endpoint,
    "ChatAnthropicBedrock": anthropic_bedrock,
    "ChatMistralAI": mistral,
    "ChatLiteLLM": litellm,
    "ChatOpenAI": openai,
    "ChatOpenAI, another server": openai_compatible,
}
"""Integrations without one."""
