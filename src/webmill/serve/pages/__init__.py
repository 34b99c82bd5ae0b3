"""The web pages for people: rendered on the server, usable without JavaScript."""
