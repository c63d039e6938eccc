"""The base of parity's data: a model that never changes and takes no unknown key."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid', defer_build=True)
