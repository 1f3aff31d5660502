"""What the programs read: small problems, each large enough that every rank has a part of it."""

import re

# A face-centred cubic crystal of 500 atoms that melts under a thermostat, whose temperature is a sum over all ranks in every step.
MELT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 5 0 5 0 5
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check yes
compute pairs all rdf 20
fix 1 all nvt temp 1.44 1.0 0.5
fix 2 all ave/time 10 5 50 c_pairs[*] file distances mode vector format " %.12g"
balance 1.1 shift xyz 10 1.05
thermo_style custom step temp pe ke etotal press vol
thermo_modify format float %.15g
thermo 10
run 100
write_dump all custom positions id x y z vx vy vz modify sort id format float %.12g
"""

# What xdlu, xdqr, xdsvd and xdsep read: names of files, sizes of matrices and of blocks, grids of processes, thresholds.
SCALAPACK = {
    "LU.dat": """'LU factorization'
'MPI'
'LU.out'
6
{two}
{n} 57
{n} 57
{two}
5 8
1
3
1
2
{two}
{rows} 1
{columns} {ranks}
3.0
F
""",
    "QR.dat": """'Orthogonal factorizations'
'MPI'
'QR.out'
6
6
'QR' 'QL' 'LQ' 'RQ' 'QP' 'TZ'
{two}
{n} 30
{n} 50
{two}
4 7
4 5
{two}
{rows} 1
{columns} {ranks}
5.0
""",
    "SVD.dat": """'Singular value decomposition'
6
4
' '
'rows and columns of processes'
20.0
1
{large}
{n}
1
{rows}
{columns}
8
' '
'one row of processes'
20.0
1
{n}
7
1
1
{ranks}
5
' '
'End of tests'
-1
""",
    "SEP.dat": """'Symmetric eigenvalues'
' '
'sep.out'
6
4
'N'
' '
'types of matrix'
{two}
{n} 40
{two}
'L' 'U'
{two}
{rows} 1
{columns} {ranks}
8 3
{two}
10 22
'N'
50.0
-1
' '
'every request'
1
9
1
'U'
1
{rows}
{columns}
2
1
8
'Y'
250.0
-1
' '
'End of tests'
-1
""",
}


def grid(ranks):
    """(rows, columns) of processes: a square, or nearly."""
    rows = 2 if ranks >= 4 else 1
    return rows, ranks // rows


def scalapack(ranks, few):
    """The programs' files. `few` makes one small size, one block and one grid; PDSYEVD fails below 14 rows there, plain too."""
    rows, columns = grid(ranks)
    numbers = {"two": 1, "n": 16, "large": 24} if few else {"two": 2, "n": 21, "large": 60}
    return {name: text.format(rows=rows, columns=columns, ranks=ranks, **numbers) for name, text in SCALAPACK.items()}


# hpccinf.txt: High-Performance Linpack of 240 equations, and transpositions of their matrix.
HPCC = """HPLinpack benchmark input file
'
HPL.out
8
1
240
1
24
0
1
{rows}
{columns}
16.0
1
2
1
4
1
2
1
1
1
1
1
1
2
64
0
0
1
8
line 32 is not read
0
0
0
0
"""


# Entries of the report's last section. The exact ones have one right value; the equal ones are norms of data from fixed seeds.
HPCC_EXACT = {"Success": "1", "PTRANS_residual": "0", "MPIRandomAccess_Errors": "0", "MPIRandomAccess_LCG_Errors": "0", "HPL_N": "240"}
HPCC_EQUAL = ("HPL_Anorm1", "HPL_AnormI", "HPL_Xnorm1", "HPL_XnormI", "HPL_BnormI")


def hpcc(ranks):
    rows, columns = grid(ranks)
    return {"hpccinf.txt": HPCC.format(rows=rows, columns=columns)}


def verdicts(report):
    """The lines of hpccoutf.txt that judge, without numbers that have a point, which are times, rates and residuals.
    The lines of processor time are left out, which the report lacks where the clock did not move."""
    lines = re.findall(r"^(?!CPU ).*(?:PASSED|passed|Validates|with error).*$", report, re.M)
    return [" ".join(re.sub(r"\d+\.\d+(e[-+]\d+)?", "#", line).split()) for line in lines]


def laplacian(side, word):
    """What MUMPS's simpletests read: the matrix of a Laplacian on side x side points, an unsymmetric one, and the right-hand side
    whose solution is 1, 2, 3, ... `word` writes a value as the program reads it."""
    n = side * side
    entries = {}
    for i in range(n):
        entries[i, i] = 4.5
        for j, there, value in ((i - 1, i % side > 0, -1.0), (i + 1, i % side < side - 1, -0.5), (i - side, i >= side, -1.25),
                                (i + side, i < n - side, -0.75)):
            if there:
                entries[i, j] = value
    right = [sum(value * (j + 1) for (row, j), value in entries.items() if row == i) for i in range(n)]
    lines = [f"{n} :N", f"{len(entries)} :NZ"] + [f"{i + 1} {j + 1} {word(value)}" for (i, j), value in entries.items()]
    return "\n".join(lines + [word(value) for value in right]) + "\n"
