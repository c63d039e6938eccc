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
    """Return the modules, and their codes, of what `module -t avail` printed. EasyBuild and Spack call a code as
    Spack's package, the code itself or its folder is called; letters may be capital."""
    known: dict[str, str] = {}
    for code in codes.every():
        for name in (code.spack_package, code.name, code.room):
            if code.spack or code.package:
                known.setdefault(name.lower(), code.feature)
    found = []
    for line in printed.splitlines():
        module = re.sub(r'\(.*\)$|<.*>$', '', line.strip())       # (default), (D), <L>
        if module.endswith((':', '/')):                 # a folder of modules, or of versions
            continue
        name = module.rpartition('/')[0] or module
        feature = known.get(name.rpartition('/')[2].lower(), '')
        if feature:
            found.append((module, feature))
    return sorted(set(found))
