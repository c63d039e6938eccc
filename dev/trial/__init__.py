"""The field trial: faults that are really put into the nodes of ci/cluster, and what parity says about them.

The protocol. It runs as root inside the machine of ci/cluster, and nothing else runs there:

1. ``ci/cluster up``, then ``dev/trial/build SOURCES FOLDER/programs``. The trial's folder lies in the shared
   folder of the cluster. It has parity's results, a site with the system `trial`, and a prefix of programs.
   In a container the first process must reap its children, as a shell does: `ci/cluster kill` waits for that.
2. ``python -m dev.trial run --nights 12 --folder NOISE``, then ``python -m dev.trial noise --folder NOISE``: from
   which size on a fault can show.
3. ``python -m dev.trial seal --seed S --noise NOISE`` draws the faults into FOLDER/sealed.json, and prints its
   SHA-256 digest. The digest is committed before the first night; the list stays outside git until the end.
4. ``python -m dev.trial run --seed S``: 60 quiet nights, then the faults; about 205 nights in all. If it is
   killed, the same command goes on. nights.csv and incidents.csv grow by a night; both are committed in parts.
   On another machine these two and sealed.json are enough: `run` judges the stored nights anew, and goes on.
5. ``python -m dev.trial score`` opens the list, and scores parity and three plain rules on the same nights.

A night is two sessions of ReFrame. The first has messages between two pairs of nodes, the second four short
cases on each of three nodes. All jobs of a session are submitted at once, and Slurm runs one at a time. A
suspicious figure runs again, as in ci/nightly. The figures are real; the date is made: a night a day, from 1
January 2026 on. The product judges, by a clock that stands at the night's date. A fault is put in before the
sessions of its night, and taken out after them.
"""
