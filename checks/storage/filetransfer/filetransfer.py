"""Files from node to node over TCP, file to file: one pair of nodes after another, and all pairs at once.

The source leaves its node's page cache before, the clock stops after fsync at the receiver, and the content is
compared after. With a cipher it passes over TLS, as scp's is ciphered. The study of Murphy and Harton (2007) moved
files of 1.5 and 20 GiB by scp.

    reframe -c checks/ -n FileTransfer -S source=local -S destination=local -S pairs=10 -r
"""

import shlex
from statistics import median
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import parameter, run_after, variable

from parity.check import Budget, Incomplete, Metric, Paired, Program, Read, Wrong, by_pair, number, same, sealed

PROGRAM = Program('filetransfer', title=r'parity-pairs 1 nodes \d+ in-flight \d+')
# bytes of a file, by size; most pairs
SIZES = {'quick': 64 << 20, 'nightly': 1 << 30, 'acceptance': 8 << 30}
PAIRS = 8
BUSY = 80           # % of a core, above which nodes that share it disturb each other
MEMORY = ('tmpfs', 'ramfs')
DISKS = ('read', 'written', 'disk')


@rfm.simple_test
class FileTransfer(rfm.RunOnlyRegressionTest, Paired, Budget):
    """Each node of the first half sends a file to its partner in the second half (inbound), or gets one back.

    ``source`` and ``destination`` are named file systems, ``bytes`` the size of a file. ``pairs`` is a number: at
    most so many, with a metric each. One by one, the file is then read and written apart from the network, too;
    `disk` is the lesser of both rates. ``half`` (first, second) has both nodes of a pair in that half. ``cipher``
    is a suite of OpenSSL that needs no certificate, such as AECDH-AES128-SHA (AES-128 in CBC mode, SHA-1)."""

    programs = ('files.py', 'filetools.py', 'room.py', 'filetransfer.py', 'tcp.py', *Paired.programs)
    how = parameter(['one-by-one', 'at-once'], type=str)
    direction = parameter(['inbound', 'outbound'], type=str)
    source = variable(str, value='scratch')
    destination = variable(str, value='scratch')
    bytes = variable(typ.Str[r'([1-9]\d{0,14})?'], value='')
    pairs = variable(typ.Str[r'([1-9]\d{0,2})?'], value='')
    half = variable(typ.Str[r'(first|second)?'], value='')
    cipher = variable(typ.Str[r'(AECDH-[A-Z0-9-]+)?'], value='')
    metrics = (Metric('seconds', 's', 'lower'), Metric('rate', 'MB/s', 'higher', limit='link_bandwidth'),
               Metric('worst', 'MB/s', 'higher', limit='link_bandwidth'))

    @run_after('init', always_last=True)        # -P sets what it sweeps after other hooks
    def declare(self):
        if self.pairs:
            self.metrics += tuple(Metric(f'pair_{n}', 's', 'lower') for n in range(1, int(self.pairs) + 1))
        if self.pairs and self.how == 'one-by-one':
            self.metrics += tuple(Metric(name, 'MB/s', 'higher') for name in DISKS)

    @run_after('setup')
    def place(self):
        alone = self.how == 'one-by-one'
        each = 4 if self.half else 2
        nodes, flight = self.disjoint_pairs(int(self.pairs or PAIRS), alone, each)
        self.asked_bytes = int(self.bytes or SIZES[self.size])
        files = 3 if self.pairs and alone else 2
        self.plan_bytes([files * nodes // each * self.asked_bytes], 1, self.destination)
        options = {'at-once': flight, 'direction': self.direction, 'bytes': self.asked_bytes,
                   'source': self.filesystem(self.source), 'destination': self.filesystem(self.destination)}
        if self.cipher:
            options['cipher'] = self.cipher
        command = ["python3 files.py send --pair '{pair}' --first '{first}'"]
        command += [shlex.quote(f'--{name}={value}') for name, value in options.items()]
        if files == 3:
            command.append('--disks')
        group = f'disjoint --half {self.half}' if self.half else 'disjoint'
        self.pair_up(nodes, flight, command, binding='none', cpus=self.extra('cores') or 1, group=group,
                     limit=int(300 + 3 * self.asked_bytes / 1e6))

    def parse(self, text):
        values, facts = read(text)
        asked = self.direction, self.asked_bytes, self.cipher
        ran = facts['direction'], facts['bytes'], facts.get('cipher', '')
        if ran != asked:
            raise Wrong(f'ran {ran}, asked for {asked}')
        if self.how == 'at-once' and self.extra('nodes_share_cpus') and facts['busiest'] > BUSY:
            busy = f'{facts["busiest"]:.0f} % busy'
            raise Incomplete(f'a core was {busy}: nodes that share it need it below {BUSY} %')
        self.note(facts)
        if self.pairs:
            values |= {f'pair_{n}': each for n, each in enumerate(facts['pairs'], 1)}
            named = [m.name for m in self.metrics if m.name.startswith('pair_')]
            none = [name for name in named if name not in values]
            self.leave_out(none, f'there are {len(facts["pairs"])} pairs')
        why = in_memory(facts)
        if why:
            self.label(values, 'cached', why)
        elif self.extra('nodes_share_cpus'):
            why = 'one disk under all nodes'
        if why:
            self.leave_out([name for name in DISKS if values.pop(name, None)], why)
        elif self.asked_bytes <= (self.extra('memory_bytes') or 0):
            self.label(DISKS, 'cached', 'perhaps: the file fits in memory')
        return values


def in_memory(facts):
    """Return why the files are not those of a disk; '' if they are."""
    kinds = {facts['source filesystem'], facts['destination filesystem']} & set(MEMORY)
    if kinds:
        return f'the files are in memory: {", ".join(sorted(kinds))}'
    share = facts['source cached']
    return f'{share:.0f} % of the source is in the page cache' if share > 1 else ''


def read(text: str) -> Read:
    """seconds: the median over the pairs; rate and worst: MB/s (10^6 bytes) of the median and of the slowest pair.
    read, written: MB/s of the disks apart from the network, medians; disk: the lesser one.

    Facts: direction, bytes, cipher where there is one; pairs: seconds of each; busiest: the busiest core, %;
    source cached, the most: %; source filesystem, destination filesystem: types. Raises Wrong where the content
    that came is another."""
    own = PROGRAM.output(text, fold=False).text
    found = [_pair(part) for part in by_pair(own, disjoint=True).values()]
    first = found[0]
    alike = {name: first[name] for name in ALIKE if name in first}
    for name, value in alike.items():
        for pair in found:
            same(name, pair.get(name), value)
    megabytes = first['bytes'] / 1e6
    seconds = [pair['seconds'] for pair in found]
    values = {'seconds': median(seconds), 'rate': megabytes / median(seconds), 'worst': megabytes / max(seconds)}
    if all('read' in pair for pair in found):
        values['read'] = megabytes / median(pair['read'] for pair in found)
        values['written'] = megabytes / median(pair['written'] for pair in found)
        values['disk'] = min(values['read'], values['written'])
    facts = {**alike, 'pairs': seconds}
    for name in ('busiest', 'source cached'):
        facts[name] = max(pair[name] for pair in found)
    return values, facts


#: What all pairs have in common.
ALIKE = ('direction', 'bytes', 'cipher', 'source filesystem', 'destination filesystem')
_END = (r'(?P<end>source|destination) on (?P<node>\S+) filesystem (?P<filesystem>\S+) '
        r'sha256 (?P<content>[0-9a-f]{64})')


def _pair(text: str) -> dict[str, Any]:
    """Read what one pair did, as ``read`` has it in its facts; read and written: seconds."""
    _, head, out = sealed(text, r'parity-transfer 1 (inbound|outbound) bytes (\d+)',
                          'parity-transfer-crc32 ([0-9a-f]{8})')
    ends = {row['end']: row for row in out.every(_END)}
    if set(ends) != {'source', 'destination'}:
        raise Incomplete(f'line {out.end}: the output ends without a source and a destination')
    source, destination = ends['source'], ends['destination']
    if source['content'] != destination['content']:
        raise Wrong(f'the content that {destination["node"]} has differs from what {source["node"]} sent')
    pair: dict[str, Any] = {'direction': head[1], 'bytes': int(head[2])}
    for end, row in ends.items():
        pair[f'{end} filesystem'] = row['filesystem']
    took = out.one(r'seconds (\S+) busiest (\S+) %')
    pair['seconds'] = float(number(took[1], 'seconds'))
    pair['busiest'] = float(number(took[2], 'busiest', zero=True))
    cached = out.one(r'source cached (\S+) %')
    pair['source cached'] = float(number(cached[1], 'source cached', zero=True))
    disks = out.maybe(r'read (\S+) written (\S+)')
    if disks:
        pair['read'] = float(number(disks[1], 'read'))
        pair['written'] = float(number(disks[2], 'written'))
    cipher = out.maybe(r'cipher (\S+)')
    if cipher:
        pair['cipher'] = cipher[1]
    return pair
