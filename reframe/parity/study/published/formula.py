"""Arithmetic of numbers that follow from others: + - * / **, names, and a few functions, of figures and lists."""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from parity.base.errors import unknown
from parity.judge.stats.laws import Messages, lu_messages
from parity.study.published import fits
from parity.study.published.fits import Cluster

#: Steps of a formula, with those of the functions that it calls, and how deep they nest.
STEPS, DEEPEST = 2000, 50
#: Characters of a formula; groups of points, and points that are divided.
LONGEST, GROUPS, POINTS = 1000, 20, 2000

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow}
#: Nodes of a formula that are neither a name, a number nor a call.
_SYNTAX = (ast.BinOp, ast.UnaryOp, ast.USub, ast.expr_context, *_OPERATORS)
#: In `rtt_us(mtu, switch, rate)`: the name of a function, and of its parameters.
NAME = re.compile(r'\w+')


# ---- functions

@dataclass(frozen=True)
class Function:
    """A function of formulas: how many numbers or lists it takes, and what gives its value."""

    takes: int
    call: Callable[..., Any]


@dataclass(frozen=True)
class Declared:
    """A function that a study declares: a formula of its parameters."""

    parameters: Sequence[str]
    body: ast.expr

    @property
    def takes(self) -> int:
        return len(self.parameters)


Functions = Mapping[str, Function | Declared]


def _group(k: float, number: float, *lists: Any) -> Cluster:
    """Return one of k groups of the points, the largest first."""
    if not 1 <= number <= k <= GROUPS:
        raise ValueError(f'group {number:g} of {k:g}: must be one of 1 to {GROUPS} groups')
    for column in lists:
        is_number = np.ndim(column) == 0
        if is_number or len(column) > POINTS:
            raise ValueError(f'groups are of lists of at most {POINTS} points')
    groups = _divided(tuple(zip(*lists, strict=True)), int(k))
    return groups[int(number) - 1]


#: An interval asks for the groups of the same points in each formula and each group.
_divided = functools.lru_cache(maxsize=1000)(fits.clusters)


def _group_size(*given: Any) -> int:
    return _group(*given).size


def _group_mean(*given: Any) -> float:
    return _group(*given).centroid[0]


def _geometric_mean(values: Any) -> float:
    if np.min(values) <= 0:
        raise ValueError('a geometric mean is of values above 0')
    return float(np.exp(np.log(values).mean()))


def _deviation(values: Any) -> float:
    """Return the standard deviation of a sample."""
    if np.size(values) < 2:
        raise ValueError('a standard deviation is of 2 values or more')
    return float(np.std(values, ddof=1))


def _lu(points: float, iterations: float, ranks: float) -> Messages:
    return lu_messages(int(points), int(iterations), int(ranks))


def _lu_receives(*sizes: float) -> float:
    return _lu(*sizes).blocking


def _lu_receive_bytes(*sizes: float) -> float:
    return _lu(*sizes).blocking_bytes


def _lu_nonblocking_bytes(*sizes: float) -> float:
    return _lu(*sizes).nonblocking_bytes


FUNCTIONS: Functions = {
    # of a list; ceil also of a number
    'sum': Function(1, np.sum), 'max': Function(1, np.max), 'ceil': Function(1, np.ceil),
    'mean': Function(1, np.mean), 'geometric_mean': Function(1, _geometric_mean),
    'deviation': Function(1, _deviation),
    # of the number of groups, that of one, and two lists: its members, and its mean of the first list
    'group_size': Function(4, _group_size), 'group_mean': Function(4, _group_mean),
    # of points a side, iterations and ranks: receives of a rank, and bytes
    'lu_receives': Function(3, _lu_receives), 'lu_receive_bytes': Function(3, _lu_receive_bytes),
    'lu_nonblocking_bytes': Function(3, _lu_nonblocking_bytes)}


def functions(declared: Mapping[str, str]) -> Functions:
    """Return FUNCTIONS and those that a study declares. ValueError for a formula that is none."""
    every = dict(FUNCTIONS)
    for head, text in declared.items():
        name, *parameters = NAME.findall(head)
        every[name] = Declared(parameters, _tree(text))
    return every


# ---- what is wrong with a formula

def wrong(text: str, names: Collection[str], functions: Functions = FUNCTIONS) -> str:
    """Return what is wrong with a formula, and what is valid; '' for nothing."""
    try:
        nodes = list(ast.walk(_tree(text)))
    except ValueError as err:
        return str(err)
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    for node in nodes:
        why = ''
        if isinstance(node, ast.Call):
            why = _wrong_call(node, functions)
        elif isinstance(node, ast.Name):
            if node not in called and node.id not in names:
                why = unknown('name', node.id, list(names) or ['none'])
        elif isinstance(node, ast.Constant):
            if type(node.value) not in (int, float):
                why = f'{node.value!r} is no number'
        elif not isinstance(node, _SYNTAX):
            why = f'{text!r}: only + - * / ** and {", ".join(functions)} are valid'
        if why:
            return why
    return ''


def _wrong_call(call: ast.Call, functions: Functions) -> str:
    name = ast.unparse(call.func)
    if name not in functions or call.keywords:
        return unknown('function', name, list(functions))
    needed = functions[name].takes
    if len(call.args) != needed:
        return f'{name} takes {needed} numbers'
    return ''


@functools.lru_cache(maxsize=256)
def _tree(text: str) -> ast.expr:
    """Return a formula's tree; an interval needs many values of one formula.

    ValueError where it is no formula, or too long."""
    length = len(text)
    if length > LONGEST:
        raise ValueError(f'{text[:40]!r}...: {length} characters; must have at most {LONGEST}')
    try:
        return ast.parse(text, mode='eval').body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f'{text!r} is no formula; valid is, for instance, a0 / ranks') from None


# ---- its value

def value(text: str, names: Mapping[str, Any], functions: Functions = FUNCTIONS) -> float:
    """Return the value of a formula that `wrong` finds nothing in. ``names``: numbers and lists.

    ValueError where it has none, or takes too many steps."""
    arrays = {}
    for name, given in names.items():
        arrays[name] = np.asarray(given, float) if isinstance(given, list) else given
    try:
        with np.errstate(divide='raise', over='raise', invalid='raise'):
            result = _Evaluation(text, functions).value_of(_tree(text), arrays, 1)
    except (ArithmeticError, TypeError) as err:
        raise ValueError(f'{text!r} has no value: {err.args[-1]}') from None
    if np.ndim(result):
        raise ValueError(f'{text!r} is a list, not a number: use sum()')
    if isinstance(result, complex):
        raise ValueError(f'{text!r} is no real number: a root of one below 0 is none')
    if not math.isfinite(result):
        raise ValueError(f'{text!r} is not finite')
    return float(result)


class _Evaluation:
    """The evaluation of one formula, which counts its steps."""

    def __init__(self, text: str, functions: Functions):
        self.text, self.functions, self.steps = text, functions, 0

    def value_of(self, node: ast.expr, names: Mapping[str, Any], depth: int) -> Any:
        self.steps += 1
        if self.steps > STEPS:
            raise ValueError(f'{self.text[:40]!r} takes more steps, with the functions that it calls: '
                             f'must be at most {STEPS}')
        if depth > DEEPEST:
            raise ValueError(f'{self.text[:40]!r} nests deeper, with the functions that it calls: '
                             f'must be at most {DEEPEST} deep')
        match node:
            case ast.BinOp():
                left = self.value_of(node.left, names, depth + 1)
                right = self.value_of(node.right, names, depth + 1)
                return _OPERATORS[type(node.op)](left, right)
            case ast.UnaryOp():
                return -self.value_of(node.operand, names, depth + 1)
            case ast.Call():
                arguments = [self.value_of(argument, names, depth + 1) for argument in node.args]
                return self._called(self.functions[node.func.id], arguments, depth)
            case ast.Name():
                return names[node.id]
            case ast.Constant():
                return float(node.value)
        raise ValueError(ast.dump(node))

    def _called(self, function: Function | Declared, arguments: list[Any], depth: int) -> Any:
        if isinstance(function, Function):
            return function.call(*arguments)
        names = dict(zip(function.parameters, arguments, strict=True))
        return self.value_of(function.body, names, depth + 1)
