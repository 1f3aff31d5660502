"""Networks in parts, as a configuration asks for them: processes have the losses of one, go on in other meshes, and say
what cannot be."""

import unittest

from training import BIN, InFolder, command, train

MODELS = {
    "lenet": ["model=lenet", "data=random:1x9x8"],
    "mlp": ["model=mlp", "hidden=12,9", "data=random:1x4x4"],
    "alexnet": ["model=alexnet", "model.width=0.05", "model.hidden=8", "data=random:1x8x8"],  # with dropout
    "gpt": ["model=gpt", "model.layers=1", "model.heads=4", "model.embedding=8", "model.dropout=0.2", "data=text:text,context=8"],
}


class Mesh(InFolder):
    def setUp(self):
        super().setUp()
        text = self.folder / "text"
        text.mkdir()
        (text / "words.txt").write_text("".join(f"word {i * i}; " for i in range(60)))

    def curve(self, ranks, model, *words, name="losses"):
        file = self.folder / f"{name}.csv"
        done = train(ranks, *MODELS[model], "random_samples=30", "batch=8", "epochs=2", "steps=6", "dtype=float64", "lr=0.01", "schedule=constant",
                     "progress=off", f"loss_file={file}", *([] if any(str(word).startswith("run=") for word in words) else ["run=none"]),
                     *words, cwd=self.folder)
        self.assertIn("bitwise equal", done.stdout)
        return [float(line.split(",")[1]) for line in file.read_text().splitlines()[1:]], done.stdout

    def same(self, model, *words):
        alone, _ = self.curve(1, model)
        got, said = self.curve(4, model, *words)
        self.assertEqual(len(alone), 6)
        self.assertLessEqual(max(abs(a - b) for a, b in zip(alone, got, strict=True)), 1e-10)
        return said

    def test_images_in_tiles_and_samples_in_parts(self):
        file = self.folder / "mesh.yaml"
        file.write_text("parallel: {data: 2, height: 2}\n")
        self.assertIn("as mesh data 2 x height 2", self.same("lenet", "--config", file))

    def test_tiles_and_weights_in_parts(self):
        self.same("lenet", "parallel.width=2", "parallel.tp=2", "parallel.layers=fc2=replicate")

    def test_dense_layers(self):
        self.same("mlp", "parallel=vecpar")

    def test_what_dropout_leaves_out_does_not_depend_on_the_mesh(self):
        self.same("alexnet", "parallel.data=1", "parallel.height=2", "parallel.tensor=2")
        self.same("gpt", "parallel.data=1", "parallel.tensor=2", "parallel.cp=2")

    def test_another_mesh_goes_on(self):
        alone, _ = self.curve(1, "lenet")
        self.curve(4, "lenet", "parallel.height=2", "run=kept", "steps=2")
        self.curve(2, "lenet", "parallel.height=1", "parallel.tensor=2", "run=kept", "resume=true", "steps=4")
        got, said = self.curve(1, "lenet", "parallel.tensor=1", "run=kept", "resume=true")
        self.assertIn("after step 4", said)
        self.assertLessEqual(max(abs(a - b) for a, b in zip(alone, got, strict=True)), 1e-10)

    def test_the_dry_run_says_what_layers_send_and_ranks_keep(self):
        done = command("train", "-np", 4, "--dry-run", *MODELS["lenet"], "batch=8", "parallel.height=2", "parallel.width=2", "dtype=float64")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"mesh +4 ranks as mesh data 1 x height 2 x width 2")
        self.assertRegex(done.stdout, r"fc1 +space +sends 8\.2 kB forward, 0\.0 kB backward")  # 8 samples, 128 units, 8 bytes
        self.assertRegex(done.stdout, r"conv2 +space +sends [0-9.]+ kB forward, [0-9.]+ kB backward; keeps weights 83\.3 kB")
        self.assertRegex(done.stdout, r"memory +of this rank: parameters [0-9.]+ kB, gradients [0-9.]+ kB")

    def test_one_line_says_what_cannot_be(self):
        for words, parts in ((["parallel.height=3"], ["height 3", "4"]),
                             (["parallel.height=4", "parallel.layers=conv1=row"], ["conv1", "24 filters", "height 4"]),
                             (["parallel.tensor=4", "parallel.layers=fc1=column", "model=mlp", "hidden=3"],
                              ["tensor 4", "fc1", "3 outputs"]),
                             (["parallel.tensor=2", "strategy=diloco"], ["tensor 2", "strategy=bsp"])):
            done = command("train", "-np", 4, *MODELS["lenet"], "random_samples=30", "batch=8", "run=none", *words)
            said = [line for line in done.stderr.splitlines() if not line.startswith("tutti run: ")]  # who ended, and how
            self.assertEqual((done.returncode, len(said)), (2, 1), done.stderr + done.stdout)
            for part in parts:
                self.assertIn(part, said[0])

    def test_filters_learn_without_classes_first(self):
        words = ["model=sparse", "model.filters=3,4", "data=random:2x20x18", "random_samples=30", "batch=8", "epochs=1", "dtype=float64",
                 "lr=0.002", "num_pretrain_epochs=2", "num_initial_epochs=1", "progress=off", "run=none"]
        said = []
        for ranks, mesh in ((1, []), (2, ["parallel=halopar"])):
            done = train(ranks, *words, *mesh, cwd=self.folder)
            said.append([line for line in done.stdout.splitlines() if line.startswith(("pretraining", "the head alone"))])
        self.assertEqual(len(said[0]), 3)
        self.assertEqual(said[0], said[1])


class Examples(unittest.TestCase):
    def test_programs_of_the_book_end_well(self):
        for name in ("nn_mesh", "nn_mlp_parts", "nn_gpt_block", "nn_tiles", "train_sparse"):
            program = BIN.parent / "examples" / name
            if not program.exists():
                self.skipTest("the examples are not built here: TUTTI_EXAMPLES=ON")
            done = command("run", "-np", 2, program)
            self.assertEqual(done.returncode, 0, f"{name}: {done.stdout}{done.stderr}")


if __name__ == "__main__":
    unittest.main()
