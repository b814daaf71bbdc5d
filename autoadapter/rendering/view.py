"""A template's input: one frozen dataclass a template, named by the class."""

from typing import ClassVar, Protocol


class View(Protocol):
    """A class that names its template; its fields and properties are what the template may use."""

    template: ClassVar[str]
    """Path under `templates/`, equal to the output path plus `.j2`."""
