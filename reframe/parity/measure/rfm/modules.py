"""ReFrame's names of module systems."""

from __future__ import annotations

from reframe.core import modules


def name(modules_system: str) -> str:
    """Return the name that this ReFrame has for a module system. 4.9 calls Environment Modules tmod4."""
    older = modules_system == 'envmod' and not hasattr(modules, 'EnvModulesImpl')
    return 'tmod4' if older else modules_system
