"""On a real Ray cluster of two nodes: the same bytes, whatever dies."""

import json
import os
import signal

import numpy as np
import pyarrow as pa
import pytest
from scale_runs import Stops, names, some_texts, tiny_model, undisturbed, write_lines
from test_cli import run, spawn
from test_killed_runs import partials, stop, wait_for
from test_scale_faults import poison, poisoned  # noqa: F401  a fixture
from test_scale_killed import units

ray = pytest.importorskip("ray")

from ray.cluster_utils import Cluster

from sen2pro import Sen2ProError
from sen2pro.integrations import ray as engines
from sen2pro.integrations.ray import RayEngine, encode_dataset
from sen2pro.io.gaussians import read
from sen2pro.jobs import encode_files, plan
from sen2pro.settings import Settings

pytestmark = [pytest.mark.ray, pytest.mark.slow]

ROWS = 3000


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with a CPU each, as processes of this machine; a third one can be added."""
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(autouse=True)
def small_units(monkeypatch):
    monkeypatch.setattr(plan, "UNIT", 1024)  # four passes a row: units of 256 rows


@pytest.fixture(scope="module")
def model(shared_folder):
    return tiny_model(shared_folder)


@pytest.fixture
def source(tmp_path):
    return write_lines(tmp_path / "in.txt", some_texts(ROWS))


class Interfering(RayEngine):
    """An engine to which something happens as soon as all its actors are at work."""

    def __init__(self, workers, happens):
        super().__init__(workers)
        self.happens, self.happened, self.added, self.helped = happens, False, 0, 0

    def run(self, units, place, how, advance):
        for ref in list(self._starting):  # wait for all actors, so that each has a unit in hand
            ray.wait([ref], timeout=60)
            self._greet(ref, [], {})
        for done in super().run(units, place, how, advance):
            if not self.happened:
                self.happens(self)
                self.happened = True
            yield done

    def _add_actor(self):
        self.added += 1
        super()._add_actor()

    def _slow(self, tasks, times):
        unit = super()._slow(tasks, times)
        self.helped += unit is not None
        return unit


def processes(engine):
    """Return the process of each actor."""
    return [ray.get(actor.process.remote()) for actor in engine._actors]


def test_the_bytes_are_those_of_one_machine(cluster, model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    seen = []
    summary = encode_files(
        model.settings, source, tmp_path / "out.parquet", engine=RayEngine(2), show_progress_bar=seen.append
    )
    assert (tmp_path / "out.parquet").read_bytes() == expected
    assert (summary.report.rows, summary.signature) == (ROWS, model.signature())
    assert sum(seen) == pytest.approx(2 * ROWS)  # all encoded, all joined


def test_a_run_begun_on_one_machine_is_finished_on_the_cluster_from_200_files(cluster, model, tmp_path):
    texts = some_texts(ROWS)
    expected = undisturbed(model, write_lines(tmp_path / "in.txt", texts), tmp_path / "undisturbed")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(200):
        write_lines(folder / f"{number:03d}.txt", texts[15 * number : 15 * number + 15])
    with pytest.raises(KeyboardInterrupt):
        encode_files(model, folder, tmp_path / "out.parquet", engine=Stops(3))
    summary = encode_files(model, folder, tmp_path / "out.parquet", engine=RayEngine(2))
    assert summary.resumed == 768
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_killed_actor_loses_nothing(cluster, model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    engine = Interfering(2, lambda engine: os.kill(processes(engine)[0], signal.SIGKILL))
    encode_files(model, source, tmp_path / "out.parquet", engine=engine)
    assert engine.happened
    assert engine.added == 3  # one in the place of the dead one
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_killed_node_loses_nothing(cluster, model, source, tmp_path):
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    doomed = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    engine = Interfering(3, lambda engine: cluster.remove_node(doomed, allow_graceful=False))
    encode_files(model, source, tmp_path / "out.parquet", engine=engine)
    assert engine.happened
    assert engine.added > 3
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_straggler_is_not_waited_for(cluster, model, source, tmp_path, monkeypatch):
    """An actor that stands still keeps its unit; when nothing else is left, another one does that unit too."""
    monkeypatch.setattr(engines, "_LEAST", 1.0)
    expected = undisturbed(model, source, tmp_path / "undisturbed")
    engine = Interfering(2, lambda engine: os.kill(processes(engine)[0], signal.SIGSTOP))
    encode_files(model, source, tmp_path / "out.parquet", engine=engine)
    assert engine.happened
    assert engine.helped >= 1
    assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_poisoned_row_is_named_or_skipped(cluster, poisoned, tmp_path):  # noqa: F811
    texts, sound = poison(some_texts(1000))
    source = write_lines(tmp_path / "in.txt", texts)
    with pytest.raises(Sen2ProError, match=f"{source}, line 301: this row cannot be encoded"):
        encode_files(poisoned, source, tmp_path / "out.parquet", engine=RayEngine(1))
    summary = encode_files(poisoned, source, tmp_path / "out.parquet", engine=RayEngine(1), on_error="skip")
    assert [place for place, _ in summary.report.skipped] == [f"{source}, line 301", f"{source}, line 302"]
    assert read(tmp_path / "out.parquet").texts == sound


def test_a_killed_driver_loses_nothing(cluster, shared_folder, tmp_path, monkeypatch):
    """The command line, on this cluster by its address; what it did is finished on one machine."""
    source = write_lines(tmp_path / "in.txt", some_texts(12_000))
    output = tmp_path / "out.parquet"
    arguments = ("encode", source, output, "-m", shared_folder, "--samples", "2", "--engine", "ray", "--workers", "2")
    process = spawn(*arguments, "--address", cluster.address)
    wait_for(process, lambda: units(tmp_path))
    stop(process, signal.SIGKILL)
    assert not output.exists()
    monkeypatch.undo()  # the driver had units of the usual size
    model = tiny_model(shared_folder)
    summary = encode_files(model, source, output)
    assert summary.resumed >= 1024
    assert output.read_bytes() == undisturbed(model, source, tmp_path / "undisturbed")
    assert names(tmp_path) == ["in.txt", "out.parquet", "undisturbed"]


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)])
def test_a_stopped_driver_exits_as_without_ray(cluster, shared_folder, tmp_path, how, code):
    source = write_lines(tmp_path / "in.txt", some_texts(12_000))
    arguments = ("encode", source, tmp_path / "out.parquet", "-m", shared_folder, "--samples", "2", "--engine", "ray")
    process = spawn(*arguments, "--workers", "1", "--address", cluster.address)
    wait_for(process, lambda: units(tmp_path))
    _, errors = stop(process, how)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert "the same command goes on from there" in errors
    assert not partials(tmp_path)


def test_an_index_and_predictions_by_the_cluster_are_those_of_one_machine(cluster, fitted, shared_folder, tmp_path):
    source = write_lines(tmp_path / "in.txt", some_texts(600))
    fitted.save(tmp_path / "classifier")
    predict = ("classify", "predict", tmp_path / "classifier", source)
    for name, options in (("here", ["--workers", "1"]), ("there", ["--engine", "ray", "--workers", "2"])):
        for command in (
            ("index", source, tmp_path / f"{name}-index"),
            (*predict, tmp_path / f"{name}.jsonl", "-m", shared_folder),
        ):
            result = run(*command, *options)
            assert result.exit_code == 0, result.output
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
    files = names(tmp_path / "here-index")
    assert files == names(tmp_path / "there-index")
    for each in files:
        assert (tmp_path / "here-index" / each).read_bytes() == (tmp_path / "there-index" / each).read_bytes()
    assert names(tmp_path) == ["classifier", "here-index", "here.jsonl", "in.txt", "there-index", "there.jsonl"]


def test_what_is_wrong_with_the_model_is_one_error(cluster, source, tmp_path):
    with pytest.raises(Sen2ProError, match="no model"):
        encode_files(Settings("/nowhere/at/all"), source, tmp_path / "out.parquet", engine=RayEngine(1))
    assert names(tmp_path) == ["in.txt"]


def test_a_dataset_gets_columns_of_fixed_size_lists(cluster, model):
    texts = some_texts(500)
    dataset = ray.data.from_arrow(pa.table({"n": range(500), "body": texts}))
    found = encode_dataset(dataset, model.settings, column="body")
    table = pa.concat_tables(ray.get(found.to_arrow_refs())).sort_by("n")
    assert table.schema.field("mean").type == pa.list_(pa.float32(), 32)
    assert table.column("n").to_pylist() == list(range(500))
    expected = model.encode(texts)
    for name in ("mean", "variance"):
        numbers = table.column(name).combine_chunks().flatten().to_numpy().reshape(500, 32)
        np.testing.assert_allclose(numbers, getattr(expected, name), atol=1e-5)
    np.testing.assert_allclose(table.column("total_variance").to_numpy(), expected.total_variance, atol=1e-4)
    assert {"model_variance", "data_variance"} <= set(table.column_names)


def test_a_dataset_can_leave_poisoned_rows_out(cluster, poisoned):  # noqa: F811
    rows = [{"text": "the dog"}, {"text": "rain"}, {"text": None}, {"text": "a cat"}]
    found = encode_dataset(ray.data.from_items(rows), poisoned, on_error="skip")
    assert [row["text"] for row in found.take_all()] == ["the dog", "a cat"]
    assert json.dumps(found.columns())


@pytest.mark.parametrize("settings", ["all-MiniLM-L6-v2", None])
def test_a_dataset_wants_settings(settings):
    with pytest.raises(Sen2ProError, match="give the Settings of a model"):
        encode_dataset(None, settings)
