"""ReFrame's site configuration: assembled from systems/*/system.yaml by parity.site.assemble."""

import sys

from parity import paths
from parity.errors import UsageError
from parity.site import assemble, spaces

try:
    site_configuration = assemble.site_configuration()
    spaces.allow_in(paths.results())
except UsageError as err:
    # A person's mistake gets one clear line and exit code 2, not ReFrame's traceback.
    print(f'parity: {err}', file=sys.stderr)
    sys.exit(err.exit_code)
