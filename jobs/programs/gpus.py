#!/usr/bin/env python3
"""Ask the driver about a node's GPUs before, while and after a command runs. No setting is changed.

    gpus.py run -- COMMAND...       start COMMAND, write gpus.json here, end with its exit code
    gpus.py each -- COMMAND...      the same with COMMAND once for each device, all at once
    gpus.py tell                    print the report, run nothing

The report is the model Report of parity.measure.machine.gpu. It comes from NVML, else from nvidia-smi. AMD's tools
are not read: no output of a machine with their driver was recorded. A value that a driver does not tell is null.

`each` shows COMMAND one device (CUDA_VISIBLE_DEVICES) and prints, by bus, when all have ended:

    parity-device INDEX UUID BUS
    (what COMMAND printed)
    parity-device-end INDEX UUID BUS exit N
    parity-devices-end DEVICES
"""

import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from ctypes import byref, c_char, c_int, c_longlong, c_uint, c_ulonglong

PASSED_ON = ('SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGXCPU')
#: The commands that were started.
RUNNING = []
#: Seconds for an answer about all devices: a broken one may never answer.
PATIENCE = 30
#: A sample is one under load if kernels ran for at least so many percent of the time before it.
BUSY = 50

STATIC = {'name': '', 'error': '', 'mig': None, 'arch': '', 'units': None, 'clock_mhz': None,
          'memory_clock_mhz': None, 'memory_bus_bits': None, 'memory_bytes': None, 'pcie_gen': None,
          'pcie_width': None, 'nvlinks': None, 'nvlink_mbps': None, 'power_limit_w': None,
          'power_limit_default_w': None, 'xids': None}
SLOWED = {'hardware': None, 'thermal': None, 'power_brake': None, 'power_cap': None}
STATE = {'uncorrected': None, 'rows_pending': None, 'rows_failed': None, 'recovery': None, 'energy_mj': None,
         'slowed_ns': SLOWED, 'nvlink_errors': None, 'processes': None}
#: Counters of errors of a port (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
PORT_ERRORS = ('symbol_error', 'link_error_recovery', 'link_downed', 'port_rcv_errors',
               'local_link_integrity_errors', 'excessive_buffer_overrun_errors')

# from nvml.h of CUDA 13.5
SUCCESS, NO_PERMISSION, ABSENT, LOST, NEEDS_RESET = 0, 4, 13, 15, 16
SM, MEMORY = 1, 2                               # nvmlClockType_t
UNCORRECTED, VOLATILE = 1, 0                    # nvmlMemoryErrorType_t, nvmlEccCounterType_t
POWER_CAP, THERMAL, ENERGY, RECOVERY = 74, 75, 83, 230                          # NVML_FI_DEV_...
NVLINK_SPEED, NVLINKS, NVLINK_SPEED_OF = 90, 91, 164
#: Errors of all NVLinks of a device: CRC of flits and of data, replays, recoveries; of one link from Hopper on.
NVLINK_TOTALS, NVLINK_ERRORS_OF = (38, 45, 52, 59), (161, 162, 163)
XID_ERROR = 8                                   # nvmlEventTypeXidCriticalError
CLOCKS_SET = 2                                  # nvmlClocksEventReasonApplicationsClocksSetting
WHOLE = {1: c_uint, 2: c_ulonglong, 3: c_ulonglong, 4: c_ulonglong, 5: c_uint}  # nvmlValueType_t
ACTIONS = ('none', 'reset', 'reboot', 'drain', 'drain and reset', 'recover the IMEX domain', 'reset of the bus',
           'reboot of the system')              # nvmlDeviceGpuRecoveryAction_t
#: Cores of a streaming multiprocessor (CUDA C++ Programming Guide, compute capabilities).
CORES = {'sm_70': 64, 'sm_75': 64, 'sm_80': 64, 'sm_86': 128, 'sm_89': 128, 'sm_90': 128, 'sm_100': 128}


class Pci(ctypes.Structure):
    _fields_ = [('legacy', c_char * 16), ('numbers', c_uint * 5), ('text', c_char * 32)]


class Field(ctypes.Structure):
    _fields_ = [('id', c_uint), ('scope', c_uint), ('timestamp', c_longlong), ('latency', c_longlong),
                ('type', c_int), ('code', c_int), ('value', c_ulonglong)]


class Event(ctypes.Structure):
    _fields_ = [('device', ctypes.c_void_p), ('type', c_ulonglong), ('data', c_ulonglong), ('instance', c_uint),
                ('compute', c_uint)]


class Process(ctypes.Structure):
    _fields_ = [('pid', c_uint), ('bytes', c_ulonglong), ('instance', c_uint), ('compute', c_uint)]


class Card:
    """A device: what it told, and the ``handle`` by which its driver knows it."""

    def __init__(self, handle, **told):
        self.handle = handle
        self.samples = []
        self.known = set()      # processes that it had before
        self.run = None         # the command for it alone
        self.told = dict({'index': 0, 'uuid': '', 'bus': ''}, **STATIC)
        self.told.update(told, before=STATE, after=STATE)


class Nvml:
    source = 'nvml'

    def __init__(self):
        self.library = ctypes.CDLL('libnvidia-ml.so.1')
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        self.need(self.call('nvmlInit_v2'))
        text = ctypes.create_string_buffer(80)
        self.call('nvmlSystemGetDriverVersion', text, c_uint(80))
        self.driver = text.value.decode(errors='replace')
        self.counters = counters(self.driver)
        self.events = ctypes.c_void_p()
        if self.call('nvmlEventSetCreate', byref(self.events)):
            self.events = None

    def call(self, name, *arguments):
        function = getattr(self.library, name, None)
        return function(*arguments) if function else ABSENT

    def said(self, code):
        return f'{self.library.nvmlErrorString(code).decode(errors="replace")} (NVML error {code})'

    def need(self, code):
        if code:
            raise OSError(self.said(code))

    def answers(self, card, name, *arguments):
        """Return True if the device answers; note if it is lost."""
        code = self.call(name, card.handle, *arguments)
        if code in (LOST, NEEDS_RESET):
            card.told['error'] = self.said(code)
        return code == SUCCESS

    def ask(self, card, name, *given, count=1, kind=c_uint):
        """Return the ``count`` numbers that the device tells, in a list if several; None for each unknown."""
        numbers = [kind() for _ in range(count)]
        known = self.answers(card, name, *given, *map(byref, numbers))
        values = [number.value if known else None for number in numbers]
        return values if count > 1 else values[0]

    def text(self, card, name):
        buffer = ctypes.create_string_buffer(96)
        if not self.answers(card, name, buffer, c_uint(96)):
            return ''
        return buffer.value.decode(errors='replace')

    def cards(self):
        count = c_uint()
        self.need(self.call('nvmlDeviceGetCount_v2', byref(count)))
        for index in range(count.value):
            handle = ctypes.c_void_p()
            code = self.call('nvmlDeviceGetHandleByIndex_v2', c_uint(index), byref(handle))
            if code == NO_PERMISSION:           # the device of another job
                continue
            card = Card(handle, error=self.said(code) if code else '')
            yield card
            if not code:
                self.describe(card)

    def describe(self, card):
        """Note what a device tells of itself."""
        pci = Pci()
        if self.answers(card, 'nvmlDeviceGetPciInfo_v3', byref(pci)):
            card.told['bus'] = pci.text.decode(errors='replace')
        self.describe_processor(card)
        self.describe_memory(card)
        self.describe_links(card)
        self.describe_power(card)
        if self.events and self.answers(card, 'nvmlDeviceRegisterEvents', c_ulonglong(XID_ERROR), self.events):
            card.told['xids'] = []
        card.told['uuid'] = self.text(card, 'nvmlDeviceGetUUID')
        card.told['name'] = self.text(card, 'nvmlDeviceGetName')

    def describe_processor(self, card):
        major, minor = self.ask(card, 'nvmlDeviceGetCudaComputeCapability', count=2)
        arch = '' if major is None else f'sm_{major}{minor}'
        cores = self.ask(card, 'nvmlDeviceGetNumGpuCores')
        mig, _ = self.ask(card, 'nvmlDeviceGetMigMode', count=2)
        card.told['arch'] = arch
        card.told['units'] = cores // CORES[arch] if cores and arch in CORES else None
        card.told['mig'] = None if mig is None else mig == 1
        card.told['clock_mhz'] = self.ask(card, 'nvmlDeviceGetMaxClockInfo', SM)

    def describe_memory(self, card):
        memory = (c_ulonglong * 3)()            # nvmlMemory_t: total, free, used
        known = self.answers(card, 'nvmlDeviceGetMemoryInfo', byref(memory))
        card.told['memory_bytes'] = memory[0] if known else None
        card.told['memory_clock_mhz'] = self.ask(card, 'nvmlDeviceGetMaxClockInfo', MEMORY)
        card.told['memory_bus_bits'] = self.ask(card, 'nvmlDeviceGetMemoryBusWidth')

    def describe_links(self, card):
        links = self.fields(card, [NVLINKS, NVLINK_SPEED])
        speed = links[NVLINK_SPEED] or self.fields(card, [NVLINK_SPEED_OF])[NVLINK_SPEED_OF]
        card.told['pcie_gen'] = self.ask(card, 'nvmlDeviceGetMaxPcieLinkGeneration')
        card.told['pcie_width'] = self.ask(card, 'nvmlDeviceGetMaxPcieLinkWidth')
        card.told['nvlinks'] = links[NVLINKS]
        card.told['nvlink_mbps'] = speed

    def describe_power(self, card):
        enforced = self.ask(card, 'nvmlDeviceGetEnforcedPowerLimit')
        default = self.ask(card, 'nvmlDeviceGetPowerManagementDefaultLimit')
        card.told['power_limit_w'] = watts(enforced)
        card.told['power_limit_default_w'] = watts(default)

    def watch(self, cards):
        """Note the XIDs that came since the devices were described."""
        event = Event()
        while self.events and self.call('nvmlEventSetWait_v2', self.events, byref(event), c_uint(0)) == SUCCESS:
            for card in cards:
                if card.handle.value == event.device and event.type == XID_ERROR:
                    card.told['xids'].append(event.data)

    def nvlink_errors(self, card):
        """Return the errors of all NVLinks of the device since its driver was loaded; None if not told."""
        totals = [*self.fields(card, NVLINK_TOTALS).values()]
        for link in range(card.told['nvlinks'] or 0):
            totals += self.fields(card, NVLINK_ERRORS_OF, link).values()
        known = [count for count in totals if count is not None]
        return sum(known) if known else None

    def state(self, card):
        """Return the model State of a device."""
        _, _, pending, failed = self.ask(card, 'nvmlDeviceGetRemappedRows', count=4)
        uncorrected = self.ask(card, 'nvmlDeviceGetTotalEccErrors', UNCORRECTED, VOLATILE, kind=c_ulonglong)
        fields = self.fields(card, [ENERGY, RECOVERY, *self.counters.values()])
        slowed = dict(SLOWED)
        for why, field in self.counters.items():
            slowed[why] = fields[field]
        return {
            'uncorrected': uncorrected,
            'rows_pending': yes_or_no(pending),
            'rows_failed': yes_or_no(failed),
            'recovery': action(fields[RECOVERY]),
            'energy_mj': fields[ENERGY],
            'slowed_ns': slowed,
            'nvlink_errors': self.nvlink_errors(card),
            'processes': self.processes(card)}

    def processes(self, card):
        """Return the processes that use a device, sorted; None if not told."""
        count = c_uint(1024)
        processes = (Process * count.value)()
        if not self.answers(card, 'nvmlDeviceGetComputeRunningProcesses_v3', byref(count), processes):
            return None
        return sorted(process.pid for process in processes[:count.value])

    def fields(self, card, ids, scope=0):
        """Return {id: value} of field values; None for each that is not told."""
        values = (Field * len(ids))(*(Field(id=number, scope=scope) for number in ids))
        known = self.answers(card, 'nvmlDeviceGetFieldValues', c_int(len(ids)), values)
        found = {}
        for field in values:
            is_told = known and field.code == SUCCESS and field.type in WHOLE
            found[field.id] = WHOLE[field.type](field.value).value if is_told else None
        return found

    def load(self, card):
        """Return a sample of a device under load."""
        utilization = (c_uint * 2)()            # nvmlUtilization_t: kernels, memory
        busy_is_told = self.answers(card, 'nvmlDeviceGetUtilizationRates', byref(utilization))
        clock = self.ask(card, 'nvmlDeviceGetClockInfo', SM)
        temperature = self.ask(card, 'nvmlDeviceGetTemperature', 0)
        milliwatts = self.ask(card, 'nvmlDeviceGetPowerUsage')
        pcie_gen = self.ask(card, 'nvmlDeviceGetCurrPcieLinkGeneration')
        pcie_width = self.ask(card, 'nvmlDeviceGetCurrPcieLinkWidth')
        return {
            'busy': utilization[0] if busy_is_told else None,
            'clock_mhz': clock,
            'temperature_c': temperature,
            'power_w': watts(milliwatts),
            'clocks_set': self.clocks_set(card),
            'pcie_gen': pcie_gen,
            'pcie_width': pcie_width}

    def clocks_set(self, card):
        """Return True where a person has set the clocks of a device; None if not told."""
        reasons = c_ulonglong()
        is_told = self.answers(card, 'nvmlDeviceGetCurrentClocksEventReasons', byref(reasons))
        return bool(reasons.value & CLOCKS_SET) if is_told else None


def yes_or_no(number):
    """Return whether a number is not 0; None where it is not told."""
    return None if number is None else bool(number)


def watts(milliwatts):
    """Return a power in W; None where it is not told."""
    return None if milliwatts is None else milliwatts / 1000


def action(number):
    """Return the words for nvmlDeviceGpuRecoveryAction_t; None where it is not told."""
    if number is None:
        return None
    return ACTIONS[number] if number < len(ACTIONS) else f'action {number}'


def counters(driver):
    """Return the ids of the field values that count, in ns, how long a device was slowed, by reason.

    Driver 575 brought three, and 580.82 gave these other ids (NVML API Reference Guide, Known Issues). An older
    one counts by its thermal policy, which became the first (nvml.h, nvmlDeviceGetViolationStatus)."""
    version = [int(word) for word in re.findall(r'\d+', driver)[:2]]
    if version < [575]:
        return {'power_cap': POWER_CAP, 'thermal': THERMAL}
    first = 269 if version >= [580, 82] else 251
    return {'power_cap': POWER_CAP, 'thermal': first, 'hardware': first + 1, 'power_brake': first + 2}


class Smi:
    """nvidia-smi, one query a device: one lost device ends a query about all."""

    source = 'nvidia-smi'

    def watch(self, cards):
        """Do nothing: nvidia-smi tells of no XID."""

    def __init__(self):
        self.driver = self.query('driver_version')[0][0]

    @staticmethod
    def query(what, *options):
        """Return the words of each line; None for what is not told. Raise OSError with the complaint."""
        said = output('nvidia-smi', *options, f'--query-gpu={what}', '--format=csv,noheader,nounits')
        if not said or 'Unknown Error' in said or 'GPU is lost' in said:
            raise OSError(said or 'it says nothing')
        lines = []
        for line in said.splitlines():
            words = [word.strip() for word in line.split(',')]
            lines.append([None if re.match(r'\[.*\]$|N/A$', word) else word for word in words])
        return lines

    def ask(self, card, **names):
        """Return the answers by our names; note an error."""
        try:
            (words,) = self.query(','.join(names.values()), f'--id={card.handle}')
        except (OSError, ValueError) as err:
            card.told['error'] = str(err)
            words = [None] * len(names)
        return {name: number(words[place]) for place, name in enumerate(names)}

    def cards(self):
        for uuid, bus in self.query('uuid,pci.bus_id'):
            card = Card(uuid, uuid=uuid, bus=bus)
            yield card
            found = self.ask(card, name='name', arch='compute_cap', mig='mig.mode.current',
                             clock_mhz='clocks.max.sm', memory_clock_mhz='clocks.max.mem',
                             pcie_gen='pcie.link.gen.max', pcie_width='pcie.link.width.max',
                             power_limit_w='enforced.power.limit', power_limit_default_w='power.default_limit')
            found['arch'] = f'sm_{found["arch"]}'.replace('.', '') if found['arch'] else ''
            found['mig'] = {'Enabled': True, 'Disabled': False}.get(found['mig'])
            card.told.update(found, name=str(found['name'] or ''))

    def state(self, card):
        return dict(STATE, **self.ask(card, uncorrected='ecc.errors.uncorrected.volatile.total'))

    def load(self, card):
        sample = self.ask(card, busy='utilization.gpu', clock_mhz='clocks.sm', temperature_c='temperature.gpu',
                          power_w='power.draw', pcie_gen='pcie.link.gen.current',
                          pcie_width='pcie.link.width.current')
        return dict(sample, clocks_set=None)


def number(word):
    """Return the number that a word is, else the word."""
    for kind in (int, float):
        try:
            return kind(word)
        except (TypeError, ValueError):
            pass
    return word


def output(*command):
    """Return what a program says. Raise OSError if it fails."""
    if not shutil.which(command[0]):
        raise OSError('not on PATH')
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    said = run.communicate()[0].decode(errors='replace').strip()
    if run.returncode:
        raise OSError(said or f'exit code {run.returncode}')
    return said


class Amd:
    """AMD's tools: why they give no device."""

    def __init__(self):
        error = re.search('^ERROR.*', output(self.source), re.M)        # rocm-smi exits 0 without a driver
        raise OSError(error.group() if error else 'its answers are not known to this program')


class AmdSmi(Amd):
    source = 'amd-smi'


class RocmSmi(Amd):
    source = 'rocm-smi'


class Driver:
    """All devices of the node. Nothing that goes wrong here reaches the command: the report says it."""

    def __init__(self):
        self.source = None
        self.cards = []
        self.at = None          # the device that is being asked
        self.hung = False
        self.seconds = 0.0
        self.why = []
        for kind in (Nvml, Smi, AmdSmi, RocmSmi):
            if not self.source:
                self.guard(kind.source, lambda kind=kind: self.take(kind()))
        self.cards = visible(by_bus(self.cards))

    def take(self, source):
        self.source = source
        for self.at in source.cards():
            self.cards.append(self.at)

    def guard(self, name, read):
        """Call ``read``; note why it failed. After PATIENCE seconds blame the device that it asks, and ask none
        again."""
        why = []

        def body():
            try:
                read()
            except Exception as err:
                why.append(str(err))

        if self.hung:
            return
        thread = threading.Thread(target=body, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            self.hung = True
            why.append(f'no answer in {PATIENCE} s')
            if self.at:
                self.at.told['error'] = why[0]
        self.why += [f'{name}: {reason}' for reason in why]

    def every(self, read):
        """Call ``read`` with each device that answers."""
        def body():
            for card in self.cards:
                self.at = card
                if not card.told['error']:
                    read(card)
        self.guard_source(body)

    def guard_source(self, read):
        self.guard(self.source and self.source.source, read)

    def before(self):
        def read(card):
            state = self.source.state(card)
            card.known = set(state['processes'] or ())
            card.told['before'] = card.told['after'] = state
        self.every(read)
        self.ports = port_errors()
        self.began = time.monotonic()

    def meanwhile(self):
        self.every(lambda card: card.samples.append(self.source.load(card)))

    def after(self):
        self.seconds = time.monotonic() - self.began

        def read(card):
            state = self.source.state(card)
            if state['processes']:
                state['processes'] = [pid for pid in state['processes'] if pid in card.known or foreign(pid)]
            card.told['after'] = state
        self.every(read)
        self.guard_source(lambda: self.source and self.source.watch(self.cards))

    def report(self):
        """Return the report as JSON; its last key is the CRC-32 of the others."""
        for card in self.cards:
            card.told['during'] = extremes(card.samples)
        report = {'node': os.uname().nodename, 'source': 'none', 'why': '; '.join(self.why), 'driver': '',
                  'seconds': self.seconds, 'infiniband': grown(self.ports, port_errors()),
                  'devices': [card.told for card in self.cards]}
        if self.source:
            report.update(source=self.source.source, driver=self.source.driver)
        checksum = zlib.crc32(json.dumps(report, sort_keys=True).encode())
        report['crc32'] = format(checksum, '08x')
        return json.dumps(report, indent=1) + '\n'


def port_errors():
    """Return the counters of errors of each InfiniBand port of the node, by its name."""
    ports = {}
    for port in glob.glob('/sys/class/infiniband/*/ports/*'):
        device, number = port.split('/')[4::2]
        for name in PORT_ERRORS:
            try:
                with open(f'{port}/counters/{name}') as file:
                    ports.setdefault(f'{device} port {number}', {})[name] = int(file.read())
            except (OSError, ValueError):
                pass
    return ports


def grown(before, after):
    """Return the counters of each port that grew, by how much."""
    grew = {}
    for port, counts in after.items():
        grew[port] = {}
        for name, count in counts.items():
            by = count - before.get(port, {}).get(name, count)
            if by:
                grew[port][name] = by
    return grew


def by_bus(cards):
    """Return the devices by bus, and one without keeps its place; each index is the place."""
    ordered = sorted((card for card in cards if card.told['bus']), key=lambda card: card.told['bus'])
    for place, card in enumerate(cards):
        if not card.told['bus']:
            ordered.insert(place, card)
    for place, card in enumerate(ordered):
        card.told['index'] = place
    return ordered


def visible(cards):
    """Return the devices that CUDA_VISIBLE_DEVICES names by UUID, or by place on the bus; all without it."""
    names = [word.strip() for word in os.environ.get('CUDA_VISIBLE_DEVICES', '').split(',')]
    if not all(re.match(r'\d+$|GPU-', name) for name in names):
        return cards
    beginnings = tuple(name for name in names if name.startswith('GPU-'))
    seen = []
    for place, card in enumerate(cards):
        if str(place) in names or card.told['uuid'].startswith(beginnings):
            seen.append(card)
    return seen


def foreign(pid):
    """Return True for a process of another user."""
    try:
        return os.stat(f'/proc/{pid}').st_uid != os.getuid()
    except OSError:             # gone, or of another name space
        return False


def extremes(samples):
    """Return the model Load of a device's samples: clocks and PCIe of those under load, heat and power of all."""
    busy = [sample for sample in samples if (sample['busy'] or 0) >= BUSY]
    clocks = told_values(busy, 'clock_mhz')
    settings = told_values(busy, 'clocks_set')
    usual_setting = settings[len(settings) // 2] if settings else None
    return {
        'samples': len(busy),
        'clock_mhz': median(clocks),
        'lowest_clock_mhz': min(clocks, default=None),
        'temperature_c': largest(samples, 'temperature_c'),
        'power_w': largest(samples, 'power_w'),
        'clocks_set': usual_setting,
        'pcie_gen': largest(busy, 'pcie_gen'),
        'pcie_width': largest(busy, 'pcie_width')}


def median(ordered):
    """Return the median of sorted numbers; None without any."""
    if not ordered:
        return None
    half = len(ordered) // 2
    return (ordered[half] + ordered[-half - 1]) / 2


def told_values(samples, name):
    """Return the values of samples that the driver told, sorted."""
    return sorted(sample[name] for sample in samples if sample[name] is not None)


def largest(samples, name):
    """Return the largest value of the samples; None where none is known."""
    return max(told_values(samples, name), default=None)


def start(command, **options):
    """Start a command, which then receives the signals of this program; return None if it cannot be started."""
    try:
        RUNNING.append(subprocess.Popen(command, **options))
    except OSError as err:
        print(f'gpus.py: {command[0]}: {err.strerror}', file=sys.stderr)
        return None
    return RUNNING[-1]


def wait(driver):
    """Wait for all commands to end, with a sample a second."""
    due = time.monotonic() + 1
    for run in RUNNING:
        while run.poll() is None:
            try:
                run.wait(max(0.01, due - time.monotonic()))
            except subprocess.TimeoutExpired:
                driver.meanwhile()
                due = max(due + 1, time.monotonic())
    driver.after()


def ended(run):
    """Return the exit code of a command as a shell has it."""
    if not run:
        return 127
    return run.returncode if run.returncode >= 0 else 128 - run.returncode


def each(driver, command):
    """Run the command on each device at once; print what each said. Return the first exit code that is not 0."""
    cards = [card for card in driver.cards if not card.told['error']]
    for card in cards:
        card.output = tempfile.TemporaryFile()
        env = dict(os.environ, CUDA_DEVICE_ORDER='PCI_BUS_ID', CUDA_VISIBLE_DEVICES=card.told['uuid'])
        card.run = start(command, stdout=card.output, stderr=subprocess.STDOUT, env=env)
    wait(driver)
    for card in cards:
        name = '{index} {uuid} {bus}'.format(**card.told)
        print(f'parity-device {name}', flush=True)
        card.output.seek(0)
        printed = card.output.read()
        if printed and not printed.endswith(b'\n'):
            printed += b'\n'
        sys.stdout.buffer.write(printed)
        print(f'parity-device-end {name} exit {ended(card.run)}', flush=True)
    print(f'parity-devices-end {len(cards)}', flush=True)
    if not cards:
        print(f'gpus.py: no device answers: {"; ".join(driver.why)}', file=sys.stderr)
        return 1
    codes = [ended(card.run) for card in cards]
    return next(filter(None, codes), 0)


def main(mode='', *words):
    if mode == 'tell' and not words:
        driver = Driver()
        driver.before()
        print(driver.report(), end='')
        return 0
    if mode not in ('run', 'each') or words[:1] != ('--',) or not words[1:]:
        print('usage: gpus.py run -- COMMAND... | gpus.py each -- COMMAND... | gpus.py tell', file=sys.stderr)
        return 2
    driver = Driver()
    driver.before()
    for name in PASSED_ON:
        signal.signal(getattr(signal, name), lambda number, _: [run.send_signal(number) for run in RUNNING])
    if mode == 'each':
        code = each(driver, words[1:])
    else:
        run = start(words[1:])
        wait(driver)
        code = ended(run)
    try:
        with open('gpus.json', 'w') as file:
            file.write(driver.report())
    except OSError as err:
        print(f'gpus.py: gpus.json: {err.strerror}', file=sys.stderr)
    return code


if __name__ == '__main__':
    status = main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)            # a thread that waits for a broken device would wait on
