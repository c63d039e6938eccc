"""A site's own configuration of ReFrame, checked by ReFrame itself."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from reframe.core.config import load_config
from reframe.core.exceptions import ReframeError

from parity.base import reasons
from parity.base.errors import UsageError
from parity.site import reframe_config, systems
from parity.site.systems import System

#: General options that parity sets: where checks and results are.
_OURS = {'check_search_path', 'check_search_recursive', 'colorize', 'report_file', 'topology_prefix'}


@dataclass(frozen=True)
class SiteConfig:
    """The parts of a site's configuration that parity takes, in ReFrame's form."""

    system: dict[str, Any]
    environments: list[dict[str, Any]]
    general: list[dict[str, Any]]       # for this system alone
    modes: list[dict[str, Any]]

    @property
    def environs(self) -> list[str]:
        """The names of the environments that the partitions use."""
        names: dict[str, None] = {}
        for partition in self.system['partitions']:
            names |= dict.fromkeys(partition.get('environs', ()))
        return list(names)


@functools.cache
def _read(file, name: str, where: str) -> SiteConfig:
    stated = reframe_config.site_configuration(file)
    config = load_config()
    config.update_config(stated, str(file))
    try:
        config.validate()
        config.select_subconfig(name)
    except ReframeError as err:
        why = reasons.cut(_reason(err))
        raise UsageError(f'{where}: reframe_config: {file}: ReFrame refuses it: {why}') from None
    own, = (system for system in stated['systems'] if system['name'] == name)
    return SiteConfig(own, stated.get('environments', []), _general(name, stated.get('general', [])),
                      stated.get('modes', []))


def _reason(err: ReframeError) -> str:
    """Return the entry that breaks ReFrame's schema, and why; its own words on any other fault."""
    broken = err.__cause__
    if hasattr(broken, 'absolute_path'):
        return f'{"/".join(map(str, broken.absolute_path))}: {broken.message}'
    return str(err)


def read(system: System) -> SiteConfig:
    """Return the configuration that a system names. UsageError with ReFrame's words where it refuses the file."""
    return _read(system.reframe_file, system.name, systems.line(system.name, ('reframe_config',)))


def _general(name: str, stated: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the site's general options of one system, without those that parity sets."""
    general = []
    for options in stated:
        targets = [name if target == '*' else target for target in options.get('target_systems', ['*'])]
        if any(target.partition(':')[0] == name for target in targets):
            kept = {key: value for key, value in options.items() if key not in _OURS}
            general.append({**kept, 'target_systems': targets})
    return general
