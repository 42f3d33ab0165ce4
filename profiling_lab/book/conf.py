"""What the generator is told (sphinx-doc.org/en/master/usage/configuration.html)."""

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 4
source_suffix = dict.fromkeys((".md", ".ipynb", ".py"), "markdown")
root_doc = "README"
exclude_patterns = [".*", "solutions", "tests"]  # not even looked into
suppress_warnings = ["misc.highlighting_failure"]
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_copy_source = False
html_show_copyright = False
# Summaries of what a search found are fetched, and a page that was opened from disk may fetch nothing.
html_show_search_summary = False


def setup(app) -> None:
    """A task is a thing with a name, which a search finds and a page can link."""
    app.add_object_type("task", "task")
