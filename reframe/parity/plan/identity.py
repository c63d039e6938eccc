"""Which runs are of one case: ReFrame's own name of a check forgets what -P made a parameter of."""

from __future__ import annotations

import re

_REPEAT = re.compile(r' %\.repeat_no=\d+')


def case_name(display_name: str) -> str:
    """The name of a case: its check and every parameter, those of -P included; repeats (--repeat) are one case."""
    return _REPEAT.sub('', display_name).replace(' %.', ' %')
