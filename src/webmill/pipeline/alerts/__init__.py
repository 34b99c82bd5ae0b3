"""Tells people and programs what changed: rules choose changes of new versions, an outbox keeps them until delivered.

    versions ─▶ changes ─▶ rules ─▶ digests ─▶ outbox of the target ─▶ webhook, mail, chat
                                    └────── one SQLite file ──────┘

Promises. A change that a rule chooses is told at least once: how far a target has been told, what waits for its digest
and what waits to be sent change in one transaction of the target's file, and a message leaves it when the other side
has taken it over. A message that is sent twice, after a kill, has the same id and the same body. The messages of a
target are sent in order: one that fails holds the others back until it is given up, and is then a dead letter.
"""
