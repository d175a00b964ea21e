"""The network is blocked in every test."""

from __future__ import annotations

import socket

import pytest
from pytest_socket import SocketBlockedError


def test_a_socket_cannot_be_made():
    with pytest.raises(SocketBlockedError):
        socket.socket(socket.AF_INET, socket.SOCK_STREAM)
