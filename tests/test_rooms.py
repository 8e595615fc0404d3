"""The rules of the house, read off the imports: data flows one way, and no room reaches into another one's drawers."""

import ast
from pathlib import Path

import pytest

import sen2pro

ROOT = Path(sen2pro.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Room -> rooms that it may import. The front door (modules in no room) may be imported by all, but for model.py.
BASE = {"front", "io"}
ALLOWED = {
    "io": {"front"},
    "encoder": BASE,
    "sampling": BASE | {"encoder"},
    "estimation": BASE | {"encoder", "sampling"},
    "classification": BASE | {"encoder", "sampling", "estimation", "model", "calibration"},
    "calibration": BASE | {"encoder", "estimation"},
    "specificity": BASE | {"encoder", "sampling", "estimation", "model"},
    "jobs": BASE | {"encoder", "sampling", "estimation", "model"},
    "search": BASE | {"encoder", "sampling", "estimation", "model", "calibration"},
    "integrations": BASE
    | {"encoder", "sampling", "estimation", "model", "classification", "calibration", "search", "jobs"},
    "server": BASE
    | {"encoder", "sampling", "estimation", "model", "classification", "calibration", "specificity"}
    | {"search"},
    "cli": BASE
    | {"encoder", "sampling", "estimation", "model", "classification", "calibration", "specificity"}
    | {"search", "server", "jobs", "integrations"},
    "model": BASE | {"encoder", "sampling", "estimation"},
    "front": BASE,
}


def room(module):
    """Return the room of a module, for instance `sen2pro.io.rows`: io."""
    parts = module.split(".")[1:]
    if not parts or (len(parts) == 1 and not (ROOT / parts[0]).is_dir()):
        return "model" if parts == ["model"] else "front"
    return parts[0]


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def imports(path):
    """Yield the modules of the package that a file imports, and the names it takes from each.

    What is imported for types alone, or inside a function, breaks no cycle at run time, but it is a dependency all the
    same; only the front door may do that (a Gaussian saves itself by io/).
    """
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sen2pro":
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names if alias.name.split(".")[0] == "sen2pro")


def modules(module, names):
    """Yield what is really imported: `from sen2pro.io import text` is a module, not a name."""
    for each in names or [None]:
        inner = f"{module}.{each}"
        path = ROOT.joinpath(*inner.split(".")[1:])
        yield inner if each and (path.with_suffix(".py").is_file() or path.is_dir()) else module


# The package's own list of public names, and what only type checkers see.
EXCEPTIONS = {
    ("sen2pro", "*"),
    ("sen2pro.settings", "sen2pro.estimation.head"), ("sen2pro.settings", "sen2pro.estimation.whitening"),
    ("sen2pro.estimation.distill", "sen2pro.model"),
    # The front door opens onto the answers: these methods of `Sen2Pro` import them when they are called.
    ("sen2pro.model", "sen2pro.calibration.comparison"), ("sen2pro.model", "sen2pro.specificity.measure"),
    ("sen2pro.model", "sen2pro.specificity"),
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_data_flows_one_way(path):
    own = name_of(path)
    for module, names in imports(path):
        for found in modules(module, names):
            if own in ("sen2pro", "sen2pro.__main__") or (own, found) in EXCEPTIONS or room(found) == room(own):
                continue
            assert room(found) in ALLOWED[room(own)], f"{own} imports {found}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_library_does_not_import_the_laboratory(path):
    names = {alias.name for node in ast.walk(tree(path)) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.module}
    assert not [name for name in names if name.split(".")[0] == "sen2pro_lab"]


# A framework that is an extra -> the one file that may import it.
FRAMEWORKS = {
    "haystack": "integrations/haystack.py", "langchain_core": "integrations/langchain.py",
    "llama_index": "integrations/llama_index.py", "ray": "integrations/ray.py",
}  # fmt: skip


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_framework_is_imported_by_its_own_file_alone(path):
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    found = {name.split(".")[0] for name in names} & set(FRAMEWORKS)
    assert found == {name for name, place in FRAMEWORKS.items() if path == ROOT / place}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_private_name_is_imported(path):
    private = [f"{module}.{name}" for module, names in imports(path) for name in names if name.startswith("_")]
    assert private in ([], ["sen2pro.__version__"])


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_private_attribute_of_another_object_is_used(path):
    """`self._x`, `cls._x` and what a module itself defines are its own; `other._x` is somebody else's drawer."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stored = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    declared = {
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    foreign = {
        f"{ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        and node.attr not in defined | stored | declared
    }
    assert foreign <= OTHERS_DRAWERS, sorted(foreign - OTHERS_DRAWERS)


# Where a library underneath has no public name for what is needed.
OTHERS_DRAWERS = {
    "model._similarity_fn_name", "model.config._name_or_path", "parts.network.config._name_or_path", "tensor._version",
    "self.network.config._attn_implementation", "network.config._attn_implementation", "config._attn_implementation",
    "nn.modules.batchnorm._NormBase",
}  # fmt: skip


@pytest.mark.parametrize("path", [path for path in FILES if room(name_of(path)) != "cli"], ids=name_of)
def test_errors_of_the_library_do_not_speak_of_flags(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and node.exc is not None:
            texts = [part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant)]
            flags = [text for text in texts if isinstance(text, str) and "--" in text]
            assert not flags, f"{name_of(path)}:{node.lineno} {flags}"


def test_the_map_in_contributing_names_every_room():
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").is_file()}
    assert not [name for name in rooms if f"`{name}/" not in text]
