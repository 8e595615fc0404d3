"""A page for people, in the browser: compare two sentences, map many, search, classify.

What is calculated and what is shown is apart from the framework that shows it (gradio, an extra): `inputs.py`,
`mapping.py`, `drawing.py` and `fragments.py` need none of it.
"""
