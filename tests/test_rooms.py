"""The rules of the house, read off the imports: data flows one way, and no room reaches into another one's drawers."""

import ast
from pathlib import Path

import pytest

import sen2pro

ROOT = Path(sen2pro.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# Room -> rooms that it may import. The modules at the root may be imported by all, except model.py.
BASE = {"front", "io"}
STAGES = BASE | {"encoder", "sampling", "estimation"}
ALLOWED = {
    "io": {"front"},
    "encoder": BASE,
    "sampling": BASE | {"encoder"},
    "estimation": BASE | {"encoder", "sampling"},
    "calibration": STAGES,
    "model": STAGES | {"calibration"},
    "classification": STAGES | {"model", "calibration"},
    "jobs": STAGES | {"model"},
    "search": STAGES | {"model", "calibration"},
    "integrations": STAGES | {"model", "classification", "calibration", "search", "jobs"},
    "server": STAGES | {"model", "classification", "calibration", "search"},
    "cli": STAGES | {"model", "classification", "calibration", "search", "server", "jobs", "integrations"},
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


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_data_flows_one_way(path):
    own = name_of(path)
    for module, names in imports(path):
        for found in modules(module, names):
            if own in ("sen2pro", "sen2pro.__main__") or room(found) == room(own):
                continue
            assert room(found) in ALLOWED[room(own)], f"{own} imports {found}"


def node(module):
    """Return the room of a module, or the module itself at the root."""
    return module if room(module) in ("front", "model") else room(module)


def test_no_cycle_of_rooms_even_by_imports_in_functions_and_for_types():
    graph = {}
    for path in FILES:
        own = name_of(path)
        if own not in ("sen2pro", "sen2pro.__main__"):  # the list of public names
            found = {node(each) for module, names in imports(path) for each in modules(module, names)}
            graph.setdefault(node(own), set()).update(found - {node(own), "sen2pro"})
    while leaves := [name for name, others in graph.items() if not others & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert not graph, {name: sorted(others & graph.keys()) for name, others in graph.items()}


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


def mentions(tree, names):
    """Tell whether an expression has one of these names, or an annotation in quotes."""
    nodes = ast.walk(tree) if tree is not None else ()
    return any(getattr(each, "id", None) in names or getattr(each, "value", None) in names for each in nodes)


def own_objects(function, classes):
    """Return the variables of a function that hold objects of the file's own classes: it made or annotates them so."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    found = {"self", "cls", *(each.arg for each in arguments if mentions(each.annotation, classes))}
    for each in ast.walk(function):
        if isinstance(each, ast.Assign) and mentions(each.value, classes | {"cls", "super", "type"}):
            found |= {name.id for target in each.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return found


def others_private_attributes(tree):
    """Return the private attributes of objects that are not of a class in this file."""
    classes = {each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}
    fine = set()
    for function in (each for each in ast.walk(tree) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))):
        own = own_objects(function, classes)
        for each in ast.walk(function):
            if isinstance(each, ast.Attribute):
                place = each.value.value if isinstance(each.value, ast.Subscript) else each.value
                fine |= {each} if isinstance(place, ast.Name) and place.id in own else set()
    attributes = (each for each in ast.walk(tree) if isinstance(each, ast.Attribute) and each not in fine)
    return {ast.unparse(each) for each in attributes if each.attr[0] == "_" and not each.attr.startswith("__")}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_no_private_attribute_of_another_object_is_used(path):
    assert others_private_attributes(tree(path)) <= OTHERS_DRAWERS


def test_a_private_attribute_of_another_object_is_found():
    """Even where the file has an attribute of that name itself."""
    text = "class A:\n def f(self, blocks):\n  self._queue = blocks._queue\n  A()._x\n  a = A()\n  a._x"
    assert others_private_attributes(ast.parse(text)) == {"blocks._queue", "A()._x"}


# Where a library underneath has no public name for what is needed.
OTHERS_DRAWERS = {
    "model._similarity_fn_name", "tensor._version", "nn.modules.batchnorm._NormBase",
    "classifier._encoder",  # of our own classifier, whose file is cut in several
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
