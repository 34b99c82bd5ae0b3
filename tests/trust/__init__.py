"""Tests of trust: what a hostile collection may not do, and what is secret (docs/design/trust.md)."""
