"""Is a cell slower than it was? The noise of its history, and rules that hold tonight against it.

Pure functions on arrays, no files, no ReFrame. `docs/regression.md` says what they were measured to do.
"""

from parity.stats.judge import Cell, Night, judge, judge_all, needs_rerun
from parity.stats.judgement import Judgement, Reference

__all__ = ['Cell', 'Judgement', 'Night', 'Reference', 'judge', 'judge_all', 'needs_rerun']
