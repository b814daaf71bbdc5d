"""Tiny clones: every width small, every path exercised, random weights that let no error hide."""

from autoadapter.probe.workers.clone.conformance import class_default_config
from autoadapter.probe.workers.clone.loading import open_clone, probe_ids
from autoadapter.probe.workers.clone.making import CloneReport, make_clone

__all__ = ["CloneReport", "class_default_config", "make_clone", "open_clone", "probe_ids"]
