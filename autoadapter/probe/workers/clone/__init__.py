"""Tiny clones: every width small, every path exercised, random weights that let no error hide."""
