"""A read-only MCP server: an assistant's way to the engine's answers about recordings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

from profiling_lab import needs
from profiling_lab.assistants import answers
from profiling_lab.errors import LabError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

INSTRUCTIONS = (
    "Answers about recordings of GPU programs (Nsight Systems as SQLite, PyTorch traces, Nsight Compute pages as CSV). "
    "Begin with verdict; say the headline, its share, and what the verdict lacks. State no cause that is not in an "
    f"answer. {answers.NOTICE} {answers.TUTOR}"
)


def build(places: Iterable[str]) -> MCPServer:
    """The server for what the user pointed to. Raises LabError where the SDK is not installed."""
    sdk, exceptions = (
        needs.module("mcp.server.mcpserver"),
        needs.module("mcp.server.mcpserver.exceptions"),
    )
    types = needs.module("mcp.types")
    allowed = answers.Allowed(places)
    server = sdk.MCPServer("gpu-profiling-lab", instructions=INSTRUCTIONS, log_level="WARNING")
    reads = types.ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )

    def tool(function: Any) -> Any:
        return server.tool(annotations=reads, structured_output=False)(function)

    def said(answer: Any, *given: Any) -> str:
        try:
            return json.dumps(answer(allowed, *given), ensure_ascii=False)
        except LabError as error:
            raise exceptions.ToolError(str(error)) from None

    @tool
    def recordings() -> str:
        """The recordings that the user pointed to, with their kinds."""
        return said(answers.recordings)

    @tool
    def verdict(file: str, nvtx_range: str = "") -> str:
        """What is wrong with the recorded program, how much of the time it costs, and what to do first.

        With the findings' evidence, and what the recording lacks. nvtx_range: look at the ranges of this name only.
        """
        return said(answers.verdict, file, nvtx_range)

    @tool
    def where_the_time_went(file: str, nvtx_range: str = "") -> str:
        """Two tables: every ns of each device's window in one class; what would be saved without each cause."""
        return said(answers.where_the_time_went, file, nvtx_range)

    @tool
    def top(
        file: str,
        what: Literal[
            "kernels", "operators", "shapes", "modules", "functions", "ranges", "steps"
        ] = "kernels",
        count: int = 10,
    ) -> str:
        """What took most time by name: total, count, mean and share; shapes with TFLOP/s and TB/s beside the roof."""
        return said(answers.top, file, what, count)

    @tool
    def compare(before: str, after: str) -> str:
        """Two recordings of the same work, before and after a change: faster or slower, and what changed most."""
        return said(answers.compare, before, after)

    @tool
    def events(file: str, start_ns: int, end_ns: int, count: int = 20) -> str:
        """What ran between two moments (ns from the window's start), on devices and on the host, longest first."""
        return said(answers.events, file, start_ns, end_ns, count)

    return server
