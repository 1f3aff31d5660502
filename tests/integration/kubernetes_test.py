"""The manifests in examples/kubernetes: with exactly the environment that a pod gets from them and from Kubernetes, ranks find each other.

The pods are network namespaces, which know one another by the names that the headless service would give them.
"""

import json
import os
import re
import subprocess
import sys
import unittest

from hosts_lab import Lab, Refused
from processes import PROBE, TESTS, clean_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SECRET = "8" * 64


def manifest(name):
    path = os.path.join(ROOT, "examples", "kubernetes", name)
    done = subprocess.run([os.path.join(TESTS, "yaml_as_json"), path], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return {document["kind"]: document for document in json.loads(done.stdout)}


def variables(container, secrets):
    """What the kubelet makes of `env`."""
    found = {}
    for entry in container["env"]:
        if "value" in entry:
            found[entry["name"]] = entry["value"]
        else:
            reference = entry["valueFrom"]["secretKeyRef"]
            found[entry["name"]] = secrets[reference["name"]][reference["key"]]
    return found


class Manifests(unittest.TestCase):
    def run_pods(self, environments, names):
        """A pod for each environment; names: what the pods know them by."""
        plain = clean_environment()
        words = [["env", "-i", f"PATH={plain['PATH']}", *(f"{k}={v}" for k, v in e.items()), PROBE] for e in environments]
        try:
            with Lab(len(environments)) as lab:
                for i, host in enumerate(lab.names()):
                    # A pod may start before the service knows it: it must not need its own name.
                    with open(f"/etc/netns/{host}/hosts", "a") as file:
                        file.writelines(f"{lab.address(k)} {name}\n" for k, name in enumerate(names) if k != i)
                done = lab.everywhere(lambda i: words[i])
        except Refused as why:
            self.skipTest(str(why))
        for one in done:
            self.assertEqual(one.returncode, 0, one.stdout)
        return [one.stdout for one in done]

    def check(self, outputs, launcher):
        size = len(outputs)
        for rank, output in enumerate(outputs):
            self.assertRegex(output, rf"(?m)^rank {rank} of {size} by {launcher} local 0 of 1 secret {SECRET} sum {size * (size + 1) // 2}$")

    def test_indexed_job(self):
        found = manifest("indexed-job.yaml")
        service, job = found["Service"], found["Job"]
        spec, pod = job["spec"], job["spec"]["template"]["spec"]
        name, size = job["metadata"]["name"], int(spec["completions"])
        self.assertEqual((spec["completionMode"], spec["parallelism"]), ("Indexed", spec["completions"]))
        self.assertEqual((service["spec"]["clusterIP"], service["spec"]["selector"]), ("None", {"job-name": name}))
        self.assertEqual(pod["subdomain"], service["metadata"]["name"])
        container, = pod["containers"]
        given = variables(container, {name: {"secret": SECRET}})
        self.assertEqual(given["TUTTI_SIZE"], str(size))
        names = [f"{name}-{index}.{pod['subdomain']}" for index in range(size)]
        self.assertTrue(re.fullmatch(rf"tcp://{re.escape(names[0])}:\d+", given["TUTTI_STORE"]), given)
        self.check(self.run_pods([{**given, "JOB_COMPLETION_INDEX": str(index)} for index in range(size)], names), "Kubernetes")

    def test_indexed_job_that_is_too_wide(self):
        container, = manifest("indexed-job.yaml")["Job"]["spec"]["template"]["spec"]["containers"]
        given = variables(container, {"tutti-average": {"secret": SECRET}})
        done = subprocess.run([PROBE], env=clean_environment(**given, JOB_COMPLETION_INDEX=given["TUTTI_SIZE"]), capture_output=True,
                              text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.assertIn(f"JOB_COMPLETION_INDEX={given['TUTTI_SIZE']}, TUTTI_SIZE={given['TUTTI_SIZE']}", done.stderr)

    def test_pytorch_job(self):
        job = manifest("pytorchjob.yaml")["PyTorchJob"]
        name, replicas = job["metadata"]["name"], job["spec"]["pytorchReplicaSpecs"]
        pods, names = [], []
        for role in ("Master", "Worker"):
            container, = replicas[role]["template"]["spec"]["containers"]
            self.assertEqual(container["name"], "pytorch")
            for index in range(int(replicas[role]["replicas"])):
                pods.append(variables(container, {name: {"secret": SECRET}}))
                names.append(f"{name}-{role.lower()}-{index}")
        for rank, pod in enumerate(pods):  # as the operator does
            pod |= {"RANK": str(rank), "WORLD_SIZE": str(len(pods)), "MASTER_ADDR": names[0], "MASTER_PORT": "23456",
                    "PYTHONUNBUFFERED": "1"}
        self.check(self.run_pods(pods, names), "torchrun")
        # Older operators call the master localhost in its own pod.
        pods[0]["MASTER_ADDR"] = "localhost"
        self.check(self.run_pods(pods, names), "torchrun")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]], verbosity=2)
