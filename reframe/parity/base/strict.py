"""The base of parity's data: a model that never changes and takes no unknown key."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

Model = TypeVar('Model', bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid')
