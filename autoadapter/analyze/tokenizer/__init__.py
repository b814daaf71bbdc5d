"""Tokenizer files of every common kind, read as data."""
