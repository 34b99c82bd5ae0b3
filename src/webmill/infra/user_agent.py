"""The User-Agent that we send to other people's servers."""

from __future__ import annotations

from webmill import __version__


def user_agent(contact: str, *, purpose: str = "") -> str:
    """Return the name that we go by: who asks, and what for."""
    about = [*([f"+{contact}"] if contact else []), *([f"purpose={purpose}"] if purpose else [])]
    return f"webmill/{__version__}" + (f" ({'; '.join(about)})" if about else "")
