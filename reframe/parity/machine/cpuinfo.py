"""Read /proc and /sys below a root, where anything may be missing; /proc/cpuinfo and the microarchitecture."""

from __future__ import annotations

import os
import platform
import warnings
from pathlib import Path

from parity.base import ranges


class Tree:
    """Files below ``root``; what cannot be read is None or empty, never an error."""

    def __init__(self, root: Path | str = '/'):
        self.root = Path(root)
        #: only the real root may be asked by other means than files (system calls, programs)
        self.real = self.root.resolve() == Path('/')

    def text(self, path: str) -> str | None:
        """The file's text without surrounding white space; None where it cannot be read."""
        try:
            return (self.root / path).read_text(errors='replace').strip().strip('\0')
        except OSError:
            return None

    def number(self, path: str) -> int | None:
        """The file's one whole number."""
        try:
            return int(self.text(path) or '')
        except ValueError:
            return None

    def cpus(self, path: str) -> frozenset[int]:
        """The cpus of a file such as ``0-3,8``."""
        return ranges.cpus(self.text(path) or '')

    def names(self, path: str, prefix: str = '') -> list[str]:
        """Names in a folder that are ``prefix`` and a number, in the order of the numbers."""
        found = (n for n in self.listing(path) if n.startswith(prefix) and n[len(prefix):].isdecimal())
        return sorted(found, key=lambda n: int(n[len(prefix):]))

    def listing(self, path: str) -> list[str]:
        """All names in a folder, sorted."""
        try:
            return sorted(p.name for p in (self.root / path).iterdir())
        except OSError:
            return []

    def exists(self, path: str) -> bool:
        try:
            return (self.root / path).exists()
        except OSError:
            return False


#: Instruction sets that matter to floating point, narrow to wide, as the kernel names them
#: on x86 (flags), ARM (Features) and POWER (cpu line).
SIMD = ('sse2', 'avx', 'avx2', 'fma', 'avx512f', 'asimd', 'sve', 'vsx')
#: The vector widths among them, widest first, and the name a check asks for as a feature.
WIDTHS = {'avx512f': 'avx512', 'avx2': 'avx2', 'avx': 'avx', 'sse2': 'sse2',
          'sve': 'sve', 'asimd': 'neon', 'vsx': 'vsx'}


def processors(tree: Tree) -> list[dict[str, str]]:
    """One dictionary a processor. What stands apart from them (ARM, POWER, UML) joins the first."""
    blocks, apart = [], {}
    for block in (tree.text('proc/cpuinfo') or '').split('\n\n'):
        fields = pairs(block)
        if 'processor' in fields:
            blocks.append(fields)
        else:
            apart.update(fields)
    first = apart | (blocks[0] if blocks else {})
    return [first, *blocks[1:]] if first else []


def pairs(block: str) -> dict[str, str]:
    """The lines ``key: value``."""
    found = (line.partition(':') for line in block.splitlines())
    return {key.strip(): value.strip() for key, colon, value in found if colon}


def flags(tree: Tree, first: dict[str, str] | None = None) -> frozenset[str]:
    """The instruction set flags of the first processor."""
    if first is None:
        first = (processors(tree) or [{}])[0]
    found = set((first.get('flags') or first.get('Features') or '').split())
    # POWER has no flags line; VSX (2 x 128 bit) came with POWER7
    if first.get('cpu', '').startswith(('POWER7', 'POWER8', 'POWER9', 'POWER10')):
        found.add('vsx')
    return frozenset(found)


def identity(tree: Tree, cpu: dict[str, str]) -> tuple[dict, list[str]]:
    """Names: architecture, vendor, family, model, microarchitecture and SIMD sets."""
    seen = flags(tree, cpu)
    notes = [] if seen else ['instruction sets unknown: /proc/cpuinfo shows none']
    microarchitecture, why = _microarchitecture(tree)
    return {
        'architecture': tree.text('proc/sys/kernel/arch') or tree.real and platform.machine() or 'unknown',
        'vendor': cpu.get('vendor_id') or cpu.get('CPU implementer'),
        'family': cpu.get('cpu family'),
        'model_name': cpu.get('model name') or cpu.get('cpu') or cpu.get('Processor'),
        'simd': tuple(name for name in SIMD if name in seen),
        'microarchitecture': microarchitecture,
    }, notes + why


def _microarchitecture(tree: Tree) -> tuple[str | None, list[str]]:
    if not tree.real:
        return None, ['microarchitecture unknown: archspec can name only the machine it runs on']
    if not os.access('/proc/cpuinfo', os.R_OK):
        return None, ['microarchitecture unknown: no /proc/cpuinfo']
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')     # archspec warns about what the note says already
            import archspec.cpu
            return archspec.cpu.host().name, []
    except Exception as error:                  # archspec raises many kinds on odd machines
        return None, [f'microarchitecture unknown: archspec: {error}']
