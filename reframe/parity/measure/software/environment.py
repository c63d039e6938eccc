"""A system's environments for Spack: results/software/<system>/builds/<hash>/, a folder for each set of inputs.

Each has the specs of spack.yaml and gpu.yaml; on `local`, the distribution's packages are externals."""

import hashlib
import os
import re
import runpy
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import AfterValidator, Field

from parity.base import codes, files, paths, yamlfile
from parity.base.errors import UsageError, unknown
from parity.base.strict import Strict
from parity.measure.software import fetch, launcher
from parity.measure.software.blas import attempt
from parity.measure.software.spack import BUILTIN
from parity.site import systems
from parity.site.systems import SPACK, SpackEnvironment, System

#: The one environment of a system that states none.
ONLY = SpackEnvironment(name=SPACK)


def of(system: str) -> Path:
    """Return the folder of a system's builds, and of the manifest of the build in use."""
    return paths.results() / 'software' / system


def lock(system: str) -> AbstractContextManager[int]:
    """Hold the builds of a system: meanwhile no other process builds or removes any."""
    return files.alone(of(system) / '.build.lock', f'builds for {system}')


def scope(system: str) -> Path:
    """Return the folder of a system's own files for Spack, which is a configuration scope."""
    return systems.folder(system) / 'spack'


def own_scope(system: str, environ: str) -> Path:
    """Return the folder of one environment's own files: its lock, its gpu.yaml, and a configuration scope."""
    return scope(system) if environ == SPACK else scope(system) / environ


#: Files of a build from which Spack can make it again.
_LOCKED = ('spack.yaml', 'spack.lock')


def remove(build: Path) -> None:
    """Remove a build but for its lock. Its packages stay Spack's."""
    for entry in build.iterdir() if build.is_dir() else ():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.name not in _LOCKED:
            entry.unlink(missing_ok=True)


def view_is_there(view: Path) -> bool:
    """Return whether a view (its bin/) leads to programs: its packages may be gone."""
    return any(program.exists() for program in view.glob('*'))


def committed_lock(system: str, environ: str = SPACK) -> Path:
    """Return the file of an environment's lock under version control."""
    return own_scope(system, environ) / 'spack.lock'


def write(system: System, facts: dict[str, Any], given: Any = None, entry: SpackEnvironment = ONLY) -> Path:
    """Write the environment that the system asks for, with its committed lock, and return its folder.

    The partition's ``facts`` (llc_bytes, memory_bytes) size compiled-in arrays. ``given`` are this Spack's own
    recipes, which it uses instead of the pinned ones."""
    home = of(system.name)
    manifest = _manifest()
    manifest['specs'] = [_sized(spec, facts) for spec in _specs(entry)]
    manifest['include'] = _scopes(system, entry)
    packages = _toolchain(entry)
    if packages:
        manifest['packages'] = packages
    if entry.target:        # the machine that concretizes need not have it
        manifest['concretizer'] = {**manifest.get('concretizer', {}), 'targets': {'host_compatible': False}}
    manifest['repos'] = _repositories(home, manifest.get('repos', {}).get(BUILTIN), given)
    manifest['view'] = {'default': {'root': 'view', 'link': 'roots'}}
    wanted = gpu_specs(system.name, entry.name)
    if wanted:
        _add_gpu(manifest, wanted)
    text = yaml.safe_dump({'spack': manifest}, sort_keys=False)
    lock = committed_lock(system.name, entry.name)
    folder = home / 'builds' / _hash([lock], _inputs(text))[:12]
    files.update(folder / 'spack.yaml', text)
    if lock.exists():
        files.update(folder / 'spack.lock', lock.read_text())
    return folder


def _scopes(system: System, entry: SpackEnvironment) -> list[str]:
    """Return the configuration scopes of an environment, the strongest first; on this machine, its externals."""
    own = dict.fromkeys((own_scope(system.name, entry.name), scope(system.name)))
    scopes = [str(folder) for folder in own if any(folder.glob('*.yaml'))]
    if system.detect:
        externals = write_externals(of(system.name) / 'externals', nvcc(system.name, entry.name), entry)
        scopes.append(str(externals))
    return scopes


def inputs(folder: Path) -> str:
    """Return a hash over everything that decides a lock: environment, configuration scopes, recipes."""
    return _inputs((folder / 'spack.yaml').read_text())


def _inputs(text: str) -> str:
    """Return a hash over an environment's text, the recipes, and the configuration scopes that it includes."""
    recipes = sorted((paths.root() / 'spack_repo').rglob('*'))
    sources = [file for file in recipes if file.suffix in ('.py', '.yaml')]
    stated, _ = yamlfile.parse(Path('spack.yaml'), text)
    scopes = stated['spack']['include']
    for folder in reversed(scopes):
        sources += sorted(Path(folder).glob('*.yaml'))
    return _hash(sources, text)


def stamp(folder: Path) -> str:
    """Return a hash over everything that decides a build: the inputs and the lock."""
    return _hash([folder / 'spack.lock'], inputs(folder))


def _hash(files: list[Path], start: str = '') -> str:
    digest = hashlib.sha256(start.encode())
    for file in files:
        digest.update(file.read_bytes() if file.exists() else b'absent')
    return digest.hexdigest()


def _manifest() -> dict[str, Any]:
    """Return the environment that spack.yaml states."""
    file = paths.root() / 'spack.yaml'
    data, _ = yamlfile.load(file)
    try:
        return dict(data['spack'])
    except (TypeError, KeyError):
        raise UsageError(f'{file}:1: must be a Spack environment: spack: {{specs: [...]}}') from None


def package(spec: str) -> str:
    return re.match(r'[\w-]*', spec)[0]


def packages(system: str, entry: SpackEnvironment = ONLY) -> list[str]:
    """Return the names of the packages that an environment of a system asks for."""
    return sorted({package(spec) for spec in (*_specs(entry), *gpu_specs(system, entry.name))})


def _specs(entry: SpackEnvironment) -> list[str]:
    """Return the lines of spack.yaml that an environment takes, with its own variants."""
    lines = _manifest()['specs']
    package_of = {}
    for line in lines:
        for code in codes.of_package(package(line)):
            package_of[code.feature] = package(line)
    for code in (*entry.codes, *entry.variants):
        if code not in package_of:
            raise UsageError(f'spack: {entry.name}: {unknown("code of spack.yaml", code, sorted(package_of))}')
    taken = {package_of[code] for code in entry.codes}
    variants = {package_of[code]: words for code, words in entry.variants.items()}
    specs = []
    for line in lines:
        if taken and package(line) not in taken:
            continue
        words = variants.get(package(line))
        specs.append(_with_variants(line, words) if words else line)
    return specs


#: A word of a spec: what is quoted may have spaces.
_WORD = re.compile(r'''(?:"[^"]*"|'[^']*'|[^\s"'])+''')
#: A variant by name: classes of `classes:=A,B`, openmp of `+openmp`.
_VARIANT = re.compile(r'[+~](?P<flag>[\w-]+)$|(?P<name>[\w-]+):?==?')


def _with_variants(line: str, words: str) -> str:
    """Return a line of spack.yaml with an environment's words behind it. They replace the line's own value of a
    variant: Spack refuses a variant that is set twice."""
    of_package, _, _ = words.partition('^')
    replaced = {_variant(word) for word in _WORD.findall(of_package)}
    replaced.discard('')
    kept = [word for word in _WORD.findall(line) if _variant(word) not in replaced]
    return ' '.join([*kept, words])


def _variant(word: str) -> str:
    """Return the variant that a word of a spec sets; '' for a word that sets none."""
    if match := _VARIANT.match(word):
        return match['flag'] or match['name']
    return ''


def _toolchain(entry: SpackEnvironment) -> dict[str, Any]:
    """Return the section `packages` of an environment: it overrides what its scopes require."""
    required = {}
    if entry.target:
        required['all'] = f'target={entry.target}'
    if entry.mpi:
        required['mpi'] = entry.mpi
    if entry.compiler:
        required |= dict.fromkeys(('c', 'cxx', 'fortran'), entry.compiler)
    if entry.blas:
        required |= dict.fromkeys(('blas', 'lapack'), entry.blas)
    # the second colon replaces a list; Spack would add to it otherwise
    return {name: {'require:': [spec]} for name, spec in required.items()}


def _sized(spec: str, facts: dict[str, Any]) -> str:
    """Return the spec with compiled-in arrays, if its code has any: as long as the caches ask for and the memory
    holds."""
    sized = _of_build(spec).get('sized')
    return sized(spec, facts) if sized and facts.get('memory_bytes') else spec


def _of_build(spec: str) -> dict[str, Any]:
    """Return the names of build.py in the folder of a spec's code; {} where there is none."""
    for code in codes.of_package(package(spec)):
        file = code.file.with_name('build.py')
        if file.is_file():
            return runpy.run_path(str(file))
    return {}


#: Spack reads this file first in a clone. A clone without it was interrupted.
_INDEX = 'spack-repo-index.yaml'


def _repositories(home: Path, pinned: Any, own: Any = None) -> dict[str, Any]:
    """Return the `repos` of an environment: parity's recipes, then the ``pinned`` ones of spack.yaml, cloned below
    ``home``. Leave these out where Spack has its ``own``: the environment would overrule them."""
    repositories: dict[str, Any] = {'parity': str(paths.root() / 'spack_repo' / 'parity')}
    if not pinned or own is not None:
        return repositories
    if isinstance(pinned, dict):        # a clone for each version: Spack checks out no other tag in one
        version = pinned.get('commit') or pinned.get('tag') or pinned.get('branch', 'newest')
        clone = home / f'recipes-{version.replace("/", "-")}'
        pinned = {**pinned, 'destination': str(clone)}
        if clone.exists() and not (clone / _INDEX).exists():    # Spack would take it for a whole one
            shutil.rmtree(clone)
    repositories[BUILTIN] = pinned
    return repositories


def fetch_recipes(folder: Path) -> None:
    """Fetch the recipes that an environment pins to a tag. Others Spack clones. Raises as `fetch.clone` does."""
    made, _ = yamlfile.load(folder / 'spack.yaml')
    pinned = made['spack']['repos'].get(BUILTIN)
    if isinstance(pinned, dict) and {'git', 'tag'} <= pinned.keys():
        fetch.clone('the recipes', pinned['git'], str(pinned['tag']), Path(pinned['destination']))


#: The programs that a build needs, and Debian's package that brings each.
NEEDED = {'gcc': 'gcc', 'g++': 'g++', 'gfortran': 'gfortran', 'make': 'make', 'autoconf': 'autoconf',
          'automake': 'automake', 'libtoolize': 'libtool', 'm4': 'm4', 'patch': 'patch', 'pkgconf': 'pkgconf',
          'file': 'file', 'perl': 'perl', 'cmake': 'cmake', 'python3': 'python3'}
#: Libraries and macros, which are no programs: Spack's name, Debian's package that brings it.
_LIBRARIES = {'openblas': 'libopenblas-dev', 'zlib': 'zlib1g-dev', 'libunwind': 'libunwind-dev',
              'autoconf-archive': 'autoconf-archive'}
#: Tools whose version is the first number that `--version` prints: Spack's name, program.
_TOOLS = {'autoconf': 'autoconf', 'automake': 'automake', 'libtool': 'libtoolize', 'm4': 'm4',
          'gmake': 'make', 'perl': 'perl', 'pkgconf': 'pkgconf', 'cmake': 'cmake'}
#: Recipes ask for some packages by a name that others provide.
_PROVIDERS = {'blas': 'openblas', 'lapack': 'openblas', 'zlib-api': 'zlib', 'unwind': 'libunwind'}
#: The compilers by their languages, in Spack's words.
_COMPILERS = {'c': 'gcc', 'cxx': 'g++', 'fortran': 'gfortran'}


class DistributionMpi(NamedTuple):
    """An MPI: Spack's package, and Debian's packages of mpirun and of mpi.h."""

    package: str
    mpirun: str
    headers: str


#: The MPIs that Spack builds with.
_MPIS = {
    'Open MPI': DistributionMpi('openmpi', 'openmpi-bin', 'libopenmpi-dev'),
    'MPICH': DistributionMpi('mpich', 'mpich', 'libmpich-dev'),
}


def missing(entries: Sequence[SpackEnvironment] = (ONLY,)) -> list[str]:
    """Return the packages of the distribution that a build of these environments for this machine needs and that
    are not installed. Spack builds a BLAS that an environment states, but for OpenBLAS."""
    packages = {package for program, package in NEEDED.items() if not _here(program)}
    packages |= _lacks_of_mpi()
    libraries = dict(_LIBRARIES)
    if not any(_takes_openblas(entry) for entry in entries):
        del libraries['openblas']
    lacking = [package for package in libraries.values() if not owned(package)]
    return sorted(packages) + lacking


def _takes_openblas(entry: SpackEnvironment) -> bool:
    """Return whether an environment is built with the distribution's OpenBLAS."""
    return not entry.blas or entry.blas.startswith('openblas')


def _lacks_of_mpi() -> set[str]:
    """Return the packages that the distribution's MPI lacks; of another MPI on PATH none can be installed."""
    mpirun = shutil.which('mpirun')
    if not mpirun:
        usual = _MPIS['Open MPI']
        return {usual.mpirun, usual.headers}
    if _prefix_of(mpirun) != Path('/usr'):
        return set()
    name, _ = _mpi_of(mpirun)
    mpicc = Path(mpirun).with_name('mpicc')
    if name not in _MPIS or launcher.of_compiler(str(mpicc)):
        return set()
    return {_MPIS[name].headers}


def demand_packages(entry: SpackEnvironment = ONLY) -> None:
    """Raise UsageError, with the packages to install, where a build for this machine lacks some."""
    lacking = missing([entry])
    if lacking:
        raise UsageError('to build the codes, these are needed from the distribution: '
                         f'apt install {" ".join(lacking)} (without root: docs/without-root.md)')


def write_externals(folder: Path, nvcc: str = '', entry: SpackEnvironment = ONLY) -> Path:
    """Write packages.yaml into the folder (``nvcc``: CUDA's, if needed). Raises as `demand_packages` does."""
    demand_packages(entry)
    packages = _packages() | _mpi()
    if nvcc:
        packages['cuda'] = _cuda(nvcc)
    files.update(folder / 'packages.yaml', yaml.safe_dump({'packages': packages}, sort_keys=False))
    return folder


def _packages() -> dict[str, Any]:
    """Return the distribution's compilers, tools and libraries, as Spack's configuration has them."""
    packages = {language: {'require': ['gcc']} for language in _COMPILERS}
    compilers = {language: _here(program) for language, program in _COMPILERS.items()}
    gcc = _says(_here('gcc'), '-dumpfullversion')
    packages['gcc'] = _external(f"gcc@{gcc} languages:='c,c++,fortran'", extra_attributes={'compilers': compilers})
    # /usr is not the prefix of every python3: a virtual environment's own stands first on PATH
    versions = {'python': _version('/usr/bin/python3')}
    for package, program in _TOOLS.items():
        versions[package] = _version(program)
    for library, package in _LIBRARIES.items():
        version = owned(package)
        if version:
            versions[library] = version
    for package, version in versions.items():
        packages[package] = _external(f'{package}@{version}')
    for virtual, provider in _PROVIDERS.items():
        packages[virtual] = {'require': [provider]}
    return packages


def _mpi() -> dict[str, Any]:
    """Return the MPI whose mpirun is first on PATH: it starts what Spack builds. UsageError where it cannot be
    built with."""
    mpirun = shutil.which('mpirun') or ''
    name, version = _mpi_of(mpirun)
    if name not in _MPIS or not version:
        raise UsageError(f'{mpirun}: is of {name} {version or "of unknown version"}; valid: an mpirun of '
                         f'{" or ".join(_MPIS)}, first on PATH')
    mpicc = Path(mpirun).with_name('mpicc')
    made_for = launcher.of_compiler(str(mpicc))
    if made_for != name:
        what = f'compiles for {made_for}' if made_for else 'finds no mpi.h'
        raise UsageError(f'{mpicc}: {what}; valid: the mpicc of {name}, whose mpirun is first on PATH')
    package = _MPIS[name].package
    external = _external(f'{package}@{version}', prefix=str(_prefix_of(mpirun)))
    return {package: external, 'mpi': {'require': [package]}}


def _mpi_of(mpirun: str) -> tuple[str, str | None]:
    """Return name and version of the MPI of an mpirun."""
    return launcher.name_and_version(_says(mpirun, '--version'))


def _prefix_of(mpirun: str) -> Path:
    """Return the prefix below which mpirun and mpicc lie: /usr of /bin, too, which is a link."""
    return Path(mpirun).parent.resolve().parent


def _cuda(nvcc: str) -> dict[str, Any]:
    prefix = Path(nvcc).resolve().parents[1]
    return _external(f'cuda@{_version(nvcc)}', prefix=str(prefix))


def _external(spec: str, **attributes: Any) -> dict[str, Any]:
    return {'externals': [{'spec': spec, 'prefix': '/usr', **attributes}], 'buildable': False}


#: A program that has not told its version after so long does not.
SECONDS = 20


def _says(*command: str) -> str:
    """Return what a command prints; '' of one that does not start, or does not end."""
    return attempt(command, timeout=SECONDS).out.strip()


def _version(program: str) -> str:
    printed = _says(_here(program), '--version')
    version = re.search(r'\bv?(\d+(?:\.\d+)+)', printed)
    if not version:
        raise UsageError(f'{_here(program)} --version prints {printed.splitlines()[:1]}: not the version of '
                         f'{NEEDED.get(program, program)}')
    return version[1]


def _here(program: str) -> str | None:
    """Return the distribution's own program: another one on PATH is not in /usr, the external's prefix."""
    return shutil.which(program, path='/usr/bin:/bin')


def owned(package: str) -> str:
    """Return the upstream version of an installed package of the distribution; '' if it is not installed."""
    if not shutil.which('dpkg-query'):
        return ''
    printed = _says('dpkg-query', '-W', '-f', '${db:Status-Status} ${Version}', package)
    version = re.match(r'installed (?:\d+:)?([\d.]+)', printed)
    return version[1].rstrip('.') if version else ''


#: The variant that makes a build one for GPUs, and the one that names their architecture.
ARCHITECTURE = {'cuda': 'cuda_arch', 'rocm': 'amdgpu_target'}
#: The default view is without the builds for GPUs, so that a CPU check cannot pick one.
_BUILDS = [f'+{variant}' for variant in ARCHITECTURE]


def gpu_packages() -> list[str]:
    """Return the packages whose GPU binaries parity knows, and so can miss."""
    return [code.spack_package for code in codes.every() if code.gpu]


def _spec(text: str) -> str:
    """Return the spec. ValueError where it is no build for GPUs of a version and an architecture."""
    name = package(text)
    known = gpu_packages()
    if name not in known:
        raise ValueError(f'{text!r}: no GPU binaries are known of {name!r}; valid: {", ".join(known)}')
    if not re.match(r'[\w-]+@[\w.=]', text):
        raise ValueError(f'{text!r}: must name its version, as {name}@...')
    variants = [variant for variant in ARCHITECTURE if re.search(rf'\+{variant}\b', text)]
    if len(variants) != 1:
        raise ValueError(f'{text!r}: must be a build for GPUs; valid: +cuda or +rocm')
    architecture = ARCHITECTURE[variants[0]]
    if f' {architecture}=' not in text:
        raise ValueError(f'{text!r}: must name the architecture: {architecture}=...')
    cuda = text.partition(' ^cuda@')[2].partition(' ')[0]
    valid = _valid_cuda(text, [cuda])
    if valid:
        raise ValueError(f'{text!r}: does not compile with each CUDA that it may get; valid: ^{valid}')
    return text


def _valid_cuda(spec: str, cudas: list[str]) -> str:
    """Return the CUDA that is valid where the spec compiles with none of these; else ''."""
    ask = _of_build(spec).get('valid_cuda')
    return ask(spec, cudas) if ask else ''


class GpuFile(Strict):
    """gpu.yaml."""

    specs: list[Annotated[str, AfterValidator(_spec)]] = Field(min_length=1)


def gpu_specs(system: str, environ: str = SPACK) -> list[str]:
    """Return an environment's GPU specs; none where it has no gpu.yaml. Raise UsageError for a wrong one."""
    file = own_scope(system, environ) / 'gpu.yaml'
    if not file.exists():
        return []
    specs = yamlfile.read(file, GpuFile).specs
    _refuse_cuda(specs, _stated_cuda(system) or {})
    return specs


def _stated_cuda(system: str) -> dict[str, str] | None:
    """Return the CUDAs that packages.yaml states and Spack may not add to, by their places; None for no entry."""
    file = scope(system) / 'packages.yaml'
    data, node = yamlfile.load(file) if file.exists() else (None, None)
    packages = data.get('packages') if isinstance(data, dict) else None
    if not isinstance(packages, dict) or 'cuda' not in packages:
        return None
    cuda = packages['cuda']
    if not isinstance(cuda, dict) or cuda.get('buildable') is not False:
        return {}
    externals = cuda.get('externals')
    if not isinstance(externals, list):
        return {}
    specs = {}
    for index, external in enumerate(externals):
        if isinstance(external, dict) and 'spec' in external:
            line = yamlfile.line_of(node, ('packages', 'cuda', 'externals', index))
            specs[f'{file}:{line}'] = str(external['spec'])
    return specs


def _refuse_cuda(specs: list[str], cudas: dict[str, str]) -> None:
    """Raise UsageError for a spec that compiles with none of the CUDAs: place -> cuda@VERSION; {}: refuse none."""
    if not cudas:
        return
    versions = [cuda.partition('@')[2] for cuda in cudas.values()]
    for spec in specs:
        valid = _valid_cuda(spec, versions)
        if valid:
            place = next(iter(cudas))
            raise UsageError(f'{place}: {spec!r} does not compile with {", ".join(cudas.values())}; '
                             f'valid: {valid}')


def _add_gpu(manifest: dict[str, Any], wanted: list[str]) -> None:
    """Add GPU specs and their view. The other specs forbid GPUs: Spack would unify them with the GPU builds."""
    with_gpu = gpu_packages()
    specs = [f'{spec} ~cuda ~rocm' if spec.split('@')[0] in with_gpu else spec for spec in manifest['specs']]
    manifest['specs'] = specs + wanted
    manifest['concretizer'] = {**manifest.get('concretizer', {}), 'unify': 'when_possible'}
    view = manifest['view']['default']
    manifest['view'] = {
        'default': {**view, 'exclude': _BUILDS},
        'gpu': {**view, 'root': f'{view["root"]}-gpu', 'select': _BUILDS},
    }


def gpu_driver() -> bool:
    """Return True if NVIDIA's or AMD's driver is loaded here: without one no GPU binary starts."""
    return any(map(os.path.exists, ('/dev/nvidiactl', '/dev/kfd')))


def nvcc(system: str, environ: str = SPACK) -> str:
    """Return the nvcc to build with, '' for none. UsageError where none is here: Spack would fetch 4 GB."""
    asked = [spec for spec in gpu_specs(system, environ) if '+cuda' in spec]
    if not asked or _stated_cuda(system) is not None:
        return ''
    program = shutil.which('nvcc') or shutil.which('/usr/local/cuda/bin/nvcc')
    if not program:
        file = own_scope(system, environ) / 'gpu.yaml'
        raise UsageError(f'{file}: {asked[0]!r} needs CUDA, and no nvcc is on PATH or in /usr/local/cuda: '
                         'install the CUDA toolkit, or state where it is, as an external, in '
                         f'{scope(system) / "packages.yaml"}')
    _refuse_cuda(asked, {program: f'cuda@{_version(program)}'})
    return program
