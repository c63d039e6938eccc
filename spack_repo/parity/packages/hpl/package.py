from spack.package import *
from spack_repo.builtin.packages.hpl.package import Hpl as BuiltinHpl


class Hpl(BuiltinHpl):
    """HPL, built with the MPI's own compiler.

    The builtin recipe looks for mpi.h below the MPI's prefix only, and so fails with a distribution's
    Open MPI as an external, whose headers lie elsewhere; mpicc knows where.
    """

    def configure_args(self):
        return [*super().configure_args(), f"CC={self.spec['mpi'].mpicc}"]
