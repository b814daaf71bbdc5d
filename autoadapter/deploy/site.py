"""Facts of the place a bundle is for, which AutoAdapter cannot know."""

import ipaddress
import re

from pydantic import field_validator

from autoadapter.artifacts import Frozen
from autoadapter.errors import UserError

IMAGE = re.compile(
    r"(?:[A-Za-z0-9.-]+(?::[0-9]+)?/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?",
    re.ASCII,
)
"""A container image reference. Source: distribution/reference grammar, digest algorithm narrowed to sha256."""
DNS_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
"""RFC 1123 label, as Kubernetes wants names."""
LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""A Kubernetes label value."""


class Site(Frozen):
    """Where the bundle will run. Every field has a default that works on one machine."""

    image: str | None = None
    """Container image, best by digest (`name@sha256:…`); None takes vLLM's official image of the plan's version."""
    host: str = "127.0.0.1"
    """IPv4 interface that the local and the compose server listen on."""
    port: int = 8000
    namespace: str = "default"
    replicas: int = 1
    weights_pvc: str | None = None
    """PersistentVolumeClaim with the weights; None names it after the model."""
    gpu_product: str | None = None
    """Node label `nvidia.com/gpu.product` to ask for."""
    runtime_class: str | None = None
    api_key_secret: str | None = None
    """Name of a Kubernetes Secret with key `api-key`; never the key itself."""
    cpus: int | None = None
    """CPU cores to request; None computes them from the layout."""

    @field_validator("image")
    @classmethod
    def _image(cls, value: str | None) -> str | None:
        hint = "Example: --image vllm/vllm-openai@sha256:<64 hex digits>"
        return _matching(IMAGE, value, "a container image reference", hint)

    @field_validator("namespace", "weights_pvc", "runtime_class", "api_key_secret")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        hint = "Use lower-case letters, digits and dashes, at most 63."
        return _matching(DNS_LABEL, value, "a Kubernetes name", hint)

    @field_validator("gpu_product")
    @classmethod
    def _label(cls, value: str | None) -> str | None:
        return _matching(LABEL_VALUE, value, "a Kubernetes label value", "Example: NVIDIA-H200")

    @field_validator("port")
    @classmethod
    def _port(cls, value: int) -> int:
        return check_port(value)

    @field_validator("host")
    @classmethod
    def _host(cls, value: str) -> str:
        return check_host(value)

    @field_validator("replicas", "cpus")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise UserError(f"{value} makes no sense as a number of replicas or cores.", hint="Use 1 or more.")
        return value


def check_port(port: int) -> int:
    """The port, if it is one.

    Raises:
        UserError: outside 1..65535.
    """
    if not 1 <= port <= 65535:
        raise UserError(f"{port} is not a port.", hint="Choose one from 1 to 65535: --port 8000")
    return port


def check_host(host: str) -> str:
    """The interface, if it is an IPv4 address or `localhost`.

    Raises:
        UserError: anything else.
    """
    if host == "localhost":
        return host
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        raise UserError(f"{host!r} is not an IPv4 address of an interface.", hint="--host 127.0.0.1") from None
    return host


def _matching(pattern: re.Pattern[str], value: str | None, what: str, hint: str) -> str | None:
    if value is not None and not pattern.fullmatch(value):
        raise UserError(f"{value!r} is not {what}.", hint=hint)
    return value
