"""The User-Agent that we send to other people's servers."""

from __future__ import annotations

from webmill import __version__


def user_agent(contact: str) -> str:
    return f"webmill/{__version__}" + (f" (+{contact})" if contact else "")
