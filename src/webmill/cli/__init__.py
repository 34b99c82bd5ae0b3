"""The `webmill` command."""


def main() -> None:
    """Replaced by the click group in the next commit."""
