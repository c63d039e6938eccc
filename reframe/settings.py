"""ReFrame's site configuration: assembled from systems/*/system.yaml by parity.measure.session.assemble.

ReFrame reads this before it does anything, so a run's session begins here: lock, recovery, plan.
"""

import gc
import os
import sys
from pathlib import Path

gc.disable()    # little becomes garbage while checks are loaded; parity.measure.rfm.capture enables it for the run

from parity.base import errors, paths
from parity.base.text import refuse_in_words
from parity.measure.check import foreign
from parity.measure.rfm import patches
from parity.measure.session import assemble, current
from parity.site import systems

# ReFrame runs tests in other folders, and what they start is of this checkout, too
os.environ.setdefault('PARITY_ROOT', str(Path(__file__).resolve().parents[1]))


def configure():
    """The configuration; a person's mistake ends ReFrame with one clear line, not a traceback."""
    global site_configuration
    refuse_in_words(sys.argv[1:])      # -S, -P and -J reach the scripts
    argv = sys.argv[1:]
    runs = current.runs(argv)
    chosen = systems.named(argv) if runs or systems.stated(argv) in systems.names() else ''
    site_configuration = assemble.site_configuration(chosen, sends=runs)
    patches.install(paths.results())
    foreign.install()
    current.begin(argv)


errors.run(configure)
