"""Hooks of mkdocs.yml: pages made from files outside docs/, and links that lead out of docs/.

README.md, ARCHITECTURE.md and others are also read in the repository, with links that work there. The site has a page
for each of them, and links to other files of the repository become plain text. A link to a file that does not exist
fails the build.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "native/README.md": "native.md",
}
"""Files outside docs/ and the pages of the site that they become."""

SOURCES = {page: name for name, page in PAGES.items()}
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
IMAGE = re.compile(r"!\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
ELSEWHERE = re.compile(r"[a-z]+:")

log = logging.getLogger("mkdocs.plugins.site_hooks")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replaces each "folder/*" of the navigation with the pages of that folder."""
    config.nav = _expanded(config.nav, Path(config.docs_dir))
    return config


def _expanded(entry: Any, docs: Path) -> Any:
    if isinstance(entry, list):
        return [_expanded(one, docs) for one in entry]
    if isinstance(entry, dict):
        return {title: _expanded(one, docs) for title, one in entry.items()}
    if entry.endswith("/*"):
        return [page.relative_to(docs).as_posix() for page in sorted((docs / entry[:-2]).glob("*.md"))]
    return entry


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages made from files outside docs/."""
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Rewrites the links of a page from places in the repository to places in the site."""
    origin = SOURCES.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def rewrite(match: re.Match[str]) -> str:
        target = match["target"]
        if ELSEWHERE.match(target):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))
        if not (ROOT / path).exists():
            log.warning("%s links to %s, which does not exist", origin, target)
            return match[0]
        site_path = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if site_path is None or (ROOT / path).is_dir() or path.endswith(".py"):
            return match["text"]
        relative = posixpath.relpath(site_path, posixpath.dirname(page.file.src_uri) or ".")
        return match[0].replace(f"({target}", f"({relative}")

    return IMAGE.sub(rewrite, LINK.sub(rewrite, markdown))
