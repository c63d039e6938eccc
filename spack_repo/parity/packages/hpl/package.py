from spack.package import *
from spack_repo.builtin.packages.hpl.package import Hpl as BuiltinHpl


class Hpl(BuiltinHpl):
    """HPL, built with the MPI's own compiler.

    The builtin recipe looks for mpi.h below the MPI's prefix only, and so fails with a distribution's
    Open MPI as an external, whose headers lie elsewhere; mpicc knows where.

    HPL's configure takes the first BLAS that links from a list of its own, such as an OpenBLAS in /usr. Here
    each entry of that list is the BLAS of the spec.
    """

    def configure_args(self):
        blas = self.spec["blas"].libs.ld_flags
        filter_file(r"^(libs\d+)=.*", rf"\1={blas}", "configure")
        return [*super().configure_args(), f"CC={self.spec['mpi'].mpicc}"]
