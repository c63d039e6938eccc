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
from parity.judge.stats.laws import lu_messages

#: Steps of a formula, with those of the functions that it calls, and how deep they nest.
STEPS, DEEPEST = 2000, 50
#: Characters of a formula; groups of points, and points that are divided.
LONGEST, GROUPS, POINTS = 1000, 20, 2000

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow}


def _law(name: str) -> Callable[..., Any]:
    """Return a function of `parity.study.published.fits`, which loads scipy only where it is called."""
    def law(*given: Any) -> Any:
        from parity.study.published import fits
        return getattr(fits, name)(*given)
    return law


def _lu(which: str) -> Callable[[float, float, float], float]:
    """Return a function of (points, iterations, ranks): what `lu_messages` calls ``which``."""
    return lambda *sizes: getattr(lu_messages(*map(int, sizes)), which)


def _group(k: float, number: float, *lists: Any) -> Any:
    """Return one of k groups of the points, the largest first (`parity.study.published.fits.clusters`)."""
    if not 1 <= number <= k <= GROUPS:
        raise ValueError(f'group {number:g} of {k:g}: must be one of 1 to {GROUPS} groups')
    if any(np.ndim(each) == 0 or len(each) > POINTS for each in lists):
        raise ValueError(f'groups are of lists of at most {POINTS} points')
    return _law('clusters')(list(zip(*lists, strict=True)), int(k))[int(number) - 1]


def _geometric_mean(values: Any) -> float:
    if np.min(values) <= 0:
        raise ValueError('a geometric mean is of values above 0')
    return float(np.exp(np.log(values).mean()))


#: In `rtt_us(mtu, switch, rate)`: the name of a function, and of its parameters.
NAME = re.compile(r'\w+')


class Function(NamedTuple):
    """A function of formulas: how many arguments it takes, its steps, and how deep it nests."""

    takes: int
    call: Callable[..., Any]
    steps: int = 1
    depth: int = 1


Functions = Mapping[str, Function]
FUNCTIONS: Functions = {
    # of a list; ceil also of a number
    'sum': Function(1, np.sum), 'max': Function(1, np.max), 'ceil': Function(1, np.ceil),
    'geometric_mean': Function(1, _geometric_mean),
    # of the number of groups, that of one, and two lists: its members, and its mean of the first list
    'group_size': Function(4, lambda *given: _group(*given).size),
    'group_mean': Function(4, lambda *given: _group(*given).centroid[0]),
    # of points a side, iterations and ranks: receives of a rank, and bytes
    'lu_receives': Function(3, _lu('blocking')), 'lu_receive_bytes': Function(3, _lu('blocking_bytes')),
    'lu_nonblocking_bytes': Function(3, _lu('nonblocking_bytes'))}


def functions(declared: Mapping[str, str]) -> Functions:
    """Return FUNCTIONS and those that a study declares: formulas of their parameters and of functions above.

    Raises ValueError for a formula that is none; `wrong` says why."""
    found = dict(FUNCTIONS)
    for head, text in declared.items():
        name, *parameters = NAME.findall(head)
        body = _body(text)
        found[name] = Function(len(parameters), partial(_called, text, parameters, found),
                               _steps(body, found), _depth(body, found))
    return found


def _body(text: str) -> ast.expr:
    """Return a formula's tree. ValueError where it is no formula, or too long."""
    if len(text) > LONGEST:
        raise ValueError(f'{text[:40]!r}...: {len(text)} characters; must have at most {LONGEST}')
    try:
        return ast.parse(text, mode='eval').body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ValueError(f'{text!r} is no formula; valid is, for instance, a0 / ranks') from None


def _steps(body: ast.expr, functions: Functions) -> int:
    """Return the steps of a formula: its nodes, and those of the functions that it calls."""
    nodes = list(ast.walk(body))
    called = (functions[node.id] for node in nodes if isinstance(node, ast.Name) and node.id in functions)
    return len(nodes) + sum(function.steps for function in called)


def _depth(body: ast.AST, functions: Functions) -> int:
    """Return how deep a formula nests, with the functions that it calls."""
    deepest, left = 0, [(body, 1)]
    while left:
        node, depth = left.pop()
        if isinstance(node, ast.Name) and node.id in functions:
            depth += functions[node.id].depth
        deepest = max(deepest, depth)
        left += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest


def _called(text: str, parameters: Sequence[str], known: Functions, *given: Any) -> float:
    return value(text, dict(zip(parameters, given, strict=True)), known)


def wrong(text: str, names: Collection[str], functions: Functions = FUNCTIONS) -> str:
    """Return what is wrong with a formula, and what is valid; '' for nothing."""
    try:
        body = _body(text)
    except ValueError as err:
        return str(err)
    if (depth := _depth(body, functions)) > DEEPEST:
        return f'{text[:40]!r} nests {depth} deep, with the functions that it calls; must be at most {DEEPEST}'
    if (steps := _steps(body, functions)) > STEPS:
        return f'{text[:40]!r} takes {steps} steps, with the functions that it calls; must be at most {STEPS}'
    nodes = list(ast.walk(body))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
                if len(arguments) != (needed := functions[name].takes):
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


def value(text: str, names: Mapping[str, Any], functions: Functions = FUNCTIONS) -> float:
    """Return the value of a formula that `wrong` finds nothing in. ``names``: numbers and lists.

    ArithmeticError and ValueError where it has none."""
    known = {name: np.asarray(of, float) if isinstance(of, list) else of for name, of in names.items()}

    def of(node: ast.expr) -> Any:
        match node:
            case ast.BinOp():
                return _OPERATORS[type(node.op)](of(node.left), of(node.right))
            case ast.UnaryOp():
                return -of(node.operand)
            case ast.Call(func=ast.Name(id=name)):
                return functions[name].call(*map(of, node.args))
            case ast.Name(id=name):
                return known[name]
            case ast.Constant(value=number):
                return float(number)
        raise ValueError(ast.dump(node))

    try:
        with np.errstate(divide='raise', over='raise', invalid='raise'):
            found = of(ast.parse(text, mode='eval').body)
    except TypeError as err:
        raise ValueError(f'{text!r} has no value: {err}') from None
    if getattr(found, 'ndim', 0):
        raise ValueError(f'{text!r} is a list, not a number: use sum()')
    number = _real(text, found)
    if not math.isfinite(number):
        raise ValueError(f'{text!r} is not finite')
    return number


def _real(text: str, found: Any) -> float:
    if isinstance(found, complex):
        raise ValueError(f'{text!r} is no real number: a root of one below 0 is none')
    return float(found)
