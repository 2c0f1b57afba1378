"""Sphinx configuration. Law of this room: pages are Markdown; what code knows is generated, not typed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from app import __version__

project = "Studio"
author = "The Studio developers"
project_copyright = "The Studio developers; Apache-2.0"
release = version = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_tools", "README.md"]

html_theme = "furo"
html_title = "Studio"
html_static_path = ["_static"]
html_theme_options = {"source_edit_link": "", "navigation_with_keys": True}
html_show_sphinx = False
