"""Which runs are of one case: ReFrame's own name of a check forgets what -P made a parameter of."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

_REPEAT = re.compile(r' %\.repeat_no=\d+')


def case_name(display_name: str) -> str:
    """The name of a case: its check and every parameter, those of -P included; repeats (--repeat) are one case."""
    return _REPEAT.sub('', display_name).replace(' %.', ' %')


@cache
def version(file: str) -> str:
    """The version of a check: a hash of its file's text. Two that differ may measure different things."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]
