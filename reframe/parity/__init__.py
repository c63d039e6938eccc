"""parity: nightly performance regression and partition comparison for HPC clusters."""

__version__ = '0.2.0'
