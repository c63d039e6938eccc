"""The modules of a login node that bring codes, by their names, such as NAME/VERSION-TOOLCHAIN."""

from __future__ import annotations

import os
import re
import subprocess

from parity.base import codes

#: A login shell on a large site reads much before it answers.
_SECONDS = 60.0


def listed() -> list[tuple[str, str]]:
    """Return the modules that a login shell of this node can load and that bring a code, each with the code; none
    where this shell has no module system, which system.yaml would name."""
    if not {'LMOD_CMD', 'MODULES_CMD'} & os.environ.keys():
        return []
    try:
        asked = subprocess.run(['bash', '-lc', 'module -t avail 2>&1'], stdin=subprocess.DEVNULL, text=True,
                               errors='replace', capture_output=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return of_codes(asked.stdout)


def of_codes(printed: str) -> list[tuple[str, str]]:
    """Return the modules, and their codes, of what `module -t avail` printed."""
    feature_of = _features_by_name()
    modules = set()
    for line in printed.splitlines():
        module = re.sub(r'\(.*\)$|<.*>$', '', line.strip())       # (default), (D), <L>
        if module.endswith((':', '/')):                 # a folder of modules, or of versions
            continue
        path = module.rpartition('/')[0] or module
        name = path.rpartition('/')[2].lower()
        if name in feature_of:
            modules.add((module, feature_of[name]))
    return sorted(modules)


def _features_by_name() -> dict[str, str]:
    """Return the codes by the names of their modules, in small letters: EasyBuild and Spack call a code as Spack's
    package, the code itself or its folder is called."""
    feature_of: dict[str, str] = {}
    for code in codes.every():
        if code.spack or code.package:
            for name in (code.spack_package, code.name, code.room):
                feature_of.setdefault(name.lower(), code.feature)
    return feature_of
