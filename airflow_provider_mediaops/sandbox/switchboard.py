"""The switchboard: arm faults, pin the CPU, show the requests and the bulletins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, HTTPException, Query

from airflow_provider_mediaops.sandbox.cluster.nodes import NODES, CpuPin
from airflow_provider_mediaops.sandbox.faults import Fault
from airflow_provider_mediaops.sandbox.services import Service
from airflow_provider_mediaops.sandbox.state import RequestRecord, Sandbox

router = APIRouter(prefix="/_sandbox", tags=["switchboard"])


@router.post("/faults", status_code=201)
async def arm_fault(fault: Annotated[Fault, Body(discriminator="kind")], sandbox: Sandbox) -> list[Fault]:
    """Arm a fault. It befalls the next requests that match, after those armed before it."""
    sandbox.faults.arm(fault)
    return sandbox.faults.armed


@router.get("/faults")
async def armed_faults(sandbox: Sandbox) -> list[Fault]:
    """Show the armed faults, with what is left of their counts."""
    return sandbox.faults.armed


@router.delete("/faults", status_code=204)
async def disarm_faults(sandbox: Sandbox) -> None:
    """Disarm all faults."""
    sandbox.faults.clear()


@router.post("/cpu", status_code=201)
async def pin_cpu(pin: CpuPin, sandbox: Sandbox) -> list[CpuPin]:
    """Pin the CPU of one node, or of all."""
    if not sandbox.cluster.pin(pin):
        raise HTTPException(404, f"There is no node {pin.node!r}; there are {', '.join(node.name for node in NODES)}.")
    return sandbox.cluster.pins


@router.get("/cpu")
async def pinned_cpu(sandbox: Sandbox) -> list[CpuPin]:
    """Show which nodes' CPU is pinned."""
    return sandbox.cluster.pins


@router.delete("/cpu", status_code=204)
async def unpin_cpu(sandbox: Sandbox) -> None:
    """Unpin the CPU of all nodes: it rises and falls again."""
    sandbox.cluster.unpin()


@router.get("/requests")
async def seen_requests(
    sandbox: Sandbox, service: Annotated[Service | None, Query(description="Only this service's.")] = None
) -> list[RequestRecord]:
    """Show the last 10,000 requests to the services, oldest first, without secrets."""
    return [record for record in sandbox.requests if service in (None, record.service)]


@router.delete("/requests", status_code=204)
async def forget_requests(sandbox: Sandbox) -> None:
    """Forget the requests seen so far."""
    sandbox.requests.clear()


@router.get("/bulletins")
async def posted_bulletins(sandbox: Sandbox) -> list[dict[str, Any]]:
    """Show the bulletins that were posted, oldest first."""
    return sandbox.bulletins
