"""The benchmark codes from Spack: one locked environment a system, and the manifest of what it built."""
