"""ReFrame's site configuration: assembled from systems/*/system.yaml by parity.site.assemble.

ReFrame reads this before it does anything, so a run's session begins here: lock, recovery, plan.
"""

import atexit
import logging
import sys

from reframe.core import logging as reframe_logging

from parity import session
from parity.base import characters, errors, paths, reasons
from parity.rfm import jobnodes, once, pbs_backend, quick, slurm_queue, spaces
from parity.site import assemble

logging.raiseExceptions = False  # a log on a full disk is no reason for a traceback a line
atexit.unregister(reframe_logging.shutdown)  # Python itself closes the logs, with no traceback on a full disk


def configure():
    """The configuration; a person's mistake ends ReFrame with one clear line, not a traceback."""
    global site_configuration
    characters.refuse_in_words(sys.argv[1:])      # -S, -P and -J reach the scripts
    site_configuration = assemble.site_configuration()
    spaces.allow_in(paths.results())
    quick.skip_silenced_warnings()
    pbs_backend.install()
    slurm_queue.install()
    jobnodes.install()
    once.install()
    reasons.install()
    session.begin(sys.argv[1:])


errors.told(configure)
