"""`python -m webmill`."""

from webmill.cli.entry import main

main()
