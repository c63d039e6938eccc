#!/usr/bin/env python3
"""Run a job's script, measure who else used its CPUs, and end the processes that the script left running.

    watch.py SCRIPT ARGUMENTS...

The script keeps its standard streams, environment, process group, CPUs and exit code, and receives signals.
Orphans become children of this process (prctl(2), PR_SET_CHILD_SUBREAPER), so no daemon escapes by setsid and a
double fork. watch.json, beside this file, holds seconds and counts:

    node, cpus     where, and how many CPUs the script may run on
    seconds        run time of everything
    clocks         the same by clocks that should agree with it, as far as the node has them: uptime of the kernel,
                   which no library of the job can change; raw, which no time server slows; rtc of the hardware
    others         CPU time in user mode of processes outside the job, on the CPUs of the job; null: unknown
    unknown        the reason if `others` is null
    steal          time that the hypervisor gave to others, on the CPU that lost most
    throttled      times that heat slowed the CPUs, or that a CPU quota stopped the job
    left           processes that outlived the script and were ended: {pid, command}

Kernel time is not counted, because kernel threads write back a storage case's data.

A short case must not wait for its watcher. Python's modules for signals, JSON, C libraries and regular expressions
take longer to load than Python itself. This program uses the modules in C below them, where they are.
"""

import os
import resource
import sys
import time

try:
    import _signal as signal
except ImportError:
    import signal
try:
    from _json import encode_basestring_ascii as quoted
except ImportError:
    from json import dumps as quoted

HERE = os.path.dirname(os.path.abspath(__file__))
PASSED_ON = ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGXCPU')
#: Seconds for processes to end by themselves, and after a SIGTERM.
GRACE, AFTER_TERM = 0.5, 0.5
#: ReFrame kills a job of its own machine, and this process, 2 s after a SIGTERM: be earlier.
LAST_SECONDS = 1.0
TICKS = os.sysconf('SC_CLK_TCK')


def text(file):
    try:
        with open(file, errors='replace') as opened:
            return opened.read()
    except OSError:
        return ''


def process(pid):
    """Return (parent, start time, seconds in user mode) of a process; None if it is gone or ended."""
    fields = text(f'/proc/{pid}/stat').rpartition(')')[2].split()
    if not fields or fields[0] == 'Z':
        return None
    return int(fields[1]), fields[19], int(fields[11]) / TICKS


def ancestors():
    """Return {(pid, start time): seconds in user mode} of the processes above this one, ReFrame among them."""
    found, pid = {}, os.getppid()
    while pid > 1:
        known = process(pid)
        if known is None:
            break
        parent, started, seconds = known
        found[pid, started] = seconds
        pid = parent
    return found


def processors(cpus):
    """Return {cpu: (seconds in user mode, seconds stolen)} of these CPUs, from /proc/stat."""
    seconds = {}
    for line in text('/proc/stat').splitlines():
        name, _, row = line.partition(' ')
        cpu = name[3:]
        if not name.startswith('cpu') or not cpu or int(cpu) not in cpus:
            continue
        user, nice, _, _, _, _, _, steal = [int(word) for word in row.split()][:8]
        seconds[int(cpu)] = (user + nice) / TICKS, steal / TICKS
    return seconds


def count(name, file):
    """Return the count after a name at the beginning of a line of a file; None where there is none."""
    for line in text(file).splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == name and words[1].isdecimal():
            return int(words[1])
    return None


def groups(controller):
    """Yield the folders of this process's control group under one controller (v1, else v2), innermost first.

    A container sees only part of the hierarchy: its root stands for the first steps of the path.
    """
    mount, path = group(controller)
    while path.strip('/') and not os.path.isdir(mount + path):
        path = '/' + path.lstrip('/').partition('/')[2]
    while path.strip('/'):
        yield mount + path
        path = os.path.dirname(path)


def group(controller):
    """Return where a controller is mounted, and the path of this process's group there; '' where none is."""
    of_v2 = '', ''
    for line in text('/proc/self/cgroup').splitlines():
        _, controllers, path = line.split(':', 2)
        if controller in controllers.split(','):
            return f'/sys/fs/cgroup/{controller}', path
        if not controllers and of_v2 == ('', ''):
            of_v2 = '/sys/fs/cgroup', path
    return of_v2


def of_slurm():
    """Return the seconds in user mode of this Slurm job on this node; None if no control group counts them."""
    job = 'job_' + os.environ.get('SLURM_JOB_ID', '')
    folder = next((folder for folder in groups('cpuacct') if os.path.basename(folder) == job), None)
    if folder is None:
        return None
    ticks = count('user', f'{folder}/cpuacct.stat')
    if ticks is not None:
        return ticks / TICKS
    microseconds = count('user_usec', f'{folder}/cpu.stat')
    return None if microseconds is None else microseconds / 1e6


def of_children():
    """Return the seconds in user mode of this process and of all its ended descendants."""
    return sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def throttled(cpus):
    """Return how often heat slowed the CPUs, or a quota stopped the job."""
    times = 0
    for cpu in cpus:
        folder = f'/sys/devices/system/cpu/cpu{cpu}/thermal_throttle'
        for name in ('core_throttle_count', 'package_throttle_count'):
            by_heat = text(f'{folder}/{name}').strip()
            if by_heat.isdecimal():
                times += int(by_heat)
    for folder in groups('cpu'):
        times += count('nr_throttled', f'{folder}/cpu.stat') or 0
    return times


def clocks():
    """Return the seconds of each clock of the node that can be read."""
    words = {'uptime': text('/proc/uptime').split(' ')[0], 'rtc': text('/sys/class/rtc/rtc0/since_epoch')}
    seconds = {name: float(word) for name, word in words.items() if word.strip()}
    try:
        seconds['raw'] = time.clock_gettime(time.CLOCK_MONOTONIC_RAW)
    except (AttributeError, OSError):
        pass
    return seconds


class Reading:
    """The counters of one moment."""

    def __init__(self, cpus):
        self.clock = time.monotonic()
        self.clocks = clocks()
        self.cpus = processors(cpus)
        self.started_by = ancestors()
        self.own = of_slurm() if os.environ.get('SLURM_JOB_ID') else of_children()
        self.throttled = throttled(cpus)


def used(before, after):
    """Return the contents of watch.json for the time between two readings."""
    cpus = before.cpus.keys() & after.cpus.keys()
    user, stolen = [], []
    for cpu in cpus:
        user_before, stolen_before = before.cpus[cpu]
        user_after, stolen_after = after.cpus[cpu]
        user.append(user_after - user_before)
        stolen.append(stolen_after - stolen_before)
    report = {'node': os.uname().nodename, 'cpus': len(cpus), 'seconds': after.clock - before.clock,
              'others': None, 'unknown': '', 'throttled': after.throttled - before.throttled,
              'steal': max(stolen, default=0.0), 'clocks': elapsed(before.clocks, after.clocks)}
    if not cpus:
        report['unknown'] = '/proc/stat does not tell'
    elif before.own is None or after.own is None:
        report['unknown'] = 'Slurm has no control group of the job that counts its CPU time'
    else:
        own = after.own - before.own
        for key in after.started_by.keys() & before.started_by.keys():
            own += after.started_by[key] - before.started_by[key]
        report['others'] = max(0.0, sum(user) - own)
    return report


def elapsed(before, after):
    """Return the seconds that each clock counted between two moments."""
    both = sorted(before.keys() & after.keys())
    return {name: round(after[name] - before[name], 3) for name in both}


def reap(seconds):
    """Wait for all children, at most so many seconds; return True if none is left."""
    until = time.monotonic() + seconds
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return True
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)


def descendants():
    """Return {pid: command} of all running processes below this one."""
    running = {int(pid): process(int(pid)) for pid in os.listdir('/proc') if pid.isdecimal()}
    below, parents = set(), {os.getpid()}
    while parents:
        children = {pid for pid, facts in running.items() if facts and facts[0] in parents}
        parents = children - below
        below |= parents
    commands = {}
    for pid in sorted(below):
        words = text(f'/proc/{pid}/cmdline').split('\0')
        commands[pid] = ' '.join(words).strip()[:200]
    return commands


def send(number):
    """Send a signal to all processes below this one."""
    for pid in descendants():
        try:
            os.kill(pid, number)
        except OSError:
            pass            # it ended meanwhile, or belongs to another user


def end_rest(cancelled):
    """End all processes below this one; return those that were still running."""
    if reap(0.0 if cancelled else GRACE):
        return []
    left = descendants()
    for number, seconds in ((signal.SIGTERM, AFTER_TERM), (signal.SIGKILL, AFTER_TERM)):
        send(number)
        if reap(seconds):
            break
    return [{'pid': pid, 'command': command} for pid, command in left.items()]


def run(command):
    """Run the command to its end; return its status, as wait(2) gives it, and True if a signal came."""
    signals = {getattr(signal, name) for name in PASSED_ON}
    came = []

    def pass_on(number, _):
        came.append(number)
        os.kill(script, number)         # nobody has waited for it yet: no other process has its number
        if number == signal.SIGTERM and not {'SLURM_JOB_ID', 'PBS_JOBID'} & os.environ.keys():
            signal.setitimer(signal.ITIMER_REAL, LAST_SECONDS)

    signal.signal(signal.SIGALRM, lambda *_: send(signal.SIGKILL))
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    script = os.fork()
    if script == 0:
        become(command, signals)
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT).si_pid
        if ended == script:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.pthread_sigmask(signal.SIG_BLOCK, signals)
            return os.waitpid(script, 0)[1], bool(came)
        os.waitpid(ended, 0)


def become(command, signals):
    """Become the command, in the child, with this process's original signals and environment."""
    try:
        for name in ('SIGPIPE', 'SIGXFSZ'):         # Python ignores them, and adds LC_CTYPE
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
        given = [line.split('=', 1) for line in text('/proc/self/environ').split('\0') if '=' in line]
        os.execve(command[0], command, dict(given) or os.environ)
    except OSError as err:
        print(f'{command[0]}: {err.strerror}', file=sys.stderr)
    os._exit(126)


def adopt_orphans():
    set_subreaper = (36, 1, 0, 0, 0)                # PR_SET_CHILD_SUBREAPER
    try:
        import _ctypes
        prctl = _ctypes.dlsym(_ctypes.dlopen(None, 0), 'prctl')
        _ctypes.call_function(prctl, set_subreaper)
        return
    except (ImportError, OSError, AttributeError, TypeError):
        pass                                        # a Python whose ctypes is made otherwise
    try:
        import ctypes
        ctypes.CDLL(None).prctl(*set_subreaper)
    except (ImportError, OSError, AttributeError) as err:
        print(f'watch.py: a daemon of this job would be left running: {err}', file=sys.stderr)


def as_json(value):
    """Return a dict, list, str, number or None as JSON."""
    if isinstance(value, dict):
        return '{' + ', '.join(f'{quoted(key)}: {as_json(item)}' for key, item in value.items()) + '}'
    if isinstance(value, list):
        return '[' + ', '.join(as_json(item) for item in value) + ']'
    if isinstance(value, str):
        return quoted(value)
    return 'null' if value is None else repr(value)


def main(command):
    adopt_orphans()
    cpus = os.sched_getaffinity(0)
    before = Reading(cpus)
    status, cancelled = run(command)
    left = end_rest(cancelled)
    report = used(before, Reading(cpus))
    report['left'] = left
    for key, value in report.items():
        if isinstance(value, float):
            report[key] = round(value, 3)
    try:
        with open(os.path.join(HERE, 'watch.json'), 'w') as file:
            file.write(as_json(report))
    except OSError as err:
        print(f'watch.json: {err.strerror}', file=sys.stderr)
    if os.WIFSIGNALED(status):          # end as the script did
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
        os.kill(os.getpid(), number)
    sys.stderr.flush()
    os._exit(os.WEXITSTATUS(status))    # without the 2 ms in which Python cleans up


if __name__ == '__main__':
    main(sys.argv[1:])
