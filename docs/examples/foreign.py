"""A plain ReFrame test, as users bring them: nothing in it knows of parity."""

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Foreign(rfm.RunOnlyRegressionTest):
    """Adds numbers for a fixed count of steps, and tells how many it added a second."""

    descr = 'additions of a shell'
    valid_systems = ['*']
    valid_prog_environs = ['*']
    tags = {'compute'}
    executable = 'awk'
    steps = variable(int, value=20_000_000)

    @run_before('run')
    def count(self):
        program = ('BEGIN { "date +%s.%N" | getline t; for (i = 0; i < N; i++) s += i; '
                   '"date +%s.%N " | getline u; printf "sum %.0f\\nrate %.4f Mop/s\\n", s, N / (u - t) / 1e6 }')
        self.executable_opts = ['-v', f'N={self.steps}', f"'{program}'"]

    @sanity_function
    def right_sum(self):
        right = self.steps * (self.steps - 1) // 2
        return sn.assert_eq(sn.extractsingle(r'sum (\d+)', self.stdout, 1, int), right)

    @performance_function('Mop/s')
    def rate(self):
        return sn.extractsingle(r'rate (\S+)', self.stdout, 1, float)
