"""Test if a file system, as mounted on this node, takes direct I/O (O_DIRECT). Needs only python3, 3.9 or later.

    direct=$(python3 direct.py FILESYSTEM) || exit 2

Prints 1 or 0, and writes it to direct.txt. Run it on the node that measures: the node that submits the job may
have the directory from another file system, or mounted differently.
"""

import errno
import os
import sys


def takes(filesystem):
    probe = os.path.join(filesystem, f'parity-direct-{os.uname().nodename}-{os.getpid()}')
    try:
        os.close(os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_DIRECT, 0o600))
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
            raise
        return False
    finally:
        if os.path.exists(probe):       # some make the file before they refuse
            os.unlink(probe)
    return True


if __name__ == '__main__':
    try:
        answer = int(takes(sys.argv[1]))
        with open('direct.txt', 'w') as kept:
            print(answer, file=kept)
        print(answer)
    except (OSError, IndexError) as error:
        print(f'direct.py: {error}', file=sys.stderr)
        sys.exit(2)
