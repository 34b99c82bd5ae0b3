"""What a collection answers to agents, by the Model Context Protocol: tools and resources, over stdio and HTTP."""
