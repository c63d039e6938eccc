from spack.package import *
from spack_repo.builtin.packages.mpip.package import Mpip as BuiltinMpip


class Mpip(BuiltinMpip):
    """mpiP, built where nobody is logged in: its generator of wrappers reads LOGNAME and stops without.

    A timer, a container and a batch job on some sites have none.
    """

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        super().setup_build_environment(env)
        env.set("LOGNAME", "spack")
