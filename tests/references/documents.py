"""Which how-to shows the claims of which document."""

DOCUMENTS: dict[str, str] = {}
