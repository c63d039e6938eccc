"""A notice when the state of a system changes, by the one command that its system.yaml names."""

from parity.nightly.notify.notifier import Notifier, prepared

__all__ = ['Notifier', 'prepared']
