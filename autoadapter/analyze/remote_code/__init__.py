"""Code that a checkpoint brings along, read as a syntax tree. Nothing of it is imported or run."""
