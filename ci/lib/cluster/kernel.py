"""A Linux for QEMU's guests: this machine's kernel, and a small first root that mounts this machine's root."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

from errors import Ended

#: Modules for the root and the folders (9P), the link and its rate. A built-in one needs no file.
MODULES = ('virtio_pci', '9pnet_virtio', '9p', 'virtio_net', 'sch_tbf')
BOOT = Path('/boot')
INSTALLED = Path('/lib/modules')
MISSING = f'no kernel with 9P in {BOOT} (Debian: linux-image-amd64; that of linux-image-cloud-amd64 has none)'


def find() -> str | None:
    """Return the version of a usable kernel: the running one, to keep both partitions alike, else the newest."""
    versions = [file.name.removeprefix('vmlinuz-') for file in BOOT.glob('vmlinuz-*')]
    running = os.uname().release
    versions.sort(key=lambda name: (name == running, _numbers(name)), reverse=True)
    return next((version for version in versions if _needed(version) is not None), None)


def prepare(folder: Path) -> None:
    """Write ``folder/vmlinuz`` and ``folder/initramfs``: copies, as updates may replace them while guests run."""
    version = find()
    if version is None:
        raise Ended(4, MISSING)
    tree = folder / 'tree'
    for name in ('bin', 'modules', 'proc', 'root'):
        (tree / name).mkdir(parents=True)
    shutil.copy(BOOT / f'vmlinuz-{version}', folder / 'vmlinuz')
    order = [_copy_module(INSTALLED / version / file, tree / 'modules') for file in _needed(version)]
    (tree / 'modules/order').write_text('\n'.join(order) + '\n')
    _copy_program('busybox', tree)
    shutil.copy(Path(__file__).parent / 'first-init', tree / 'init')
    (tree / 'init').chmod(0o755)
    names = '\n'.join(str(path.relative_to(tree)) for path in sorted(tree.rglob('*')))
    with (folder / 'initramfs').open('wb') as out:
        done = subprocess.run(['busybox', 'cpio', '-o', '-H', 'newc'], cwd=tree, input=names.encode(), stdout=out,
                              stderr=subprocess.PIPE)
    if done.returncode:
        raise Ended(4, f'busybox cpio made no initramfs: {done.stderr.decode(errors="replace").strip()}')
    shutil.rmtree(tree)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r'[0-9]+', version)]


def _needed(version: str) -> list[str] | None:
    """Return the modules' files in loading order; None if the kernel lacks one."""
    try:
        listed = (INSTALLED / version / 'modules.dep').read_text().splitlines()
        built_in = {_name(file) for file in (INSTALLED / version / 'modules.builtin').read_text().split()}
    except OSError:
        return None
    files = {_name(line.split(':')[0]): line.replace(':', '').split() for line in listed}
    order: list[str] = []
    for module in MODULES:
        if module in built_in:
            continue
        if module not in files:
            return None
        # a line names the module, then the modules that it needs, the most basic last
        order += [file for file in reversed(files[module]) if file not in order]
    return order


def _name(file: str) -> str:
    return Path(file).name.split('.')[0].replace('-', '_')


def _copy_module(file: Path, to: Path) -> str:
    """Copy a module as the kernel reads it: newer packages compress theirs. Return its name."""
    name = _name(file.name) + '.ko'
    if file.suffix == '.xz':
        (to / name).write_bytes(lzma.decompress(file.read_bytes()))
    elif file.suffix == '.ko':
        shutil.copy(file, to / name)
    else:
        raise Ended(4, f'{file}: valid are .ko and .ko.xz')
    return name


def _copy_program(name: str, tree: Path) -> None:
    """Copy a program of this machine and its libraries, each to the path where the program looks."""
    program = shutil.which(name)
    shutil.copy(program, tree / 'bin' / name)
    listed = subprocess.run(['ldd', program], capture_output=True, text=True).stdout  # empty for a static program
    for library in re.findall(r'(/\S+) \(0x', listed):
        place = tree / library.lstrip('/')
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
