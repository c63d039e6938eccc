"""Arithmetic of a study's numbers: + - * / **, names, and a few functions, over figures and lists."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

from parity.base.errors import unknown

_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
              ast.Pow: operator.pow}


def _lu(which: str) -> Callable[[float, float, float], float]:
    """Return a function of (points, iterations, ranks): what `parity.stats.laws.lu_messages` calls ``which``."""
    def messages(*sizes: float) -> float:
        from parity.stats import laws
        return getattr(laws.lu_messages(*map(int, sizes)), which)
    return messages


def _of_list(which: str) -> Callable[[Any], float]:
    def reduced(values: Any) -> float:
        import numpy as np
        return float(getattr(np, which)(values))
    return reduced


def _extrapolate(one: float, nodes: float) -> float:
    from parity.stats import laws
    return laws.extrapolate(one, int(nodes))


#: `sum` and `max` are of a list, `extrapolate` of the rate of a node and the nodes. The others take
#: points a side, iterations and ranks, and give receives of a rank, and bytes.
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    'sum': (1, _of_list('sum')), 'max': (1, _of_list('max')), 'extrapolate': (2, _extrapolate),
    'lu_receives': (3, _lu('blocking')), 'lu_receive_bytes': (3, _lu('blocking_bytes')),
    'lu_nonblocking_bytes': (3, _lu('nonblocking_bytes'))}


def wrong(text: str, names: Collection[str]) -> str:
    """Return what is wrong with a formula, and what is valid; '' for nothing."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode='eval').body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f'{text!r} is no formula; valid is, for instance, a0 / ranks'
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        match node:
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                if len(arguments) != (needed := FUNCTIONS[name][0]):
                    return f'{name} takes {needed} numbers'
            case ast.Call():
                return unknown('function', ast.unparse(node.func), list(FUNCTIONS))
            case ast.Name(id=name) if id(node) not in called and name not in names:
                return unknown('name', name, list(names) or ['none'])
            case ast.Constant(value=value) if isinstance(value, bool) or not isinstance(value, (int, float)):
                return f'{value!r} is no number'
            case ast.Name() | ast.Constant() | ast.BinOp() | ast.UnaryOp() | ast.USub() | ast.expr_context():
                pass
            case _ if type(node) not in _OPERATORS:
                return f'{text!r}: only + - * / ** and {", ".join(FUNCTIONS)} are valid'
    return ''


def value(text: str, names: Mapping[str, Any]) -> float:
    """Return the value of a formula that `wrong` finds nothing in. ``names``: numbers and lists.

    ArithmeticError and ValueError where it has none."""
    import numpy as np
    known = {name: np.asarray(of, float) if isinstance(of, list) else of for name, of in names.items()}

    def of(node: ast.expr) -> Any:
        match node:
            case ast.BinOp():
                return _OPERATORS[type(node.op)](of(node.left), of(node.right))
            case ast.UnaryOp():
                return -of(node.operand)
            case ast.Call(func=ast.Name(id=name)):
                return FUNCTIONS[name][1](*map(of, node.args))
            case ast.Name(id=name):
                return known[name]
            case ast.Constant(value=number):
                return float(number)
        raise ValueError(ast.dump(node))

    found = of(ast.parse(text, mode='eval').body)
    if getattr(found, 'ndim', 0):
        raise ValueError(f'{text!r} is a list, not a number: use sum()')
    return float(found)
