"""`sen2pro distill`: fit a head for a model on a file of sentences."""

import random
from typing import Annotated, Any

from typer import Argument, Option

from sen2pro.cli import options
from sen2pro.cli.terminal import Console
from sen2pro.errors import Sen2ProError
from sen2pro.io.atomic import check_path
from sen2pro.io.inputs import sentences
from sen2pro.io.rows import LONGEST_LINE


@options.with_settings(without=("method", "head", "samples"))
def distill(
    settings: dict[str, Any],
    corpus: Annotated[str, Argument(help="Sentences like those to be encoded: text, CSV, TSV, JSONL or Parquet.")],
    output: Annotated[str, Argument(help="A folder for the head.")],
    column: options.Column = None,
    longest_line: options.LongestLine = LONGEST_LINE,
    limit: Annotated[int, Option(help="Maximum number of sentences, drawn at random.", min=200)] = 5000,
    samples: Annotated[int, Option(help="Samples of each sentence and uncertainty to learn from.", min=6)] = 16,
    force: Annotated[bool, Option("--force", help="Save the head even if it is worse than a constant.")] = False,
) -> None:
    """Fit a head, so that one forward pass predicts what sampling would give: minutes, once for a model.

    Then use it: sen2pro encode ... --method one-pass --head FOLDER
    """
    from sen2pro.estimation.head import CONFIG

    folder = check_path(output)
    if folder.is_file():
        raise Sen2ProError(f"{folder} is a file; give a folder")
    if (folder / CONFIG).exists():
        raise Sen2ProError(f"there is a head in {folder} already; give another folder, or delete it")
    source = sentences(corpus, column, skip_blank=True, longest_line=longest_line)
    texts = list(dict.fromkeys(record.text for record in source))
    if len(texts) > limit:
        texts = random.Random(0).sample(texts, limit)
    with options.notes() as gathered:
        model = options.load(**settings)
        model.distill(texts, samples=samples, verbose=False)
    head = model.head
    assert head is not None
    console = Console()
    console.say(head.report())
    if head.flaw and not force:
        remedy = "fit it on more sentences, or with more --samples; to save it anyway, pass --force"
        raise Sen2ProError(f"the head was not saved, because it is worse than a constant: {remedy}")
    head.save(folder)
    console.say(f"-> {folder}")
    options.report([note for note in gathered if str(note) != head.flaw], model.signature())
