"""The benchmark codes. Each has a folder, checks/<subsystem>/<code>/, whose code.yaml says where its programs come
from. Listing the codes runs no check."""

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from parity.base import paths, yamlfile
from parity.base.errors import UsageError
from parity.base.strict import Strict

#: The folders below checks/ of codes, and what a tag of a foreign test names.
SUBSYSTEMS = ('compute', 'memory', 'network', 'storage', 'gpu')
#: Programs that belong to no code and may be needed beside one: an MPI, Python, a C compiler with OpenMP.
TOOLS = {'mpirun': 'mpi', 'python3': 'python', 'cc': 'cc'}
#: What a folder says of its code.
STATED = 'code.yaml'

#: Each array at least so many times the last-level caches used in a run (McCalpin's run rules,
#: https://www.cs.virginia.edu/stream/ref.html).
CACHE_MULTIPLE = 4


class Binary(NamedTuple):
    """An entry of `binaries`."""

    name: str               # with {variant} for each value of a variant
    variant: str            # without which the build lacks it; '' for none

    @classmethod
    def read(cls, stated: str) -> 'Binary':
        name, _, variant = stated.partition(' +')
        return cls(name, variant)

    def names(self, variants: dict[str, Any]) -> list[str]:
        """Return the name with each value, or combination of values, of the variants in it."""
        parts = re.findall(r'\{(\w+)\}', self.name)
        values = [_values(variants[part]) for part in parts]
        names = []
        for chosen in itertools.product(*values):
            by_part = dict(zip(parts, chosen, strict=True))
            names.append(self.name.format(**by_part))
        return names


def _values(variant: Any) -> Sequence[Any]:
    """Return the values of a variant, which Spack gives as a list or as text."""
    return variant if isinstance(variant, (list, tuple)) else str(variant).split(',')


class Code(Strict):
    """A benchmark code. A pattern is matched from the start of a cell's name (Npb%benchmark=mg%....mops_total)."""

    name: str                           # in reports
    spack: str = ''                     # the line of spack.yaml, if Spack builds it
    #: What it brings below the view's bin/. `{variant}` stands for each value of a variant; `NAME +variant` is
    #: there only with the variant.
    binaries: tuple[str, ...] = ()
    executable: str = ''                # the program on PATH; without it and `requires`: only of Spack
    other_names: tuple[str, ...] = ()   # of the executable in other versions; the first that is there runs
    package: str = ''                   # Debian's package of the executable
    requires: tuple[str, ...] = ()      # the tools that a check needs, too: mpirun, python3, cc
    smoke_args: tuple[str, ...] = ()    # of a short trial, in a folder that has only `files`
    files: tuple[str, ...] = ()         # the files beside the check that the trial needs
    expect: str = ''                    # a line that standard output, or a file that the trial writes, must have
    version: str = ''                   # the regular expression of the version there; its groups are the numbers
    min_version: tuple[int, ...] = (0,)     # the oldest version that will do
    #: Of a run that prints the version alone, where the trial does not tell it: its arguments.
    version_args: tuple[str, ...] = ()
    version_says: str = ''              # and the regular expression of the version there
    blas: bool = False                  # figures depend on the BLAS
    huge_pages: bool = False            # it gains where malloc asks for huge pages
    gpu: bool = False                   # Spack can build it for GPUs, too
    stand_in: str = ''                  # the name of another code, which measures the same
    stands_for: tuple[str, ...] = ()    # the beginnings of that code's metrics that do
    #: For `parity parse`: the expression of a metric's name -> its unit; the first that fits counts.
    units: dict[str, str] = {}
    #: Pattern -> the parts of a machine that move the cell.
    parts: dict[str, tuple[str, ...]] = {}
    #: Pattern -> the name of the figure on a first screen.
    headlines: dict[str, str] = {}
    #: Pattern -> strong or weak, for `parity scaling`: all ranks or threads make the figure together, on one
    #: problem (strong) or on one that grows with them (weak).
    scales: dict[str, str] = {}
    optional: bool = False              # an application: only a system that names it in `requires` must have it
    feature: str = ''                   # what checks need and `requires` names; the folder's name if not stated
    profiles: bool = False              # a library that profiles MPI: the check's file states PROFILE
    file: Path = Field(default=Path(), exclude=True)    # of the check: parity sets it

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def room(self) -> str:
        """The folder's name, by which `parity parse` knows the code; below gpu/ behind `gpu-`."""
        return f'gpu-{self.file.stem}' if self.file.parent.parent.name == 'gpu' else self.file.stem

    def unit(self, metric: str) -> str:
        """Return the unit of a metric that `parity parse` prints."""
        for names, unit in self.units.items():
            if re.fullmatch(names, metric):
                return unit
        return ''

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that must start where Spack did not build them, as below a view's bin/. `*` stands for each
        value of a variant."""
        if self.executable:
            return (self.executable,)
        if self.profiles:
            return ()
        asked_for = self.spack.split()
        binaries = [binary for binary in map(Binary.read, self.binaries)
                    if not binary.variant or f'+{binary.variant}' in asked_for]
        return tuple(re.sub(r'\{\w+\}', '*', binary.name) for binary in binaries)

    @property
    def spack_package(self) -> str:
        """The name of Spack's package; '' where there is none."""
        return re.match(r'[\w-]*', self.spack)[0]

    @property
    def gpu_programs(self) -> tuple[str, ...]:
        """The binaries of a build for NVIDIA's GPUs: those of +cuda, else the same names as for CPUs."""
        of_cuda = tuple(binary.name for binary in map(Binary.read, self.binaries) if binary.variant == 'cuda')
        return of_cuda or self.programs

    @property
    def on_gpu(self) -> str:
        """The feature of a build for GPUs: a check for CPUs must never find its code there."""
        return f'{self.feature}-gpu' if self.gpu else ''

    def binaries_of(self, variants: dict[str, Any]) -> list[str]:
        """Return the binaries, below the view's bin/, of a build with these variants."""
        names = []
        for binary in map(Binary.read, self.binaries):
            if not binary.variant or variants.get(binary.variant):
                names += binary.names(variants)
        return names


def check_of(folder: Path) -> Path:
    """Return the file that holds the check, if the folder is a code's."""
    return folder / f'{folder.name}.py'


def stated_beside(file: str) -> Code | None:
    """Return the code whose folder a check's file is in; None where that folder states none."""
    folder = os.path.dirname(file)      # a run asks with every case: text takes a third of a Path's time
    if not os.path.isfile(os.path.join(folder, STATED)):
        return None
    return _read(check_of(Path(folder)))


def is_code(folder: Path) -> bool:
    """Return whether a folder checks/<subsystem>/<name>/ is a code's: its <name>.py uses parity."""
    return uses_parity(check_of(folder))


def uses_parity(file: Path) -> bool:
    """Return whether a Python file imports parity; False where it cannot be read."""
    try:
        return bool(re.search(rb'^\s*(?:from|import) parity\b', file.read_bytes(), re.M))
    except OSError:
        return False


def every() -> tuple[Code, ...]:
    """Return all codes, in the order of their folders; those of this checkout where PARITY_ROOT has no checks/.

    A folder without a check is no code. Raise UsageError, with file and line, for a check without a code.yaml, and
    for a name that two codes have."""
    return _every(os.environ.get('PARITY_ROOT'))


@cache
def _every(_: str | None) -> tuple[Code, ...]:
    """Look for the codes once for each value of PARITY_ROOT: a verdict asks for them with every case."""
    return _below(_checks())


def _checks() -> Path:
    """Return the folder of all checks."""
    checkout = paths.checkout()
    if checkout and (checkout / 'checks').is_dir():
        return checkout / 'checks'
    return paths.ABOVE / 'checks'


def _folders(checks: Path) -> list[Path]:
    """Return the folders that may be codes': checks/<subsystem>/<name>/."""
    return [folder for folder in sorted(checks.glob('*/*/')) if folder.name[0] not in '._']


@cache
def _below(checks: Path) -> tuple[Code, ...]:
    found: dict[str, Code] = {}
    for folder in _folders(checks):
        if not is_code(folder):
            continue
        code = _read(check_of(folder))
        for other in found.values():
            if code.name == other.name or code.room == other.room:
                raise UsageError(f'{folder / STATED}: {code.name!r} is the code of {other.file.parent} already; '
                                 'each folder must have a name and a code of its own')
        found[code.name] = code
    return tuple(found.values())


@dataclass(frozen=True)
class Leftover:
    """A folder below checks/ that is no code, although it looks like one."""

    folder: Path
    holds: tuple[str, ...]      # its files, but for what Python compiled
    using: tuple[str, ...]      # those that use parity


def leftovers() -> list[Leftover]:
    """Return the folders below checks/ that hold neither a check nor files of a test that knows nothing of parity.

    Such a test may have scripts of its own, sources in a folder src, and folders outside the subsystems."""
    left = []
    for folder in _folders(_checks()):
        if is_code(folder):
            continue
        files = [file for file in sorted(folder.rglob('*')) if file.is_file() and '__pycache__' not in file.parts]
        scripts = [file for file in files if file.suffix == '.py']
        using = [file for file in scripts if uses_parity(file)]
        of_a_test = scripts or folder.name == 'src' or folder.parent.name not in SUBSYSTEMS
        if using or not files or not of_a_test:
            left.append(Leftover(folder, _names(files, folder), _names(using, folder)))
    return left


def _names(files: list[Path], folder: Path) -> tuple[str, ...]:
    return tuple(str(file.relative_to(folder)) for file in files)


@cache
def _read(check: Path) -> Code:
    """Return what the folder of a check says of its code, read once for every caller."""
    code = yamlfile.read(check.parent / STATED, Code).model_copy(update={'file': check})
    return code if code.feature else code.model_copy(update={'feature': code.room})


def group_of(cell: str, subsystem: str) -> str:
    """Return the group of the cell with this name; its subsystem where no code names its group."""
    name = cell.partition('@')[0]
    for pattern, group in _groups(os.environ.get('PARITY_ROOT')):
        if pattern.match(name):
            return group
    return subsystem


def part_of(cell: str, subsystem: str) -> str:
    """Return the part of the machine that the cell tells of."""
    group = group_of(cell, subsystem)
    return 'memory' if group == 'memory-bound codes' else group


@cache
def _groups(_: str | None) -> list[tuple[re.Pattern, str]]:
    """Return the parts of all codes, in their order, each with the pattern of its cells."""
    groups = []
    for code in every():
        for part, patterns in code.parts.items():
            groups.append((re.compile('|'.join(patterns)), part))
    return groups


def named(room: str) -> Code:
    """Return the code of this folder. Raise UsageError for none."""
    rooms = {code.room: code for code in every()}
    if room in rooms:
        return rooms[room]
    if not rooms:
        raise UsageError(f'{room!r}: no code is here, as codes are in checks/ of a checkout; run this there, or '
                         'let PARITY_ROOT name its top')
    raise UsageError(f'{room!r} is no code that parity reads; valid are: {", ".join(rooms)}')


def features() -> tuple[str, ...]:
    """Return every name that `requires`, a waiver or a modules environment may use."""
    names = {code.feature for code in every()} | {code.on_gpu for code in every()}
    return tuple(sorted(names - {''}))


def names_of(program: str) -> tuple[str, ...]:
    """Return the names that a program may have, in the order to look for them."""
    others = [name for code in every() if code.executable == program for name in code.other_names]
    return program, *others


def of_spack() -> tuple[str, ...]:
    """Return the features of the codes that Spack builds, without those of applications."""
    built = [code.feature for code in every() if code.spack and not code.profiles and not code.optional]
    return tuple(dict.fromkeys(built))


def without_github(system: str) -> str:
    """Return how the codes that Spack builds come to a machine that does not reach GitHub."""
    build = 'ci/quickstart' if system == 'local' else f'parity software build --system {system}'
    return f'without GitHub: parity software mirror DIR elsewhere, then PARITY_SOFTWARE_BUNDLE=DIR {build} here'


def applications() -> set[str]:
    """Return the features of the codes that no system needs to have."""
    return {code.feature for code in every() if code.optional}


def measured() -> tuple[Code, ...]:
    """Return the codes that the coverage counts: those that other people wrote."""
    return tuple(code for code in every() if (code.spack or code.package) and not code.profiles)


def of_package(package: str) -> Iterator[Code]:
    """Return the codes whose programs are in Spack's package."""
    return (code for code in every() if code.spack and code.spack_package == package)


def made_by(package: str, gpu: bool = False) -> list[str]:
    """Return the features that a package of a view offers; a package without a code offers its name."""
    found = list(of_package(package))
    if gpu:
        return [code.on_gpu for code in found if code.gpu]
    return [code.feature for code in found] or [package]


def package_of(feature: str) -> str:
    """Return the package whose binaries offer the feature; the feature itself if unknown."""
    for code in every():
        if code.spack and feature in (code.feature, code.on_gpu):
            return code.spack_package
    return feature


def profiler() -> Code | None:
    """Return the library that profiles MPI programs."""
    return next((code for code in every() if code.profiles), None)
