"""Candidates for every axis of a decoder, and the search for the one that reproduces what was seen."""
