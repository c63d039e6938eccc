"""Arithmetic of numbers that follow from others: + - * / **, names, and a few functions, of figures and lists."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from parity.base.errors import unknown
from parity.stats.laws import lu_messages

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow}


class Estimate(NamedTuple):
    """``low`` and ``high`` are the 95 % interval, with its degrees of freedom; None of one value. With freedom 0
    they are certain: what printed digits leave open. ``why`` says what an interval is of that no runs have."""

    value: float
    low: float | None = None
    high: float | None = None
    freedom: float = math.inf
    why: str = ''


def _law(name: str) -> Callable[..., Any]:
    """Return a function of `parity.published.fits`, which loads scipy only where it is called."""
    def law(*given: Any) -> Any:
        from parity.published import fits
        return getattr(fits, name)(*given)
    return law


def _lu(which: str) -> Callable[[float, float, float], float]:
    """Return a function of (points, iterations, ranks): what `lu_messages` calls ``which``."""
    return lambda *sizes: getattr(lu_messages(*map(int, sizes)), which)


def _group(k: float, number: float, *lists: Any) -> Any:
    """Return one of k groups of the points, the largest first (`parity.published.fits.clusters`)."""
    return _law('clusters')(list(zip(*lists, strict=True)), int(k))[int(number) - 1]


#: In `rtt_us(mtu, switch, rate)`: the name of a function, and of its parameters.
NAME = re.compile(r'\w+')
#: Name -> how many arguments it takes, and the function.
Functions = Mapping[str, tuple[int, Callable[..., Any]]]
FUNCTIONS: Functions = {
    # of a list; ceil also of a number
    'sum': (1, np.sum), 'max': (1, np.max), 'ceil': (1, np.ceil), 'geometric_mean': (1, _law('geometric_mean')),
    # of the number of groups, that of one, and two lists: its members, and its mean of the first list
    'group_size': (4, lambda *given: _group(*given).size),
    'group_mean': (4, lambda *given: _group(*given).centroid[0]),
    # of points a side, iterations and ranks: receives of a rank, and bytes
    'lu_receives': (3, _lu('blocking')), 'lu_receive_bytes': (3, _lu('blocking_bytes')),
    'lu_nonblocking_bytes': (3, _lu('nonblocking_bytes'))}


def functions(declared: Mapping[str, str]) -> Functions:
    """Return FUNCTIONS and those that a study declares: formulas of their parameters and of functions above."""
    found = dict(FUNCTIONS)
    for head, text in declared.items():
        name, *parameters = NAME.findall(head)
        found[name] = len(parameters), partial(_called, text, parameters, found)
    return found


def _called(text: str, parameters: Sequence[str], known: Functions, *given: Any) -> float:
    return value(text, dict(zip(parameters, given, strict=True)), known).value


def wrong(text: str, names: Collection[str], functions: Functions = FUNCTIONS) -> str:
    """Return what is wrong with a formula, and what is valid; '' for nothing."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode='eval').body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f'{text!r} is no formula; valid is, for instance, a0 / ranks'
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
                if len(arguments) != (needed := functions[name][0]):
                    return f'{name} takes {needed} numbers'
            case ast.Call():
                return unknown('function', ast.unparse(node.func), list(functions))
            case ast.Name(id=name) if id(node) not in called and name not in names:
                return unknown('name', name, list(names) or ['none'])
            case ast.Constant(value=value) if isinstance(value, bool) or not isinstance(value, (int, float)):
                return f'{value!r} is no number'
            case ast.BinOp() if why := _no_constant(node):
                return f'{text!r}: {why}'
            case ast.Name() | ast.Constant() | ast.BinOp() | ast.UnaryOp() | ast.USub() | ast.expr_context():
                pass
            case _ if type(node) not in _OPERATORS:
                return f'{text!r}: only + - * / ** and {", ".join(functions)} are valid'
    return ''


def _no_constant(node: ast.BinOp) -> str:
    """Return why an operation on constants has no value, as 9**9**9**9 has none; '' of any other."""
    if any(isinstance(part, (ast.Name, ast.Call)) for part in ast.walk(node)):
        return ''
    try:
        value(ast.unparse(node), {})
    except (ArithmeticError, ValueError, TypeError) as err:
        return f'{ast.unparse(node)} has no value: {err.args[-1]}'
    return ''


def value(text: str, names: Mapping[str, Any], functions: Functions = FUNCTIONS) -> Estimate:
    """Return the value of a formula that `wrong` finds nothing in, with an interval where the whole formula is a
    geometric mean. ``names``: numbers and lists. ArithmeticError and ValueError where it has none."""
    known = {name: np.asarray(of, float) if isinstance(of, list) else of for name, of in names.items()}

    body = ast.parse(text, mode='eval').body

    def of(node: ast.expr) -> Any:
        match node:
            case ast.BinOp():
                return _OPERATORS[type(node.op)](of(node.left), of(node.right))
            case ast.UnaryOp():
                return -of(node.operand)
            case ast.Call(func=ast.Name(id=name)):
                found = functions[name][1](*map(of, node.args))
                return found.value if isinstance(found, Estimate) and node is not body else found
            case ast.Name(id=name):
                return known[name]
            case ast.Constant(value=number):
                return float(number)
        raise ValueError(ast.dump(node))

    found = of(body)
    if getattr(found, 'ndim', 0):
        raise ValueError(f'{text!r} is a list, not a number: use sum()')
    return found if isinstance(found, Estimate) else Estimate(float(found))
