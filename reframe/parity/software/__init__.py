"""Which benchmark programs are here, whose they are, and what they need to run well.

``discover`` asks every provider (the distribution, Spack, the site's modules) and keeps what it
learned until a file changes.
"""

from parity.software.discover import discover
from parity.software.model import Environ, Software, SpackFound
from parity.software.probe import starts

__all__ = ['Environ', 'Software', 'SpackFound', 'discover', 'starts']
