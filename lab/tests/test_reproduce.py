"""Every table and figure, end to end on a tiny encoder and hand-made data; then the store, the report, the command."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_data import table, write_all, write_sts
from typer.testing import CliRunner

from sen2pro import Gaussian, Sen2Pro
from sen2pro.cli.app import app
from sen2pro.errors import Sen2ProError
from sen2pro_lab.metrics import sts
from sen2pro_lab.metrics.bootstrap import Undefined
from sen2pro_lab.metrics.report import PAGE, Grid, Result, read, to_markdown, write
from sen2pro_lab.paper import numbers as paper
from sen2pro_lab.paper.data import DataMissing, read_sts
from sen2pro_lab.paper.lab import PRESETS, Lab, resolve_preset
from sen2pro_lab.paper.store import Store
from sen2pro_lab.paper.tables.figures import importance
from sen2pro_lab.paper.tables.pairs import MEANS, PLAIN_ROWS, READINGS, SPHERE
from sen2pro_lab.paper.tables.similarity import Sets
from sen2pro_lab.tables import NEED_SAMPLES, TABLES, chosen, reproduce


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def folder(shared_folder):
    return shared_folder


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("kept"), show=False)


@pytest.fixture
def lab(data, folder, store, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return Lab(str(folder), samples=4, store=store)


@pytest.mark.parametrize("name", chosen(["all"])[:-2])
def test_every_table_can_be_made(lab, name):
    result = reproduce(name, lab)
    assert result.id == name
    assert result.grids[0].rows
    assert all(len(row) == len(grid.header) for grid in result.grids for row in grid.rows)
    assert result.verdict
    assert "samples:4+4" in result.signature
    text = json.dumps(result.numbers)
    assert "NaN" not in text
    assert "Infinity" not in text
    assert bool(result.figures) == name.startswith("F")


def test_t2_prints_the_papers_numbers_beside_ours_and_says_what_is_missing(lab):
    result = reproduce("T2", lab)
    first = result.grids[0].rows[0]
    assert first[0] == "STS-12"
    assert first[2] == "57.86 → 59.55"
    ours = float(first[3].split(" → ")[0])
    pairs = read_sts("sts12")
    model = Sen2Pro(lab.model, normalize=True, samples=4)
    left, right = model.encode_plain(list(pairs.left)), model.encode_plain(list(pairs.right))
    assert ours == pytest.approx(100 * sts.correlation((left * right).sum(axis=1), pairs), abs=0.006)
    assert ["no data" in row for row in result.grids[0].rows if row[0] == "STS-16"] == [True] * len(
        [*READINGS, *PLAIN_ROWS]
    )
    average = next(n for n in result.numbers if n["set"] == "Average of 4")
    assert average["paper"][0] == pytest.approx((57.86 + 61.97 + 62.49 + 70.96) / 4)  # the paper's, of the same four
    assert any("STS-16: no data here" in note for note in result.notes)


def test_the_default_reading_is_what_encode_and_similarity_give(lab):
    result = reproduce("T2", lab)
    found = next(n for n in result.numbers if n["set"] == "STS-13" and n["similarity"] == "Eq. 6, unit sphere")
    pairs = read_sts("sts13")
    model = Sen2Pro(lab.model, normalize=True, samples=4)
    scores = model.similarity_pairwise(model.encode(list(pairs.left)), model.encode(list(pairs.right)))
    assert found["ours"]["value"] == pytest.approx(100 * sts.correlation(scores, pairs), abs=1e-4)


def test_seeds_are_averaged_with_their_spread(data, folder, store, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    values = []
    for seed in range(2):
        one = Lab(str(folder), samples=4, store=store, settings={})
        one.encoder = lambda s=0, seed=seed, original=one.encoder, **k: original(seed, **k)
        found = reproduce("T6", one).numbers
        values.append(next(n["ours"]["value"] for n in found if n["set"] == "STS-12" and n["ours"]))
    both = reproduce("T6", Lab(str(folder), samples=4, store=store, seeds=2))
    found = next(n["ours"] for n in both.numbers if n["set"] == "STS-12")
    assert found["value"] == pytest.approx(np.mean(values), abs=1e-4)
    assert found["sd"] == pytest.approx(np.std(values, ddof=1), abs=1e-4)
    assert "sd" in both.grids[0].header


def test_plain_distances_stand_beside_the_cosine_and_ours_is_compared_with_them(lab):
    """On the unit sphere L2 orders pairs as the cosine does, so that its gain is exactly nothing."""
    found = {n["similarity"]: n["ours"] for n in reproduce("T2", lab).numbers if n["set"] == "STS-13"}
    pairs = read_sts("sts13")
    model = Sen2Pro(lab.model, normalize=True, samples=4)
    left, right = model.encode_plain(list(pairs.left)), model.encode_plain(list(pairs.right))
    l1 = 100 * sts.correlation(-np.abs(left - right).sum(axis=1), pairs, "wmean")
    assert found["plain L1"]["value"] == pytest.approx(l1, abs=1e-4)
    assert found["Eq. 6, unit sphere, against plain L1"]["baseline"] == pytest.approx(l1, abs=1e-4)
    assert found["plain L2"]["gain"] == pytest.approx(0, abs=1e-9)
    for name in ("T3", "T4", "T5", "T6", "T11"):
        labels = {value for n in reproduce(name, lab).numbers for value in n.values() if isinstance(value, str)}
        assert {row.label for row in PLAIN_ROWS} <= labels


def test_one_sided_uncertainties_differ(lab):
    found = reproduce("T6", lab).numbers
    mine = [n for n in found if n["set"] == "STS-14" and n["aggregation"] == "all"]
    values = [n["ours"]["value"] for n in mine if n["uncertainty"].endswith(", Eq. 6, unit sphere")]
    assert len(values) == len(set(values)) == 3


def test_a_table_that_needs_samples_refuses_one_pass():
    for name in NEED_SAMPLES:
        with pytest.raises(Sen2ProError, match="method sampling"):
            reproduce(name, Lab(method="one-pass"))


def test_one_pass_makes_the_others(data, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    lab = Lab(method="one-pass", limit=8, store=Store(tmp_path, show=False))
    for name in chosen(["all"], "one-pass"):
        result = reproduce(name, lab)
        assert result.grids[0].rows
        assert "one-pass" in result.signature or name.startswith("Th")


def test_the_cosine_of_the_means_is_that_whatever_the_variances():
    a, b = Gaussian([[3.0, 4.0]], [[9.0, 1.0]]), Gaussian([[5.0, 0.0]], [[0.5, 7.0]])
    assert MEANS.pairwise(a, b) + 1 == pytest.approx(0.6)


def test_importance_is_of_the_group_that_carries_the_order(lab):
    """Five features; only the most uncertain one goes with the gold scores, so only without it the order changes."""
    sets = Sets(lab, ["sts12"])
    pairs, gold = sets.pairs["sts12"], sets.gold["sts12"]
    rng = np.random.default_rng(0)
    mean = 1e-6 * rng.normal(size=(len(pairs.sentences), 5))
    mean[pairs.left, 0], mean[pairs.right, 0] = 0, 6 - gold.gold  # a distance that falls as the score grows
    gaussian = Gaussian(mean, np.tile([5.0, 4.0, 3.0, 2.0, 1.0], (len(mean), 1)))
    found = importance(gaussian, pairs, gold, SPHERE)
    assert found[0] > 30
    assert max(found[1:]) < 1


def test_t5_scores_systems_by_hand(lab, data, tmp_path, monkeypatch):
    """Three systems: as the reference, one word of three wrong, all wrong; CDER 0, 1/3 and 1, human 1, 0.5 and 0."""
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    rows = [(i + 1, "the dog runs", "the dog runs", "the cat runs", "in on with") for i in range(3)]
    table(tmp_path / "wmt17/cs-en.tsv", ("sid", "reference", "good", "fair", "poor"), rows)
    human = {"good": 1.0, "fair": 0.5, "poor": 0.0}
    table(tmp_path / "wmt17/da_sys.tsv", ("lp", "system", "human"), [("cs-en", *item) for item in human.items()])
    result = reproduce("T5", lab)
    cder = next(n for n in result.numbers if n.get("metric") == "cder")
    assert cder["ours"] == pytest.approx(100 * np.corrcoef([1, 2 / 3, 0], [1, 0.5, 0])[0, 1])
    assert cder["paper"] == 98.9
    assert {n["ours"]["verdict"] for n in result.numbers if "similarity" in n} == {"too few"}
    assert any(note.startswith("bleu: sacrebleu|") for note in result.notes)


def test_ter_counts_errors_so_it_is_turned_round(lab):
    """In the made-up segments, good translations repeat the reference: every metric must go up with the human score."""
    result = reproduce("T11", lab)
    for name in ("bleu", "chrf", "ter", "cder"):
        assert next(n for n in result.numbers if n.get("metric") == name)["ours"] > 50


def test_two_systems_are_too_few_and_that_is_said(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    rows = [(i + 1, "the dog runs", "the dog runs", "the cat runs") for i in range(3)]
    table(tmp_path / "wmt17/cs-en.tsv", ("sid", "reference", "good", "fair"), rows)
    table(tmp_path / "wmt17/da_sys.tsv", ("lp", "system", "human"), [("cs-en", "good", 1), ("cs-en", "fair", 0)])
    with pytest.raises(Sen2ProError, match=r"2 systems \(good, fair\); it takes at least 3"):
        reproduce("T5", lab)


def test_names_are_found_in_any_case_and_unknown_ones_are_listed():
    assert chosen(["t11", "f4", "T11"]) == ["T11", "F4"]
    assert chosen(["all", "contests"]) == list(TABLES)
    assert set(chosen(["all"])) - set(chosen(["all"], "one-pass")) == set(NEED_SAMPLES)
    assert chosen(["contests"]) == ["C1", "C2", "C3", "C4", "C5"]
    with pytest.raises(Sen2ProError, match=r"unknown table 'T22'; did you mean 'T2'\? It is one of: T1, T2,"):
        chosen(["T22"])


@pytest.mark.parametrize("name", ["T2", "T6", "T8", "T10", "F1", "F2", "F3"])
def test_a_set_with_constant_scores_is_said_and_no_nan_is_printed(lab, tmp_path, monkeypatch, name):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    rows = [("3.0", f"the man runs {end}", f"a dog runs {end}") for end in ("today", "slowly", "quickly", "tomorrow")]
    table(tmp_path / "sts/sts12.tsv", ("score", "sentence1", "sentence2"), rows)
    if name.startswith("F"):
        with pytest.raises(Undefined, match="all gold scores of sts12 are equal"):
            reproduce(name, lab)
        write_sts(tmp_path, "sts13")
        result = reproduce(name, lab)
        assert "STS-12" not in {cell for row in result.grids[0].rows for cell in row}
    else:
        result = reproduce(name, lab)
        assert any("all 4 values on one side are equal" in cell for row in result.grids[0].rows for cell in row)
    assert not re.search(r"\bnan\b", to_markdown(result).lower())


def test_sets_without_sub_tasks_have_no_weighted_mean(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    write_sts(tmp_path, "sts12", subtasks=("only",))
    second = reproduce("T2", lab).grids[1]
    assert "no sub-tasks are known" in second.rows[0][3]


def test_without_any_data_the_error_says_where_it_comes_from(lab, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    for name in ("T2", "T3", "T4", "T5", "T9"):
        with pytest.raises(DataMissing, match="sen2pro data list|sen2pro_lab.paper.import_data"):
            reproduce(name, lab)


@pytest.mark.parametrize("name", ["seeds", "limit"])
def test_a_lab_refuses_what_is_below_one(name):
    with pytest.raises(Sen2ProError, match=f"{name} must be at least 1"):
        Lab(**{name: 0})


def test_a_quick_look_takes_less_where_several_systems_answer_and_from_50_on_all_is_as_asked_for():
    quick, usual, whole = Lab(limit=12), Lab(limit=50), Lab()
    assert [lab.quick for lab in (quick, usual, whole)] == [True, False, False]
    assert [lab.items for lab in (quick, usual, whole)] == [3, 50, None]
    assert [lab.fewer_shots(10) for lab in (quick, usual, whole)] == [2, 10, 10]


def test_a_lab_made_of_another_shares_its_models_but_for_other_settings(lab):
    same, other = replace(lab, limit=5), replace(lab, settings={"dropout": 0.3})
    assert same.encoder() is lab.encoder()
    assert other.encoder() is not lab.encoder()
    assert "dropout:0.3" in other.signature()
    assert "dropout:0.3" not in lab.signature()


def test_a_comparison_of_results_tells_what_moved_and_counts_what_was_added():
    sys.path.append(str(Path(__file__).parents[1] / "results"))
    from compare import moved

    before = [{"set": "x", "ours": {"value": 1.0, "p": None}}, {"set": "y", "ours": {"value": 2.0, "p": 0.5}}]
    assert moved(before, [{"set": "z", "ours": None}, *before], 1e-6) == ([], 1)
    after = [before[0], {"set": "y", "ours": {"value": 2.1, "p": 0.5}}]
    assert moved(before, after, 1e-6) == (["{'set': 'y'} /ours/value: 2.0 -> 2.1"], 0)
    assert moved(before, before[:1], 1e-6)[0] == ["lost: (('set', 'y'),)"]


# Presets


def test_presets_resolve_to_hub_ids_and_settings():
    assert resolve_preset("bert-whitening")[:2] == ("bert-base-uncased", PRESETS["bert-whitening"])
    assert resolve_preset("some/folder", "consert-base") == ("some/folder", PRESETS["consert-base"], "consert-base")
    with pytest.raises(Sen2ProError, match="--preset consert-base --model FOLDER"):
        resolve_preset("consert-base")
    with pytest.raises(Sen2ProError, match="It is one of: bert-base"):
        resolve_preset("x", "roberta")


def test_a_folder_can_stand_for_a_row_of_the_paper(lab, folder, store):
    whitened = Lab(str(folder), preset="bert-whitening", samples=4, store=store, limit=20)
    result = reproduce("T2", whitened)
    assert "paper (W-BERT)" in result.grids[0].header
    assert result.grids[0].rows[0][2] == "63.62 → 64.50"
    assert "whitening:no" not in result.signature


# The paper's numbers against themselves


def test_the_papers_slips_are_where_the_notes_say():
    row = paper.T2["bert-base"]
    assert np.mean([row[s][0] for s in paper.SETS[:5]]) == pytest.approx(64.61, abs=0.005)
    assert row["average"][0] == 63.69 == paper.T6["m+d"]["average"][0]
    assert paper.T10["unified"] == paper.T6["m"]
    assert np.mean([paper.T5["sen2pro"][p] for p in paper.WMT_COLUMNS[:-1]]) == pytest.approx(98.27, abs=0.005)
    assert np.mean([paper.T11["bleu"][p] for p in paper.WMT_COLUMNS[:-1]]) == pytest.approx(23.4, abs=0.05)


# The store


def test_what_is_kept_is_what_was_drawn_and_is_not_drawn_again(tiny, tmp_path):
    texts = ["the dog runs", "a cat eats", "the dog runs"]
    first = Store(tmp_path, show=False)
    samples = first.samples(tiny, texts)
    np.testing.assert_array_equal(np.concatenate(list(samples.values()), axis=1), tiny.sample(texts))
    again = Store(tmp_path, show=False)
    broken = Sen2Pro.__new__(Sen2Pro)
    broken.__dict__ = {**tiny.__dict__, "sample": lambda *_, **__: pytest.fail("drawn again")}
    kept = again.samples(broken, texts[::-1])
    np.testing.assert_array_equal(kept["data"], samples["data"][::-1])


def test_moments_of_both_geometries_are_those_of_encode(bert, tokenizer, tmp_path):
    raw = Sen2Pro(bert, tokenizer=tokenizer, samples=4, normalize=False)
    unit = Sen2Pro(bert, tokenizer=tokenizer, samples=4, normalize=True)
    texts = ["the dog runs in the park", "one two three"]
    store = Store(tmp_path, show=False)
    for model, flag in ((raw, False), (unit, True)):
        for source, expected in model.encode_sources(texts).items():
            found = store.moments(raw, texts, unit=flag)[source]
            np.testing.assert_allclose(found.mean, expected.mean, atol=1e-6)
            np.testing.assert_allclose(found.variance, expected.variance, atol=1e-6)


def test_another_seed_or_pooling_has_a_file_of_its_own_and_the_name_does_not_matter(bert, tokenizer, tmp_path):
    store = Store(tmp_path, show=False)
    for changes in ({}, {"seed": 1}, {"pooling": "cls"}, {"samples": 5}, {"combine": "unified"}):
        model = Sen2Pro(bert, tokenizer=tokenizer, **{"samples": 4, **changes})
        store.vectors(model, ["the dog runs"])
        model.encoder.name = "another name"
        store.vectors(model, ["the dog runs"])
    assert len(list(tmp_path.glob("*.sqlite"))) == 4


def test_a_stopped_run_goes_on_where_it_was(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("sen2pro_lab.paper.store._CHUNK", 16)  # two sentences of 4 + 4
    texts = [f"the dog runs {end}" for end in ("today", "slowly", "quickly", "tomorrow", "home")]
    store, calls = Store(tmp_path, show=False), []
    model = Sen2Pro.__new__(Sen2Pro)

    def sample(chunk, **_):
        calls.append(list(chunk))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return tiny.sample(chunk, show_progress_bar=False)

    model.__dict__ = {**tiny.__dict__, "sample": sample}
    with pytest.raises(KeyboardInterrupt):
        store.samples(model, texts)
    found = store.samples(model, texts)
    assert calls[2:] == [texts[2:4], texts[4:]]  # the first two were kept
    np.testing.assert_array_equal(np.concatenate(list(found.values()), axis=1), tiny.sample(texts))


def test_a_damaged_file_of_the_store_is_said(tiny, tmp_path):
    store = Store(tmp_path, show=False)
    store.vectors(tiny, ["the dog runs"])
    next(tmp_path.glob("*.sqlite")).write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(Sen2ProError, match="delete it"):
        store.vectors(tiny, ["the dog runs"])


# The report


def test_a_report_is_json_and_pictures_and_one_page_made_of_them(lab, tmp_path):
    figure = reproduce("F3", lab)
    names = {path.name for path in write(figure, tmp_path)}
    assert names == {"F3.json", "F3-samples.png", PAGE}
    write(Result("T2", "A | B", [Grid(["a|b", "c"], [["x|y", "better"]])], "fine"), tmp_path)
    page = (tmp_path / PAGE).read_text(encoding="utf-8")
    assert page.index("## T2: A | B") < page.index("## F3")
    assert "![F3, samples](F3-samples.png)" in page
    assert "x\\|y" in page
    (tmp_path / "other.json").write_text("[not ours", encoding="utf-8")
    assert [result.id for result in read(tmp_path)] == ["T2", "F3"]
    assert to_markdown(read(tmp_path)[1]) == to_markdown(figure)  # what is kept is all that a page needs
    assert {path.suffix for path in tmp_path.iterdir()} == {".json", ".png", ".md"}


# The command


def test_the_command_prints_the_table_and_writes_the_report(data, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    arguments = ["reproduce", "t10", "th2", "--model", str(folder), "--samples", "3", "--limit", "20"]
    done = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "out"), "--cache", str(tmp_path / "kept")])
    assert done.exit_code == 0, done.output
    assert "T10: Individual against unified estimation" in done.output
    assert "57.84 → 59.40" in done.output
    assert "signature: model:tiny-bert|" in done.output
    assert (tmp_path / "out" / PAGE).is_file()
    assert json.loads((tmp_path / "out/T10.json").read_text())["numbers"]


def test_tables_without_data_are_left_out_of_several_with_a_word(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    out = ["-o", str(tmp_path / "out"), "--cache", str(tmp_path / "kept"), "--model", str(folder), "--limit", "5"]
    done = CliRunner().invoke(app, ["reproduce", "T3", "Th2", *out])
    assert done.exit_code == 0
    assert "left out T3: " in done.output
    alone = CliRunner().invoke(app, ["reproduce", "T3", *out])
    assert alone.exit_code == 2
    assert "evalrank" in alone.output.lower()


def test_a_table_that_cannot_be_made_does_not_stop_the_others(data, folder, tmp_path, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    arguments = ["--model", str(folder), "--samples", "2", "--limit", "12", "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["reproduce", "F3", "T10", *arguments, "--cache", str(tmp_path / "kept")])
    assert done.exit_code == 0
    assert "left out F3: a curve over numbers of samples needs at least 3" in done.output
    assert (tmp_path / "out/T10.json").is_file()


def test_a_dropout_of_nothing_is_refused_and_not_passed_over(data, folder, monkeypatch):
    monkeypatch.setenv("SEN2PRO_DATA", str(data))
    done = CliRunner().invoke(app, ["reproduce", "T2", "--model", str(folder), "--dropout", "0"])
    assert done.exit_code == 2
    assert "dropout must be a number between 0 and 1" in done.output


def test_an_unknown_table_is_an_error_that_lists_them():
    done = CliRunner().invoke(app, ["reproduce", "T99"])
    assert done.exit_code == 2
    assert "It is one of: T1, T2, T3" in done.output


# Real data


def test_the_plain_cosine_of_minilm_gives_the_published_figure(minilm):
    try:
        pairs = read_sts("stsb_test")
    except DataMissing as error:
        pytest.skip(f"no STS-B: {error}")
    left, right = minilm.encode_plain(list(pairs.left)), minilm.encode_plain(list(pairs.right))
    assert 100 * sts.correlation((left * right).sum(axis=1), pairs) == pytest.approx(82.03, abs=0.05)
