"""The nouns that travel between rooms. Small, frozen, exact."""
