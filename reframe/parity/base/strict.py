"""Models that take no unknown key and never change.

A file whose models `reframe -r` loads has no `from __future__ import annotations`: pydantic would compile each
annotation again."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict

Model = TypeVar('Model', bound=BaseModel)


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra='forbid', defer_build=True)
