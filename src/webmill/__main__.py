"""`python -m webmill`."""

from webmill.cli.main import main

main()
