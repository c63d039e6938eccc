"""parity's copy of a class's variables beside ReFrame's own: the same values, and no class changes another."""

import pytest
import reframe as rfm
from reframe.core import variables
from reframe.core.builtins import variable
from reframe.core.warnings import suppress_deprecations

from parity.measure.rfm import patches


@pytest.fixture(params=['ReFrame', 'parity'])
def copying(request, monkeypatch):
    monkeypatch.setattr(variables, 'copy', variables.copy)
    if request.param == 'parity':
        patches.copy_values_alone()


def values(cls) -> dict:
    space = cls.var_space
    return {name: space[name]._default_value for name in ('env_vars', 'variables', 'files', 'count')}


def test_an_alias_stands_for_the_variable_of_its_own_class(copying):
    class Base(rfm.RunOnlyRegressionTest):
        files, count = variable(list, value=['a']), variable(int, value=1)
        env_vars = {'A': '1'}

    class Child(Base):
        env_vars['B'] = '2'     # noqa: F821

    with suppress_deprecations():
        class Other(Base):
            variables = {'C': '3'}

        class Grandchild(Child):
            files += ['b']      # noqa: F821

        Grandchild.setvar('variables', {'D': '4'})
    one, two = {'A': '1'}, {'A': '1', 'B': '2'}
    assert values(Base) == {'env_vars': one, 'variables': one, 'files': ['a'], 'count': 1}
    assert values(Child) == {'env_vars': two, 'variables': two, 'files': ['a'], 'count': 1}
    assert values(Other) == {'env_vars': {'C': '3'}, 'variables': {'C': '3'}, 'files': ['a'], 'count': 1}
    assert values(Grandchild) == {'env_vars': {'D': '4'}, 'variables': {'D': '4'}, 'files': ['a', 'b'], 'count': 1}
    assert rfm.RegressionTest.var_space['env_vars']._default_value == {}
