"""libtutti_c exports the functions of tutti.h and nothing else."""

import re
import subprocess
import sys


def main():
    library, header = sys.argv[1:]
    lines = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    exported = {re.sub(r"@.*", "", line.split()[-1]) for line in lines if line.split()[-2] != "A"}
    with open(header, encoding="utf-8") as file:
        declared = set(re.findall(r"^(?:tutti_result|int|size_t|void|const char\*) (tutti_\w+)\(", file.read(), re.M))
    for name in sorted(exported ^ declared):
        print(f"{name} is {'exported, but not declared' if name in exported else 'declared, but not exported'}")
    print(f"{len(exported)} functions exported, {len(declared)} declared")
    sys.exit(exported != declared or not declared)


main()
