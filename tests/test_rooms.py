"""The rules of the house, read off the imports: data flows one way, and no room reaches into another one's drawers."""

import ast
from pathlib import Path

import sen2pro

ROOT = Path(sen2pro.__file__).parent

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


def imports(tree):
    """Yield the modules that a file imports, and the names it takes from each.

    What is imported for types alone, or inside a function, breaks no cycle at run time, but it is a dependency all the
    same; only the front door may do that (a Gaussian saves itself by io/).
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)


def modules(module, names):
    """Yield what is really imported: `from sen2pro.io import text` is a module, not a name."""
    for each in names or [None]:
        inner = f"{module}.{each}"
        path = ROOT.joinpath(*inner.split(".")[1:])
        yield inner if each and (path.with_suffix(".py").is_file() or path.is_dir()) else module


TREES = {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
IMPORTS = {own: list(imports(tree)) for own, tree in TREES.items()}
OURS = {  # file -> the modules of the package that it imports; the lists of public names may import all
    own: {each for module, names in found if module.split(".")[0] == "sen2pro" for each in modules(module, names)}
    for own, found in IMPORTS.items()
    if own not in ("sen2pro", "sen2pro.__main__")
}


def test_data_flows_one_way():
    pairs = [(own, module) for own, found in OURS.items() for module in found if room(module) != room(own)]
    assert not [f"{own} imports {module}" for own, module in pairs if room(module) not in ALLOWED[room(own)]]


def node(module):
    """Return the room of a module, or the module itself at the root."""
    return module if room(module) in ("front", "model") else room(module)


def test_no_cycle_of_rooms_even_by_imports_in_functions_and_for_types():
    graph = {}
    for own, found in OURS.items():
        graph.setdefault(node(own), set()).update(set(map(node, found)) - {node(own), "sen2pro"})
    while leaves := [name for name, others in graph.items() if not others & graph.keys()]:
        for name in leaves:
            del graph[name]
    assert not graph, {name: sorted(others & graph.keys()) for name, others in graph.items()}


# A framework that is an extra -> the one file that may import it. No file may import the laboratory.
FRAMEWORKS = {
    "haystack": "integrations.haystack", "langchain_core": "integrations.langchain",
    "llama_index": "integrations.llama_index", "ray": "integrations.ray",
}  # fmt: skip


def test_a_framework_is_imported_by_its_own_file_alone_and_the_laboratory_by_none():
    found = {(module.split(".")[0], own) for own, found in IMPORTS.items() for module, _ in found}
    found = {pair for pair in found if pair[0] in {*FRAMEWORKS, "sen2pro_lab"}}
    assert found == {(name, f"sen2pro.{place}") for name, place in FRAMEWORKS.items()}


def test_no_private_name_is_imported():
    ours = [
        (module, name) for found in IMPORTS.values() for module, names in found for name in names if "sen2pro" in module
    ]
    assert {f"{module}.{name}" for module, name in ours if name.startswith("_")} == {"sen2pro.__version__"}


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


def test_no_private_attribute_of_another_object_is_used():
    found = {own: others_private_attributes(tree) - OTHERS_DRAWERS for own, tree in TREES.items()}
    assert not {own: names for own, names in found.items() if names}


def test_a_private_attribute_of_another_object_is_found():
    """Even where the file has an attribute of that name itself."""
    text = "class A:\n def f(self, blocks):\n  self._queue = blocks._queue\n  A()._x\n  a = A()\n  a._x"
    assert others_private_attributes(ast.parse(text)) == {"blocks._queue", "A()._x"}


# Where a library underneath has no public name for what is needed.
OTHERS_DRAWERS = {
    "model._similarity_fn_name", "tensor._version", "nn.modules.batchnorm._NormBase",
    "classifier._encoder",  # of our own classifier, whose file is cut in several
}  # fmt: skip


def test_errors_of_the_library_do_not_speak_of_flags():
    for own, tree in TREES.items():
        for each in (each for each in ast.walk(tree) if isinstance(each, ast.Raise) and each.exc is not None):
            texts = [part.value for part in ast.walk(each.exc) if isinstance(part, ast.Constant)]
            flags = [text for text in texts if isinstance(text, str) and "--" in text]
            assert not flags or room(own) == "cli", f"{own}:{each.lineno} {flags}"


def test_the_map_in_contributing_names_every_room():
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").is_file()}
    assert not [name for name in rooms if f"`{name}/" not in text]
