"""The pages people look at: rendered here, readable without JavaScript."""
