"""For users of other systems: their commands, their frontiers, their forms of documents."""
