"""A whole collection at a glance: what each stage has made, what is due, what went wrong.

    seen = look(root, Wishes(...), open_engine=...)

Everything is read and nothing is made: no file, no lock that anybody would meet, no scan of data. The cost has a bound
whatever the size: folders are listed up to a number of files, and what was not counted to its end says so. A part that
is damaged becomes a `Problem`, and the others are told.
"""

from webmill.pipeline.status.look import crawl_states, look, unfinished, wishes_of
from webmill.pipeline.status.nouns import Due, Look, Problem, Wishes

__all__ = ["Due", "Look", "Problem", "Wishes", "crawl_states", "look", "unfinished", "wishes_of"]
