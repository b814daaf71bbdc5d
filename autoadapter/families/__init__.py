"""What a checkpoint cannot state: parser names, known-bad kernels. Each row has a why and a source."""

from autoadapter.families.loader import FamilySetting, families, settings_for

__all__ = ["FamilySetting", "families", "settings_for"]
