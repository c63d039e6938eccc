"""The benchmark codes from Spack: one locked environment a system, and the manifest of its build."""
