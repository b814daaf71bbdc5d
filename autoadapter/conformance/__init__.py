"""Which architectures of transformers are served right, and by which route: proven one by one."""

from autoadapter.conformance.record import Attempt, Row, Status
from autoadapter.conformance.sweep import ROUTE_CHOICES, RouteChoice, SweepRequest, SweepResult, sweep

__all__ = ["ROUTE_CHOICES", "Attempt", "RouteChoice", "Row", "Status", "SweepRequest", "SweepResult", "sweep"]
