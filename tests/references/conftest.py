"""Fixtures of this folder."""

from tests.aws.amazon import amazon, aws_clients

__all__ = ["amazon", "aws_clients"]
