"""The course as one static site: `lab book`.

`pages` turns the course's Markdown and notebooks into what the generator (Sphinx) reads, `recordings` writes
the reports that pages show parts of, `build` puts both together. CONTRIBUTING.md says why it is built so.
"""
